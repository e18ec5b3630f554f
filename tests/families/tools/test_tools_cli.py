"""A grading tree through the real command: import, record, index, status, regrade, gate and
export.
"""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from checkout import SUPPORT
from test_tools_protocol import Run, listing, put, schema, scores, tool, words

IMPORTED, RECORDED, LATER = "2026-05-18T03:00:00Z", "2026-05-18T03:30:00Z", "2026-05-18T04:00:00Z"
LLM = {"kind": "llm", "name": "a-grader", "version": "1.0.0"}
HUMAN = {"kind": "human", "name": "Ada", "version": "1"}
SCRIPT = {"kind": "script", "name": "probe", "version": "2.0.0"}
PERSONA = {"basePersonaId": "ai-engineer", "lensId": "city-keeper"}
MARKDOWN = {
    "about": {
        "source": "markdown",
        "origin": "inline",
        "description": "About hives",
        "content": "# Hives\nRoof hives and their scales.\n",
    }
}


# --- what the tests are made of


def envelope(
    area: str, score: object = 4.0, *, question: str = "Q-clarity", **changes: Any
) -> dict[str, Any]:
    return {
        "area": area,
        "harness": "claude-code",
        "version": "flowmcp/4.1.0",
        "iteration": 1,
        "timestamp": RECORDED,
        "determinism": "non-deterministic",
        "graderIdentity": LLM,
        "llmModel": "a-model",
        "answers": [
            {
                "questionId": question,
                "score": score,
                "weight": 1,
                "reasoning": "It says what it returns.",
            }
        ],
        **changes,
    }


def record(
    assay: Run, tmp_path: Path, content: object, *arguments: object, now: str = RECORDED
) -> Any:
    file = put(tmp_path / "envelope.json", content)
    return assay("tools", "record", file, "--now", now, *arguments)


HIVE = ("--namespace", "beewatch", "--schema", "scales")
WEIGHT = (*HIVE, "--tool", "getWeight")
VETO = {
    "triggeredBy": "illegal-content",
    "evidence": "tells where to buy what is banned",
    "graderIdentity": HUMAN,
}


def grow(
    assay: Run,
    tmp_path: Path,
    namespace: str = "beewatch",
    *,
    base: str = "scales",
    grade: object = 4.0,
    **changes: Any,
) -> None:
    """A namespace of one schema with one tool, every node of it stable (if the grade is). Grown
    once for each kind, then copied.
    """
    put(tmp_path / f"{base}.json", schema(namespace, **changes))
    target = tmp_path / "grading-data/providers" / namespace
    key = json.dumps([namespace, base, grade, changes])
    if key in _GROWN and not target.exists():
        target.mkdir(parents=True)
        for name, data in _GROWN[key].items():
            (target / name).mkdir() if data is None else (target / name).write_bytes(data)
        return
    assert assay("tools", "import", f"{base}.json", "--now", IMPORTED).code == 0
    place = ("--namespace", namespace, "--schema", base)
    for area, where in (
        ("single-test", (*place, "--tool", "getWeight")),
        ("tools-aggregate-schema", place),
        ("tools-aggregate-namespace", place[:2]),
    ):
        result = record(assay, tmp_path, envelope(area, grade), *where)
        assert result.code == 0, words(result)
    _GROWN[key] = listing(target)


_GROWN: dict[str, dict[str, bytes | None]] = {}


def status(assay: Run, *names: str) -> dict[str, Any]:
    found: dict[str, Any] = assay("tools", "status", *names, "--json").json()["trees"][0]
    return found


def rule(result: Any, subject: str, name: str) -> tuple[bool | None, str]:
    found = next(item for item in result.json()["results"] if item["subject"] == subject)
    one = next(item for item in found["rules"] if item["id"] == name)
    return one["holds"], one["reason"]


def home(tmp_path: Path, *parts: str) -> Path:
    return tmp_path.joinpath("grading-data", "providers", "beewatch", *parts)


# --- the whole way


@pytest.mark.req("F-136", "F-144", "X-39")
def test_a_namespace_grows_from_its_import_to_an_open_production_gate(
    assay: Run, tmp_path: Path
) -> None:
    put(tmp_path / "scales.json", schema())
    imported = assay("tools", "import", "scales.json", "--now", IMPORTED)
    assert (imported.code, imported.out.split()[:2]) == (0, ["created", "beewatch.scales"])
    gate = assay("tools", "gate", "beewatch", "--json")
    assert (gate.code, gate.json()["passed"]) == (1, False)

    one = record(assay, tmp_path, envelope("single-test"), *WEIGHT)
    assert one.code == 0
    assert (
        one.err
        == "[GRADING] area=single-test/getWeight schema-valid=✓ status=stable written=✓\n[GRADING]"
        " PROGRESS 1/1\n[GRADING] DONE\n"
    )
    assert status(assay)["schemas"]["scales"]["status"] == "graded"

    put(tmp_path / "s.json", scores())
    whole = assay(
        "tools",
        "grade",
        "scales.json",
        "--consume-scores",
        "s.json",
        "--data",
        "grading-data",
        "--now",
        RECORDED,
    )
    assert whole.code == 0, words(whole)
    assert status(assay)["schemas"]["scales"]["status"] == "stable"
    schema_gate = assay("tools", "gate", "beewatch.scales", "--json")
    assert (schema_gate.code, schema_gate.json()["passed"]) == (0, True)
    assert assay("tools", "gate", "beewatch").code == 1

    last = record(assay, tmp_path, envelope("tools-aggregate-namespace"), "--namespace", "beewatch")
    assert "[GRADING] area=tools-aggregate-namespace/beewatch" in last.err
    gate = assay("tools", "gate", "beewatch")
    assert gate.code == 0, words(gate)
    assert gate.out.count("PASS  ") == 2
    assert "✗" not in gate.out
    assert "scoringSystem/1.0.0 · gradingSystem/1.0.0" in gate.out

    exported = assay("tools", "export", "beewatch", "-o", "out", "--json")
    assert exported.code == 0
    assert Path(exported.json()["written"][0]).name == "index.json"
    assert assay("tools", "validate", "out/index.json").code == 0


@pytest.mark.req("F-089", "X-21")
def test_names_with_two_hyphens_go_all_the_way_and_are_never_taken_for_one_another(
    assay: Run, tmp_path: Path
) -> None:
    grow(assay, tmp_path, "bee--watch", base="scales--2026-05-01T00-00-00Z--93baef35")
    grow(assay, tmp_path, "bee", base="scales")
    for name in (
        "bee--watch",
        "bee--watch.scales--2026-05-01T00-00-00Z--93baef35",
        "bee",
        "bee.scales",
    ):
        gate = assay("tools", "gate", name)
        assert gate.code == 0, words(gate)
    assert list(status(assay, "bee--watch")["schemas"]) == [
        "scales--2026-05-01T00-00-00Z--93baef35"
    ]
    assert list(status(assay, "bee")["schemas"]) == ["scales"]
    assert assay("tools", "import", "scales.json", "--now", IMPORTED).out.split()[0] == "unchanged"


@pytest.mark.req("F-136")
@pytest.mark.parametrize(("score", "code"), [(5, 0), (3.5, 0), (3.49, 1), (1, 1)])
def test_only_b_or_better_opens_the_gate(
    assay: Run, tmp_path: Path, score: float, code: int
) -> None:
    grow(assay, tmp_path, grade=score)
    result = assay("tools", "gate", "beewatch", "--json")
    assert result.code == code
    assert rule(result, "beewatch.scales", "grade")[0] is (code == 0)
    assert rule(result, "beewatch (namespaceAggregate)", "grade")[0] is (code == 0)


@pytest.mark.req("F-137", "X-39")
def test_one_tool_that_is_not_stable_keeps_the_gate_shut(assay: Run, tmp_path: Path) -> None:
    grow(assay, tmp_path, tools={"getWeight": tool(), "getHeat": tool(path="/v1/heat")})
    result = assay("tools", "gate", "beewatch.scales", "--json")
    assert (result.code, rule(result, "beewatch.scales", "primitives")) == (
        1,
        (False, "getHeat is pending"),
    )
    record(assay, tmp_path, envelope("single-test", 2), *HIVE, "--tool", "getHeat")
    result = assay("tools", "gate", "beewatch.scales", "--json")
    assert rule(result, "beewatch.scales", "primitives") == (False, "getHeat is graded")
    record(
        assay,
        tmp_path,
        envelope("single-test", 4),
        *HIVE,
        "--tool",
        "getHeat",
        "--trigger",
        "scheduled",
        now=LATER,
    )
    assert assay("tools", "gate", "beewatch.scales").code == 0


