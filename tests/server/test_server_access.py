"""Access: tokens and scopes, projects that cannot see each other, limits, and no secret in any
log.
"""

from __future__ import annotations

import json
import re
import socket
import sqlite3
import time
from contextlib import ExitStack, closing
from functools import cache
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from assay.errors import InputError
from assay.server.logs import line
from assay.server.routing import Route
from assay.store.access import create_token, find_token, revoke_token
from assay.store.ledger import open_ledger
from documents import run, scorecard
from examples import CAMPAIGN
from postgres import ledger_url, on_sqlite, postgres_url  # fixtures  # noqa: F401
from serving import ALL, API, Api, Configured, Process, description, runs, serving
from test_server_events import end_of, head_of

OPEN = {f"{API}/health", f"{API}/ready"}


@pytest.fixture
def api(tmp_path: Path) -> Any:
    with serving(f"sqlite:///{tmp_path}/ledger.db", allow_anonymous=False) as made:
        yield made


def routes() -> list[tuple[str, str]]:
    """Every method and path there is, as the published description has it."""
    return [
        (method.upper(), path)
        for path, methods in description()["paths"].items()
        for method in methods
        if path not in OPEN
    ]


def test_every_route_but_health_and_readiness_needs_a_token(api: Api) -> None:
    found = routes()
    assert len(found) > 30
    for method, path in found:
        answer = api.client.request(method, path.replace("{kind}", "policies"), json={})
        assert answer.status_code == 401, (method, path)
        assert answer.headers["www-authenticate"].startswith("Bearer")
        assert answer.headers["content-type"] == "application/problem+json"
    assert api.get("/openapi.json").status_code == 401
    assert api.get("/openapi.json", headers=api.token(scopes=("read",))).json() == description()
    assert api.get("/health").status_code == 200


def test_every_route_asks_for_its_scope(api: Api) -> None:
    narrow = {f"{API}/cards": "judge", f"{API}/baselines": "baseline"}
    token = cache(lambda scopes: api.token(scopes=scopes))
    for method, path in routes():
        needed = (
            "admin"
            if path.endswith(("/forget", "/metrics"))
            else "read"
            if method == "GET"
            else narrow.get(path, "write")
        )
        assert description()["paths"][path][method.lower()]["security"] == [{"token": [needed]}]
        others = tuple(scope for scope in ALL if scope != needed)
        answer = api.client.request(
            method, path.replace("{kind}", "policies"), json={}, headers=token(others)
        )
        assert answer.status_code == 403, (method, path, answer.text)
        assert needed in answer.json()["detail"]
        allowed = api.client.request(
            method, path.replace("{kind}", "policies"), json={}, headers=token((needed,))
        )
        assert allowed.status_code != 403, (method, path)
    lacking = api.post("/baselines", {}, headers=api.token("p", scopes=("write", "read")))
    wanted = "`assay token create --project p --scope read --scope baseline`"
    assert wanted in lacking.json()["fix"]


def test_every_route_refuses_a_parameter_that_it_does_not_declare(tmp_path: Path) -> None:
    with serving(f"sqlite:///{tmp_path}/ledger.db") as api:
        app = api.client.app
        assert len(app.routes) > 100
        for route in app.routes:
            assert isinstance(route, Route)
            for method in route.methods:
                path = re.sub(r"{[^}]*}", "x", route.path)
                answer = api.client.request(method, f"{path}?nonsense=1")
                assert (answer.status_code, method, path) == (422, method, path)
                assert "unknown parameter" in answer.text.lower()
        near = api.get("/runs?wrokflow=x").json()
        assert near["where"] == "query.wrokflow"
        assert "Did you mean 'workflow'?" in near["detail"]
        assert "newest_first" in near["fix"]


