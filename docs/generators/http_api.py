"""The HTTP API: every route, with answers of a real server that runs in this process."""

from __future__ import annotations

import inspect
import io
import json
import re
import shlex
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from fastapi.routing import APIRoute
from starlette.testclient import TestClient

from assay.server.app import create_app
from assay.server.logs import Log
from assay.server.settings import ServerSettings
from generators.document_examples import example_of, scrubbed
from generators.documents import loaded
from generators.examples import BUNDLED, bundled_run
from generators.markdown import block, brief, code, json_block, page, table

SERVER = "http://127.0.0.1:8321"
TREE_FILE = "providers/tidewatch/index.json"


class Route(NamedTuple):
    """One method of one address."""

    method: str
    path: str
    endpoint: Any
    operation: dict[str, Any]

    @property
    def key(self) -> str:
        """As `GET /api/v1/runs`."""
        return f"{self.method} {self.path}"

    @property
    def shown(self) -> str:
        """As the page shows it."""
        return re.sub(r":\w+}", "}", self.key)

    @property
    def scope(self) -> str:
        """The scope that a token needs."""
        for needed in self.operation.get("security", ()):
            return str(needed["token"][0])
        asked = re.search(r"admit\(request, \"(\w+)\"", inspect.getsource(self.endpoint))
        return asked[1] if asked else "none"


def routes(app: Any) -> Iterator[Route]:
    """Every route of the API; pages for people are not among them."""
    paths = app.openapi()["paths"]
    for one in app.routes:
        if isinstance(one, APIRoute) and (one.include_in_schema or "/v1/traces" in one.path):
            plain = re.sub(r":\w+}", "}", one.path)
            for method in sorted(one.methods):
                about = paths.get(plain, {}).get(method.lower(), {})
                yield Route(method, one.path, one.endpoint, about)


TRACE = {
    "resourceSpans": [
        {
            "scopeSpans": [
                {
                    "spans": [
                        {
                            "traceId": "0af7651916cd43dd8448eb211c80319c",
                            "spanId": "b7ad6b7169203331",
                            "name": "plan",
                            "startTimeUnixNano": "1790000000000000000",
                            "endTimeUnixNano": "1790000001000000000",
                        }
                    ]
                }
            ]
        }
    ]
}
WORKFLOW = """workflow: faq
version: 3
profile: tool-use-measured@1
inputs: [question]
outputs: [answer]
output_schema: {type: object}
adapter: {kind: python, target: "faq:answer"}
"""
FUNCTION = """import time


def answer(inputs):
    time.sleep(600 if inputs["question"] == "wait" else 0)
    return {"answer": "At nine."}
"""


def make_app(folder: str) -> Any:
    """A server over an empty ledger, without tokens, with one workflow and one graded schema."""
    flows = Path(folder) / "flows"
    flows.mkdir(exist_ok=True)
    (flows / "workflow.yaml").write_text(WORKFLOW)
    (flows / "faq.py").write_text(FUNCTION)
    tree = Path(folder) / "tree"
    (tree / TREE_FILE).parent.mkdir(parents=True, exist_ok=True)
    (tree / TREE_FILE).write_text(example_of("index-extended").text)
    settings = ServerSettings(
        db=f"sqlite:///{folder}/l.db",
        allow_anonymous=True,
        workflows=str(flows),
        schemas=str(tree),
    )
    return create_app(settings, log=Log(io.BytesIO()))


def pages() -> dict[str, str]:
    """The page of the HTTP API."""
    with tempfile.TemporaryDirectory() as folder:
        app = make_app(folder)
        client = TestClient(app, base_url="http://127.0.0.1", client=("127.0.0.1", 50000))
        with client:
            made = _asked(client)
            parts = [part for route in routes(app) for part in _section(route, made, client)]
            index = [(f"[`{one.shown}`](#{_slug(one.shown)})", one.scope) for one in routes(app)]
    intro = (
        "`assay serve` answers under `/api/v1`. Its OpenAPI document is at `/api/v1/openapi.json`,"
        " for tokens with the scope `read`."
        " Send a token as `Authorization: Bearer TOKEN`; `assay token create` makes one, with the"
        " scopes it may use. An error is `application/problem+json` with a `code`, the place"
        " (`where`) and what to do (`fix`): see [Errors](errors.md). Answers below come from a real"
        " server; times and digests are replaced, and long values are cut."
    )
    return {
        "http.md": page("HTTP API", intro, table(("route", "scope"), index), "## Routes", *parts)
    }


def _bodies() -> dict[str, Any]:
    """What each example posts, in this order."""
    run = bundled_run()
    kept = ("schema", "workflow", "dataset", "required_outputs", "output_schema")
    live = {"run_id": "live-1", **{key: run[key] for key in kept}}
    ended = {"event": "workflow_end", "run": {"status": "success", "outputs": run["outputs"]}}
    exam = loaded("exam")
    answers = (BUNDLED / "exams" / "answers.jsonl").read_text().splitlines()[: len(exam["items"])]
    return {
        "POST /api/v1/runs": run,
        "POST /api/v1/scorecards": loaded("scorecard"),
        "POST /api/v1/runs/live": live,
        "POST /api/v1/runs/{run_id:path}/events": [
            {"event": "step_start", "step": {"name": "plan"}},
            {"event": "step_end", "step": {"name": "plan", "status": "success"}},
            ended,
        ],
        "POST /api/v1/evaluations": {
            "name": "travel-desk-9",
            "runs": {"filter": {"workflow": "travel-desk"}},
        },
        "POST /api/v1/baselines": {"name": "production", "evidence": [run]},
        "POST /api/v1/decisions": {
            "candidate": [run],
            "baseline": [bundled_run(place=1)],
        },
        "POST /api/v1/cards": loaded("judge-card"),
        "POST /api/v1/exams/grade": {
            "exam": exam,
            "answers": [json.loads(line) for line in answers],
        },
        "POST /api/v1/records/{digest}/forget": {"reason": "The customer asked for it."},
    }