@pytest.mark.req("F-137")
def test_a_failing_tool_that_was_removed_no_longer_keeps_the_gate_shut(
    assay: Run, tmp_path: Path
) -> None:
    grow(assay, tmp_path, tools={"getWeight": tool(), "getHeat": tool(path="/v1/heat")})
    record(assay, tmp_path, envelope("single-test", 2), *HIVE, "--tool", "getHeat")
    put(tmp_path / "scales.json", schema())
    assert assay("tools", "import", "scales.json", "--now", LATER).code == 0
    for area, where in (
        ("single-test", WEIGHT),
        ("tools-aggregate-schema", HIVE),
        ("tools-aggregate-namespace", HIVE[:2]),
    ):
        assert (
            record(
                assay, tmp_path, envelope(area, 4), *where, "--trigger", "scheduled", now=LATER
            ).code
            == 0
        )
    assert list(status(assay)["schemas"]["scales"]["tools"]) == ["getWeight"]
    assert assay("tools", "gate", "beewatch").code == 0


@pytest.mark.req("F-137")
def test_tools_that_stand_in_routes_must_be_graded_too(assay: Run, tmp_path: Path) -> None:
    old = schema()
    old["routes"] = old.pop("tools")
    put(tmp_path / "scales.mjs", f"export const main = {json.dumps(old)}")
    assert assay("tools", "import", "scales.mjs", "--now", IMPORTED).code == 0
    assert record(assay, tmp_path, envelope("tools-aggregate-schema"), *HIVE).code == 0
    assert assay("tools", "gate", "beewatch.scales").code != 0


@pytest.mark.req("F-068", "F-141")
def test_a_tool_with_fewer_than_three_tests_is_blocked_before_anybody_grades_it(
    assay: Run, tmp_path: Path
) -> None:
    put(
        tmp_path / "scales.json",
        schema(tools={"getWeight": tool(tests=[{"_description": "one", "hive": "north"}])}),
    )
    assay("tools", "import", "scales.json")
    found = status(assay)["schemas"]["scales"]
    assert found["tools"]["getWeight"] == {
        "status": "blocked",
        "reason": "fewer-than-three-tests",
        "blockedReason": "fewer-than-three-tests",
    }
    assert (found["status"], found["reason"]) == ("blocked", "getWeight: fewer-than-three-tests")
    assert assay("tools", "gate", "beewatch").code == 1


@pytest.mark.req("F-050", "F-092")
def test_where_the_record_and_the_entry_of_a_veto_are_deleted_the_ledger_still_shuts_the_gate(
    assay: Run, tmp_path: Path
) -> None:
    pytest.importorskip("sqlalchemy", reason="storing needs assaykit[store]")
    grow(assay, tmp_path)
    before = set(home(tmp_path).rglob("*.json"))
    assert assay("tools", "gate", "beewatch", "--store", "ledger.db").code == 0
    assert (
        record(
            assay,
            tmp_path,
            envelope("single-test", 5, categoricalVeto=VETO),
            *WEIGHT,
            "--store",
            "ledger.db",
            now=LATER,
        ).code
        == 0
    )
    (vetoed,) = set(home(tmp_path).rglob("*.json")) - before
    vetoed.unlink()
    shut = assay("tools", "gate", "beewatch", "--json")
    assert (shut.code, rule(shut, "beewatch.scales", "no_veto")[0]) == (1, False)
    home(tmp_path, "_record.jsonl").unlink()
    assert assay("tools", "gate", "beewatch").code == 0  # nothing in the folder remembers it
    shut = assay("tools", "gate", "beewatch", "--store", "ledger.db", "--json")
    assert (shut.code, rule(shut, "beewatch.scales", "no_veto")[0]) == (1, False)


@pytest.mark.req("F-050", "F-051", "X-16", "X-39")
@pytest.mark.parametrize(
    "area", ["single-test", "tools-aggregate-schema", "tools-aggregate-namespace"]
)
def test_a_veto_shuts_the_gate_and_only_a_full_new_evaluation_lifts_it(
    assay: Run, tmp_path: Path, area: str
) -> None:
    grow(assay, tmp_path)
    where = {
        "single-test": WEIGHT,
        "tools-aggregate-schema": HIVE,
        "tools-aggregate-namespace": HIVE[:2],
    }[area]
    vetoed = record(assay, tmp_path, envelope(area, 5, categoricalVeto=VETO), *where, now=LATER)
    assert (vetoed.code, "status=rejected" in vetoed.err) == (0, True)
    assert assay("tools", "gate", "beewatch").code == 1
    assert status(assay)["status"] == "rejected"
    assert status(assay)["grade"] == "REJECTED"
    before = listing(tmp_path / "grading-data")
    for attempt in ((), ("--mode", "partial", "--trigger", "scheduled")):
        refused = record(
            assay, tmp_path, envelope(area, 5), *where, *attempt, now="2026-05-18T05:00:00Z"
        )
        assert (refused.code, "[FMC-015]" in refused.err) == (3, True)
    assert listing(tmp_path / "grading-data") == before
    lifted = record(
        assay,
        tmp_path,
        envelope(area, 4),
        *where,
        "--trigger",
        "user-report",
        "--issue",
        "repaired",
        "--by",
        "Ada",
        now="2026-05-18T05:00:00Z",
    )
    assert lifted.code == 0, words(lifted)
    assert set(before) <= set(listing(tmp_path / "grading-data"))
    assert assay("tools", "gate", "beewatch").code == 0


@pytest.mark.req("F-045")
@pytest.mark.parametrize("how", ["one test", "a rejected sibling", "rejected", "invalid"])
def test_a_veto_waits_for_nothing(assay: Run, tmp_path: Path, how: str) -> None:
    few = {"tests": [{"_description": "one", "hive": "north"}]} if how == "one test" else {}
    both = {"getWeight": tool(), "getHeat": tool(path="/v1/heat", **few)}
    root = {"root": "http://plain.example/"} if how == "invalid" else {}
    put(tmp_path / "scales.json", schema(tools=both, **root))
    assay("tools", "import", "scales.json", "--now", IMPORTED)
    heat = (*HIVE, "--tool", "getHeat")
    vetoed = envelope("single-test", categoricalVeto=VETO)
    if how == "invalid":
        vetoed, heat = envelope("tools-aggregate-schema", categoricalVeto=VETO), HIVE
    for where in {"a rejected sibling": (WEIGHT,), "rejected": (heat,)}.get(how, ()):
        assert record(assay, tmp_path, vetoed, *where).code == 0
    done = record(assay, tmp_path, vetoed, *heat, now=LATER)
    assert done.code == 0, words(done)
    found = status(assay)["schemas"]["scales"]
    assert (found if how == "invalid" else found["tools"]["getHeat"])["status"] == "rejected"
    assert assay("tools", "gate", "beewatch.scales").code == 1


@pytest.mark.req("F-051")
@pytest.mark.parametrize(
    ("area", "where"),
    [
        ("tools-aggregate-schema", HIVE),
        ("tools-aggregate-namespace", HIVE[:2]),
        ("namespace-description", HIVE[:2]),
    ],
)
def test_nothing_that_depends_on_a_rejected_tool_is_graded(
    assay: Run, tmp_path: Path, area: str, where: Any
) -> None:
    grow(assay, tmp_path)
    record(assay, tmp_path, envelope("single-test", 5, categoricalVeto=VETO), *WEIGHT, now=LATER)
    refused = record(assay, tmp_path, envelope(area), *where, now=LATER)
    assert (refused.code, "getWeight is rejected" in refused.err) == (3, True)


@pytest.mark.req("F-045", "X-39")
@pytest.mark.parametrize("area", ["namespace-description", "about-namespace", "namespace-skills"])
def test_a_veto_anywhere_in_a_namespace_shuts_its_gate(
    assay: Run, tmp_path: Path, area: str
) -> None:
    grow(assay, tmp_path, resources=MARKDOWN)
    extra: dict[str, Any] = (
        {}
        if area == "namespace-description"
        else {
            "persona": PERSONA,
            "selectionContext": {"groupId": "hives", "personaIds": ["ai-engineer"]},
        }
    )
    where = {
        "namespace-description": HIVE[:2],
        "about-namespace": HIVE,
        "namespace-skills": (*HIVE, "--skill", "weigh-in"),
    }[area]
    vetoed = record(
        assay, tmp_path, envelope(area, 5, categoricalVeto=VETO, **extra), *where, now=LATER
    )
    assert vetoed.code == 0, words(vetoed)
    assert status(assay)["status"] == "rejected"
    assert assay("tools", "gate", "beewatch").code == 1