def test_a_revoked_token_ends_its_open_stream_and_no_other(tmp_path: Path) -> None:
    url, events = f"sqlite:///{tmp_path}/ledger.db", f"{API}/runs/{run()['run_id']}/events"
    fast = {"heartbeat_s": 0.2, "token_cache_s": 0.1, "poll_s": 0.1}
    with (
        Configured(url, **fast) as server,
        closing(open_ledger(url)) as ledger,
        ExitStack() as ends,
    ):

        def watch(token: str) -> Any:
            wire = ends.enter_context(closing(HTTPConnection("127.0.0.1", server.port, timeout=30)))
            wire.request("GET", events, headers={"Authorization": f"Bearer {token}"})
            return wire.getresponse()

        def seen(stream: Any, event: bytes) -> bool:
            return any(event in line for line in iter(stream.readline, b""))

        assert server.call("POST", "/runs/live", head_of(run()))[0] == 201
        revoked, kept = (
            create_token(ledger.database, project="default", name="watcher", scopes=("read",))
            for _ in range(2)
        )
        ended, goes_on = watch(revoked.text), watch(kept.text)
        assert seen(ended, b"workflow_start")
        assert seen(goes_on, b"workflow_start")
        revoke_token(ledger.database, revoked.token.id)
        assert not seen(ended, b"event: "), "it ends, and nothing comes before"
        step = {"event": "step_start", "step": {"name": "after"}}
        assert server.call("POST", events.removeprefix(API), step)[0] == 202
        assert seen(goes_on, b"step_start")
        assert watch(revoked.text).status == 401


@pytest.mark.parametrize(
    "word",
    [
        "",
        "Bearer",
        "Bearer ",
        "Bearer assay_x_y",
        "Basic YTpi",
        f"Bearer assay_{'0' * 12}_{'a' * 43}",
        "Bearer " + "x" * 5000,
        "\xff",
    ],
)
def test_a_forged_token_is_refused_alike(api: Api, word: str) -> None:
    answer = api.get("/runs", headers={"Authorization": word.encode("latin-1")})
    assert answer.status_code == 401


