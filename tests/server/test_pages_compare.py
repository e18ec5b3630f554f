"""The comparison of evaluations: what moved, and the decision, which is never another one than the
command's.
"""

from __future__ import annotations

import contextlib
import json
import re
import shlex
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from assay.canon import canonical
from assay.cli.frame import load_command
from assay.cli.release_settings import release_settings
from assay.errors import AssayError
from assay.files.json_files import parse_json
from assay.library.shelf import Shelf
from assay.project.release import ReleaseSettings
from assay.server.pages import compare
from assay.server.pages import compare as compare_decision
from assay.server.posted_runs import with_additions
from assay.services.evaluation_choice import OWN, EvaluationChoice
from assay.services.rules import RulesRequest, graded_side, rules_for
from commands import in_folder, run_here
from serving import Api, serving
from stocked import faq, write
from test_pages import HTML, SCRIPT, Markup

N = 60
TODAY = datetime.now(UTC).replace(microsecond=0) - timedelta(days=1)


def dated(runs: list[dict[str, Any]], *, days: float = 0, **more: Any) -> list[dict[str, Any]]:
    moment = (TODAY - timedelta(days=days)).isoformat().replace("+00:00", "Z")
    return [{**one, "started_at": moment, "finished_at": moment, **more} for one in runs]


def put(api: Api, name: str, runs: list[dict[str, Any]], **more: Any) -> list[str]:
    """Store an evaluation; the digests of its runs."""
    own = [{**one, "run_id": f"{name}-{place}"} for place, one in enumerate(runs)]
    answer = api.post("/evaluations", {"name": name, "runs": own, **more})
    assert answer.status_code == 201, answer.text
    return [run["digest"] for run in answer.json()["evaluation"]["runs"]]


def answered(runs: list[dict[str, Any]], text: str) -> list[dict[str, Any]]:
    return [
        {**one, "inputs": {"question": f"What about {place}?"}, "outputs": {"answer": text}}
        for place, one in enumerate(runs)
    ]


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    folder = tmp_path_factory.mktemp("compare")
    with serving(f"{folder}/l.db") as api:
        one, two, three = (dated(faq(version, N)) for version in (1, 2, 3))
        put(api, "one", answered(one, "The train leaves at nine."))
        put(api, "two", answered(two, "The train leaves at ten."))
        put(api, "three", answered(three, "The bus leaves at nine."))
        put(api, "few", answered(two, "Yes.")[:5])
        put(api, "few-before", answered(one, "No.")[:5])
        fewer = [
            *answered(two, "Yes.")[2:],
            {**two[0], "dataset": {**two[0]["dataset"], "sample_id": "extra"}},
        ]
        put(api, "gaps", fewer)
        put(api, "old", answered(dated(faq(1, N), days=200), "At nine."))
        put(api, "strict", answered(two, "Strict."), policy="workflow-judged")
        elsewhere = [{**run, "dataset": {**run["dataset"], "id": "mails"}} for run in two]
        put(api, "elsewhere", answered(elsewhere, "Yes."))
        forgotten = put(api, "forgotten", answered(dated(faq(2, N), latency_ms=4444), "Yes."))
        api.services.ledger.forget(forgotten[3], author="test", reason="asked for")
        lost = put(api, "lost-base", answered(dated(faq(1, N), latency_ms=4445), "No."))
        api.services.ledger.forget(lost[0], author="test", reason="asked for")
        put(api, "one", answered(one, "The train leaves at nine!"))  # the newest of a name
        api.post("/baselines", {"name": "production", "evidence": {"evaluation": "three"}})
        api.folder = folder
        yield api


def get(api: Api, query: str, *, status: int = 200, **more: Any) -> Markup:
    answer = api.client.get(f"/compare{query}", headers={**HTML, **more})
    assert answer.status_code == status, Markup(answer.text).text[-600:]
    return Markup(answer.text)


def outcome(found: Markup) -> str:
    """The outcome on a page; "" where there is none."""
    return next(
        (
            word
            for word in ("Promote", "Reject", "Hold", "Not enough evidence")
            if re.search(rf"[✓✗?] {word} under ", found.text)
        ),
        "",
    )


def button(found: Markup) -> dict[str, str]:
    names = ("candidate", "baseline", "policy", "decision")
    return {
        str(attributes["name"]): str(attributes.get("value") or "")
        for tag, attributes in found.tags
        if tag == "input" and attributes.get("name") in names
    }