@pytest.mark.req("F-139")
def test_a_schema_with_validation_errors_is_imported_blocked_and_never_passes(
    assay: Run, tmp_path: Path
) -> None:
    put(tmp_path / "scales.json", schema(root="http://plain.example/"))
    result = assay("tools", "import", "scales.json", "--json", "--now", IMPORTED)
    assert result.code == 1
    assert (
        result.json()["imported"][0]["action"],
        "root-pattern" in result.json()["imported"][0]["reason"],
    ) == ("blocked", True)
    record(assay, tmp_path, envelope("single-test"), *WEIGHT)
    gate = assay("tools", "gate", "beewatch.scales", "--json")
    assert gate.code == 1
    assert rule(gate, "beewatch.scales", "validation")[0] is False


@pytest.mark.req("F-070", "F-120")
def test_a_schema_that_fails_its_validation_stays_blocked_until_it_passes(
    assay: Run, tmp_path: Path
) -> None:
    put(tmp_path / "scales.json", schema(root="http://plain.example/"))
    assert assay("tools", "import", "scales.json", "--now", IMPORTED).code == 1
    for area, where in (
        ("tools-aggregate-schema", HIVE),
        ("tools-aggregate-schema", (*HIVE, "--trigger", "scheduled")),
        ("tools-aggregate-namespace", HIVE[:2]),
    ):
        done = record(assay, tmp_path, envelope(area, 5), *where)
        assert (done.code, "PRE-004" in done.err) == (3, True)
    assert status(assay)["schemas"]["scales"]["status"] == "blocked"
    put(tmp_path / "scales.json", schema())
    assert assay("tools", "import", "scales.json", "--now", LATER).code == 0
    found = status(assay)["schemas"]["scales"]
    assert (found["status"], found["reason"]) == ("pending", "schema changed, regrade required")
    assert record(assay, tmp_path, envelope("tools-aggregate-schema"), *HIVE, now=LATER).code == 0


@pytest.mark.req("F-139")
def test_importing_a_blocked_schema_again_does_not_turn_it_into_a_pass(
    assay: Run, tmp_path: Path
) -> None:
    put(tmp_path / "scales.json", schema(root="http://plain.example/"))
    assert assay("tools", "import", "scales.json", "--now", IMPORTED).code == 1
    assert assay("tools", "import", "scales.json", "--now", LATER).code == 1


@pytest.mark.req("F-049")
def test_what_cannot_be_told_about_modules_is_no_pass_until_a_list_clears_them(
    assay: Run, tmp_path: Path
) -> None:
    grow(assay, tmp_path, requiredLibraries=["left-pad"])
    result = assay("tools", "gate", "beewatch", "--json")
    assert result.code == 4
    assert rule(result, "beewatch.scales", "no_veto")[0] is None
    assert "UNDETERMINED  beewatch.scales" in assay("tools", "gate", "beewatch").out
    put(tmp_path / "clean.json", {"bad": {"evil-pad": "steals keys"}})
    put(tmp_path / "bad.json", {"bad": {"left-pad": "steals keys"}})
    assert assay("tools", "gate", "beewatch", "--bad-modules", "clean.json").code == 0
    shut = assay("tools", "gate", "beewatch", "--bad-modules", "bad.json", "--json")
    assert (shut.code, rule(shut, "beewatch.scales", "no_veto")[0]) == (1, False)
    put(tmp_path / "list.json", {"bed": {}})
    assert assay("tools", "gate", "beewatch", "--bad-modules", "list.json").code == 3


@pytest.mark.req("X-39")
def test_a_failure_that_is_certain_outweighs_one_that_cannot_be_told(
    assay: Run, tmp_path: Path
) -> None:
    grow(assay, tmp_path, requiredLibraries=["left-pad"], grade=2)
    assert assay("tools", "gate", "beewatch").code == 1
    grow(assay, tmp_path, "antwatch", base="nests")
    assert assay("tools", "gate", "antwatch", "beewatch").code == 1
    assert assay("tools", "gate", "antwatch").code == 0


@pytest.mark.req("F-082")
def test_a_changed_schema_is_pending_with_all_that_was_said_about_it(
    assay: Run, tmp_path: Path
) -> None:
    grow(assay, tmp_path)
    put(
        tmp_path / "scales.json",
        schema(description="Weights, temperatures and humidity of beehives on city roofs."),
    )
    result = assay("tools", "import", "scales.json", "--now", LATER, "--json")
    assert (result.code, result.json()["imported"][0]["action"]) == (0, "new version")
    found = status(assay)
    assert (found["schemas"]["scales"]["status"], found["schemas"]["scales"]["reason"]) == (
        "pending",
        "schema changed, regrade required",
    )
    assert found["schemas"]["scales"]["tools"]["getWeight"]["status"] == "pending"
    assert found["namespaceAggregate"]["status"] == "pending"
    assert "grade" not in found["namespaceAggregate"]
    assert assay("tools", "gate", "beewatch").code == 1
    assert len(list(home(tmp_path, "scales").glob("scales--*.json"))) == 2


@pytest.mark.req("F-094", "F-092")
def test_importing_the_same_again_changes_nothing(assay: Run, tmp_path: Path) -> None:
    grow(assay, tmp_path)
    before = listing(tmp_path / "grading-data")
    result = assay("tools", "import", "scales.json", "--now", LATER, "--json")
    assert (result.code, result.json()["imported"][0]["action"]) == (0, "unchanged")
    assert listing(tmp_path / "grading-data") == before


def test_a_module_whose_code_changed_is_not_called_unchanged(assay: Run, tmp_path: Path) -> None:
    body = f"export const main = {json.dumps(schema())}\nexport const handlers = () => ({{}})\n"
    put(tmp_path / "scales.mjs", body)
    assert assay("tools", "import", "scales.mjs", "--now", IMPORTED).code == 0
    put(tmp_path / "scales.mjs", f"import spy from 'spy-on-keys'\n{body}")
    result = assay("tools", "import", "scales.mjs", "--now", LATER, "--json")
    assert result.json()["imported"][0]["action"] != "unchanged"


@pytest.mark.req("F-094", "X-34")
def test_a_folder_of_several_namespaces_warns_and_in_the_strict_form_is_refused(
    assay: Run, tmp_path: Path
) -> None:
    for name in ("ants", "bees"):
        put(tmp_path / "both" / f"{name}.json", schema(name))
    refused = assay("tools", "import", "both", "--strict-2")
    assert (refused.code, "2 namespaces: ants, bees" in refused.err) == (3, True)
    assert not (tmp_path / "grading-data").exists()
    warned = assay("tools", "import", "both")
    assert (warned.code, "several namespaces" in warned.out) == (1, True)
    assert sorted(path.name for path in (tmp_path / "grading-data/providers").iterdir()) == [
        "ants",
        "bees",
    ]


def test_an_import_of_a_folder_names_what_it_cannot_read_and_keeps_the_rest(
    assay: Run, tmp_path: Path
) -> None:
    put(tmp_path / "src" / "scales.json", schema())
    put(tmp_path / "src" / "torn.json", '{"tools": {')
    result = assay("tools", "import", "src", "--json")
    assert result.code == 3
    assert [item["schema"] for item in result.json()["imported"]] == ["beewatch.scales"]
    assert result.json()["refused"][0]["file"].endswith("torn.json")


# --- record


@pytest.mark.req("F-024", "F-146")
def test_a_deterministic_and_a_judged_block_become_one_entry(assay: Run, tmp_path: Path) -> None:
    grow(assay, tmp_path)
    facts = envelope(
        "single-test",
        "pass",
        question="Q-apiAvailability",
        determinism="deterministic",
        graderIdentity=SCRIPT,
        llmModel=None,
    )
    alone = record(assay, tmp_path, facts, *WEIGHT, "--trigger", "scheduled", now=LATER)
    assert (alone.code, "[GRD-014]" in alone.err) == (3, True)
    put(tmp_path / "facts.json", facts)
    put(tmp_path / "views.json", envelope("single-test", 3))
    both = assay(
        "tools",
        "record",
        "facts.json",
        "views.json",
        *WEIGHT,
        "--trigger",
        "scheduled",
        "--now",
        LATER,
        "--json",
    )
    assert both.code == 0, words(both)
    entry = both.json()["entry"]
    assert [answer["questionId"] for answer in entry["gradings"]] == [
        "Q-apiAvailability",
        "Q-clarity",
    ]
    assert (entry["aggregateGrade"], entry["regradingTrigger"]["triggeredBy"]) == ("B", "scheduled")


@pytest.mark.req("F-148", "F-146")
@pytest.mark.parametrize(
    "missing",
    ["weight", "determinism", "graderIdentity", "timestamp", "harness", "area", "answers"],
)
def test_what_an_envelope_does_not_say_is_never_guessed(
    assay: Run, tmp_path: Path, missing: str
) -> None:
    grow(assay, tmp_path)
    given = envelope("single-test")
    (given["answers"][0] if missing == "weight" else given).pop(missing)
    before = listing(tmp_path / "grading-data")
    result = record(assay, tmp_path, given, *WEIGHT, now=LATER)
    assert result.code == 3, words(result)
    assert missing in words(result)
    assert listing(tmp_path / "grading-data") == before