@on_sqlite
def test_a_project_sees_nothing_of_another_on_any_route(ledger_url: str, tmp_path: Path) -> None:  # noqa: F811
    offered = tmp_path / "workflows"
    offered.mkdir()
    (offered / "w.yaml").write_text(
        "workflow: w\nversion: 1\nfamily: rag\ninputs: [q]\nadapter: {kind: command, command:"
        " ['true']}\n"
    )
    with serving(ledger_url, allow_anonymous=False, workflows=str(offered)) as api:
        ours, theirs = api.token("ours"), api.token("theirs")
        secret = "only-for-ours"
        evidence = runs(2)
        for one in evidence:
            one["workflow"] = {**one["workflow"], "id": secret}
            one["run_id"] = f"{secret}-{one['run_id']}"
        stored = api.post("/runs", evidence, headers=ours).json()["results"]
        head = {
            key: value
            for key, value in evidence[0].items()
            if key not in ("status", "steps", "tool_calls")
        } | {"run_id": f"{secret}-live"}
        execution = {
            "schema": "assay.execution/1",
            "workflow": "w",
            "name": secret,
            "dataset": {"id": secret, "samples": [{"id": secret, "q": "x"}]},
        }
        accepted = api.post("/runs", execution, headers=ours).json()
        made = {
            "execution": accepted["execution"],
            "executed": accepted["runs"][0]["run_id"],
            "card": (
                api.post(
                    "/scorecards", {**scorecard({"norm": 1}), "run_id": secret}, headers=ours
                ).json()["digest"]
            ),
            "decision": (
                api.post(
                    "/decisions", {"candidate": evidence, "baseline": evidence}, headers=ours
                ).json()["digest"]
            ),
            "baseline": (
                api.post("/baselines", {"name": secret, "evidence": evidence}, headers=ours).json()[
                    "digest"
                ]
            ),
            "live": api.post("/runs/live", head, headers=ours).json()["run_id"],
            "run": stored[0]["digest"],
            "grade": stored[0]["grade_digest"],
            "id": stored[0]["run_id"],
        }
        assert all(made.values())
        names = [*made.values(), secret]
        digests = [made[key] for key in ("card", "decision", "baseline", "run", "grade")]
        of_part = {
            "run_id": [made[key] for key in ("run", "id", "live", "executed")],
            "digest": digests,
            "execution_id": [made["execution"]],
        }
        bodies: list[Any] = [{"reason": "x"}, {"event": "step_start", "step": {"name": secret}}]
        bodies += [
            {"candidate": {"digests": [made["run"]]}, "baseline": {"digests": [made["run"]]}},
            {"candidate": {"baseline": secret}, "baseline": {"baseline": secret}},
        ]
        bodies += [
            {"name": "x", "evidence": {"digests": [made["run"]]}},
            {"name": "x", "evidence": {"filter": {"workflow": secret}}},
        ]
        for method, path in routes():
            if path.endswith("/metrics"):
                continue
            part = path.rpartition("{")[2].partition("}")[0]
            # in the suite the names that such a route knows, in a campaign all
            known = names if CAMPAIGN else [*of_part.get(part, ()), secret]
            for place, name in enumerate(known if "{" in path else [""]):
                filled = path.replace("{kind}", "policies")
                for each_part in (*of_part, "name", "path"):
                    filled = filled.replace(f"{{{each_part}}}", name)
                # in the suite each name with two bodies in turn, in a campaign with all
                some = (
                    bodies
                    if CAMPAIGN or not name
                    else [bodies[place % 2], bodies[2 + place // 2 % 4]]
                )
                for body in some if method == "POST" else [None]:
                    answer = api.client.request(method, filled, json=body, headers=theirs)
                    assert answer.status_code in (200, 404, 422), (method, filled, answer.text)
                    shown = answer.text
                    for (
                        word
                    ) in names:  # an error may repeat the name that was asked for, and nothing else
                        if answer.status_code == 200 or (
                            word not in name and word not in json.dumps(body)
                        ):
                            assert word not in shown, (method, filled, word, shown[:300])
        assert api.get("/runs", headers=theirs).json()["items"] == []
        assert api.get("/executions", headers=theirs).json()["items"] == []
        assert (
            api.get(f"/executions/{made['execution']}", headers=ours).json()["state"]
            != "cancelling"
        )
        ended = api.get(f"/executions/{made['execution']}?wait=30", headers=ours).json()
        assert ended["state"] == "done"
        assert len(api.get("/runs", headers=ours).json()["items"]) == 3
        assert api.get(f"/runs/{made['run']}", headers=ours).json()["forgotten"] is False


def test_the_same_run_in_two_projects_is_two_records_that_know_nothing_of_each_other(
    api: Api,
) -> None:
    first, second = (api.post("/runs", run(), headers=api.token(project)) for project in ("a", "b"))
    assert (first.status_code, second.status_code) == (
        201,
        201,
    ), "that another project has it must not show"
    assert second.json()["new"] is True
    key = {"Idempotency-Key": "k"}
    assert [
        api.post("/runs", runs(1, start=5)[0], headers={**api.token(project), **key}).status_code
        for project in ("a", "b")
    ] == [201, 201]


def test_a_token_is_stored_hashed_and_can_be_revoked(tmp_path: Path, assay: Any) -> None:
    made = assay(
        "token",
        "create",
        "--db",
        "sqlite:///t.db",
        "--project",
        "p",
        "--scope",
        "read",
        "--scope",
        "write",
        "--name",
        "ci",
        "--json",
    ).json()
    text = made["token"]
    assert text.startswith(f"assay_{made['id']}_")
    stored = b"".join(
        (tmp_path / name).read_bytes()
        for name in ("t.db", "t.db-wal")
        if (tmp_path / name).exists()
    )
    assert text[19:].encode() not in stored
    row = sqlite3.connect(tmp_path / "t.db").execute("SELECT * FROM tokens").fetchone()
    assert text[19:] not in str(row)
    heading, line = assay("token", "list", "--db", "sqlite:///t.db").out.splitlines()
    assert [heading.split(), line.split()[0]] == [
        ["id", "project", "scopes", "state", "name"],
        made["id"],
    ]
    assert heading.index("name") == line.index("ci")
    assert text not in assay("token", "list", "--db", "sqlite:///t.db").out
    with serving(f"sqlite:///{tmp_path}/t.db", allow_anonymous=False) as api:
        headers = {"Authorization": f"Bearer {text}"}
        assert api.get("/runs", headers=headers).status_code == 200
        assert assay("token", "revoke", made["id"], "--db", "sqlite:///t.db").code == 0
        assert api.get("/runs", headers=headers).status_code == 401
    for unknown in ("nope", "n\udcffpe"):
        assert assay("token", "revoke", unknown, "--db", "sqlite:///t.db").code == 2
    assert assay("token", "list", "--project", "\udcff", "--db", "sqlite:///t.db").code == 3
    assert assay("token", "create", "--name", "\udcff", "--db", "sqlite:///t.db").code == 3
    both = assay("token", "create", "--db", "sqlite:///t.db", "--scope", "read,write")
    assert "Repeat --scope to give several." in both.err
    assert (
        assay("token", "create", "--db", "sqlite:///t.db", "--scope", "writee").err.count(
            "Did you mean 'write'"
        )
        == 1
    )


def test_the_list_of_tokens_says_which_expired(assay: Any) -> None:
    made = [
        assay("token", "create", "--days", days, "--db", "sqlite:///t.db", "--json").json()["id"]
        for days in ("0.000000001", "30")
    ]
    lines = assay("token", "list", "--db", "sqlite:///t.db").out.splitlines()[1:]
    states = {line.split()[0]: line.split()[3] for line in lines}
    assert states == dict(zip(made, ("expired", "until"), strict=True))


def test_only_the_token_that_started_a_run_posts_its_events(api: Api) -> None:
    ours, theirs = (api.token(scopes=("read", "write")) for _ in range(2))
    assert api.post("/runs/live", head_of(run()), headers=ours).status_code == 201
    end = {"event": "workflow_end", "run": end_of(run())}
    for event in ({"event": "error"}, end):
        refused = api.post("/runs/r-1/events", event, headers=theirs)
        assert (refused.status_code, "another token" in refused.text) == (403, True)
    assert api.post("/runs/r-1/events", end, headers=ours).status_code == 201
    assert api.post("/runs/r-1/events", end, headers=ours).status_code == 409


def test_an_admin_ends_a_run_whose_token_was_replaced(api: Api) -> None:
    ours, admin = api.token(scopes=("read", "write")), api.token(scopes=("write", "admin"))
    other = api.token("elsewhere", scopes=("write", "admin"))
    assert api.post("/runs/live", head_of(run()), headers=ours).status_code == 201
    token = ours["Authorization"].split("_")[1]
    revoke_token(api.services.ledger.database, token)
    end = {"event": "workflow_end", "run": end_of(run())}
    assert api.post("/runs/r-1/events", end, headers=other).status_code == 404
    ended = api.post("/runs/r-1/events", end, headers=admin)
    assert ended.status_code == 201
    stored = api.services.ledger.get(ended.json()["digest"])
    assert stored is not None
    assert stored.author == f"token {token}"


def test_an_expired_token_is_no_token(api: Api) -> None:
    database = api.services.ledger.database
    old = create_token(
        database, project="p", name="", scopes=["read"], expires_at="2020-01-01T00:00:00.000Z"
    )
    assert find_token(database, old.text) is None
    new = create_token(database, project="p", name="", scopes=["read"])
    assert find_token(database, new.text) is not None
    assert find_token(database, new.text[:-1] + ("a" if new.text[-1] != "a" else "b")) is None
    revoke_token(database, new.token.id)
    assert find_token(database, new.text) is None


def test_no_token_is_created_for_a_project_that_no_ledger_accepts(api: Api) -> None:
    database = api.services.ledger.database
    for project in ("p" * 65, "a b", ""):
        with pytest.raises(InputError, match="is not a name for a project"):
            create_token(database, project=project, name="", scopes=["read"])
    assert create_token(database, project="p" * 64, name="", scopes=["read"]).token.project


def test_anonymous_access_is_only_for_this_machine_and_only_when_asked_for(
    tmp_path: Path, assay: Any
) -> None:
    with serving(f"sqlite:///{tmp_path}/a.db") as api:
        assert api.get("/runs").status_code == 200
        assert api.get("/runs", headers={"Host": "evil.example"}).status_code == 401, (
            "a name that was bound to this machine by a stranger"
        )
        assert api.get("/runs", headers={"X-Forwarded-For": "1.2.3.4"}).status_code == 401
        assert api.get("/runs", headers={"Authorization": "Bearer wrong"}).status_code == 401, (
            "a wrong token is not the same as none"
        )
        for sender, status in (
            ({}, 404),
            ({"Sec-Fetch-Site": "same-origin"}, 404),
            ({"Sec-Fetch-Site": "cross-site"}, 401),
            ({"Sec-Fetch-Site": "same-site", "Origin": "http://127.0.0.1"}, 401),
            ({"Origin": "https://evil.example"}, 401),
        ):
            cancelled = api.post("/executions/none/cancel", headers=sender)
            assert cancelled.status_code == status, "a page elsewhere changes nothing here"
    with serving(f"sqlite:///{tmp_path}/b.db", host="0.0.0.0") as api:
        assert api.get("/runs").status_code == 401
    refused = assay("serve", "--host", "0.0.0.0", "--allow-anonymous")
    assert refused.code == 2
    assert "assay token create" in refused.err


def test_without_a_token_this_machine_sees_the_project_of_its_own_assay_yaml(
    tmp_path: Path, assay: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "assay.yaml").write_text("project: ferry\n")
    monkeypatch.chdir(tmp_path)
    url = f"sqlite:///{tmp_path}/l.db"
    with serving(url, anonymous_project="ferry") as api:
        assert api.post("/runs", runs(1)).status_code == 201
    with Process(url, "--quiet") as server:
        assert len(server.call("GET", "/runs")[1]["items"]) == 1
    with Process(url, "--quiet", "--project", "other") as server:
        assert server.call("GET", "/runs")[1]["items"] == []


def test_no_page_of_another_site_may_use_the_api(api: Api) -> None:
    preflight = api.client.options(
        f"{API}/runs",
        headers={"Origin": "https://evil.example", "Access-Control-Request-Method": "POST"},
    )
    assert preflight.status_code == 405
    answer = api.get("/runs", headers={"Origin": "https://evil.example", **api.token()})
    assert not [name for name in answer.headers if name.startswith("access-control")]
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert answer.headers["x-frame-options"] == "DENY"


def test_every_line_of_the_log_has_both_versions_and_none_has_a_secret(api: Api) -> None:
    headers = api.token()
    text = headers["Authorization"].removeprefix("Bearer ")
    api.post("/runs", run(outputs={"password": "hunter2"}), headers=headers)
    api.get(f"/runs/{text}", headers=headers)
    api.get(f"/runs?tag={text}", headers=headers)
    api.get("/runs", headers={"Authorization": "Bearer not-a-token-of-ours"})
    lines = [json.loads(one) for one in api.log.getvalue().splitlines()]
    assert len(lines) >= 5
    for one in lines:
        assert one["scoringSystem"].startswith("scoringSystem/")
        assert one["gradingSystem"].startswith("gradingSystem/")
    whole = api.log.getvalue().decode()
    for secret in (text, text[19:], "hunter2", "not-a-token-of-ours"):
        assert secret not in whole
    assert b"pw" not in line("x", where="postgresql://me:pw@db/x")


def test_a_real_server_logs_json_and_nothing_of_a_token(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/l.db"
    with Process(url) as server:
        server.call(
            "POST",
            "/runs",
            run(),
            headers={"Authorization": "Bearer assay_0123456789ab_" + "s" * 43},
        )
        server.call("POST", "/runs", run())
        time.sleep(0.2)
        code, log = server.end()
    assert code in (0, -15)
    assert "s" * 43 not in log
    kept = [json.loads(one) for one in log.splitlines() if one.startswith("{")]
    assert {"started", "request", "stopped"} <= {one["event"] for one in kept}
    assert all("scoringSystem" in one and "gradingSystem" in one for one in kept)


def test_a_port_that_is_taken_is_named(assay: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = assay("serve", "--port", str(port), timeout=60)
    refused = f"assay: can't listen on 127.0.0.1:{port}: Address already in use. Choose another"
    assert (done.code, done.err.startswith(refused)) == (2, True), done.err