def store(api: Api, sent: dict[str, str], **headers: str) -> Any:
    return api.client.post(
        "/compare",
        data=sent,
        headers={**HTML, "Origin": "http://127.0.0.1", **headers},
        follow_redirects=False,
    )


# --- the decision is the command's


def test_the_page_decides_as_the_command_does_and_never_where_that_refuses(
    shop: Api, tmp_path: Path
) -> None:
    folder = tmp_path
    with (
        closing(sqlite3.connect(f"{shop.folder}/l.db")) as ledger,
        closing(sqlite3.connect(f"{folder}/l.db")) as copy,
    ):
        ledger.backup(copy)
    run = in_folder(folder, run_here)
    pairs = [
        ("two", "one", "Promote"),
        ("three", "one", "Reject"),
        ("gaps", "one", "Hold"),
        ("strict", "one", "Promote"),  # by the rules of the baseline
        ("elsewhere", "one", "Not enough evidence"),
        ("forgotten", "one", ""),
        ("two", "lost-base", ""),
        ("two", "old", ""),
        ("two", "baseline:production", "Promote"),
        ("few", "few-before", "Not enough evidence"),
    ]
    words = {"promote": "Promote", "reject": "Reject", "hold": "Hold"}
    for candidate, baseline, expected in pairs:
        found = get(shop, f"?of={baseline}&of={candidate}")
        own = baseline.removeprefix("baseline:")
        done = run("gate", candidate, "--baseline", own, "--store", "l.db", "--json", "--no-config")
        said = json.loads(done.out) if done.out else {}
        theirs = words.get(said.get("outcome"), "Not enough evidence") if said else ""
        assert outcome(found) == theirs == expected, (candidate, baseline, done.err, found.text)
        if not expected:
            assert "No decision" not in found.text
            assert "Store this decision" not in found.text
            codes = re.findall(r"[A-Z]{3}-\d{3}", done.err)
            assert codes, done.err
            assert f"Error {codes[-1]}." in found.text


def test_a_decision_that_the_command_stored_is_the_one_that_the_page_shows(shop: Api) -> None:
    run = in_folder(shop.folder, run_here)
    found = get(shop, "?of=two&of=few")
    command = found.text[found.text.index("assay gate few") :]
    assert "Store this decision" in found.text
    words = shlex.split(command.split(" Samples")[0])
    done = run(*words[1:])
    assert done.code != 0, done.err
    assert "This decision is stored. Open the stored decision" in get(shop, "?of=two&of=few").text


def test_imported_results_are_decided_on_by_the_profile_of_the_baseline(tmp_path: Path) -> None:
    run = in_folder(tmp_path, run_here)
    tables = {
        "first": {"score": 0.8, "relevance": 0.7},
        "second": {"score": 0.9, "relevance": 0.8},
        "poorer": {"score": 0.9},
        "stars": {"score": 0.9, "stars": 4},
        "beyond": {"score": 0.9, "relevance": 4},
    }
    for name, scores in tables.items():
        rows = [
            {"id": f"q-{place}", "question": "When?", "answer": f"{name} {place}", **scores}
            for place in range(60)
        ]
        write(tmp_path / f"{name}.jsonl", *rows)
        done = run("import", f"{name}.jsonl", "--workflow", f"bot@{name}", "--name", name)
        assert done.code == 0, done.err
    with serving(f"sqlite:///{tmp_path}/.assay/ledger.db") as api:
        put(api, "runs", answered(dated(faq(1, N)), "Yes."))
        for candidate, baseline in (
            ("second", "first"),
            ("poorer", "first"),
            ("second", "poorer"),
            ("second", "stars"),
            ("beyond", "first"),
            ("runs", "first"),
            ("second", "runs"),
        ):
            found = get(api, f"?of={baseline}&of={candidate}")
            words = ("gate", candidate, "--baseline", baseline, "--no-store")
            done = run(*words, "--json", "--no-config")
            said = json.loads(done.out)["outcome"].replace("_", " ") if done.out else ""
            assert outcome(found) == said.capitalize(), (candidate, baseline, done.err)
            if not said:
                assert f"Error {re.findall(r'[A-Z]{3}-[0-9]{3}', done.err)[-1]}." in found.text
        kept = {"name": "kept", "evidence": {"evaluation": "first"}}
        assert api.post("/baselines", kept).status_code == 201
        assert outcome(get(api, "?of=baseline:kept&of=second")) == "Promote"
        assert outcome(get(api, "?of=baseline:kept&of=poorer")) == "Hold"
        sent = button(get(api, "?of=first&of=second"))
        answer = store(api, sent)
        assert answer.status_code == 303, answer.text
        replayed = run("ledger", "replay", sent["decision"])
        assert replayed.code == 0, replayed.err