def _asked(client: TestClient) -> dict[str, tuple[Any, Any, str]]:
    """The body, the answer and the address of each POST; the forgotten record comes last."""
    made = _executed(client)
    digest = ""
    for key, body in _bodies().items():
        path = key.split()[1].replace("{run_id:path}", "live-1").replace("{digest}", digest)
        answer = client.post(path, json=body)
        assert answer.status_code < 300, (key, answer.text[:500])
        made[key] = (body, answer, path)
        if key == "POST /api/v1/scorecards":
            digest = answer.json()["digest"]
    return made


def _executed(client: TestClient) -> dict[str, tuple[Any, Any, str]]:
    """One execution that ends, and one that is cancelled."""
    made: dict[str, tuple[Any, Any, str]] = {}
    for name, question in (("night", "When does it leave?"), ("morning", "wait")):
        samples = [{"id": "q-1", "question": question}]
        body = {
            "schema": "assay.execution/1",
            "workflow": "faq",
            "name": name,
            "dataset": {"id": "ferries", "version": "1", "samples": samples},
        }
        answer = client.post("/api/v1/runs", json=body)
        assert answer.status_code == 202, answer.text
        place = answer.json()["location"]
        if name == "morning":
            while not client.get(place).json()["counts"]["executing"]:
                time.sleep(0.05)
            at = f"{place}/cancel"
            made["POST /api/v1/executions/{execution_id}/cancel"] = (None, client.post(at), at)
        at = f"{place}?wait=60"
        made.setdefault("GET /api/v1/executions/{execution_id}", (None, client.get(at), at))
        client.get(at)
    for path in ("/v1/traces", "/api/v1/otlp/v1/traces"):
        at = f"{path}?dataset=tickets@1&family=tool-use"
        made[f"POST {path}"] = (TRACE, client.post(at, json=TRACE), at)
    return made


def _section(route: Route, made: dict[str, tuple[Any, Any, str]], client: TestClient) -> list[str]:
    text = " ".join((inspect.getdoc(route.endpoint) or "").split())
    parameters = [
        (
            code(one["name"]),
            one["in"],
            one.get("description") or _kind(one.get("schema", {})),
        )
        for one in route.operation.get("parameters", ())
        if one["in"] != "path"
    ]
    parts = [
        f"### {route.shown}",
        f"{route.operation.get('summary', '')}. {text}".lstrip(". "),
        f"Scope: `{route.scope}`."
        if route.scope != "none"
        else "No token needed."
        if "traces" not in route.path
        else "Scope: `write`.",
        table(("parameter", "in", "meaning"), parameters),
    ]
    if route.key in made:
        body, answer, path = made[route.key]
        if body is not None:
            parts += ["Request body (cut):", json_block(brief(body))]
    else:
        body, path = None, _address(route.path, client)
        answer = client.get(path)
    if answer.status_code == 404:
        return [*parts, "The answer has the form of those above; this ledger has none."]
    return [
        *parts,
        block(_curl(route.method, path, body)),
        f"Answer {answer.status_code}:",
        _shown(answer),
    ]


def _shown(answer: Any) -> str:
    """The body of an answer, cut: JSON, the first events of a stream, or the names of metrics."""
    kind = answer.headers["content-type"]
    if "json" in kind:
        return json_block(brief(json.loads(_stable(answer.text))))
    lines = _stable(answer.text).splitlines()
    if "event-stream" not in kind:
        lines = [line for line in lines if line.startswith("#")]
    return block("\n".join([*(line[:160] for line in lines[:8]), "..."]))


def _stable(text: str) -> str:
    """Without times, digests and the random ids of executions."""
    return re.sub(r'(?<=["/ ])[0-9a-f]{16}(?=["?/\s]|$)', "0123456789abcdef", scrubbed(text))


def _slug(heading: str) -> str:
    return re.sub(r"[^a-z0-9_ -]", "", heading.lower()).replace(" ", "-")


def _kind(schema: dict[str, Any]) -> str:
    options = [one.get("type") for one in schema.get("anyOf", [schema])]
    return ", ".join(str(one) for one in options if one and one != "null")


def _curl(method: str, path: str, body: Any) -> str:
    words = ["curl", "-H", '"Authorization: Bearer $ASSAY_TOKEN"']
    if method == "POST" and body is None:
        words += ["-X", "POST"]
    if body is not None:
        words += ["--json", "@body.json"]
    return f"{' '.join(words)} {shlex.quote(SERVER + _stable(path))}"


def _address(path: str, client: TestClient) -> str:
    """An address that has something to show: the first of its list."""
    fixed = {
        "{run_id:path}": bundled_run()["run_id"],
        "{path:path}": TREE_FILE,
        "{run_id}": bundled_run()["run_id"],
        "{kind}/{name}": "policies/workflow@1",
        "{kind}": "policies",
        "{name}": "latest" if "evaluations" in path else "run",
    }
    for pattern, value in fixed.items():
        path = path.replace(pattern, value)
    found = re.search(r"\{(\w+)(:\w+)?}", path)
    if found is None:
        return path
    listed = client.get(path[: found.start()].rstrip("/").replace("/records", "/grades")).json()
    items = listed.get("items") or [{}]
    key = "digest" if found[1] == "digest" else "id"
    return path.replace(found[0], str(items[0].get(key, "sha256:" + "0" * 64)))
