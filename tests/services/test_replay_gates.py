"""Stored gates on exams and on tool schemas are made again from the records that they name; what is
missing or was changed is told, and never passes.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from assay.errors import InputError
from assay.families.tools import checks
from assay.families.tools import stored as stored_schemas
from assay.library import shelf
from assay.store.drafts import Item, Link, draft
from assay.store.ledger import open_ledger
from examples import CAMPAIGN
from judges import Run, here
from postgres import ledger_url, on_sqlite, postgres_url
from test_exam_gate import at, put, result
from test_named_baseline import spoil
from test_storing import count, newest
from test_tools_cli import HIVE, IMPORTED, VETO, WEIGHT, envelope, grow, record
from test_tools_protocol import put as put_file
from test_tools_protocol import schema

__all__ = ["here", "ledger_url", "postgres_url"]

POLICIES = Path(shelf.__file__).parent / "policies"


def the_decision(url: str) -> Item:
    with open_ledger(url) as ledger:
        return ledger.find("decision", newest_first=True, limit=1).items[0]


def play(here: Run, url: str, *more: object) -> Any:
    return here("ledger", "replay", the_decision(url).digest, "--db", url, "--json", *more)


def put_decision(url: str, change: Callable[[dict[str, Any]], dict[str, Any]]) -> str:
    """Another decision with the links of the newest one."""
    item = the_decision(url)
    made = draft(change(item.tree()), kind="decision")
    with open_ledger(url) as ledger:
        links = [
            Link(link.relation, made.name, link.source)
            for link in ledger.links_of(item.digest)
            if link.target == item.digest
        ]
        ledger.put_many([made._replace(links=tuple(links))])
    return made.name


def without_evidence(tree: dict[str, Any]) -> dict[str, Any]:
    """A gate that does not name its evidence."""
    return {key: value for key, value in tree.items() if key != "evidence"}


def publish(folder: Path, name: str, version: str, *changes: tuple[str, str]) -> None:
    """A version of a policy of our own in a library."""
    text = (POLICIES / f"{name}@1.yaml").read_text()
    for old, new in (("version: 1\n", f"version: {version}\n"), *changes):
        assert old in text
        text = text.replace(old, new)
    (folder / "policies").mkdir(parents=True, exist_ok=True)
    (folder / "policies" / f"{name}@{version}.yaml").write_text(text)


# --- exams


@pytest.fixture
def exams(tmp_path: Path) -> Path:
    put(tmp_path, "good.json", result(at("0.95")))
    put(tmp_path, "poor.json", result(at("0.9")))
    put(
        tmp_path, "under.json", {**result(at("0.95")), "pass_line": {"holds": False, "limit": 0.96}}
    )
    put(tmp_path, "before.json", result(at("0.96"), set_="regression"))
    put(tmp_path, "after.json", result(at("0.95"), set_="regression"))
    put(tmp_path, "low.json", result(at("0.9"), set_="regression"))
    holes = result([0, *at("0.96")[1:]])
    put(
        tmp_path,
        "holes.json",
        {**holes, "missing": [holes["items"][0]["item"]], "latency": {"n": 3, "p50_ms": 400.50}},
    )
    gaps = result([0, *at("0.96")[1:]], set_="regression")
    name = gaps["items"][0]["item"]
    lost = {"missing": [name], "missing_reasons": {name: "timed out"}}
    put(tmp_path, "gaps.json", {**gaps, **lost})
    line = {"pass_line": {"holds": False, "limit": 0.96}}
    put(tmp_path, "short.json", {**result(at("0.95"), set_="regression"), **line})
    return tmp_path


GATES = {
    "alone": ("good.json",),
    "not passed": ("poor.json",),
    "under its pass score": ("under.json",),
    "with a regression set": ("good.json", "--regression", "after.json"),
    "a drop": ("good.json", "--regression", "low.json", "--baseline", "after.json"),
    "a regression set under its pass score": (
        "good.json",
        "--regression",
        "short.json",
        "--baseline",
        "before.json",
    ),
    "a rise that is checked": (
        "good.json",
        "--regression",
        "before.json",
        "--baseline",
        "low.json",
    ),
    "one result as both": ("good.json", "--regression", "after.json", "--baseline", "after.json"),
    "notes that name files": ("holes.json", "--regression", "gaps.json", "--baseline", "gaps.json"),
}
ALIKE = {"under its pass score", "a rise that is checked", "one result as both"}


@pytest.mark.parametrize(
    "case",
    # the others are put together of what these have
    [pytest.param(one, marks=[pytest.mark.campaign] * (one in ALIKE)) for one in GATES],
)
def test_a_stored_gate_on_exams_is_made_again_to_the_byte(
    here: Run, exams: Path, case: str
) -> None:
    done = here("exam", "gate", *GATES[case], "--store", "l.db", "--json")
    failed = (
        "not passed",
        "under its pass score",
        "a drop",
        "a regression set under its pass score",
    )
    codes = {"with a regression set": 4, **dict.fromkeys(failed, 1)}
    assert done.code == codes.get(case, 0), done.err
    kept = json.loads(the_decision("l.db").body or b"")
    assert without_evidence(kept) == done.json(), (
        "what is shown is what is stored, but for its evidence"
    )
    given = dict(zip(("capstone", "regression", "baseline"), GATES[case][::2], strict=False))
    assert {role: bool(one) for role, one in kept["evidence"].items()} == {
        role: role in given for role in ("capstone", "regression", "baseline")
    }
    names = {role: one["name"] for role, one in kept["evidence"].items() if one and "name" in one}
    assert names == {}, "no note names a file"
    for path in exams.glob("*.json"):
        path.unlink()
    again = play(here, "l.db")
    assert (again.code, again.json()["same"], again.json()["passed"]) == (
        0,
        True,
        done.json()["passed"],
    ), again.err
    said = here("ledger", "replay", newest("l.db", "decision"), "--db", "l.db").out
    assert said.startswith(
        f"exam gate: the same, {'passed' if done.code == 0 else 'not passed'} sha256:"
    )
    assert here("ledger", "verify", "--db", "l.db").code == 0


@on_sqlite
def test_a_gate_on_exams_is_made_again_on_every_database(
    here: Run, exams: Path, ledger_url: str
) -> None:
    assert (
        here(
            "baseline", "set", "tutor", "before.json", "--dir", "elsewhere", "--store", ledger_url
        ).code
        == 0
    )
    done = here(
        "exam",
        "gate",
        "good.json",
        "--regression",
        "after.json",
        "--baseline",
        "tutor",
        "--store",
        ledger_url,
    )
    assert done.code == 0, done.err
    again = play(here, ledger_url)
    assert (again.code, again.json()["same"], again.json()["policy"], again.json()["rubric"]) == (
        0,
        True,
        "exam@1",
        "tutor@1",
    )


def test_the_same_words_about_other_results_are_another_record(here: Run, exams: Path) -> None:
    """Two tutors with the same score: the gate says the same of both, and each gate is made again
    from its own.
    """
    put(exams, "other.json", {**result(at("0.95")), "unknown": ["i-x"]})
    first = here("exam", "gate", "good.json", "--store", "l.db", "--json")
    second = here("exam", "gate", "other.json", "--store", "l.db", "--json")
    assert first.out == second.out
    with open_ledger("l.db") as ledger:
        assert (ledger.count("decision").n, ledger.count("exam").n) == (2, 2)
        for item in ledger.find("decision").items:
            assert here("ledger", "replay", item.digest, "--db", "l.db").code == 0
    (exams / "elsewhere").mkdir()
    shutil.copy(exams / "good.json", exams / "elsewhere/good.json")
    assert (
        "0 records stored" in here("exam", "gate", "elsewhere/good.json", "--store", "l.db").err
    ), "where its file lies changes nothing"


def test_a_gate_on_exams_under_a_published_policy_of_the_past_is_made_again(
    here: Run, exams: Path, tmp_path: Path
) -> None:
    library = tmp_path / "lib"
    digests = []
    for version, limit in (("1.1.0", "0.93"), ("1.2.0", "0.94")):
        publish(library, "exam", version, ("hard_gate: 0.92", f"hard_gate: {limit}"))
        assert (
            here(
                "exam",
                "gate",
                "good.json",
                "--policy",
                f"exam@{version}",
                "--library",
                library,
                "--store",
                "l.db",
            ).code
            == 0
        )
        digests.append(newest("l.db", "decision"))
    for digest in digests:
        assert here("ledger", "replay", digest, "--db", "l.db", "--library", library).code == 0
    assert here("ledger", "replay", digests[0], "--db", "l.db").code == 3, (
        "without that library nobody knows the version"
    )
    publish(library, "exam", "1.1.0", ("hard_gate: 0.92", "hard_gate: 0.91"))
    changed = here("ledger", "replay", digests[0], "--db", "l.db", "--library", library, "--json")
    assert (changed.code, changed.json()["same"], changed.json()["difference"]["path"]) == (
        1,
        False,
        "gradingSystem",
    )


def test_a_forged_verdict_on_exams_is_found_out(here: Run, exams: Path) -> None:
    assert here("exam", "gate", "poor.json", "--store", "l.db").code == 1
    put_decision("l.db", lambda tree: {**tree, "passed": True})
    again = play(here, "l.db")
    assert (again.code, again.json()["difference"]) == (
        1,
        {"path": "passed", "stored": True, "recomputed": False},
    )
    with open_ledger("l.db") as ledger:
        poor = ledger.find("exam").items[0]
        better = draft({**poor.tree(), "score": 0.99}, kind="exam")
        ledger.put_many([better])
    put_decision(
        "l.db",
        lambda tree: {
            **tree,
            "evidence": {**tree["evidence"], "capstone": {"digest": better.name}},
        },
    )
    refused = play(here, "l.db")
    assert (refused.code, "the mean of the items is 0.9" in refused.err) == (
        3,
        True,
    ), "a result whose numbers do not add up decides nothing"


def test_exams_whose_answers_are_stored_are_marked_again_behind_their_gate(
    here: Run, tmp_path: Path
) -> None:
    items = [
        {
            "id": f"i-{place}",
            "prompt": "p",
            "expected_contains": ["went"],
            "gloss_contains": ["ging"],
        }
        for place in range(3)
    ]
    put(tmp_path, "exam.json", {"exam": "verbs", "version": "2", "items": items, "title": "Verbs"})
    answers: list[dict[str, Any]] = [
        {
            "response": {"gloss": "Er ging.", "explanation": "past", "correction": "He went."},
            "latency_ms": 12.50,
        },
        {"response": "went, ging"},
        {"response": "it went, es ging"},
    ]
    (tmp_path / "answers.jsonl").write_text(
        "".join(
            json.dumps({"item": f"i-{place}", **one}) + "\n" for place, one in enumerate(answers)
        )
        + '{"item": "x"}\n'
    )
    graded = here(
        "exam",
        "grade",
        "exam.json",
        "--answers",
        "answers.jsonl",
        "--keep-going",
        "-o",
        "result.json",
        "--store",
        "l.db",
    )
    assert graded.code == 3, graded.err
    assert here("exam", "gate", "result.json", "--store", "l.db").code == 1
    again = play(here, "l.db")
    assert (again.code, again.json()["same"]) == (0, True), (again.out, again.err)
    with open_ledger("l.db") as ledger:
        item = ledger.find("exam").items[0]
        [link] = [link for link in ledger.links_of(item.digest) if link.relation == "evidence_of"]
        full = {
            "score": 1,
            "breakdown": dict.fromkeys(item.tree()["items"][0]["breakdown"], 1),
            "weighted": item.tree()["items"][0]["weighted"],
        }
        tree, axis = item.tree(), {"lost": 0, "mean": 1, "zero_items": 0}
        better = draft(
            {
                **tree,
                "items": [{**one, **full} for one in tree["items"]],
                "axes": dict.fromkeys(tree["axes"], axis),
                "distribution": [{"score": 1, "items": len(tree["items"])}],
                "score": 1,
                "missing": [],
            },
            kind="exam",
        )
        ledger.put_many([better._replace(links=(Link("evidence_of", better.name, link.source),))])
    put(tmp_path, "forged.json", json.loads(better.body))
    forged = here("exam", "gate", "forged.json", "--store", "l.db")
    assert forged.code == 0, "its numbers add up"
    refused = play(here, "l.db")
    assert (refused.code, "is marked differently now, from its stored answers" in refused.err) == (
        3,
        True,
    )
    with open_ledger("l.db") as ledger:
        ledger.forget(str(link.source), author="dpo", reason="asked to")
    gone = play(here, "l.db")
    assert (gone.code, "the answers of the capstone of this gate were forgotten" in gone.err) == (
        4,
        True,
    ), "what is gone vouches for nothing"


def test_a_gate_that_does_not_say_what_it_was_decided_on_is_refused(here: Run, exams: Path) -> None:
    assert here("exam", "gate", "good.json", "--store", "l.db").code == 0
    sound = the_decision("l.db").tree()
    capstones = (None, 7, {}, {"digest": 7}, {"digest": "x"})
    for evidence in (7, [], {}, *({"capstone": capstone} for capstone in capstones)):
        put_decision("l.db", lambda _, evidence=evidence: {**sound, "evidence": evidence})
        assert play(here, "l.db").code == 3, evidence


def test_evidence_of_a_gate_on_exams_that_is_gone_or_was_changed_is_told(
    here: Run, exams: Path
) -> None:
    assert here("exam", "gate", "good.json", "--store", "l.db").code == 0
    run = put_decision(
        "l.db",
        lambda tree: {
            **tree,
            "evidence": {**tree["evidence"], "capstone": {"digest": newest("l.db", "decision")}},
        },
    )
    wrong = here("ledger", "replay", run, "--db", "l.db")
    assert (wrong.code, "is a record of the kind 'decision'" in wrong.err) == (3, True)
    absent = put_decision(
        "l.db",
        lambda tree: {
            **tree,
            "evidence": {**tree["evidence"], "capstone": {"digest": "sha256:" + "0" * 64}},
        },
    )
    done = here("ledger", "replay", absent, "--db", "l.db")
    assert (done.code, "the capstone of this gate is not in the ledger" in done.err) == (4, True)
    spoil(exams / "l.db", "exam")
    with open_ledger("l.db") as ledger:
        first = ledger.find("decision").items[0].digest
    changed = here("ledger", "replay", first, "--db", "l.db")
    assert (changed.code, "STO-007" in changed.err, changed.out) == (3, True, "")


def test_a_gate_on_a_result_that_was_forgotten_is_not_made_again(here: Run, exams: Path) -> None:
    assert (
        here("exam", "gate", "good.json", "--regression", "after.json", "--store", "l.db").code == 4
    ), "a regression set without its baseline"
    with open_ledger("l.db") as ledger:
        ledger.forget(
            the_decision("l.db").tree()["evidence"]["regression"]["digest"],
            author="dpo",
            reason="asked to",
        )
    again = play(here, "l.db")
    assert (again.code, "the regression of this gate was forgotten" in again.err) == (4, True)


# --- tool schemas


_MODULE: dict[str, str] = {}


def put_module(here: Run, folder: Path) -> None:
    """A namespace whose schema is a module that asks for another one. Made once, then copied."""
    put_file(
        folder / "scales.mjs",
        f"export const main = {json.dumps(schema(requiredLibraries=['left-pad']))}\n",
    )
    if _MODULE:
        for name, data in _MODULE.items():
            put_file(folder / name, data)
        return
    done = here("tools", "import", "scales.mjs", "--now", IMPORTED)
    assert done.code == 0, done.err
    for area, where in (("single-test", WEIGHT), ("tools-aggregate-schema", HIVE)):
        assert record(here, folder, envelope(area), *where).code == 0
    files = [path for path in (folder / "grading-data").rglob("*") if path.is_file()]
    _MODULE.update({str(path.relative_to(folder)): path.read_text() for path in files})


def put_vetoed(here: Run, folder: Path) -> None:
    grow(here, folder)
    assert (
        record(
            here,
            folder,
            envelope("single-test", categoricalVeto=VETO),
            *WEIGHT,
            "--trigger",
            "scheduled",
        ).code
        == 0
    )


def put_aged(here: Run, folder: Path) -> None:
    """A tool whose API was last seen in May."""
    grow(here, folder)
    seen = envelope("single-test", 4, question="Q-apiAvailability")
    done = record(here, folder, seen, *WEIGHT, "--trigger", "scheduled")
    assert done.code == 0, done.err


def put_broken(here: Run, folder: Path) -> None:
    """A snapshot that is not a schema any more."""
    grow(here, folder)
    next((folder / "grading-data/providers/beewatch/scales").glob("scales--*.json")).write_bytes(
        b'{"\xff'
    )


def put_changed(here: Run, folder: Path) -> None:
    grow(here, folder)
    path = next((folder / "grading-data/providers/beewatch/scales").glob("scales--*.json"))
    path.write_text(path.read_text().replace("beehives", "wasps"))


def put_unreadable(here: Run, folder: Path) -> None:
    """A snapshot of which there are no bytes."""
    grow(here, folder)
    path = next((folder / "grading-data/providers/beewatch/scales").glob("scales--*.json"))
    path.unlink()
    path.mkdir()


TREES: dict[str, tuple[Callable[[Run, Path], None], tuple[str, ...], int]] = {
    "a whole namespace": (grow, ("beewatch",), 0),
    "one schema, and all of them": (grow, ("beewatch.scales", "beewatch", "beewatch.scales"), 0),
    "a module without lists": (put_module, ("beewatch.scales",), 4),
    "a module and lists": (
        put_module,
        ("beewatch.scales", "--bad-modules", "bad.json", "--aliases", "aliases.json"),
        0,
    ),
    "a module that is known to be bad": (
        put_module,
        ("beewatch.scales", "--bad-modules", "worse.json"),
        1,
    ),
    "an aged answer": (put_aged, ("beewatch",), 4),
    "a veto": (put_vetoed, ("beewatch",), 1),
    "a broken snapshot": (put_broken, ("beewatch",), 4),
    "a changed snapshot": (put_changed, ("beewatch",), 4),
    "a snapshot that cannot be read": (put_unreadable, ("beewatch",), 4),
}


@pytest.fixture
def lists(tmp_path: Path) -> Path:
    put_file(
        tmp_path / "bad.json", {"bad": {"spy-on-keys": "takes them"}, "telemetry": ["left-pad"]}
    )
    put_file(tmp_path / "worse.json", {"bad": ["left-pad"]})
    put_file(tmp_path / "aliases.json", {"Bee Watch": ["beewatch.example"]})
    return tmp_path


@pytest.mark.parametrize("case", TREES)
def test_a_stored_gate_on_tool_schemas_is_made_again_to_the_byte(
    here: Run, lists: Path, case: str
) -> None:
    put_tree, arguments, code = TREES[case]
    put_tree(here, lists)
    done = here("tools", "gate", *arguments, "--store", "l.db", "--json")
    assert done.code == code, (done.out, done.err)
    kept = the_decision("l.db").tree()
    assert without_evidence(kept) == {"schema": "assay.schema-gate/1", **done.json()}
    assert str(lists) not in json.dumps(kept, default=str), (
        "where the tree lies is not a part of the verdict"
    )
    if put_tree is not put_module:  # to read a module takes longer than all of this
        before = count("l.db")
        assert "0 records stored" in here("tools", "gate", *arguments, "--store", "l.db").err
        assert count("l.db") == before
    shutil.rmtree(lists / "grading-data")
    again = play(here, "l.db")
    assert (again.code, again.json()["same"], again.json()["passed"]) == (0, True, code == 0), (
        again.out,
        again.err,
    )
    if put_tree is not put_module:
        said = here("ledger", "replay", newest("l.db", "decision"), "--db", "l.db").out
        verdict = "passed" if code == 0 else "not passed"
        assert said.startswith(f"schema gate: the same, {verdict} sha256:")
    assert here("ledger", "verify", "--db", "l.db").code == 0


def test_a_gate_on_tool_schemas_is_made_again_on_every_database(
    here: Run, tmp_path: Path, ledger_url: str
) -> None:
    grow(here, tmp_path)
    assert here("tools", "gate", "beewatch", "--store", ledger_url).code == 0
    assert play(here, ledger_url).code == 0
    with open_ledger(ledger_url) as ledger:
        relations = sorted(
            link.relation for link in ledger.links_of(newest(ledger_url, "decision"))
        )
    assert relations == [
        "candidate_of",
        "evidence_of",
        "evidence_of",
    ], "the index; the source and the lists"


def test_a_gate_on_tool_schemas_under_a_published_policy_of_the_past_is_made_again(
    here: Run, tmp_path: Path
) -> None:
    library = tmp_path / "lib"
    grow(here, tmp_path)
    publish(library, "flowmcp", "1.1.0", ("production_from: B", "production_from: C"))
    publish(library, "flowmcp", "1.2.0", ("production_from: B", "production_from: A"))
    done = here(
        "tools",
        "gate",
        "beewatch",
        "--policy",
        "flowmcp@1.1.0",
        "--library",
        library,
        "--store",
        "l.db",
    )
    assert done.code == 1, "letters of another policy do not count until they are regraded"
    assert play(here, "l.db", "--library", library).code == 0
    assert play(here, "l.db").code == 3, "without that library nobody knows the version"
    publish(library, "flowmcp", "1.1.0", ("production_from: B", "production_from: A"))
    changed = play(here, "l.db", "--library", library)
    assert (changed.code, changed.json()["difference"]["path"]) == (1, "gradingSystem")


def test_a_forged_verdict_on_tool_schemas_is_found_out(here: Run, lists: Path) -> None:
    put_module(here, lists)
    assert (
        here(
            "tools", "gate", "beewatch.scales", "--bad-modules", "worse.json", "--store", "l.db"
        ).code
        == 1
    )
    honest = the_decision("l.db").tree()
    put_decision("l.db", lambda tree: {**tree, "passed": True})
    again = play(here, "l.db")
    assert (again.code, again.json()["difference"]) == (
        1,
        {"path": "passed", "stored": True, "recomputed": False},
    )
    harmless = draft(
        {"schema": "assay.schema-lists/1", "modules": {"bad": {}, "telemetry": []}, "aliases": {}},
        kind="event",
    )
    with open_ledger("l.db") as ledger:
        ledger.put_many([harmless])
    put_decision(
        "l.db", lambda tree: {**honest, "evidence": {**honest["evidence"], "lists": harmless.name}}
    )
    assert play(here, "l.db").code == 1, "other lists come to another verdict"
    put_decision(
        "l.db", lambda tree: {**honest, "evidence": {**honest["evidence"], "asked": ["nobody"]}}
    )
    assert play(here, "l.db").code == 3


def test_a_gate_on_tool_schemas_that_does_not_say_what_it_was_decided_on_never_counts_as_the_same(
    here: Run, tmp_path: Path
) -> None:
    grow(here, tmp_path)
    assert here("tools", "gate", "beewatch", "--store", "l.db").code == 0
    sound = the_decision("l.db").tree()
    values = (None, 7, "x", [7], {"beewatch": 7}, {"beewatch.scales": {"file": "x"}})
    pairs = [*product(("asked", "indexes", "sources", "lists"), values)]
    for part, value in pairs if CAMPAIGN else pairs[::2]:
        evidence = {**sound["evidence"], part: value}
        put_decision("l.db", lambda _, evidence=evidence: {**sound, "evidence": evidence})
        assert play(here, "l.db").code in (1, 3), (part, value)


@pytest.mark.parametrize("kind", ["index", "event"])
def test_evidence_of_a_gate_on_tool_schemas_that_was_changed_is_told(
    here: Run, tmp_path: Path, kind: str
) -> None:
    grow(here, tmp_path)
    assert here("tools", "gate", "beewatch", "--store", "l.db").code == 0
    spoil(tmp_path / "l.db", kind)
    again = play(here, "l.db")
    assert (again.code, "STO-007" in again.err, again.out) == (3, True, "")


@pytest.mark.parametrize(
    ("part", "words"),
    [
        ("indexes", "the index of beewatch"),
        ("sources", "the source of beewatch.scales"),
        ("lists", "the lists of the checks"),
    ],
)
def test_evidence_of_a_gate_on_tool_schemas_that_was_forgotten_is_told(
    here: Run, tmp_path: Path, part: str, words: str
) -> None:
    grow(here, tmp_path)
    assert here("tools", "gate", "beewatch", "--store", "l.db").code == 0
    found = the_decision("l.db").tree()["evidence"][part]
    digest = found if isinstance(found, str) else next(iter(found.values()))
    with open_ledger("l.db") as ledger:
        ledger.forget(
            digest if isinstance(digest, str) else digest["digest"], author="dpo", reason="asked to"
        )
    again = play(here, "l.db")
    assert (again.code, f"{words} of this gate was forgotten" in again.err) == (4, True), again.err


def test_a_gate_that_names_no_evidence_is_refused(here: Run, tmp_path: Path) -> None:
    grow(here, tmp_path)
    assert here("tools", "gate", "beewatch", "--store", "l.db").code == 0
    put_decision("l.db", without_evidence)
    again = play(here, "l.db")
    assert (again.code, json.loads(again.err)["error"]["code"]) == (3, "REL-008")


def test_a_difference_that_only_this_machine_makes_is_none_of_the_gate(
    here: Run, lists: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    grow(here, lists, requiredServerParams=["BEEWATCH_API_KEY"])
    assert here("tools", "gate", "beewatch.scales", "--store", "l.db").code in (0, 1, 4)

    def absent(host: str, *, only_icann: bool = False) -> str | None:
        raise InputError("FMC-006", "the list of public suffixes is not installed.")

    for module in (checks, stored_schemas):
        monkeypatch.setattr(module, "registrable_domain", absent)
    again = play(here, "l.db")
    assert (again.code, "FMC-006" in again.err, again.out) == (3, True, "")


def test_a_decision_of_a_schema_that_nobody_knows_is_not_replayed(here: Run, exams: Path) -> None:
    assert here("exam", "gate", "good.json", "--store", "l.db").code == 0
    put_decision("l.db", lambda tree: {**tree, "schema": "team.gate/1"})
    again = play(here, "l.db")
    assert (again.code, "STO-017" in again.err) == (3, True)