def test_a_decision_by_the_metrics_of_a_baseline_alone_can_be_replayed(tmp_path: Path) -> None:
    """No evaluation has that profile: the candidate has one metric more."""
    run, ledger = in_folder(tmp_path, run_here), ".assay/ledger.db"
    for name, scores in (("first", {"score": 0.8}), ("second", {"score": 0.9, "relevance": 0.8})):
        rows = [{"id": f"q-{n}", "question": "?", "answer": name, **scores} for n in range(60)]
        write(tmp_path / f"{name}.jsonl", *rows)
    assert run("import", "second.jsonl", "--workflow", "bot@2", "--name", "second").code == 0
    assert run("baseline", "set", "kept", "first.jsonl", "--store", ledger).code == 0
    with serving(f"sqlite:///{tmp_path}/{ledger}") as api:
        sent = button(get(api, "?of=baseline:kept&of=second"))
        assert store(api, sent).status_code == 303
        sides = {"candidate": {"evaluation": "second"}, "baseline": {"baseline": "kept"}}
        posted = api.post("/decisions", sides).json()["digest"]
        for digest in (sent["decision"], posted):
            replayed = run("ledger", "replay", digest)
            assert replayed.code == 0, replayed.err


def settings_in(folder: Path, config: str) -> ReleaseSettings:
    """What a server takes from an assay.yaml."""
    (folder / "assay.yaml").write_text(config)
    with contextlib.chdir(folder):
        return release_settings(load_command("view").parse("view", []))


def stored_pair(api: Api) -> None:
    """`new` passes more samples than `old`, and not all."""
    bad = dated(faq(3, N))
    for name, version, n in (("old", 1, 6), ("new", 2, 2)):
        own = dated(faq(version, N))
        runs = [*({**one, "workflow": own[0]["workflow"]} for one in bad[:n]), *own[n:]]
        put(api, name, answered(runs, f"Answer {version}."))


STRICT = "release: {policy: release-strict, min_pass_rate: 0.99}\n"


@pytest.mark.parametrize(
    ("config", "expected", "named"),
    [
        (STRICT, "Reject", "under release-strict@1, minimum pass rate 99%, from assay.yaml"),
        ("release: {min_pass_rate: 0.5, tolerance: 9}\n", "Promote", "tolerance 9 points, minimum"),
        ("policy: workflow-judged\n", "", ""),
    ],
)
def test_the_page_decides_by_the_release_rules_of_assay_yaml_as_the_command_does(
    tmp_path: Path, config: Any, expected: str, named: str
) -> None:
    run, words = in_folder(tmp_path, run_here), {"promote": "Promote", "reject": "Reject"}
    url = f"sqlite:///{tmp_path}/l.db"
    settings = settings_in(tmp_path, config)
    with serving(url, release=settings) as api:
        if api.services.ledger.count("evaluation").n == 0:
            stored_pair(api)
        found = get(api, "?of=old&of=new")
        done = run("gate", "new", "--baseline", "old", "--db", url, "--json")
        theirs = words.get(json.loads(done.out)["outcome"], "") if done.out else ""
        assert named in found.text
        assert outcome(found) in (theirs, "Not enough evidence")
        assert outcome(found) == expected or not expected, (done.err, found.text[:4000])
        assert "Store this decision" in found.text
        command = found.text[found.text.index("assay gate new") :].split(" Samples")[0]
        (tmp_path / "assay.yaml").write_text("release: {min_pass_rate: 0.01}\n")
        again = run(*shlex.split(command)[1:], "--json")
        assert again.code == done.code, (command, again.err, done.err)
        assert "This decision is stored" in get(api, "?of=old&of=new").text, command