@pytest.mark.req("F-018", "F-014", "F-025", "F-022")
@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"score": "4"}, "SCO-003"),
        ({"score": 5.01}, "SCO-001"),
        ({"score": True}, "SCO-003"),
        ({"score": None}, "SCO-003"),
        ({"score": "n/a"}, "NA-001"),
        ({"score": "n/a", "naReason": "no time"}, "NA-001"),
        ({"weight": -1}, "SCO-004"),
        ({"weight": "1"}, "SCO-004"),
        ({"questionId": "clarity"}, "GRD-020"),
        ({"llmModel": ""}, "GRD-007"),
        ({"determinism": "sometimes"}, "GRD-011"),
        ({"evidence": {"httpStatus": 403}, "score": "pass"}, "SCO-021"),
        ({"graderIdentity": {"kind": "oracle", "name": "x", "version": "1"}}, "GRD-020"),
    ],
)
def test_an_answer_that_breaks_the_rules_is_refused_with_its_code(
    assay: Run, tmp_path: Path, change: dict[str, Any], code: str
) -> None:
    put(tmp_path / "scales.json", schema())
    assay("tools", "import", "scales.json", "--now", IMPORTED)
    given = envelope("single-test")
    given["answers"][0] |= change
    before = listing(tmp_path / "grading-data")
    result = record(assay, tmp_path, given, *WEIGHT)
    assert (result.code, f"[{code}]" in result.err) == (3, True), words(result)
    assert listing(tmp_path / "grading-data") == before


@pytest.mark.req("F-071", "F-072")
def test_a_partial_grading_keeps_the_grade_and_cannot_come_first(
    assay: Run, tmp_path: Path
) -> None:
    put(tmp_path / "scales.json", schema())
    assay("tools", "import", "scales.json", "--now", IMPORTED)
    first = record(assay, tmp_path, envelope("single-test", 1), *WEIGHT, "--mode", "partial")
    assert (first.code, "[PRT-003]" in first.err) == (3, True)
    record(assay, tmp_path, envelope("single-test", 4), *WEIGHT)
    kept = record(
        assay,
        tmp_path,
        envelope("single-test", 1),
        *WEIGHT,
        "--mode",
        "partial",
        "--json",
        now=LATER,
    )
    assert kept.json()["entry"]["aggregateGrade"] == "B"
    assert status(assay)["schemas"]["scales"]["tools"]["getWeight"]["status"] == "stable"


@pytest.mark.req("F-031")
def test_answers_of_which_none_counts_are_no_grade(assay: Run, tmp_path: Path) -> None:
    put(tmp_path / "scales.json", schema())
    assay("tools", "import", "scales.json", "--now", IMPORTED)
    given = envelope("single-test", "n/a")
    given["answers"][0]["naReason"] = "requires-private-data"
    result = record(assay, tmp_path, given, *WEIGHT, "--json")
    assert result.json()["entry"]["aggregateGrade"] is None
    assert "status=pending" in result.err
    assert (
        status(assay)["schemas"]["scales"]["tools"]["getWeight"]["reason"] == "no scorable answers"
    )


@pytest.mark.req("X-28")
def test_another_harness_is_written_as_what_it_is_in_the_extended_form(
    assay: Run, tmp_path: Path
) -> None:
    grow(assay, tmp_path)
    result = record(
        assay,
        tmp_path,
        envelope("single-test", harness={"name": "my-agent"}),
        *WEIGHT,
        "--json",
        now=LATER,
    )
    entry = result.json()["entry"]
    assert (entry["harness"], entry["form"]) == ("my-agent", "assay.grading-entry/1")
    exported = assay("tools", "export", "beewatch", "-o", "out", "--json")
    assert exported.json()["extendedEntriesLeftOut"] == 1
    for path in (tmp_path / "out").rglob("_gradings/*.json"):
        assert json.loads(path.read_bytes())["harness"] == "claude-code"


@pytest.mark.req("X-41")
def test_evidence_of_a_veto_may_come_as_an_object_and_is_written_as_text(
    assay: Run, tmp_path: Path
) -> None:
    grow(assay, tmp_path)
    result = record(
        assay,
        tmp_path,
        envelope("single-test", categoricalVeto={**VETO, "evidence": {"url": "x", "line": 3}}),
        *WEIGHT,
        "--json",
        now=LATER,
    )
    assert result.json()["entry"]["categoricalVeto"]["evidence"] == '{"line":3,"url":"x"}'
    entry = put(tmp_path / "entry.json", result.json()["entry"])
    assert assay("tools", "validate", entry).code == 0


@pytest.mark.req("F-146")
def test_a_blocker_in_the_place_of_answers_blocks_its_node(assay: Run, tmp_path: Path) -> None:
    grow(assay, tmp_path)
    result = record(
        assay,
        tmp_path,
        {
            "area": "single-test",
            "harness": "claude-code",
            "blocker": "api-down",
            "reason": "503 all day",
        },
        *WEIGHT,
        now=LATER,
    )
    assert (result.code, "status=blocked" in result.err) == (0, True)
    node = status(assay)["schemas"]["scales"]["tools"]["getWeight"]
    assert (node["status"], node["reason"]) == ("blocked", "api-down")
    unknown = record(
        assay,
        tmp_path,
        {"area": "single-test", "harness": "claude-code", "blocker": "api-dawn", "reason": "?"},
        *WEIGHT,
        now=LATER,
    )
    assert (unknown.code, "Did you mean 'api-down'?" in unknown.err) == (3, True)


@pytest.mark.req("F-047", "F-146")
@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"categoricalveto": VETO}, "FMC-012"),
        ({"categorical_veto": VETO}, "FMC-012"),
        ({"schemahash": "deadbeef"}, "FMC-012"),
        ({"scoringsystem": "scoringSystem/9.0.0"}, "FMC-012"),
        ({"blocked": "api-down"}, "FMC-012"),
        ({"blocker": "api-down"}, "FMC-016"),
        ({"blocker": "api-down", "answers": None, "categoricalVeto": VETO}, "FMC-016"),
    ],
)
def test_neither_a_slip_nor_a_blocker_loses_a_veto_an_answer_or_a_hash(
    assay: Run, tmp_path: Path, change: dict[str, Any], code: str
) -> None:
    put(tmp_path / "scales.json", schema())
    assay("tools", "import", "scales.json", "--now", IMPORTED)
    foreign = {"session": "s-1", "gradingMode": "full", "schemas": [], "blockers": []}
    given = envelope("single-test", **foreign)
    done = record(assay, tmp_path, {**given, **change}, *WEIGHT)
    assert (done.code, f"[{code}]" in done.err) == (3, True), words(done)
    assert record(assay, tmp_path, given, *WEIGHT).code == 0


@pytest.mark.req("F-042", "F-066", "X-03")
@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"dimension": "apiAvailabilty"}, "Did you mean 'apiAvailability'?"),
        ({"dimension": "tosmatch"}, "Did you mean 'tosMatch'?"),
        ({"dimension": "selectionSkillL4"}, "Did you mean 'selectionSkillL"),
        ({"area": "single-Test"}, "GRD-043"),
        ({"wieght": 9}, "Did you mean 'weight'?"),
        ({"naReason": []}, "Did you mean 'naReasons'?"),
    ],
)
def test_a_catalogue_with_a_slip_in_it_is_refused(
    assay: Run, tmp_path: Path, change: dict[str, Any], said: str
) -> None:
    put(tmp_path / "scales.json", schema())
    assay("tools", "import", "scales.json", "--now", IMPORTED)
    known = {"area": "single-test", "weight": 1, "dimension": "docsUrlReachable", "question": "?"}
    for more, code in ((change, 3), ({}, 0)):
        put(tmp_path / "q.json", {"Q-clarity": {**known, **more}})
        done = record(assay, tmp_path, envelope("single-test"), *WEIGHT, "--questions", "q.json")
        assert (done.code, said in done.err) == (code, code == 3), words(done)


def test_answers_about_an_older_schema_are_refused(assay: Run, tmp_path: Path) -> None:
    grow(assay, tmp_path)
    result = record(
        assay, tmp_path, envelope("single-test", schemaHash="deadbeef"), *WEIGHT, now=LATER
    )
    assert (result.code, "[PRO-006]" in result.err) == (3, True)


@pytest.mark.req("F-011")
def test_answers_of_another_scoring_system_are_refused(assay: Run, tmp_path: Path) -> None:
    grow(assay, tmp_path)
    result = record(
        assay,
        tmp_path,
        envelope("single-test", scoringSystem="scoringSystem/0.9.0"),
        *WEIGHT,
        now=LATER,
    )
    assert (result.code, "[SCO-022]" in result.err) == (3, True)