def test_a_policy_that_is_not_the_projects_is_said_to_be_so_and_not_stored(tmp_path: Path) -> None:
    settings = settings_in(tmp_path, "release: {policy: release-strict}\n")
    with serving(f"sqlite:///{tmp_path}/l.db", release=settings) as api:
        stored_pair(api)
        found = get(api, "?of=old&of=new&policy=release%401")
        assert outcome(found) == "Promote"
        assert "release@1: not the project's release rules." in found.text
        assert "Store this decision" not in found.text
        assert "--release-policy release@1" in found.text
        sent = button(get(api, "?of=old&of=new&policy=release-strict%401"))
        assert sent["policy"] == "release-strict@1"
        assert store(api, {**sent, "policy": "release@1"}).status_code == 422
        assert api.services.ledger.count("decision").n == 0


def test_the_page_leaves_out_and_slices_what_assay_yaml_says(tmp_path: Path) -> None:
    settings = settings_in(tmp_path, "commands: {gate: {slice: [tag], quarantine: [s-1]}}\n")
    with serving(f"sqlite:///{tmp_path}/l.db", release=settings) as api:
        stored_pair(api)
        found = get(api, "?of=old&of=new")
        assert outcome(found) == "Promote"
        assert "tickets/s-1, as requested" in found.text
        assert "tag: night" in found.text
        assert "--quarantine s-1 --slice tag" in found.text
    settings = settings_in(tmp_path, "gates: [{target: 'x:f', name: polite}]\n")
    with serving(f"sqlite:///{tmp_path}/l.db", release=settings) as api:
        found = get(api, "?of=old&of=new")
        assert "scorers or gates that these evaluations were made without" in found.text
        assert outcome(found) == ""
        refused = api.post("/runs?profile=code-repair@1", faq(1, 1)[0])  # which lacks the gates
        assert (refused.status_code, refused.json()["code"]) == (422, "CFG-001")


def test_a_server_requires_the_gates_that_its_project_declares(tmp_path: Path) -> None:
    """As every command does, of runs that were made without the scorers too."""
    gates = "gates: [{target: 'x:f', name: polite}]\n"
    settings = settings_in(tmp_path, f"profile: code-repair@1\n{gates}")
    (run,) = faq(1, 1)
    checked = {**run, "run_id": "checked", "gates": {"polite": {"passed": True}}}
    with serving(f"sqlite:///{tmp_path}/l.db", release=settings) as api:
        for posted, failed in ((run, True), (checked, False)):
            for query in ("", "?profile=code-repair@1"):
                grade = api.post(f"/runs{query}", posted).json()["grade"]
                assert ("polite" in grade["hard_gate_failures"]) is failed
        made = api.post("/evaluations", {"name": "e", "runs": [run]}).json()["evaluation"]
        assert made["totals"]["gate_failures"]["polite"] == 1
        for name, version, rude in (("old", 1, 0), ("new", 2, 0), ("rude", 2, 1)):
            runs = answered(dated(faq(version, N)), f"Answer {version}.")
            for n, one in enumerate(runs):
                one["gates"] = {**(one.get("gates") or {}), "polite": {"passed": n >= rude}}
            put(api, name, [{**one, "run_id": f"{name}-{one['run_id']}"} for one in runs])
        kept = {"name": "production", "evidence": {"evaluation": "old"}}
        assert api.post("/baselines", kept).status_code == 201
        for name, expected in (("new", "promote"), ("rude", "hold")):
            for before in ({"evaluation": "old"}, {"baseline": "production"}):
                sides = {"candidate": {"evaluation": name}, "baseline": before}
                found = api.post("/decisions", sides).json()["decision"]
                assert found["outcome"] == expected, found["reason"]
            page = get(api, f"?of=old&of={name}")
            assert outcome(page) == expected.title()
            command = page.text[page.text.index(f"assay gate {name}") :].split(" Samples")[0]
            again = in_folder(tmp_path, run_here)(*shlex.split(command)[1:], "--json")
            assert json.loads(again.out)["outcome"] == expected, (command, again.err)
    with serving(f"sqlite:///{tmp_path}/l.db", release=settings_in(tmp_path, gates)) as api:
        refused = api.post("/runs", run)
        assert (refused.status_code, refused.json()["code"]) == (422, "CFG-001")


# --- what fails closed


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("?of=one&of=one", "one would be compared with itself"),
        ("?of=one&of=two&of=one", "compared with itself"),
        ("?of=one&of=none", "there is no evaluation 'none' in this project"),
        ("?of=baseline:none&of=two", "there is no baseline 'none'"),
        ("?of=two&of=baseline:production", "a stored baseline can only come first"),
        ("?of=one&of=two&candidate=one", "'one' is not one of the evaluations"),
        ("?of=one&of=two&of=three&of=few&of=gaps&of=old", "not 6"),
        ("?of=one&of=" + "x" * 400, "there is no evaluation"),
        ("?of=one&of=../../etc/passwd", "there is no evaluation"),
    ],
)
def test_what_cannot_be_compared_is_refused_with_the_reason_and_the_form_stays(
    shop: Api, query: str, words: str
) -> None:
    found = get(shop, query, status=422)
    assert words in found.text.lower() or words in found.text
    assert "Not compared" in found.text
    assert outcome(found) == ""
    assert any(tag == "select" for tag, _ in found.tags)


def test_what_cannot_be_decided_still_shows_the_samples_and_says_why(shop: Api) -> None:
    for query, words in (
        ("?of=old&of=two", "the baseline old is 201"),
        ("?of=one&of=forgotten", "was forgotten"),
        ("?of=one&of=two&policy=none", "none"),
        ("?of=one&of=two&policy=workflow", "error lib-005"),
        ("?of=one&of=two&policy=../x.yaml", "is not a name in the library"),
    ):
        found = get(shop, query)
        assert words.lower() in found.text.lower(), (query, found.text)
        assert outcome(found) == ""
        assert "Store this decision" not in found.text
        assert "Samples 1 to 25 of " in found.text
        assert "no sample is counted as better or worse" in found.text
        assert "Better" not in found.text
    part = get(shop, "?of=one&of=elsewhere&unmoved=refused&q=about", **{"HX-Target": "samples"})
    assert "no sample is counted as better or worse" in part.text


def test_scores_of_other_grades_than_the_decisions_are_not_said_to_move(tmp_path: Path) -> None:
    with serving(f"sqlite:///{tmp_path}/l.db") as api:
        stored_pair(api)
    settings = settings_in(tmp_path, "policy: workflow-judged\n")
    with serving(f"sqlite:///{tmp_path}/l.db", release=settings) as api:
        found = get(api, "?of=old&of=new")
        assert "not stored with the grades that the decision uses" in found.text
        assert "Better" not in found.text


LAX = {
    "profile": "lax",
    "version": "1+0",
    "family": "code-repair",
    "title": "Lax",
    "description": "Nothing is asked for.",
    "gates": [],
    "scoring_system": "1.0.0",
    "criteria": [
        {"id": "patch_similarity", "label": "P", "formula": "zero_one", "weight": 1, "layer": 1}
    ],
}


def test_sides_that_bring_less_than_the_profile_of_the_project_are_refused(tmp_path: Path) -> None:
    settings = settings_in(tmp_path, "profile: code-repair@1\n")
    own = {"own_profile": {"profile": LAX, "rubric": None}}
    with serving(f"sqlite:///{tmp_path}/l.db", release=settings) as api:
        for name, version in (("old", 1), ("new", 2)):
            put(api, name, dated(faq(version, N)), settings=own)
        found = get(api, "?of=old&of=new").text
        assert "the gates, criteria and terms for judges of code-repair@1, the profile of" in found
        sides = {"candidate": {"evaluation": "new"}, "baseline": {"evaluation": "old"}}
        assert api.post("/decisions", sides).status_code == 422
        for profile in ([1], {}, {**LAX, "made_from": "x", "not_graded": 5}):
            broken = {"own_profile": {"profile": profile}}
            refused = api.post("/evaluations", {"name": "x", "runs": faq(1, 2), "settings": broken})
            assert refused.status_code == 422, refused.text