QUARTERS, THIRDS = ["0.25"] * 4, ["0.34", "0.33", "0.33"]
# for each area: how many deterministic questions stand first, and the weights; None where the
# specification gives only a count
CATALOGUED = {
    "single-test": (3, [*THIRDS, *THIRDS, *QUARTERS]),
    "tools-aggregate-schema": (1, [None] * 6),
    "tools-aggregate-namespace": (1, ["0.2"] * 5),
    "namespace-description": (0, QUARTERS),
    "namespace-skills": (0, [None] * 6),
    "about-namespace": (1, [None] * 7),
    "about-selection": (1, [None] * 7),
    "selection-skills-L1": (0, [None] * 4),
    "selection-skills-L2": (0, [None] * 5),
    "selection-skills-L3": (0, [None] * 6),
}


def catalogue() -> dict[str, dict[str, Any]]:
    """The sixty questions of the specification: their ids, weights and determinism."""
    return {
        f"Q-{area}-{number:02}": {
            "id": f"Q-{area}-{number:02}",
            "area": area,
            "question": "?",
            "scoreType": "boolean" if number <= fixed else "scale-1-5",
            "weight": float(weight or "0.5"),
            "determinism": "deterministic" if number <= fixed else "non-deterministic",
            "filesToRead": [],
            "personaRequired": False,
        }
        for area, (fixed, weights) in CATALOGUED.items()
        for number, weight in enumerate(weights, 1)
    }


@pytest.mark.req("F-066", "X-13")
@pytest.mark.parametrize(
    ("area", "place", "total"),
    [
        ("single-test", WEIGHT, "3"),
        ("tools-aggregate-schema", HIVE, "3"),
        ("namespace-description", HIVE[:2], "1"),
    ],
)
def test_the_catalogue_gives_each_question_its_weight_and_determinism(
    assay: Run, tmp_path: Path, area: str, place: tuple[str, ...], total: str
) -> None:
    questions = catalogue()
    assert len(questions) == 60
    grow(assay, tmp_path)
    put(tmp_path / "questions.json", questions)
    asked = {name: known for name, known in questions.items() if known["area"] == area}
    scored = {
        name: "pass" if known["determinism"] == "deterministic" else [2, 3, 4, 4.5][number % 4]
        for number, (name, known) in enumerate(asked.items())
    }
    answers = [
        {"questionId": name, "score": score, "evidence": "seen", "reasoning": "It says so."}
        for name, score in scored.items()
    ]
    missing = record(assay, tmp_path, {**envelope(area), "answers": answers}, *place, now=LATER)
    assert (missing.code, "[FMC-012]" in missing.err) == (
        3,
        True,
    )  # without the catalogue nobody says what they weigh
    result = record(
        assay,
        tmp_path,
        {**envelope(area), "answers": answers},
        *place,
        "--questions",
        "questions.json",
        "--json",
        now=LATER,
    )
    assert result.code == 0, words(result)
    entry = (
        result.json()["entry"]
        if isinstance(result.json().get("entry"), dict)
        else json.loads(Path(tmp_path, result.json()["path"]).read_bytes())
    )
    written = {
        one["questionId"]: (one["score"], Decimal(str(one["weight"])), one["determinism"])
        for one in entry["gradings"]
    }
    assert written == {
        name: (scored[name], Decimal(str(known["weight"])), known["determinism"])
        for name, known in asked.items()
    }
    weights = {name: Decimal(str(known["weight"])) for name, known in asked.items()}
    assert sum(weights.values()) == Decimal(total)  # the weights of an area need not sum to 1
    mean = sum(
        (Decimal(5) if score == "pass" else Decimal(str(score))) * weights[name]
        for name, score in scored.items()
    ) / Decimal(total)
    letter = next(
        letter
        for letter, edge in (("A", "4.5"), ("B", "3.5"), ("C", "2.5"), ("D", "1.5"))
        if mean >= Decimal(edge)
    )
    assert entry["aggregateGrade"] == min(letter, "B", key="FDCBA".index)


@pytest.mark.req("F-062")
@pytest.mark.parametrize(
    ("area", "said"),
    [("single-tset", "Did you mean 'single-test'?"), (None, "single-test"), (7, "single-test")],
)
def test_an_unknown_area_is_refused_with_the_near_miss(
    assay: Run, tmp_path: Path, area: object, said: str
) -> None:
    grow(assay, tmp_path)
    result = record(assay, tmp_path, {**envelope("single-test"), "area": area}, *WEIGHT, now=LATER)
    assert (result.code, "[GRD-043]" in result.err, said in result.err) == (3, True, True)


def test_a_misspelt_tool_is_refused_with_the_near_miss(assay: Run, tmp_path: Path) -> None:
    grow(assay, tmp_path)
    before = listing(tmp_path / "grading-data")
    result = record(
        assay, tmp_path, envelope("single-test"), *HIVE, "--tool", "getWieght", now=LATER
    )
    assert (result.code, "Did you mean 'getWeight'?" in result.err) == (3, True)
    assert listing(tmp_path / "grading-data") == before


@pytest.mark.parametrize("extra", [{}, {"schemaHash": "deadbeef"}])
def test_a_misspelt_namespace_is_refused_and_leaves_no_trace(
    assay: Run, tmp_path: Path, extra: dict[str, str]
) -> None:
    grow(assay, tmp_path)
    before = listing(tmp_path / "grading-data")
    result = record(
        assay,
        tmp_path,
        envelope("single-test", **extra),
        "--namespace",
        "beewach",
        *WEIGHT[2:],
        now=LATER,
    )
    assert result.code == 3
    assert listing(tmp_path / "grading-data") == before


def test_an_envelope_without_a_place_is_told_which_option_names_it(
    assay: Run, tmp_path: Path
) -> None:
    grow(assay, tmp_path)
    result = record(assay, tmp_path, envelope("single-test"), now=LATER)
    assert result.code == 3
    assert "--namespace" in result.err


@pytest.mark.parametrize(
    "slip",
    [
        "another tool",
        "another hash",
        "a flag against the tool",
        "a flag against the harness",
        "another schemaId",
    ],
)
def test_envelopes_that_contradict_each_other_or_the_flags_are_refused(
    assay: Run, tmp_path: Path, slip: str
) -> None:
    grow(assay, tmp_path, tools={"getWeight": tool(), "getHeat": tool(path="/v1/heat")})
    live = status(assay)["schemas"]["scales"]["snapshot"]["hash"]
    place = {"namespace": "beewatch", "schema": "scales"}
    one = put(
        tmp_path / "one.json", envelope("single-test", **place, tool="getHeat", schemaHash=live)
    )
    files: list[object] = [one]
    flags: list[str] = []
    if slip == "another tool":
        files.append(
            put(
                tmp_path / "two.json",
                envelope(
                    "single-test", question="Q-two", **place, tool="getWeight", schemaHash=live
                ),
            )
        )
    elif slip == "another hash":
        files.append(
            put(
                tmp_path / "two.json",
                envelope(
                    "single-test", question="Q-two", **place, tool="getHeat", schemaHash="deadbeef"
                ),
            )
        )
    elif slip == "a flag against the tool":
        flags = ["--tool", "getWeight"]
    elif slip == "a flag against the harness":
        files = [
            put(
                tmp_path / "one.json",
                envelope("single-test", **place, tool="getHeat", harness="my-agent"),
            )
        ]
        flags = ["--harness", "claude-code"]
    else:
        files = [
            put(
                tmp_path / "one.json",
                envelope("single-test", **place, tool="getHeat", schemaId="elsewhere.thing"),
            )
        ]
    result = assay("tools", "record", *files, *flags, "--now", LATER)
    assert result.code == 3, words(result)


@pytest.mark.req("F-047")
@pytest.mark.parametrize("what", ["veto", "catalogue"])
def test_a_veto_or_a_catalogue_of_the_wrong_kind_is_malformed_input(
    assay: Run, tmp_path: Path, what: str
) -> None:
    grow(assay, tmp_path)
    put(tmp_path / "q.json", {"Q-clarity": 7})
    given = envelope(
        "single-test", **({"categoricalVeto": "malicious-module"} if what == "veto" else {})
    )
    result = record(
        assay,
        tmp_path,
        given,
        *WEIGHT,
        *(["--questions", "q.json"] if what == "catalogue" else []),
        now=LATER,
    )
    assert result.code == 3, words(result)


@pytest.mark.req("F-081")
def test_an_answer_from_the_future_does_not_stop_the_regrading_of_everything_else(
    assay: Run, tmp_path: Path
) -> None:
    grow(assay, tmp_path)
    result = record(
        assay,
        tmp_path,
        envelope("single-test", timestamp="2099-01-01T00:00:00Z"),
        *WEIGHT,
        now=LATER,
    )
    assert (
        result.code == 3
        or assay("tools", "regrade", "--trigger", "scheduled", "--now", LATER).code != 3
    )