def test_sides_that_bring_a_weakened_copy_of_the_projects_profile_are_refused(
    tmp_path: Path,
) -> None:
    settings = settings_in(tmp_path, "profile: rag@1\n")
    profile = parse_json(canonical(Shelf().profile("rag@1")))
    easy = {"id": "easy", "label": "E", "formula": "zero_one", "weight": 1000, "layer": 1}
    first, *others = profile["criteria"]
    grounded, *gates = profile["gates"]
    copies = {
        "same": profile,
        "order": {**profile, "criteria": [*others, first]},
        "gates of scorers": {**profile, "gates": [*profile["gates"], {"id": "x", "verdict": True}]},
        "diluted": {**profile, "criteria": [*profile["criteria"], easy]},
        "role": {**profile, "criteria": [{**first, "role": None}, *others]},
        "gate": {**profile, "gates": [{**grounded, "params": {"minimum": 0.1}}, *gates]},
        "judge": {**profile, "judge": None},
    }
    choices = {
        name: EvaluationChoice("workflow@1", OWN, None, own={**copy, "profile": "copy"})
        for name, copy in copies.items()
    }
    with serving(f"sqlite:///{tmp_path}/l.db", release=settings) as api:
        for name, choice in choices.items():
            if name in ("same", "order", "gates of scorers"):
                with_additions(api.services, choice)
            else:
                with pytest.raises(AssayError, match="terms for judges of rag@1"):
                    with_additions(api.services, choice)


@pytest.mark.parametrize(("configured", "rubric"), [({"rubric": "rag@1"}, "rag@1"), ({}, "rag@1")])
def test_the_rubric_of_the_project_is_not_replaced_by_that_of_evaluations(
    configured: Any, rubric: str
) -> None:
    own = {"own_profile": {"profile": LAX, "rubric": "rag@1"}}
    sides = [graded_side("new", own)], [graded_side("old", own)]
    assert rules_for(RulesRequest(*sides, configured=configured)).rubric == rubric


def test_a_candidate_that_brings_its_own_rules_does_not_set_the_bar(shop: Api) -> None:
    runs = answered(dated(faq(3, N)), "Own rules.")
    put(shop, "lax", runs, settings={"own_profile": {"profile": LAX, "rubric": None}})
    for baseline in ("baseline:production", "one"):
        found = get(shop, f"?of={baseline}&of=lax")
        assert outcome(found) in ("", "Reject"), found.text
        assert "Store this decision" not in found.text or outcome(found) == "Reject"
    refused = get(shop, "?of=baseline:production&of=lax").text
    assert "was stored under profile code-repair@1, and" in refused, refused[:3000]


def test_the_same_runs_under_another_name_are_no_baseline(shop: Api) -> None:
    digests = [run["digest"] for run in shop.get("/evaluations/two").json()["record"]["runs"]]
    shop.post("/evaluations", {"name": "two-again", "runs": {"digests": digests}})
    found = get(shop, "?of=two&of=two-again")
    assert "would be compared with itself" in found.text
    assert outcome(found) == ""


def test_the_same_answers_run_again_are_said_to_be_so_before_anything_else(shop: Api) -> None:
    put(shop, "rerun", answered(dated(faq(1, N)), "The train leaves at nine!"))
    text = get(shop, "?of=one&of=rerun").text
    assert text.index("SAME EVIDENCE") < text.index("under release@1")


def test_a_run_that_could_not_be_graded_and_a_huge_one_never_open_the_gate(shop: Api) -> None:
    odd = answered(dated(faq(2, N)), "Yes.")
    bare = {key: value for key, value in odd[0]["workflow"].items() if key in ("id", "version")}
    odd[0] = {**odd[0], "workflow": bare, "outputs": {"answer": "word " * 1_000_000}}
    put(shop, "odd", odd)
    for query in ("?of=one&of=odd", "?of=odd&of=two&sort=-difference"):
        found = get(shop, query)
        assert outcome(found) in ("", "Reject"), found.text[:3000]
        assert "not graded" in found.text
        assert "New in the candidate" not in found.text
        assert len(found.text) < 200_000
    assert outcome(get(shop, "?of=one&of=two&of=few&of=gaps&of=odd")) in ("", "Reject")


# --- the button


def test_the_button_stores_the_decision_once_and_leads_to_it(shop: Api) -> None:
    sent = button(get(shop, "?of=one&of=three"))
    before = shop.services.ledger.count("decision").n
    first, second = store(shop, sent), store(shop, sent)
    assert first.status_code == second.status_code == 303
    assert first.headers["location"] == second.headers["location"]
    assert first.headers["location"].endswith(sent["decision"])
    assert shop.services.ledger.count("decision").n == before + 1
    found = get(shop, "?of=one&of=three")
    assert "This decision is stored" in found.text
    assert button(found) == {}
    record = shop.get(f"/records/{sent['decision']}").json()["record"]
    assert record["outcome"] == "reject"


def test_a_decision_is_stored_only_by_whoever_may_write_from_here_and_as_it_was_seen(
    shop: Api,
) -> None:
    sent = button(get(shop, "?of=one&of=gaps"))
    before = shop.services.ledger.count("decision").n
    reader = shop.token(scopes=("read",))
    assert "that needs a token with the write scope" in get(shop, "?of=one&of=gaps", **reader).text
    assert store(shop, sent, **reader).status_code == 403
    assert store(shop, sent, Origin="http://evil.example").status_code == 403
    elsewhere = shop.token("other")
    assert store(shop, sent, **elsewhere).status_code == 404
    moved = {**sent, "policy": "release-strict@1"}
    assert store(shop, moved).status_code == 409
    for broken in (
        {**sent, "candidate": sent["baseline"]},
        {**sent, "candidate": "none"},
        {**sent, "baseline": "baseline:none"},
        {**sent, "decision": ""},
    ):
        assert store(shop, broken).status_code in (404, 409, 422), broken
    assert shop.services.ledger.count("decision").n == before


def test_a_stored_decision_leads_to_its_evaluations_the_comparison_and_both_runs_of_a_pair(
    shop: Api,
) -> None:
    sent = button(get(shop, "?of=few-before&of=few"))
    store(shop, sent)
    answer = shop.client.get(f"/decisions/{sent['decision']}", headers=HTML)
    found = Markup(answer.text)
    assert "Candidate: few · Baseline: few-before" in found.text
    links = found.links()
    assert "/compare?of=few-before&of=few" in links
    assert {"/evaluations/few", "/evaluations/few-before"} <= set(links)
    assert "Every pair, with links to both runs" in found.text
    for name in ("few", "few-before"):
        runs = [href for href in links if href.endswith(f"?in={name}")]
        assert len(set(runs)) == 5
        assert shop.client.get(runs[0], headers=HTML).status_code == 200
    assert "Score not worse" in found.text
    page = Markup(shop.client.get("/evaluations/few", headers=HTML).text)
    assert f"/decisions/{sent['decision']}" in page.links(), "the evaluation says what was decided"


# --- the samples


def test_what_got_worse_comes_first_with_the_answers_the_words_that_differ_and_the_gates(
    shop: Api,
) -> None:
    found = get(shop, "?of=one&of=three")
    assert re.search(r"Worse (\d+)", found.text)
    text = found.text[found.text.index("Samples 1 to 25 of 60") :]
    assert text.index("now fails tests_fail_to_pass_all_green") < 300, "of the first sample"
    assert "What about 0?" in text
    assert "The train bus leaves at nine" in re.sub(r"\s+", " ", text)
    assert ("del", {}) in found.tags
    failing = get(shop, "?of=one&of=three&show=gates")
    assert "Samples 1 to 8 of 8" in failing.text
    assert "no longer passes" in failing.text


def test_new_and_missing_samples_are_counted_and_shown(shop: Api) -> None:
    found = get(shop, "?of=one&of=gaps&show=missing")
    assert "Missing in the candidate 2" in found.text
    assert "New in the candidate 1" in found.text
    assert "Samples 1 to 2 of 2" in found.text
    assert "missing: counts as lost" in found.text
    assert "extra" in get(shop, "?of=one&of=gaps&show=new").text


def test_filter_search_order_and_page_are_the_address(shop: Api) -> None:
    assert "Samples 26 to 50 of 60" in get(shop, "?of=one&of=two&page=2").text
    assert "Samples 51 to 60 of 60" in get(shop, "?of=one&of=two&page=99999").text
    assert "Samples 1 to 25" in get(shop, "?of=one&of=two&page=minus").text
    assert "Samples 1 to 1 of 1" in get(shop, "?of=one&of=two&q=about 17?").text
    assert "No sample matches this filter." in get(shop, "?of=one&of=two&q=xyzzy").text
    by_name = get(shop, "?of=one&of=two&sort=sample").text
    by_name = by_name[by_name.index("by name") :]
    assert by_name.index("s-9") < by_name.index("s-10")
    hrefs = [
        str(attributes.get("href"))
        for tag, attributes in get(
            shop, "?of=one&of=two&show=better&policy=release-strict%401"
        ).tags
        if tag == "a"
    ]
    following = [href for href in hrefs if "page=2" in href or "sort=" in href]
    assert following
    assert all(
        "of=one&of=two" in href and "policy=release-strict%401" in href for href in following
    )