@pytest.mark.req("F-079")
def test_an_issue_without_a_trigger_is_a_misuse(assay: Run, tmp_path: Path) -> None:
    grow(assay, tmp_path)
    assert (
        record(
            assay,
            tmp_path,
            envelope("single-test"),
            *WEIGHT,
            "--issue",
            "wrong unit",
            "--by",
            "Ada",
            now=LATER,
        ).code
        == 2
    )


# --- index, status, regrade, export


@pytest.mark.req("F-097", "F-092", "F-096")
def test_an_index_is_made_anew_byte_for_byte_from_the_entries_alone(
    assay: Run, tmp_path: Path
) -> None:
    grow(assay, tmp_path)
    path = home(tmp_path, "index.json")
    written = path.read_bytes()
    for spoil in (None, b"{}", b"{"):
        path.unlink() if spoil is None else path.write_bytes(spoil)
        assert assay("tools", "index", "--now", "2033-01-01T00:00:00Z").code == 0
        assert path.read_bytes() == written
    assert assay("tools", "validate", path).code == 0
    home(tmp_path, "_record.jsonl").write_bytes(b"{\n")
    for command in ("index", "status"):
        assert assay("tools", command).code == 3
    assert assay("tools", "gate", "beewatch").code == 3
    assert path.read_bytes() == written
    assert (json.loads(written)["indexVersion"], json.loads(written)["scoringSystem"]) == (
        2,
        "scoringSystem/1.0.0",
    )


def test_status_draws_the_tree_with_grades_reasons_and_versions(assay: Run, tmp_path: Path) -> None:
    grow(assay, tmp_path, tools={"getWeight": tool(), "getHeat": tool(path="/v1/heat")})
    shown = assay("tools", "status")
    assert shown.code == 0
    lines = shown.out.splitlines()
    assert lines[0].startswith("beewatch  partial  B")
    assert "├─ ■ about  blocked  -  no-about" in lines
    assert "├─ ● namespaceAggregate  stable  B" in lines
    assert "└─ ◐ scales  graded  B" in lines
    assert [line for line in lines if line.startswith("   ")][:2] == [
        "   ├─ ○ getHeat  pending  -",
        "   └─ ● getWeight  stable  B",
    ]
    assert lines[-1] == "policy flowmcp@1 · scoringSystem/1.0.0 · gradingSystem/1.0.0"
    assert "\x1b" not in shown.out


@pytest.mark.req("F-145")
def test_status_names_what_is_to_be_graded_next_from_the_files_alone(
    assay: Run, tmp_path: Path
) -> None:
    put(tmp_path / "scales.json", schema())
    assay("tools", "import", "scales.json", "--now", IMPORTED)
    assert "next to grade: schemas.scales.tools.getWeight" in assay("tools", "status").out
    assert assay("tools", "status", "--json").json()["next"] == ["schemas.scales.tools.getWeight"]
    record(assay, tmp_path, envelope("single-test"), *WEIGHT)
    first, second = (assay("tools", "status", "--json").json()["next"] for _ in range(2))
    assert first == second != ["schemas.scales.tools.getWeight"]


@pytest.mark.req("F-032")
def test_status_shows_the_raw_grade_that_the_tier_cut_off(assay: Run, tmp_path: Path) -> None:
    grow(assay, tmp_path, grade=5)
    assert "getWeight  stable  B (raw A)" in assay("tools", "status").out


@pytest.mark.parametrize("action", ["index", "status", "gate", "export", "regrade"])
def test_a_name_that_the_tree_does_not_hold_is_refused_with_the_near_miss(
    assay: Run, tmp_path: Path, action: str
) -> None:
    grow(assay, tmp_path)
    extra = {"export": ["-o", "out"], "regrade": ["--trigger", "scheduled"]}.get(action, [])
    before = listing(tmp_path)
    result = assay("tools", action, "beewach", *extra)
    assert (result.code, "Did you mean 'beewatch'?" in result.err) == (3, True), words(result)
    elsewhere = assay("tools", action, "beewatch", *extra, "--data", "no-tree")
    assert (elsewhere.code, "assay tools import" in elsewhere.err) == (3, True)
    assert listing(tmp_path) == before


def test_the_gate_of_a_misspelt_schema_names_the_near_miss(assay: Run, tmp_path: Path) -> None:
    grow(assay, tmp_path)
    result = assay("tools", "gate", "beewatch.scals")
    assert result.code != 0
    assert "Did you mean 'scales'?" in words(result)


@pytest.mark.req("X-39")
@pytest.mark.parametrize("given", [["beewatch.frames"], ["beewatch", "beewatch.frames"]])
def test_a_schema_that_the_tree_does_not_hold_never_passes(
    assay: Run, tmp_path: Path, given: Any
) -> None:
    grow(assay, tmp_path)
    result = assay("tools", "gate", *given)
    assert (result.code, "frames" in result.err, "PASS" in result.out) == (
        3,
        True,
        False,
    ), words(result)


@pytest.mark.req("F-074", "F-076", "F-079", "F-080")
def test_a_scheduled_regrading_ages_what_is_old_and_keeps_what_it_supersedes(
    assay: Run, tmp_path: Path
) -> None:
    put(tmp_path / "scales.json", schema())
    assay("tools", "import", "scales.json", "--now", IMPORTED)
    given = envelope("single-test", 3)
    given["answers"].append({**given["answers"][0], "questionId": "Q-apiAvailability", "score": 5})
    assert record(assay, tmp_path, given, *WEIGHT).code == 0
    fresh = assay(
        "tools",
        "regrade",
        "beewatch",
        "--trigger",
        "scheduled",
        "--now",
        "2026-06-01T03:30:00Z",
        "--json",
    )
    assert (fresh.code, [item["action"] for item in fresh.json()["outcomes"]]) == (0, ["current"])
    old = next(home(tmp_path, "scales/tools/getWeight/_gradings").iterdir())
    kept = old.read_bytes()
    aged = assay(
        "tools",
        "regrade",
        "beewatch",
        "--trigger",
        "scheduled",
        "--now",
        "2026-06-01T03:30:01Z",
        "--json",
    )
    outcome = aged.json()["outcomes"][0]
    assert (outcome["action"], outcome["before"], outcome["grade"]) == ("regraded", "B", "C")
    assert (
        aged.err
        == "[GRADING] area=single-test/getWeight schema-valid=✓ status=graded written=✓\n[GRADING]"
        " PROGRESS 1/1\n[GRADING] DONE\n"
    )
    entry = json.loads(Path(outcome["path"]).read_bytes())
    assert entry["gradings"][1]["score"] == "stale"
    assert entry["regradingTrigger"]["previousGradingId"] == json.loads(kept)["gradingId"]
    assert old.read_bytes() == kept


@pytest.mark.req("F-079", "F-145")
def test_a_user_report_lists_what_must_be_asked_again_and_writes_nothing(
    assay: Run, tmp_path: Path
) -> None:
    grow(assay, tmp_path)
    before = listing(tmp_path / "grading-data")
    half = assay(
        "tools", "regrade", "beewatch", "--trigger", "user-report", "--issue", "wrong unit"
    )
    assert (half.code, "[GRD-019]" in half.err) == (3, True)
    result = assay(
        "tools",
        "regrade",
        "beewatch",
        "--trigger",
        "user-report",
        "--issue",
        "wrong unit",
        "--by",
        "Ada",
        "--now",
        LATER,
    )
    assert (result.code, result.out.count("ask again: Q-clarity")) == (1, 3)
    assert "3 due" in result.out
    assert listing(tmp_path / "grading-data") == before
    typo = assay("tools", "regrade", "beewatch", "--trigger", "sheduled")
    assert typo.code == 2


@pytest.mark.req("F-144")
def test_progress_lines_of_a_regrading_name_a_node_status(assay: Run, tmp_path: Path) -> None:
    grow(assay, tmp_path)
    result = assay(
        "tools",
        "regrade",
        "beewatch",
        "--trigger",
        "user-report",
        "--issue",
        "wrong unit",
        "--by",
        "Ada",
        "--now",
        LATER,
    )
    found = {
        line.split("status=")[1].split()[0] for line in result.err.splitlines() if "status=" in line
    }
    assert found <= {"pending", "blocked", "graded", "stable", "rejected"}


@pytest.mark.req("F-144")
def test_a_progress_line_names_the_primitive_alike_however_the_place_was_given(
    assay: Run, tmp_path: Path
) -> None:
    grow(assay, tmp_path)
    result = record(
        assay,
        tmp_path,
        envelope("single-test", namespace="beewatch", schema="scales", tool="getWeight"),
        now=LATER,
    )
    assert result.err.startswith("[GRADING] area=single-test/getWeight schema-valid=✓")


@pytest.mark.req("F-094")
def test_an_export_is_strict_plain_named_and_never_over_anything(
    assay: Run, tmp_path: Path
) -> None:
    grow(assay, tmp_path)
    put(
        tmp_path / "scales.json",
        schema(description="Weights, temperatures and humidity of beehives on city roofs."),
    )
    assay("tools", "import", "scales.json", "--now", LATER)
    before = listing(tmp_path / "grading-data")
    exported = assay("tools", "export", "beewatch", "-o", "out")
    assert (exported.code, exported.out.splitlines()[0]) == (0, "out/index.json")
    assert (tmp_path / "out/scales.json").read_bytes() == (tmp_path / "scales.json").read_bytes()
    assert "scoringSystem" not in json.loads((tmp_path / "out/index.json").read_bytes())
    assert assay("tools", "validate", "out/index.json").code == 0
    for entry in (tmp_path / "out").rglob("_gradings/*.json"):
        assert assay("tools", "validate", entry).code == 0
    again = assay("tools", "export", "beewatch", "-o", "out")
    assert (again.code, "[FIL-008]" in again.err) == (2, True)
    inside = assay("tools", "export", "beewatch", "-o", "grading-data/out")
    assert (inside.code, "inside the tree" in inside.err) == (2, True)
    assert listing(tmp_path / "grading-data") == before


def test_an_entry_or_index_that_does_not_add_up_fails_its_validation(
    assay: Run, tmp_path: Path
) -> None:
    grow(assay, tmp_path)
    entry = json.loads(
        next(home(tmp_path, "scales/tools/getWeight/_gradings").iterdir()).read_bytes()
    )
    raised = assay("tools", "validate", put(tmp_path / "e.json", {**entry, "aggregateGrade": "C"}))
    assert (raised.code, "the answers give B" in raised.out) == (1, True)
    assert assay("tools", "validate", put(tmp_path / "e.json", {**entry, "extra": 1})).code == 1
    index = json.loads(home(tmp_path, "index.json").read_bytes())
    wrong = assay("tools", "validate", put(tmp_path / "i.json", {**index, "status": "graded"}))
    assert (wrong.code, "IDX-007" in wrong.out) == (1, True)


@pytest.mark.req("F-068", "F-104", "F-105", "F-106", "X-08", "X-09")
@pytest.mark.parametrize(
    ("path", "change", "said"),
    [
        ("schemas.scales.tools.getWeight", {"status": "rejected"}, "nodes make it rejected"),
        ("schemas.scales.tools.getWeight", {"status": "graded", "grade": "C"}, "make it graded"),
        ("schemas.scales.tools.getWeight", {"status": "graded", "grade": "C"}, "grade is B, but"),
        ("schemas.scales.tools.getWeight", {"grade": "F"}, "is stable with the grade F"),
        ("schemas.scales.tools.getWeight", {"grade": "A"}, "the best of the tier autonomous is B"),
        ("namespaceAggregate", {"grade": "REJECTED"}, "is stable with the grade REJECTED"),
        ("about", {"reason": ""}, "about is blocked without a reason"),
        ("", {"status": "operational"}, "status is operational, but the nodes make it partial"),
        ("", {"grade": "A"}, "grade is A, but the nodes make it B"),
    ],
)
def test_an_index_that_claims_more_than_its_nodes_fails_its_validation(
    assay: Run, tmp_path: Path, path: str, change: dict[str, Any], said: str
) -> None:
    grow(assay, tmp_path)
    index = node = json.loads(home(tmp_path, "index.json").read_bytes())
    for name in filter(None, path.split(".")):
        node = node[name]
    node.update(change)
    done = assay("tools", "check", put(tmp_path / "i.json", index))
    assert (done.code, said in done.out) == (1, True), done.out


@pytest.mark.req("F-001", "X-110")
def test_both_versions_are_in_every_document_that_carries_a_grade(
    assay: Run, tmp_path: Path
) -> None:
    grow(assay, tmp_path)
    for arguments in (
        ("status",),
        ("index",),
        ("gate", "beewatch"),
        ("regrade", "--trigger", "scheduled"),
        ("check", "scales.json"),
    ):
        found = assay("tools", *arguments, "--json").json()
        assert (found["scoringSystem"], found["gradingSystem"]) == (
            "scoringSystem/1.0.0",
            "gradingSystem/1.0.0",
        ), arguments
    again = ("--trigger", "scheduled")
    for shown in (
        assay("tools", "index"),
        assay("tools", "regrade", *again),
        record(assay, tmp_path, envelope("single-test"), *WEIGHT, *again, now=LATER),
    ):
        last = shown.out.splitlines()[-1]
        assert last == "policy flowmcp@1 · scoringSystem/1.0.0 · gradingSystem/1.0.0"


def test_an_entry_or_index_without_its_id_or_version_is_told_so_by_name(
    assay: Run, tmp_path: Path
) -> None:
    grow(assay, tmp_path)
    entry = json.loads(
        next(home(tmp_path, "scales/tools/getWeight/_gradings").iterdir()).read_bytes()
    )
    index = json.loads(home(tmp_path, "index.json").read_bytes())
    for document, key, kind in (
        (entry, "gradingId", "grading entry"),
        (index, "indexVersion", "index"),
    ):
        result = assay(
            "tools",
            "validate",
            put(
                tmp_path / "x.json",
                {name: value for name, value in document.items() if name != key},
            ),
        )
        assert (result.code, key in result.out, f"in this {kind}" in result.out) == (
            1,
            True,
            True,
        ), words(result)


def test_findings_of_entries_indexes_and_the_list_of_rules_are_written_where_asked(
    assay: Run, tmp_path: Path
) -> None:
    grow(assay, tmp_path)
    entry = json.loads(
        next(home(tmp_path, "scales/tools/getWeight/_gradings").iterdir()).read_bytes()
    )
    index = json.loads(home(tmp_path, "index.json").read_bytes())
    for good, bad, rule in (
        (entry, {**entry, "aggregateGrade": "C"}, "grading-entry"),
        (index, {**index, "status": "graded"}, "index"),
    ):
        for document, code in ((good, 0), (bad, 1)):
            path = put(tmp_path / "x.json", document)
            assert assay("tools", "validate", path, "-o", "f.sarif", "-o", "f.json").code == code
            run = json.loads((tmp_path / "f.sarif").read_bytes())["runs"][0]
            assert {(item["ruleId"], item["level"]) for item in run["results"]} == (
                {(rule, "error")} if code else set()
            )
            assert rule in [item["id"] for item in run["tool"]["driver"]["rules"]]
            listed = json.loads((tmp_path / "f.json").read_bytes())["findings"]
            assert {(item["file"], item["rule"]) for item in listed} == (
                {(str(path), rule)} if code else set()
            )
            assert assay("tools", "validate", path, "-o", "f.txt").code == 2
    assert assay("tools", "validate", "--rules", "-o", "r.json", "-o", "r.sarif").code == 0
    rules = [item["id"] for item in json.loads((tmp_path / "r.json").read_bytes())["rules"]]
    assert "not-data" in rules
    assert [
        item["id"]
        for item in json.loads((tmp_path / "r.sarif").read_bytes())["runs"][0]["tool"]["driver"][
            "rules"
        ]
    ] == rules
    assert assay("tools", "validate", "--rules", "-o", "r.txt").code == 2


# --- selections

SWARM = [f"hive{number}" for number in range(7)]


def selection(members: list[str], **changes: Any) -> dict[str, Any]:
    return {
        "selectionId": "city-bees",
        "namespace": "swarm",
        "name": "City bees",
        "version": "flowmcp/4.1.0",
        "description": "Everything about hives on the roofs of one city.",
        "whenToUse": "When a question spans several apiaries.",
        "personaIds": ["ai-engineer"],
        "members": [{"schemaId": f"{name}.scales"} for name in members],
        "skills": [],
        "resources": MARKDOWN,
        **changes,
    }


def swarm(assay: Run, tmp_path: Path, count: int) -> list[str]:
    names = SWARM[:count]
    for name in names:
        grow(assay, tmp_path, name)
    put(tmp_path / "city.json", selection(names))
    result = assay("tools", "import", "city.json", "--now", RECORDED)
    assert result.code == 0, words(result)
    return names


def whole(score: object = 5, **changes: Any) -> dict[str, Any]:
    context = {"groupId": "city-bees", "personaIds": ["ai-engineer"]}
    return envelope(
        "selection-aggregate",
        score,
        question="Q-personaUseCaseFit",
        persona=PERSONA,
        selectionId="city-bees",
        selectionContext=context,
        **changes,
    )