def test_of_three_the_last_is_decided_on_or_the_one_that_is_chosen(shop: Api) -> None:
    found = get(shop, "?of=one&of=two&of=three")
    assert "May three replace one?" in found.text
    assert outcome(found) == "Reject"
    chosen = next(
        str(attributes["href"])
        for tag, attributes in found.tags
        if tag == "a" and "candidate=two" in str(attributes.get("href"))
    )
    found = get(shop, chosen.removeprefix("/compare"))
    assert "May two replace one?" in found.text
    assert outcome(found) == "Promote"


def test_a_part_of_the_page_is_answered_without_deciding_again(
    shop: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: Any, **__: Any) -> Any:
        raise AssertionError

    monkeypatch.setattr(compare_decision, "decide_between", never)
    found = get(shop, "?of=one&of=two&page=2", **{"HX-Target": "samples"})
    assert "Samples 26 to 50 of 60" in found.text
    assert any(attributes.get("id") == "samples" for _, attributes in found.tags)


def test_more_runs_than_a_page_decides_on_are_left_to_the_command(
    shop: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = button(get(shop, "?of=one&of=gaps"))
    for module in (compare, compare_decision):
        monkeypatch.setattr(module, "MOST", 31)
    found = get(shop, "?of=one&of=two")
    assert "more than 31 runs" in found.text
    assert "assay gate two --baseline " in found.text
    assert outcome(found) == ""
    assert "Samples 1 to 25 of 60" in found.text
    assert store(shop, sent).status_code == 422


# --- the form


def test_the_form_offers_evaluations_by_name_and_stored_baselines(shop: Api) -> None:
    found = get(shop, "?of=baseline:production")
    options = [
        (str(attributes.get("value")), "selected" in attributes)
        for tag, attributes in found.tags
        if tag == "option"
    ]
    assert ("two", False) in options
    assert ("baseline:production", True) in options
    assert "faq 2 · " in found.text
    assert "Choose the candidate too." in found.text
    named = [value for value, _ in options if value == "one"]
    assert len(named) == 2, "the older one of a name is offered by its digest"
    assert any(value.startswith("sha256:") for value, _ in options)


def test_an_empty_project_says_which_command_fills_it(tmp_path: Path) -> None:
    with serving(f"{tmp_path}/l.db") as api:
        assert "assay run" in get(api, "").text


def test_hostile_text_stays_text(tmp_path: Path) -> None:
    with serving(f"{tmp_path}/l.db") as api:
        for name in ("a", "b"):
            runs = dated(faq(1 if name == "a" else 2, 3))
            hostile = [
                {
                    **run,
                    "workflow": {**run["workflow"], "id": SCRIPT, "version": name},
                    "dataset": {**run["dataset"], "sample_id": f"{SCRIPT}{place}"},
                    "inputs": {"question": SCRIPT + "\u202eabc"},
                    "outputs": {"answer": f"{SCRIPT} {name} " + "שלום e\u0301 " * 500},
                }
                for place, run in enumerate(runs)
            ]
            put(api, name, hostile)
        found = get(api, "?of=a&of=b")
        assert not any(
            tag == "script" and not attributes.get("src") for tag, attributes in found.tags
        )
        assert "\u202e" not in found.text
        text = quote(SCRIPT, safe="")
        get(api, f"?of=a&of=b&q={text}&show={text}&sort={text}")
        get(api, f"?of={text}&of=b", status=422)
        get(api, f"?of=a&of=b&{text}=1", status=422)


def test_changed_answers_can_be_filtered_and_the_order_is_said(shop: Api) -> None:
    both = get(shop, "?of=one&of=three")
    assert f"Answer changed {N}" in both.text
    assert "what got worse comes first, newly failed gates before lost points" in both.text
    expecting = [{**one, "expected": {"answer": "At nine."}} for one in dated(faq(1, 3))]
    put(shop, "expecting", answered(expecting, "The same."))
    last = [{**one, "expected": {"answer": "At ten."}} for one in dated(faq(2, 3))]
    put(shop, "expecting-more", [*answered(last, "The same.")[:2], *answered(last, "Other.")[2:]])
    found = get(shop, "?of=expecting&of=expecting-more&show=answer")
    assert "1 sample:" in found.text
    assert "differs:" in found.text, "what was expected is in its own column"
    many = get(shop, "?of=expecting&of=expecting-more&sort=sample")
    assert "3 samples: by name." in many.text