@pytest.mark.req("F-109", "F-098", "F-117")
@pytest.mark.parametrize(
    ("count", "grade"), [(5, "B"), pytest.param(7, "A", marks=pytest.mark.campaign)]
)
def test_a_selection_is_graded_as_a_whole_once_its_members_are_locked(
    assay: Run, tmp_path: Path, count: int, grade: str
) -> None:
    names = swarm(assay, tmp_path, count)
    early = record(assay, tmp_path, whole(), now=LATER)
    assert early.code == 3
    locked = assay("tools", "index", "city-bees", "--lock", "--now", LATER)
    assert locked.code == 0, words(locked)
    path = tmp_path / "grading-data/selections/city-bees/index.json"
    lock = json.loads(path.read_bytes())["lockSnapshot"]
    assert [member["schemaId"] for member in lock["members"]] == [
        f"{name}.scales" for name in names
    ]
    assert {member["gradingStatus"] for member in lock["members"]} == {"stable"}
    frozen = path.read_bytes().partition(b'"lockSnapshot"')[2]
    result = record(assay, tmp_path, whole(), now=LATER)
    assert result.code == 0, words(result)
    assert "[GRADING] area=selection-aggregate/city-bees" in result.err
    assert path.read_bytes().partition(b'"lockSnapshot"')[2] == frozen
    found = status(assay, "city-bees")
    assert (
        found["selectionAggregate"]["grade"],
        found["selectionAggregate"]["rawGrade"],
        found["grade"],
    ) == (grade, "A", grade)
    assert found["summary"]["membersStable"] == count
    assert assay("tools", "export", "city-bees", "-o", "out").code == 0
    assert assay("tools", "validate", "out/index.json").code == 0
    assert json.loads((tmp_path / "out/selection.json").read_bytes()) == selection(names)


@pytest.mark.req("F-117", "F-118")
def test_a_selection_with_a_member_that_is_not_stable_is_refused_by_name(
    assay: Run, tmp_path: Path
) -> None:
    swarm(assay, tmp_path, 5)
    put(
        tmp_path / "scales.json",
        schema("hive3", description="A wholly new text for the hive number three."),
    )
    assay("tools", "import", "scales.json", "--now", LATER)
    assay("tools", "index", "city-bees", "--lock", "--now", LATER)
    before = listing(tmp_path / "grading-data")
    result = record(assay, tmp_path, whole(), now="2026-05-18T05:00:00Z")
    assert (result.code, "[PRE-004]" in result.err) == (3, True)
    assert "hive3.scales" in result.err
    assert "pending" in result.err
    assert listing(tmp_path / "grading-data") == before


@pytest.mark.req("F-098")
def test_a_lock_stays_frozen_while_its_members_move_on(assay: Run, tmp_path: Path) -> None:
    swarm(assay, tmp_path, 5)
    assay("tools", "index", "city-bees", "--lock", "--now", LATER)
    path = tmp_path / "grading-data/selections/city-bees/index.json"
    frozen = path.read_bytes().partition(b'"lockSnapshot"')[2]
    put(
        tmp_path / "scales.json",
        schema("hive3", description="A wholly new text for the hive number three."),
    )
    assay("tools", "import", "scales.json", "--now", LATER)
    assert assay("tools", "index").code == 0
    assert path.read_bytes().partition(b'"lockSnapshot"')[2] == frozen
    assert json.loads(path.read_bytes())["members"]["hive3.scales"]["status"] == "pending"
    path.unlink()
    assay("tools", "index", "city-bees")
    assert path.read_bytes().partition(b'"lockSnapshot"')[2] == frozen


@pytest.mark.req("F-109")
def test_a_selection_of_four_namespaces_has_no_grade_at_all(assay: Run, tmp_path: Path) -> None:
    swarm(assay, tmp_path, 4)
    assay("tools", "index", "city-bees", "--lock", "--now", LATER)
    result = record(assay, tmp_path, whole(), now=LATER)
    assert (result.code, "4 namespaces" in result.err) == (3, True)
    assert status(assay, "city-bees")["grade"] == "n/a"


@pytest.mark.req("F-111")
def test_a_selection_without_an_about_page_is_not_graded_as_a_group(
    assay: Run, tmp_path: Path
) -> None:
    for name in SWARM[:5]:
        grow(assay, tmp_path, name)
    put(tmp_path / "city.json", selection(SWARM[:5], resources={}))
    assay("tools", "import", "city.json", "--now", RECORDED)
    assay("tools", "index", "city-bees", "--lock", "--now", LATER)
    result = record(assay, tmp_path, whole(), now=LATER)
    assert (result.code, "[FMC-015]" in result.err, "About" in result.err) == (3, True, True)


@pytest.mark.req("F-111")
def test_a_selection_that_dropped_its_about_page_is_not_graded_as_a_group(
    assay: Run, tmp_path: Path
) -> None:
    swarm(assay, tmp_path, 5)
    put(tmp_path / "city.json", selection(SWARM[:5], resources={}))
    assay("tools", "import", "city.json", "--now", LATER)
    assay("tools", "index", "city-bees", "--lock", "--now", LATER)
    assert record(assay, tmp_path, whole(), now=LATER).code == 3


@pytest.mark.req("F-114")
def test_every_fault_of_a_selection_is_named_at_once(assay: Run, tmp_path: Path) -> None:
    put(
        tmp_path / "city.json",
        selection(
            ["a", "a"],
            whenToUse="",
            personaIds=[],
            description="short",
            skills=[1] * 5,
            version="4",
        ),
    )
    result = assay("tools", "import", "city.json")
    assert result.code == 3
    for place in ("whenToUse", "personaIds", "description", "skills", "version", "twice"):
        assert place in result.err


@pytest.mark.parametrize("what", ["selection", "schema"])
def test_a_refused_import_leaves_no_trace_in_the_tree(
    assay: Run, tmp_path: Path, what: str
) -> None:
    put(
        tmp_path / "x.json",
        selection(["a"], whenToUse="") if what == "selection" else schema(tools={"../up": tool()}),
    )
    assert assay("tools", "import", "x.json").code == 3
    assert not (tmp_path / "grading-data").exists()


@pytest.mark.req("F-117")
def test_a_selection_without_a_lock_is_told_to_take_one(assay: Run, tmp_path: Path) -> None:
    swarm(assay, tmp_path, 5)
    result = record(assay, tmp_path, whole(), now=LATER)
    assert (result.code, "--lock" in result.err) == (3, True)


def test_the_gate_of_a_selection_says_that_there_is_none(assay: Run, tmp_path: Path) -> None:
    swarm(assay, tmp_path, 5)
    result = assay("tools", "gate", "city-bees")
    assert result.code == 3
    assert "selection" in result.err


# --- a live server


def test_the_tools_of_a_server_are_graded_without_tests_and_their_gate_stays_undetermined(
    assay: Run, tmp_path: Path
) -> None:
    tools = [
        {
            "name": "weigh",
            "description": "Weighs one hive.",
            "inputSchema": {"type": "object", "properties": {}},
        }
    ]
    put(
        tmp_path / "server.json",
        {"serverInfo": {"name": "Bee Server", "version": "1"}, "tools": tools},
    )
    put(tmp_path / "s.json", scores("bee-server_tools"))
    checked = assay("tools", "check", "--snapshot", "server.json").out
    assert checked.count("undetermined") == 1, "one line for all that a server doesn't show"
    assert "malicious-module, api-key-domain-mismatch: an MCP server doesn't show" in checked
    result = assay(
        "tools",
        "grade",
        "--snapshot",
        "server.json",
        "--consume-scores",
        "s.json",
        "--data",
        "grading-data",
        "--now",
        RECORDED,
    )
    assert result.code == 0, words(result)
    done = record(
        assay,
        tmp_path,
        envelope("single-test"),
        "--namespace",
        "bee-server",
        "--schema",
        "tools",
        "--tool",
        "weigh",
    )
    assert done.code == 0, words(done)
    gate = assay("tools", "gate", "bee-server.tools", "--json")
    assert (gate.code, rule(gate, "bee-server.tools", "no_veto")[0]) == (
        4,
        None,
    )  # what a server imports cannot be seen from outside
    assert rule(gate, "bee-server.tools", "primitives")[0] is True


def test_the_tools_of_a_live_server_are_kept_in_the_tree_as_json(
    assay: Run, tmp_path: Path
) -> None:
    pytest.importorskip("mcp", reason="live servers need assaykit[mcp]")
    import sys

    server = SUPPORT / "servers" / "bad.py"
    result = assay("tools", "import", "--mcp", f"{sys.executable} {server} fine", "--json")
    assert result.code == 0, words(result)
    assert result.json()["imported"][0]["path"].endswith(".json")
