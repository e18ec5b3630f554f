"""A grading tree: statuses, aging, grading again, names and hashes, import, export, and an index
that is made from the entries alone.
"""

from __future__ import annotations

import contextlib
import glob
import json
import os
import shutil
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from hashlib import sha256
from pathlib import Path
from typing import Any

import jsonschema_rs
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.canon import time_text
from assay.cli.conform import OPS
from assay.errors import AssayError, InputError
from assay.families.tools import aging, names
from assay.families.tools import index as idx
from assay.families.tools.aging import age_score
from assay.families.tools.checks import GRADER, ModuleLists, VetoCheck
from assay.families.tools.ecma import about_hash, hash8, namespace_hash
from assay.families.tools.entry import (
    EXTENDED_FORM,
    TRIGGERS,
    Trigger,
    faults_by,
    published_schema,
    schema_valid,
)
from assay.families.tools.gate import GateEvidence, SchemaSource, decide
from assay.families.tools.index import nodes_of
from assay.families.tools.intake import check_open, export, import_one, record_scores
from assay.families.tools.manifest import manifest_name, snapshot_of
from assay.families.tools.policy import CURRENT, SchemaRules
from assay.families.tools.record import record
from assay.families.tools.records import (
    CategoricalVeto,
    NamespaceIndex,
    SchemaFinding,
    ToolGateResult,
    document,
)
from assay.families.tools.regrade import RegradeOutcome, regrade
from assay.families.tools.source import ToolSchema
from assay.families.tools.status import (
    NODE_STATUSES,
    ROLLUP_STATUSES,
    letter_status,
    rollup_grade,
    rollup_status,
    schema_status,
)
from assay.families.tools.tree import Tree
from assay.families.tools.veto import TRIGGERS as VETOES
from assay.library.shelf import Shelf
from assay.records.systems import Systems
from tool_records import age_answers, namespace_gate, schema_gate

RULES = SchemaRules(Shelf().policy_of("flowmcp", "flowmcp"))
START = datetime(2026, 5, 1, 12, tzinfo=UTC)
LLM = {"kind": "llm", "name": "judge", "version": "1"}
SCRIPT = {"kind": "script", "name": "probe", "version": "1"}
PERSONA = {"basePersonaId": "decision-maker", "lensId": "crypto"}
VETO = {"triggeredBy": "illegal-content", "evidence": "seen in line 3", "graderIdentity": SCRIPT}
NOT_ASKED = {"naReason": "requires-private-data"}
TOOL = {"namespace": "alpha", "schema": "prices", "tool": "getPrice"}
SCHEMA = {"namespace": "alpha", "schema": "prices"}
NAMESPACE = {"namespace": "alpha"}
ERROR = SchemaFinding("VAL030", "error", "tools", "too many tools.", "Split it.")


def at(hours: float) -> datetime:
    return START + timedelta(hours=hours)


def schema_of(
    base: str = "prices",
    *,
    namespace: str = "alpha",
    tools: Any = ("getPrice",),
    tests: int = 3,
    about: str | None = None,
    text: str = "x",
) -> ToolSchema:
    """A schema as plain data; `text` makes another version of it."""
    main: dict[str, Any] = {
        "namespace": namespace,
        "name": base,
        "version": "4.0.0",
        "description": text,
        "root": f"https://api.{namespace}.com",
    }
    main["tools"] = {
        tool: {"method": "GET", "path": "/x", "tests": [{"n": number} for number in range(tests)]}
        for tool in tools
    }
    if about is not None:
        main["resources"] = {"about": about}
    return ToolSchema(
        "flowmcp", f"/x/{base}.mjs", namespace, base, main, "{}", json.dumps(main).encode()
    )


def judged(question: str = "Q-whenToUse", score: Any = 4, **changes: Any) -> dict[str, Any]:
    made = {
        "questionId": question,
        "score": score,
        "weight": 1,
        "determinism": "non-deterministic",
        "graderIdentity": LLM,
        "llmModel": "m-1",
        "selectionContext": {"groupId": "g", "personaIds": ["decision-maker"]},
        "reasoning": "It says when to use it.",
    }
    return {**made, **changes}


def probe(
    question: str = "Q-api-availability", score: Any = "pass", **changes: Any
) -> dict[str, Any]:
    return {
        "questionId": question,
        "score": score,
        "weight": 1,
        "determinism": "deterministic",
        "graderIdentity": SCRIPT,
        "evidence": "a log",
        **changes,
    }


def tree_of(folder: Path | str, systems: Systems = CURRENT, rules: SchemaRules = RULES) -> Tree:
    return Tree(str(folder), rules.under(systems))


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    """A tree with one schema of one tool."""
    made = tree_of(tmp_path)
    import_one(made, schema_of(), [], now=at(0))
    return made


def put(
    tree: Tree,
    hours: float,
    *answers: dict[str, Any],
    area: str = "single-test",
    place: dict[str, str] | None = None,
    mode: str = "full",
    why: str | None = None,
    **envelope: Any,
) -> str:
    """Record one grading and give the path of its entry."""
    made = {
        "area": area,
        "harness": "claude-code",
        "version": "flowmcp/4.0.0",
        "timestamp": time_text(at(hours)),
        "answers": list(answers) or [judged(), probe()],
        **envelope,
    }
    trigger = Trigger(why, "it is wrong", "ada") if why else None
    where = place or {
        "single-test": TOOL,
        "tools-aggregate-namespace": NAMESPACE,
        "namespace-description": NAMESPACE,
    }.get(area, SCHEMA)
    return record(tree, [made], where, now=at(hours), mode=mode, trigger=trigger)[0]


def read(path: str) -> dict[str, Any]:
    return json.loads(Path(path).read_text())


def forge(path: str, hours: float, **changes: Any) -> str:
    """Write another entry beside one, changed, under its own time."""
    made = {**read(path), **changes}
    made["gradingId"] = f"{made['schemaHash']}--{names.stamp(at(hours))}"
    target = os.path.join(os.path.dirname(path), f"{made['area']}--{names.stamp(at(hours))}.json")
    Path(target).write_text(json.dumps(made))
    return target


def status(tree: Tree, area: str = "single-test", place: dict[str, str] | None = None) -> str:
    return tree.node(area, place or (TOOL if area == "single-test" else SCHEMA)).status


def index_of(tree: Tree, namespace: str = "alpha") -> dict[str, Any]:
    index: dict[str, Any] = document(tree.rebuild("providers", namespace))
    assert list(idx.contradictions(index, RULES)) == []
    return index


def gate_of(tree: Tree) -> ToolGateResult:
    """The gate of the one schema, with a clean validation and clean checks."""
    checks = [
        VetoCheck("malicious-module", "clean", "", {}),
        VetoCheck("api-key-domain-mismatch", "clean", "", {}),
    ]
    return schema_gate(
        "alpha.prices",
        index_of(tree)["schemas"]["prices"],
        RULES,
        findings=[],
        checks=checks,
        tools=["getPrice"],
    )


def files(root: str) -> dict[str, bytes]:
    """Every file of a tree that is not an index, a record or a lock, with its bytes."""
    return {
        str(path): path.read_bytes()
        for path in Path(root).rglob("*")
        if path.is_file() and path.name not in ("index.json", "_record.jsonl", ".lock")
    }


def code_of(take: Any, *arguments: Any, **named: Any) -> str:
    with pytest.raises(AssayError) as caught:
        take(*arguments, **named)
    return caught.value.code


# --- status


@pytest.mark.req("F-068", "F-069")
@pytest.mark.parametrize(
    "word",
    [
        "operational",
        "partial",
        None,
        "",
        1,
        [],
        {},
    ],
)
def test_a_node_is_never_operational_and_a_whole_is_never_graded(word: Any) -> None:
    assert NODE_STATUSES == ("pending", "blocked", "graded", "stable", "rejected")
    assert set(ROLLUP_STATUSES) == {"operational", "partial", "blocked", "pending", "rejected"}
    assert code_of(rollup_status, [word]) == "IDX-007"
    assert code_of(schema_status, [word], "stable") == "IDX-007"


@pytest.mark.req("F-070", "F-071")
@pytest.mark.parametrize(
    ("scores", "expected"),
    [
        ((5, 5), "stable"),
        ((4, 3), "stable"),
        ((3, 3), "graded"),
        ((2, 2), "graded"),
        ((1, 1), "graded"),
        (("n/a", "n/a"), "pending"),
    ],
)
def test_the_last_full_grading_decides_what_a_node_is(
    tree: Tree, scores: Any, expected: str
) -> None:
    put(tree, 1, judged(score=1))
    put(
        tree,
        2,
        *(
            judged(f"Q-{number}", score, **(NOT_ASKED if score == "n/a" else {}))
            for number, score in enumerate(scores)
        ),
    )
    assert status(tree) == expected


@pytest.mark.req("F-070", "F-071", "X-15")
def test_a_partial_grading_never_changes_what_a_node_is(tree: Tree) -> None:
    put(tree, 1, judged(score=5))
    for hours, answer in (
        (2, judged(score=1)),
        (3, judged(score=5)),
        (4, judged(score="n/a", **NOT_ASKED)),
    ):
        path = put(tree, hours, answer, mode="partial")
        assert read(path)["aggregateGrade"] == "B"
        assert status(tree) == "stable"
    put(tree, 5, judged(score=3))
    put(tree, 6, judged(score=5), mode="partial")
    assert status(tree) == "graded"


@pytest.mark.req("F-070", "F-072")
def test_a_node_that_was_never_graded_in_full_is_pending_and_cannot_begin_with_a_partial_grading(
    tree: Tree,
) -> None:
    assert status(tree) == "pending"
    assert code_of(put, tree, 1, judged(), mode="partial") == "PRT-003"


@pytest.mark.req("F-072")
@pytest.mark.parametrize(
    ("entries", "code"),
    [
        ([], None),
        ([("full", "B")], None),
        ([("full", "B"), ("partial", "B"), ("full", "C"), ("partial", "C")], None),
        ([("partial", "B")], "PRT-003"),
        ([("full", "B"), ("partial", "A")], "PRT-004"),
        ([("half", "B")], "PRT-002"),
        ([("full", "B"), (None, "B")], "PRT-002"),
    ],
)
def test_gradings_follow_each_other_in_a_fixed_order(entries: Any, code: str | None) -> None:
    listed = [{"gradingMode": mode, "aggregateGrade": grade} for mode, grade in entries]
    assert OPS["partial.sequence"]({"entries": listed}) == {"valid": code is None, "error": code}


@pytest.mark.req("F-072")
def test_a_partial_grading_that_changed_the_grade_blocks_its_node(tree: Tree) -> None:
    path = put(tree, 1, judged(score=3))
    forge(path, 2, gradingMode="partial", aggregateGrade="B")
    node = tree.node("single-test", TOOL)
    assert (node.status, "PRT-004" in str(node.reason)) == ("blocked", True)


@pytest.mark.req("F-073", "X-14")
@pytest.mark.parametrize(
    ("entries", "threshold", "expected"),
    [
        ([], "B", (False, "no-gradings", "pending")),
        ([("full", "B")], "B", (True, "ok", "stable")),
        ([("full", "B")], "A", (False, "below-threshold", "graded")),
        ([("full", "C")], "B", (False, "below-threshold", "graded")),
        ([("full", "REJECTED")], "F", (False, "below-threshold", "rejected")),
        ([("full", "A"), ("partial", "A")], "B", (False, "last-not-full", "stable")),
        ([("full", "C"), ("partial", "C")], "B", (False, "last-not-full", "graded")),
        ([("partial", "A"), ("full", "A")], "B", (False, "sequence-invalid", "blocked")),
    ],
)
def test_a_node_may_be_called_stable_only_by_a_full_grading_that_is_good_enough(
    entries: Any, threshold: str, expected: Any
) -> None:
    listed = [{"gradingMode": mode, "aggregateGrade": grade} for mode, grade in entries]
    found = OPS["stable.eligibility"]({"entries": listed, "threshold": threshold})
    assert (found["eligible"], found["reason"], found["nodeStatus"]) == expected


@pytest.mark.req("F-073", "X-14")
@pytest.mark.parametrize("threshold", [None, "E", "", 1, "REJECTED", []])
def test_a_node_is_stable_from_a_letter_and_from_nothing_else(threshold: Any) -> None:
    with pytest.raises(AssayError):
        OPS["stable.eligibility"]({"entries": [], "threshold": threshold})


@pytest.mark.req("F-070")
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["full", "partial"]),
            st.sampled_from(["A", "B", "C", "D", "F", "REJECTED"]),
            st.booleans(),
        ),
        max_size=6,
    )
)
def test_the_status_rule_looks_at_the_last_full_grading_and_at_nothing_else(entries: Any) -> None:
    listed = [
        {"gradingMode": mode, "aggregateGrade": grade, "schemaHashMatchesCurrent": same}
        for mode, grade, same in entries
    ]
    full = [item for item in listed if item["gradingMode"] == "full"]
    if not full:
        expected = "pending"
    elif full[-1]["aggregateGrade"] == "REJECTED":
        expected = "rejected"
    else:
        expected = (
            letter_status(full[-1]["aggregateGrade"])
            if full[-1]["schemaHashMatchesCurrent"]
            else "pending"
        )
    assert OPS["node.status"]({"entries": listed}) == {"status": expected}


@pytest.mark.req("F-070", "F-072")
def test_a_partial_grading_repeats_the_one_before_it_and_hides_no_veto(tree: Tree) -> None:
    path = put(tree, 1)
    put(tree, 2, categoricalVeto=VETO)
    forge(path, 3)
    forge(path, 4, gradingMode="partial")
    assert tree.node("single-test", TOOL).status == "rejected"


@pytest.mark.req("F-107", "F-108")
@pytest.mark.parametrize(
    "wrong",
    [
        "E",
        "",
        "n/a",
        1,
        True,
        [],
        {},
    ],
)
def test_the_status_of_one_grading_is_that_of_its_letter(wrong: Any) -> None:
    assert [letter_status(grade) for grade in ("A", "B", "C", "D", "F", "REJECTED")] == [
        "stable",
        "stable",
        "graded",
        "graded",
        "graded",
        "rejected",
    ]
    assert code_of(letter_status, None) == "IDX-001"
    assert code_of(letter_status, wrong) == "IDX-007"


@pytest.mark.req("F-104", "F-105", "F-106", "X-09")
def test_the_worst_part_of_a_whole_is_what_it_says() -> None:
    assert [
        rollup_status(items)
        for items in (
            [],
            ["pending"],
            ["pending", "blocked"],
            ["stable"],
            ["stable", "pending"],
            ["graded"],
            ["stable", "blocked"],
        )
    ] == [
        "pending",
        "pending",
        "blocked",
        "operational",
        "partial",
        "partial",
        "partial",
    ]
    assert rollup_status(["stable", "blocked", "rejected"]) == "rejected"
    assert [rollup_grade(items) for items in ([], ["A", "C", "B"], ["A", "REJECTED", "F"])] == [
        None,
        "C",
        "REJECTED",
    ]
    assert [
        schema_status(*items)
        for items in (
            (["stable"], "stable"),
            (["stable"], "pending"),
            (["blocked", "stable"], "stable"),
            ([], "pending"),
            ([], "stable"),
        )
    ] == [
        "stable",
        "graded",
        "blocked",
        "pending",
        "stable",
    ]
    assert (
        schema_status(["blocked", "rejected"], "stable")
        == schema_status(["stable"], "rejected")
        == "rejected"
    )


@pytest.mark.req("F-070", "F-141")
def test_a_tool_with_fewer_than_three_tests_is_blocked_until_it_has_them(tmp_path: Path) -> None:
    tree = tree_of(tmp_path)
    import_one(tree, schema_of(tests=2), [], now=at(0))
    index = index_of(tree)
    assert index["schemas"]["prices"]["tools"]["getPrice"] == {
        "status": "blocked",
        "reason": "fewer-than-three-tests",
        "blockedReason": "fewer-than-three-tests",
    }
    assert {"node": "schemas.prices.tools.getPrice", "reason": "fewer-than-three-tests"} in index[
        "blockers"
    ]
    import_one(tree, schema_of(tests=3), [], now=at(1))
    assert index_of(tree)["schemas"]["prices"]["tools"]["getPrice"]["status"] == "pending"


@pytest.mark.req("F-070", "F-141")
def test_a_tool_without_tests_does_not_become_stable_by_being_recorded(tmp_path: Path) -> None:
    tree = tree_of(tmp_path)
    import_one(tree, schema_of(tests=0), [], now=at(0))
    with contextlib.suppress(AssayError):
        put(tree, 1, judged(score=5))
    assert index_of(tree)["schemas"]["prices"]["tools"]["getPrice"]["status"] == "blocked"


@pytest.mark.req("F-070", "F-141")
def test_only_an_object_counts_as_a_test_of_a_tool(tmp_path: Path) -> None:
    tree, schema = tree_of(tmp_path), schema_of()
    schema.main["tools"]["getPrice"]["tests"] = [None, "x", {}]
    import_one(tree, schema, [], now=at(0))
    assert index_of(tree)["schemas"]["prices"]["tools"]["getPrice"]["status"] == "blocked"


@pytest.mark.req("F-070", "F-141")
@pytest.mark.parametrize("how", ["deleted", "edited"])
def test_a_tool_without_tests_does_not_pass_by_the_loss_of_its_manifest(
    tmp_path: Path, how: str
) -> None:
    tree, schema = tree_of(tmp_path / how), schema_of(tests=2)
    import_one(tree, schema._replace(path="/x/prices.json"), [], now=at(0))
    manifest = Path(glob.glob(f"{tree.root}/providers/alpha/prices/_manifest--*")[0])
    if how == "deleted":
        manifest.unlink()
    else:
        manifest.write_text(manifest.read_text().replace('"tests": 2', '"tests": 3'))
    put(tree, 1, judged(score=5))
    index = tree.index("providers", "alpha")
    assert isinstance(index, NamespaceIndex)
    assert index.schemas["prices"].tools["getPrice"].status == "stable"
    source = SchemaSource("prices.json", schema.source)
    evidence = GateEvidence({"alpha": index}, {"alpha.prices": source}, ModuleLists(), {}, {})
    rules = decide(["alpha.prices"], evidence, RULES).results[0].rules
    assert [(rule.holds, rule.reason) for rule in rules if rule.id == "primitives"] == [
        (False, "getPrice has fewer than 3 tests")
    ]


# --- which answers count

CATALOGUE: dict[str, Any] = {
    "Q-single-test-01": {
        "weight": 1,
        "determinism": "deterministic",
        "scoreType": "boolean",
        "dimension": "apiAvailability",
    },
    "Q-single-test-02": {"weight": 2, "determinism": "non-deterministic", "scoreType": "scale-1-5"},
    "Q-single-test-03": {
        "weight": 1,
        "determinism": "non-deterministic",
        "scoreType": "scale-1-5",
        "naReasons": ["requires-private-data"],
    },
}


def catalogued(
    tree: Tree,
    hours: float,
    *answers: dict[str, Any],
    mode: str = "full",
    catalogue: dict[str, Any] | None = CATALOGUE,
) -> str:
    """Record answers under the catalogue."""
    made = {
        "area": "single-test",
        "harness": "claude-code",
        "version": "flowmcp/4.0.0",
        "timestamp": time_text(at(hours)),
        "answers": list(answers),
    }
    return record(tree, [made], TOOL, now=at(hours), mode=mode, catalogue=catalogue)[0]


def three(api: Any = "pass", clear: Any = 4, last: Any = 4, **changes: Any) -> list[dict[str, Any]]:
    private = NOT_ASKED if last == "n/a" else {}
    return [
        probe("Q-single-test-01", api),
        judged("Q-single-test-02", clear, weight=2, **changes),
        judged("Q-single-test-03", last, **private),
    ]


@pytest.mark.req("F-015", "F-076", "X-30")
@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (judged(score="stale"), "asks about nothing that ages"),
        (judged("Q-0", "stale"), "asks about nothing that ages"),
        (probe("Q-schemaStructure", "stale"), "asks about nothing that ages"),
        (judged(score="pass"), "is for a deterministic yes or no"),
        (judged("Q-tosMatch", "fail"), "is for a deterministic yes or no"),
    ],
)
def test_stale_is_only_for_what_ages_and_pass_and_fail_only_for_a_deterministic_outcome(
    tree: Tree, answer: dict[str, Any], said: str
) -> None:
    with pytest.raises(AssayError, match=said) as caught:
        put(tree, 1, answer, judged("Q-parameters", 5))
    assert caught.value.code == "SCO-023"
    assert status(tree) == "pending"
    forge(
        put(tree, 1, judged(score=5)),
        2,
        gradings=[
            {**judged("Q-parameters", 5), "timestamp": time_text(at(2))},
            {**answer, "timestamp": time_text(at(2))},
        ],
    )
    assert status(tree) != "stable"


@pytest.mark.req("F-015", "F-066")
@pytest.mark.parametrize(("index", "score"), [(0, 4), (0, 1), (1, "pass"), (2, "fail")])
def test_the_catalogue_says_whether_a_question_takes_a_word_or_a_number(
    tree: Tree, index: int, score: Any
) -> None:
    answers = three()
    answers[index]["score"] = score
    assert code_of(catalogued, tree, 1, *answers) == "SCO-023"
    catalogued(tree, 1, *three())
    assert status(tree) == "stable"


@pytest.mark.req("F-019", "F-027")
@pytest.mark.parametrize("score", [5, 1, Decimal("3.5"), "pass", "fail"])
@pytest.mark.parametrize(
    "nothing",
    [{}, {"evidence": ""}, {"evidence": {}}, {"evidence": " ", "reasoning": "  "}],
    ids=repr,
)
def test_a_score_without_evidence_is_refused_and_what_was_not_seen_is_n_a(
    tree: Tree, score: Any, nothing: dict[str, Any]
) -> None:
    bare = {**probe(score=score, evidence=None), **nothing}
    with pytest.raises(AssayError, match="without evidence"):
        put(tree, 1, judged(), bare)
    path = put(tree, 1, judged(), probe(score="n/a", evidence=None, **NOT_ASKED))
    assert read(path)["gradings"][1]["score"] == "n/a"


@pytest.mark.req("F-018", "F-019", "F-021")
@pytest.mark.parametrize("score", [5, 4])
def test_leaving_out_a_bad_answer_never_makes_a_node_stable(tree: Tree, score: int) -> None:
    """Three ways to leave out the bad answer of two, in an entry that another program wrote."""
    good, bad = judged(score=score), judged("Q-parameters", 1)
    path = put(tree, 1, good, bad)
    assert status(tree) == "graded"
    ways = (
        {**bad, "score": "n/a", **NOT_ASKED},
        {**bad, "score": "stale"},
        {**bad, "weight": 0},
        {**bad, "weight": Decimal("0.01")},
        {**bad, "score": 5, "reasoning": ""},
    )
    for hours, instead in enumerate(ways, 2):
        gradings = [
            {**answer, "timestamp": time_text(at(hours)), "weight": float(answer["weight"])}
            for answer in (good, instead)
        ]
        forge(path, hours, gradings=gradings, aggregateGrade="B")
        node = tree.node("single-test", TOOL)
        assert (node.status, bool(node.reason)) == ("graded", True), instead
    assert not gate_of(tree).passed


@pytest.mark.req("F-066", "F-071", "X-13")
def test_a_full_grading_answers_every_question_of_the_catalogue_with_its_weight_and_no_other(
    tree: Tree,
) -> None:
    path = catalogued(tree, 1, *three())
    assert status(tree) == "stable"
    heavier = three()
    heavier[0]["weight"] = 9
    judging = {**three()[0], **judged("Q-single-test-01", "pass")}
    for answers in (
        three()[:2],
        [*three(), judged("Q-extra", 5)],
        heavier,
        [judging, *three()[1:]],
    ):
        assert (
            code_of(catalogued, tree, 2, *answers, catalogue=None) == "SCO-023"
        )  # the tree keeps the catalogue
        forge(path, 3, gradings=[{**answer, "timestamp": time_text(at(3))} for answer in answers])
        assert status(tree) == "graded"
    os.remove(os.path.join(os.path.dirname(path), f"single-test--{names.stamp(at(3))}.json"))
    catalogued(tree, 4, judged("Q-single-test-02", 5, weight=2), mode="partial", catalogue=None)
    changed = {"Q-single-test-02": {**CATALOGUE["Q-single-test-02"], "weight": 1}}
    assert code_of(catalogued, tree, 5, *three(), catalogue=changed) == "SCO-020"


@pytest.mark.parametrize("text", ["[]", "7", "null", '{"Q-1": 1}'])
def test_a_catalogue_that_is_not_one_is_refused_and_not_taken_for_none(
    tree: Tree, text: str
) -> None:
    Path(tree.root, "questions.json").write_text(text)
    assert code_of(tree.catalogue) == "FMC-012"


@pytest.mark.parametrize("kept", [None, {}, {"Q-single-test-02": CATALOGUE["Q-single-test-02"]}])
def test_a_catalogue_that_was_lost_or_lacks_a_question_stops_the_gate(
    tree: Tree, kept: dict[str, Any] | None
) -> None:
    catalogued(tree, 1, *three(clear=4))
    before = gate_of(tree)
    path = Path(tree.root, "questions.json")
    whole = path.read_bytes()
    path.write_text(json.dumps(kept)) if kept is not None else path.unlink()
    before_it = files(tree.root)
    assert code_of(gate_of, tree) == "FMC-012"
    assert code_of(catalogued, tree, 2, *three(clear=4), catalogue=None) in ("FMC-012", "SCO-023")
    assert files(tree.root) == before_it
    path.write_bytes(whole)
    assert gate_of(tree) == before


@pytest.mark.req("F-018", "F-021")
def test_the_catalogue_says_which_questions_may_go_unanswered_and_why(tree: Tree) -> None:
    catalogued(tree, 1, *three(clear=4, last="n/a"))
    assert status(tree) == "stable"
    catalogued(
        tree,
        2,
        probe("Q-single-test-01"),
        judged("Q-single-test-02", "n/a", weight=2, **NOT_ASKED),
        judged("Q-single-test-03", 4),
    )
    node = tree.node("single-test", TOOL)
    assert (
        node.status,
        "Q-single-test-02 is n/a, and no catalogue allows that" in str(node.reason),
    ) == ("graded", True)


@pytest.mark.req("F-074", "F-076")
def test_an_answer_that_has_aged_does_not_count_against_its_node_and_one_that_was_never_given_does(
    tree: Tree,
) -> None:
    path = put(tree, 1, judged(score=4), probe(score="pass"))
    (outcome,) = regrade(tree, "providers", "alpha", "scheduled", now=at(24 * 20))
    assert (outcome.action, status(tree)) == ("regraded", "stable")
    invented = {**probe(score="stale"), "timestamp": time_text(at(-24 * 30))}
    forge(
        path, 24 * 21, gradings=[{**judged(score=4), "timestamp": time_text(at(24 * 21))}, invented]
    )
    assert "was never answered before" in str(tree.node("single-test", TOOL).reason)


# --- vetoes in a tree


@pytest.mark.req("F-046")
@pytest.mark.parametrize(
    "trigger",
    [*VETOES, "copyright", "Malicious-module", "malicious-module ", "", None, ["malicious-module"]],
)
def test_four_triggers_reject_a_node_and_nothing_else_enters_as_a_veto_or_is_passed_over(
    tree: Tree, trigger: Any
) -> None:
    raised = {**VETO, "triggeredBy": trigger, "reasoning": "it is a danger"}
    path = put(tree, 1, judged(score=5))
    if trigger in VETOES:
        put(tree, 2, categoricalVeto=raised)
        assert status(tree) == "rejected"
        return
    before = files(tree.root)
    assert code_of(put, tree, 2, categoricalVeto=raised) == "VET-001"
    assert files(tree.root) == before
    forge(
        path,
        2,
        categoricalVeto={**raised, "timestamp": time_text(at(2))},
        aggregateGrade="REJECTED",
    )
    assert (status(tree), gate_of(tree).passed) == ("blocked", False)


@pytest.mark.req("F-050", "X-16")
def test_a_veto_is_lifted_only_by_a_full_grading_that_names_it_and_both_stay(tree: Tree) -> None:
    vetoed = put(tree, 1, categoricalVeto=VETO)
    assert status(tree) == "rejected"
    assert code_of(put, tree, 2, judged(score=5)) == "FMC-015"
    assert code_of(put, tree, 2, judged(score=5), mode="partial", why="scheduled") == "FMC-015"
    lifted = put(tree, 3, judged(score=5), why="scheduled")
    assert status(tree) == "stable"
    assert read(lifted)["regradingTrigger"]["previousGradingId"] == read(vetoed)["gradingId"]
    assert read(vetoed)["aggregateGrade"] == "REJECTED"


@pytest.mark.req("F-050", "X-16")
def test_a_grading_that_another_program_put_beside_a_veto_does_not_lift_it(tree: Tree) -> None:
    path = put(tree, 1, judged(score=5))
    put(tree, 2, categoricalVeto=VETO)
    forge(path, 3)
    assert status(tree) == "rejected"
    forge(
        path,
        4,
        regradingTrigger={
            "triggeredBy": "scheduled",
            "previousGradingId": read(path)["gradingId"],
            "timestamp": time_text(at(4)),
        },
    )
    assert status(tree) == "rejected"


@pytest.mark.req("F-050", "F-070", "X-16")
def test_a_veto_outlives_a_new_version_of_the_schema(tree: Tree) -> None:
    put(tree, 1, categoricalVeto=VETO)
    import_one(tree, schema_of(text="changed"), [], now=at(2))
    assert status(tree) == "rejected"


@pytest.mark.parametrize("name", ["_manifest--*", "prices--*"])
def test_a_rejected_schema_stays_rejected_where_its_manifest_or_snapshot_is_spoiled(
    tmp_path: Path, name: str
) -> None:
    made = tree_of(tmp_path / name[:3])
    import_one(made, schema_of(), [], now=START)
    put(made, 1)
    put(made, 2, area="tools-aggregate-schema", categoricalVeto=VETO)
    (file,) = Path(made.home("providers", "alpha"), "prices").glob(name)
    if name.startswith("_"):
        file.write_bytes(b"{")
    else:
        file.unlink()
    found = index_of(made)["schemas"]["prices"]["toolsAggregate"]
    assert (found["status"], found["grade"], found["reason"]) == (
        "rejected",
        "REJECTED",
        "veto: illegal-content",
    )


def _rewritten(path: Path, **changes: Any) -> str:
    return json.dumps({**read(str(path)), **changes})


def _clean(path: Path) -> str:
    """The veto's own file, with a good grade in place of the veto."""
    return _rewritten(path, categoricalVeto=None, aggregateGrade="B")


def _backdated(path: Path) -> str:
    return _rewritten(path, gradingId=f"{read(str(path))['schemaHash']}--{names.stamp(at(-5))}")


def _elsewhere(path: Path) -> Path:
    target = path.parent.parent.parent / "other" / "_gradings" / path.name
    target.parent.mkdir(parents=True)
    return target


HIDDEN: dict[str, Callable[[Path], object]] = {
    "deleted": Path.unlink,
    "replaced by a clean entry of the same name": lambda path: path.write_text(_clean(path)),
    "edited": lambda path: path.write_text(
        path.read_text().replace("seen in line 3", "nothing was seen")
    ),
    "backdated": lambda path: path.write_text(_backdated(path)),
    "renamed": lambda path: path.rename(path.with_name("old-" + path.name)),
    "renamed to a hidden file": lambda path: path.rename(path.with_name("." + path.name)),
    "renamed to another area": lambda path: path.rename(
        path.with_name(path.name.replace("single-test", "tools-aggregate-schema"))
    ),
    "moved to another node": lambda path: path.rename(_elsewhere(path)),
    "deleted with its folder": lambda path: shutil.rmtree(path.parent),
    "deleted with its tool": lambda path: shutil.rmtree(path.parent.parent),
}


@pytest.mark.req("F-050", "F-092", "X-16")
@pytest.mark.parametrize("how", HIDDEN)
def test_a_veto_outlives_its_file_because_the_record_remembers_it(tree: Tree, how: str) -> None:
    put(tree, 1, judged(score=5))
    vetoed = Path(put(tree, 2, categoricalVeto=VETO))
    HIDDEN[how](vetoed)
    for _ in range(2):  # also after a rebuild that no longer saw the file
        node = tree.node("single-test", TOOL)
        assert (node.status, "_record.jsonl" in str(node.reason)) == ("rejected", True)
        index = index_of(tree)
        assert (
            index["schemas"]["prices"]["tools"]["getPrice"]["grade"],
            index["status"],
            index["grade"],
        ) == ("REJECTED", "rejected", "REJECTED")
    assert code_of(put, tree, 3, judged(score=5)) == "FMC-015"
    assert code_of(put, tree, 3, judged(score=5), why="scheduled") == "FMC-015"
    assert not gate_of(tree).passed


@pytest.mark.req("F-050", "F-092")
def test_deleting_the_schema_and_importing_it_again_does_not_lift_a_veto(tree: Tree) -> None:
    vetoed = Path(put(tree, 1, categoricalVeto=VETO))
    shutil.rmtree(vetoed.parents[3])
    index = index_of(tree)
    assert (index["status"], namespace_gate("alpha", index, RULES).passed) == ("rejected", False)
    import_one(tree, schema_of(), [], now=at(2))
    assert status(tree) == "rejected"


@pytest.mark.req("F-092", "F-107")
def test_deleting_a_bad_grade_does_not_bring_the_good_one_before_it_back(tree: Tree) -> None:
    put(tree, 1, judged(score=5))
    bad = put(tree, 2, judged(score=1))
    assert status(tree) == "graded"
    os.remove(bad)
    for _ in range(2):
        node = tree.node("single-test", TOOL)
        assert (node.status, "is gone" in str(node.reason)) == ("blocked", True)
        assert index_of(tree)["schemas"]["prices"]["status"] == "blocked"


@pytest.mark.req("F-050", "F-092")
@pytest.mark.parametrize(
    "spoilt", [b"{\n", b"\n", b"[]\n", b"null\n", b"\xff\n", b"[" * 9_999 + b"\n"]
)
def test_a_record_that_cannot_be_read_opens_nothing_and_stays_as_it_is(
    tree: Tree, spoilt: bytes
) -> None:
    put(tree, 1, judged(score=5))
    vetoed = Path(put(tree, 2, categoricalVeto=VETO))
    path = vetoed.parents[4] / "_record.jsonl"
    vetoed.unlink()
    first, *rest = path.read_bytes().splitlines(keepends=True)
    for changed in (
        [spoilt],
        [first, spoilt, *rest],
        [first, *(line.replace(b"veto", b"vexo") for line in rest)],
    ):
        path.write_bytes(b"".join(changed))
        for ask in (lambda: tree.node("single-test", TOOL), lambda: index_of(tree)):
            with pytest.raises(InputError, match="vetoes that it remembers"):
                ask()
        assert path.read_bytes() == b"".join(changed)


@pytest.mark.req("F-092")
def test_a_record_that_a_kill_has_torn_goes_on(tree: Tree) -> None:
    put(tree, 1, judged(score=5))
    path = Path(tree.root, "providers", "alpha", "_record.jsonl")
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"crc":"0123')
    vetoed = Path(put(tree, 2, categoricalVeto=VETO))
    assert path.read_bytes().startswith(whole + b'{"crc":"')
    vetoed.unlink()
    assert status(tree) == "rejected"


@pytest.mark.req("F-092")
def test_lines_are_only_added_to_the_record(tree: Tree) -> None:
    path, seen = Path(tree.root, "providers", "alpha", "_record.jsonl"), b""
    for turn in range(1, 4):
        put(tree, turn, judged(score=5))
        assert path.read_bytes().startswith(seen)
        assert len(path.read_bytes()) > len(seen)
        seen = path.read_bytes()
        index_of(tree)
        assert path.read_bytes() == seen, "a rebuild adds what is new, and that is nothing"


@pytest.mark.req("F-050", "F-092", "F-098")
@pytest.mark.parametrize("spoilt", [b"{", b"", b"[]", b"null", b"\xff", b"[" * 100_000, None])
def test_an_index_that_was_edited_or_is_gone_changes_nothing_and_is_made_again(
    tree: Tree, spoilt: bytes | None
) -> None:
    put(tree, 1, judged(score=5))
    vetoed = Path(put(tree, 2, categoricalVeto=VETO))
    vetoed.unlink()
    index_of(tree)
    path = vetoed.parents[4] / "index.json"
    before = path.read_bytes()
    path.unlink() if spoilt is None else path.write_bytes(spoilt)
    assert (status(tree), index_of(tree)["status"]) == ("rejected", "rejected")
    assert path.read_bytes() == before


@pytest.mark.req("F-050", "X-16")
def test_a_veto_is_not_lifted_by_its_own_answers_nor_by_an_entry_without_a_grade(
    tree: Tree,
) -> None:
    vetoed = put(tree, 1, categoricalVeto=VETO)
    trigger = {
        "triggeredBy": "scheduled",
        "previousGradingId": read(vetoed)["gradingId"],
        "timestamp": time_text(at(2)),
    }
    forge(vetoed, 2, categoricalVeto=None, aggregateGrade="B", regradingTrigger=trigger)
    assert status(tree) == "rejected"
    block = {
        "form": EXTENDED_FORM,
        "gradings": [],
        "blocked": True,
        "blockedReason": "api-down",
        "categoricalVeto": None,
        "aggregateGrade": None,
    }
    forge(vetoed, 3, **block, regradingTrigger=trigger)
    fresh = [{**judged(score=5), "timestamp": time_text(at(4))}]
    forge(vetoed, 4, gradings=fresh, categoricalVeto=None, aggregateGrade="B")
    assert status(tree) == "rejected"
    forge(
        vetoed,
        5,
        gradings=fresh,
        categoricalVeto=None,
        aggregateGrade="B",
        regradingTrigger=trigger,
    )
    assert status(tree) == "stable"


@pytest.mark.req("F-092", "F-097")
def test_other_spaces_and_line_ends_change_no_entry_and_a_file_that_never_counted_may_go(
    tree: Tree,
) -> None:
    path = Path(put(tree, 1, judged(score=5)))
    path.write_bytes(json.dumps(read(str(path)), indent=4).replace("\n", "\r\n").encode())
    broken = path.with_name(f"single-test--{names.stamp(at(2))}.json")
    broken.write_text("{")
    assert index_of(tree)["schemas"]["prices"]["tools"]["getPrice"]["status"] == "blocked"
    broken.unlink()
    assert index_of(tree)["schemas"]["prices"]["tools"]["getPrice"]["status"] == "stable"


@pytest.mark.req("F-050", "F-080")
def test_deleting_a_veto_that_was_superseded_blocks_the_node(tree: Tree) -> None:
    vetoed = put(tree, 1, categoricalVeto=VETO)
    put(tree, 2, judged(score=5), why="scheduled")
    os.remove(vetoed)
    node = tree.node("single-test", TOOL)
    assert (node.status, "which is gone" in str(node.reason)) == ("blocked", True)
    index_of(tree)
    os.remove(Path(vetoed).parents[4] / "index.json")
    node = tree.node("single-test", TOOL)
    assert (node.status, "which is gone" in str(node.reason)) == ("blocked", True)


@pytest.mark.req("F-050", "X-16")
def test_lifting_one_veto_does_not_lift_another(tree: Tree) -> None:
    first = put(tree, 1, categoricalVeto=VETO)
    second = read(first)["categoricalVeto"]
    forge(first, 2, categoricalVeto={**second, "triggeredBy": "malicious-module"})
    trigger = {
        "triggeredBy": "scheduled",
        "previousGradingId": read(first)["gradingId"],
        "timestamp": time_text(at(3)),
    }
    forge(first, 3, categoricalVeto=None, aggregateGrade="B", regradingTrigger=trigger)
    assert status(tree) == "rejected"


def scores_document() -> dict[str, Any]:
    scores = [
        {"dimension": name, "score": 4, "reasoning": "r"} for name in ("whenToUse", "parameters")
    ]
    return {
        "creator": {"skill": "s", "skillVersion": "1"},
        "harness": {"name": "h", "model": "m"},
        "timestamp": time_text(at(0)),
        "scores": scores,
    }


@pytest.mark.req("F-050", "X-16")
def test_a_veto_of_one_check_is_not_lifted_while_it_cannot_be_told(tree: Tree) -> None:
    schema = schema_of()
    for hours, trigger in ((1, "malicious-module"), (2, "api-key-domain-mismatch")):
        veto = CategoricalVeto(
            triggered_by=trigger,
            grader_identity=GRADER,
            evidence="seen",
            timestamp=time_text(at(hours)),
        )
        record_scores(tree, schema, [], scores_document(), veto=veto, now=at(hours))
    now = [
        VetoCheck("malicious-module", "clean", "", {}),
        VetoCheck("api-key-domain-mismatch", "undetermined", "", {}),
    ]
    with contextlib.suppress(AssayError):
        check_open(tree, schema, now)
        record_scores(tree, schema, [], scores_document(), veto=None, now=at(3))
    assert status(tree, "tools-aggregate-schema") == "rejected"


@pytest.mark.req("F-045", "F-051")
def test_a_rejected_tool_halts_what_sums_it_up(tree: Tree) -> None:
    put(tree, 1, categoricalVeto=VETO)
    for area in ("tools-aggregate-schema", "tools-aggregate-namespace", "namespace-description"):
        assert code_of(put, tree, 2, judged(), area=area) == "FMC-015"
    index = index_of(tree)
    assert (index["status"], index["grade"], index["schemas"]["prices"]["status"]) == (
        "rejected",
        "REJECTED",
        "rejected",
    )


@pytest.mark.req("F-045", "F-051")
def test_a_rejected_schema_halts_its_skills(tree: Tree) -> None:
    put(tree, 1)
    put(tree, 1, area="tools-aggregate-schema", categoricalVeto=VETO)
    assert (
        code_of(
            put,
            tree,
            2,
            judged(),
            area="namespace-skills",
            place={**SCHEMA, "skill": "s"},
            persona=PERSONA,
        )
        == "FMC-015"
    )


@pytest.mark.req("F-105", "X-09")
def test_a_rejected_about_page_is_never_hidden_behind_a_newer_one(tmp_path: Path) -> None:
    tree = tree_of(tmp_path)
    for base in ("one", "two"):
        import_one(tree, schema_of(base, about=f"# About {base}"), [], now=at(0))
    for base in ("one", "two"):
        place = {"namespace": "alpha", "schema": base}
        put(tree, 1, place={**place, "tool": "getPrice"})
        put(tree, 1, area="tools-aggregate-schema", place=place)
    put(
        tree,
        2,
        judged(),
        area="about-namespace",
        place={"namespace": "alpha", "schema": "one"},
        persona=PERSONA,
        categoricalVeto=VETO,
    )
    put(
        tree,
        3,
        judged(score=5),
        area="about-namespace",
        place={"namespace": "alpha", "schema": "two"},
        persona=PERSONA,
    )
    index = index_of(tree)
    assert (index["status"], index["grade"]) == ("rejected", "REJECTED")


@pytest.mark.req("F-137")
def test_a_tool_that_was_removed_from_the_schema_is_no_longer_counted(tmp_path: Path) -> None:
    tree = tree_of(tmp_path)
    import_one(tree, schema_of(tools=("good", "bad")), [], now=at(0))
    put(tree, 1, place={**SCHEMA, "tool": "bad"}, categoricalVeto=VETO)
    import_one(tree, schema_of(tools=("good",)), [], now=at(2))
    put(tree, 3, place={**SCHEMA, "tool": "good"})
    put(tree, 4, area="tools-aggregate-schema")
    assert index_of(tree)["schemas"]["prices"]["status"] == "stable"


@pytest.mark.req("F-050")
def test_two_vetoes_of_two_envelopes_are_both_kept_or_refused(tree: Tree) -> None:
    head = {
        "area": "single-test",
        "harness": "claude-code",
        "version": "flowmcp/4.0.0",
        "timestamp": time_text(at(1)),
    }
    second = {**VETO, "triggeredBy": "malicious-module"}
    given = [
        {**head, "answers": [judged()], "categoricalVeto": VETO},
        {**head, "answers": [probe()], "categoricalVeto": second},
    ]
    with contextlib.suppress(AssayError):
        assert "malicious-module" in Path(record(tree, given, TOOL, now=at(1))[0]).read_text()


@pytest.mark.req("F-047")
@pytest.mark.parametrize("veto", ["illegal-content", True, ["illegal-content"], 1])
def test_a_veto_that_is_no_object_is_refused_with_a_code(tree: Tree, veto: Any) -> None:
    assert code_of(put, tree, 1, categoricalVeto=veto)


# --- aging


@pytest.mark.req("F-074")
def test_the_limits_of_age_have_names() -> None:
    assert (aging.API_DAYS, aging.TOS_DAYS, aging.RETENTION_DAYS, aging.ABOUT_DAYS) == (
        14,
        30,
        180,
        90,
    )
    assert aging.LIMITS == {"apiAvailability": 14, "tosMatch": 30, "legalAssessment": 30}


@pytest.mark.req("F-074", "F-076", "X-30")
@pytest.mark.parametrize(
    ("dimension", "limit"), [("apiAvailability", 14), ("tosMatch", 30), ("legalAssessment", 30)]
)
@pytest.mark.parametrize("score", ["pass", "fail", 4, Decimal("1.5")])
def test_an_answer_about_the_world_is_stale_beyond_its_limit_and_never_fails_for_its_age(
    dimension: str, limit: int, score: Any
) -> None:
    assert age_score(dimension, limit, score)[0] == score
    assert age_score(dimension, Decimal(f"{limit}.0000001"), score)[0] == "stale"
    assert age_score(dimension, limit * 1000, score)[0] == "stale"


@pytest.mark.req("F-075", "X-30")
@pytest.mark.parametrize(
    "dimension",
    [
        "descriptionNeutrality",
        "formattingCompliance",
        "outputSchemaConformance",
        "whenToUse",
        "unheard-of",
        None,
        5,
    ],
)
def test_an_answer_about_the_schema_itself_never_ages(dimension: Any) -> None:
    assert age_score(dimension, 10_000, 4) == (4, "GRD-WARN-001")


@pytest.mark.req("F-074")
def test_beyond_the_days_of_retention_there_is_a_warning() -> None:
    assert [age_score("whenToUse", days, 4)[1] for days in (0, 180, Decimal("180.001"))] == [
        None,
        None,
        "GRD-WARN-001",
    ]


@pytest.mark.req("F-076")
@given(
    st.decimals(0, 1000, places=3),
    st.sampled_from([*aging.LIMITS, "whenToUse"]),
    st.sampled_from(["pass", "fail", 1, 5, "n/a", "stale"]),
)
def test_age_leaves_a_score_or_makes_it_stale_and_nothing_else(
    days: Decimal, dimension: str, score: Any
) -> None:
    assert age_score(dimension, days, score)[0] in (score, "stale")


@pytest.mark.req("F-077")
@pytest.mark.parametrize("key", ["ageDays", "limit", "apiAvailability"])
def test_nobody_gives_an_answer_another_window(tree: Tree, key: str) -> None:
    window = {key: 4000}
    catalogue = {"Q-1": {"dimension": "apiAvailability", **window}}
    envelope = {
        "area": "single-test",
        "harness": "claude-code",
        "timestamp": time_text(at(1)),
        "answers": [judged(), probe("Q-1", **window)],
        **window,
    }
    record(tree, [envelope], TOOL, now=at(1), catalogue=catalogue)
    (outcome,) = regrade(tree, "providers", "alpha", "scheduled", now=at(24 * 15 + 2))
    assert outcome.action == "regraded"
    assert [answer["score"] for answer in read(str(outcome.path))["gradings"]] == [4, "stale"]


def test_an_answer_from_after_now_is_refused() -> None:
    assert code_of(age_score, "apiAvailability", -1, "pass") == "FMC-013"
    assert code_of(age_answers, [{**probe(), "timestamp": time_text(at(1))}], at(0)) == "FMC-013"


@pytest.mark.req("F-074", "F-076")
def test_aging_looks_at_the_clock_that_is_passed_in_and_changes_no_answer_it_was_given() -> None:
    answers = [
        {**probe(), "timestamp": time_text(START)},
        {**judged(), "timestamp": time_text(START)},
    ]
    before = json.dumps(answers)
    assert age_answers(answers, START + timedelta(days=14))[0] == answers
    aged, notes = age_answers(answers, START + timedelta(days=14, seconds=1))
    assert [item["score"] for item in aged] == ["stale", 4]
    assert len(notes) == 1
    assert json.dumps(answers) == before


@pytest.mark.req("F-074", "F-079", "F-080", "F-081")
def test_a_scheduled_regrading_ages_what_is_old_and_keeps_the_entry_it_supersedes(
    tree: Tree,
) -> None:
    before = put(tree, 1, judged(score=3), probe(score="pass"))
    held = files(tree.root)
    assert read(before)["aggregateGrade"] == "B"
    assert [
        item.action for item in regrade(tree, "providers", "alpha", "scheduled", now=at(24 * 14))
    ] == ["current"]
    (outcome,) = regrade(tree, "providers", "alpha", "scheduled", now=at(24 * 15 + 2))
    assert (outcome.action, outcome.before, outcome.grade) == ("regraded", "B", "C")
    after = read(str(outcome.path))
    assert after["regradingTrigger"]["triggeredBy"] == "scheduled"
    assert after["regradingTrigger"]["previousGradingId"] == read(before)["gradingId"]
    assert {path: data for path, data in files(tree.root).items() if path in held} == held
    assert status(tree) == "graded"
    assert [
        item.action for item in regrade(tree, "providers", "alpha", "scheduled", now=at(24 * 16))
    ] == ["current"]


@pytest.mark.req("F-031", "F-070")
def test_a_node_whose_answers_are_all_stale_is_pending(tree: Tree) -> None:
    put(tree, 1, judged("Q-tosMatch", 5), probe())
    (outcome,) = regrade(tree, "providers", "alpha", "scheduled", now=at(24 * 60))
    assert (outcome.action, outcome.grade) == ("regraded", None)
    assert status(tree) == "pending"


@pytest.mark.req("F-074", "X-03")
def test_a_catalogue_question_ages_by_its_dimension(tree: Tree) -> None:
    catalogue = {
        "Q-single-test-02": {
            "weight": 1,
            "determinism": "deterministic",
            "dimension": "apiAvailability",
        },
        "Q-whenToUse": {"area": "single-test"},
    }
    answers = [
        judged(),
        {
            "questionId": "Q-single-test-02",
            "score": "pass",
            "graderIdentity": SCRIPT,
            "evidence": "HTTP 200",
        },
    ]
    envelope = {
        "area": "single-test",
        "harness": "claude-code",
        "version": "flowmcp/4.0.0",
        "timestamp": time_text(at(1)),
        "answers": answers,
    }
    record(tree, [envelope], TOOL, now=at(1), catalogue=catalogue)
    assert [
        item.action for item in regrade(tree, "providers", "alpha", "scheduled", now=at(24 * 100))
    ] == ["regraded"]


@pytest.mark.req("F-081")
def test_an_answer_given_after_now_is_not_recorded(tree: Tree) -> None:
    assert code_of(put, tree, 1, judged(timestamp=time_text(at(1000)))) == "FMC-013"


# --- grading again


@pytest.mark.req("F-006", "F-010", "F-011", "F-012", "F-080")
def test_after_http_429_became_a_transient_defect_new_entries_read_1_1_and_1_0_and_old_ones_stay(
    tree: Tree,
) -> None:
    limited = {"score": None, "evidence": {"httpStatus": 429}}
    old = put(tree, 1, judged(score=4), probe(**limited))
    assert [answer["score"] for answer in read(old)["gradings"]] == [4, "fail"]
    held = files(tree.root)
    newer = tree_of(tree.root, CURRENT._replace(scoring="scoringSystem/1.1.0"))
    (outcome,) = regrade(newer, "providers", "alpha", "scoring-system-bump", now=at(2))
    assert (outcome.action, outcome.before) == ("due", "C")
    assert outcome.questions == ("Q-whenToUse", "Q-api-availability")
    assert files(tree.root) == held, "old and new scores are never mixed"
    new = read(put(newer, 3, judged(score=4), probe(score=3), why="scoring-system-bump"))
    assert (new["scoringSystem"], new["gradingSystem"]) == (
        "scoringSystem/1.1.0",
        "gradingSystem/1.0.0",
    )
    assert [answer["score"] for answer in new["gradings"]] == [4, 3]
    assert (read(old)["scoringSystem"], read(old)["gradingSystem"]) == (
        "scoringSystem/1.0.0",
        "gradingSystem/1.0.0",
    )
    assert new["regradingTrigger"]["triggeredBy"] == "scoring-system-bump"
    assert new["regradingTrigger"]["previousGradingId"] == read(old)["gradingId"]
    again = regrade(newer, "providers", "alpha", "scoring-system-bump", now=at(4))
    assert [item.action for item in again] == ["current"]


@pytest.mark.req("F-011")
def test_answers_that_state_another_scoring_system_are_not_recorded(tree: Tree) -> None:
    assert code_of(put, tree, 1, scoringSystem="scoringSystem/1.1.0") == "SCO-022"
    put(tree, 1, scoringSystem="scoringSystem/1.0.0")


def stricter() -> SchemaRules:
    policy = RULES.policy
    bands = [
        msgspec.structs.replace(band, min=Decimal("4.2")) if band.grade == "B" else band
        for band in policy.bands
    ]
    return SchemaRules(msgspec.structs.replace(policy, bands=bands))


@pytest.mark.req("F-006", "F-010", "F-033", "F-079")
def test_a_new_grading_system_aggregates_the_stored_answers_anew_and_keeps_their_scoring_version(
    tree: Tree,
) -> None:
    old = put(tree, 1, judged(score=4))
    newer = tree_of(tree.root, Systems("scoringSystem/1.5.0", "gradingSystem/2.0.0"), stricter())
    (outcome,) = regrade(newer, "providers", "alpha", "grading-system-bump", now=at(2))
    new = read(str(outcome.path))
    assert (outcome.before, outcome.grade) == ("B", "C")
    assert (new["scoringSystem"], new["gradingSystem"]) == (
        "scoringSystem/1.0.0",
        "gradingSystem/2.0.0",
    )
    assert new["gradings"] == read(old)["gradings"]
    assert new["regradingTrigger"]["triggeredBy"] == "grading-system-bump"
    assert newer.node("single-test", TOOL).status == "graded"


@pytest.mark.req("F-079", "F-080")
def test_a_user_report_says_which_questions_to_ask_first_and_writes_nothing(tree: Tree) -> None:
    put(tree, 1, judged("Q-a"), judged("Q-b"), probe())
    held = files(tree.root)
    (outcome,) = regrade(
        tree,
        "providers",
        "alpha",
        "user-report",
        now=at(2),
        issue="q-b is wrong: EUR, not USD",
        requested_by="ada",
    )
    assert (outcome.action, outcome.questions) == ("due", ("Q-b", "Q-a", "Q-api-availability"))
    assert files(tree.root) == held
    assert (
        code_of(regrade, tree, "providers", "alpha", "user-report", now=at(2), issue="x")
        == "GRD-019"
    )
    assert code_of(regrade, tree, "providers", "alpha", "user-reports", now=at(2)) == "GRD-017"


@pytest.mark.req("F-079", "F-080")
@pytest.mark.parametrize("kind", TRIGGERS)
def test_a_recorded_regrading_names_the_entry_it_supersedes(tree: Tree, kind: str) -> None:
    assert code_of(put, tree, 1, why=kind) == "GRD-018"
    first = put(tree, 1)
    second = put(tree, 2, why=kind)
    assert read(second)["regradingTrigger"]["previousGradingId"] == read(first)["gradingId"]
    assert status(tree) == "stable"


@pytest.mark.req("F-051", "F-082")
@pytest.mark.parametrize("trigger", ["scheduled", "grading-system-bump", "scoring-system-bump"])
def test_no_trigger_regrades_a_rejected_node_or_one_whose_schema_changed(
    tree: Tree, trigger: str
) -> None:
    put(tree, 1)
    newer = tree_of(tree.root, Systems("scoringSystem/1.1.0", "gradingSystem/1.1.0"))
    import_one(newer, schema_of(text="changed"), [], now=at(2))
    assert [
        item.action for item in regrade(newer, "providers", "alpha", trigger, now=at(24 * 100))
    ] == ["due"]
    put(tree, 24 * 101, categoricalVeto=VETO)
    assert [
        item.action for item in regrade(newer, "providers", "alpha", trigger, now=at(24 * 200))
    ] == ["rejected"]


@pytest.mark.req("F-097")
def test_a_node_that_cannot_be_regraded_keeps_no_other_from_it_and_the_index_is_made_anew(
    tmp_path: Path,
) -> None:
    tree = tree_of(tmp_path)
    import_one(tree, schema_of(tools=("a", "b")), [], now=at(0))
    put(tree, 1, place={**SCHEMA, "tool": "a"})
    put(tree, 24 * 300, place={**SCHEMA, "tool": "b"})
    outcomes: list[RegradeOutcome] = []
    with contextlib.suppress(AssayError):
        outcomes = regrade(tree, "providers", "alpha", "scheduled", now=at(24 * 100))
    assert [item.action for item in outcomes] == ["regraded", "blocked"]
    on_disk = json.loads((tmp_path / "providers" / "alpha" / "index.json").read_text())
    assert on_disk["schemas"]["prices"]["tools"]["a"]["grade"] == outcomes[0].grade


# --- two versions side by side


@pytest.mark.req("F-009", "X-07")
def test_both_versions_are_in_the_index_at_the_top_and_in_its_summary(tree: Tree) -> None:
    put(tree, 1)
    index = index_of(tree)
    for place in (index, index["summary"], index["schemas"]["prices"]["tools"]["getPrice"]):
        assert (place["scoringSystem"], place["gradingSystem"]) == (
            "scoringSystem/1.0.0",
            "gradingSystem/1.0.0",
        )
    strict = idx.strict(index)
    assert "scoringSystem" not in strict
    assert strict["summary"]["scoringSystem"] == "scoringSystem/1.0.0"
    assert "mixedVersions" not in index["summary"]


@pytest.mark.req("F-011")
def test_scores_of_two_versions_side_by_side_are_noticed(tmp_path: Path) -> None:
    tree = tree_of(tmp_path)
    import_one(tree, schema_of(tools=("a", "b")), [], now=at(0))
    put(tree, 1, place={**SCHEMA, "tool": "a"})
    put(
        tree_of(tmp_path, CURRENT._replace(scoring="scoringSystem/1.1.0")),
        2,
        place={**SCHEMA, "tool": "b"},
    )
    assert index_of(tree)["summary"]["mixedVersions"] == {
        "scoringSystem": ["scoringSystem/1.0.0", "scoringSystem/1.1.0"],
        "gradingSystem": ["gradingSystem/1.0.0"],
    }


@pytest.mark.req("F-009", "F-011")
def test_versions_are_no_longer_mixed_once_everything_was_scored_anew(tree: Tree) -> None:
    put(tree, 1)
    newer = tree_of(tree.root, CURRENT._replace(scoring="scoringSystem/1.1.0"))
    put(newer, 2)
    assert "mixedVersions" not in index_of(newer)["summary"]


@pytest.mark.req("F-009")
def test_version_1_10_is_newer_than_1_9(tmp_path: Path) -> None:
    tree = tree_of(tmp_path, CURRENT._replace(scoring="scoringSystem/1.9.0"))
    import_one(tree, schema_of(tools=("a", "b")), [], now=at(0))
    put(tree, 1, place={**SCHEMA, "tool": "a"})
    newer = tree_of(tmp_path, CURRENT._replace(scoring="scoringSystem/1.10.0"))
    put(newer, 2, place={**SCHEMA, "tool": "b"})
    assert index_of(newer)["scoringSystem"] == "scoringSystem/1.10.0"


# --- what was changed by hand

SPOILED: dict[str, Any] = {
    "cut off": lambda text: text[: len(text) // 2],
    "empty": lambda text: "",
    "a list": lambda text: "[]",
    "another grade": lambda text: text.replace('"aggregateGrade": "F"', '"aggregateGrade": "B"'),
    "another answer": lambda text: text.replace('"score": 1', '"score": 5'),
    "an A": lambda text: text.replace('"aggregateGrade": "F"', '"aggregateGrade": "A"'),
    "a rejection without a veto": lambda text: text.replace(
        '"aggregateGrade": "F"', '"aggregateGrade": "REJECTED"'
    ),
    "another hash": lambda text: text.replace(
        '"schemaHash": "', '"schemaHash": "ffffffff", "x": "'
    ),
    "a score out of range": lambda text: text.replace('"score": 1', '"score": 9'),
    "no version": lambda text: text.replace('"scoringSystem"', '"scoringsystem"'),
    "a lie about the tier": lambda text: text.replace('"autonomous"', '"group-bound"'),
    "bytes that are not text": lambda text: text.encode() + b"\xff\xfe",
}


@pytest.mark.req("F-107", "F-108")
@pytest.mark.parametrize("how", SPOILED)
def test_an_entry_that_was_spoiled_blocks_its_node(tree: Tree, how: str) -> None:
    path = Path(put(tree, 1, judged(score=1)))
    spoiled = SPOILED[how](path.read_text())
    assert spoiled != path.read_text()
    path.write_bytes(spoiled if isinstance(spoiled, bytes) else spoiled.encode())
    node = tree.node("single-test", TOOL)
    assert (node.status, path.name in str(node.reason)) == ("blocked", True)
    index = index_of(tree)
    assert index["schemas"]["prices"]["status"] == "blocked"
    assert any(item["node"] == "schemas.prices.tools.getPrice" for item in index["blockers"])


@pytest.mark.req("F-050", "F-107")
@pytest.mark.parametrize("how", ["cut off", "empty", "a list", "bytes that are not text"])
def test_spoiling_a_veto_does_not_lift_it(tree: Tree, how: str) -> None:
    path = Path(put(tree, 1, categoricalVeto=VETO))
    spoiled = SPOILED[how](path.read_text())
    path.write_bytes(spoiled if isinstance(spoiled, bytes) else spoiled.encode())
    put(tree, 2, judged(score=5))
    assert status(tree) == "blocked"


@pytest.mark.req("F-107")
def test_an_entry_that_is_a_link_blocks_its_node(tree: Tree, tmp_path: Path) -> None:
    path = put(tree, 1)
    shutil.move(path, tmp_path / "elsewhere.json")
    os.symlink(tmp_path / "elsewhere.json", path)
    assert status(tree) == "blocked"


@pytest.mark.req("F-081")
def test_an_old_entry_under_a_newer_name_does_not_bring_its_grade_back(tree: Tree) -> None:
    good = put(tree, 1, judged(score=5))
    put(tree, 2, judged(score=1))
    shutil.copy(
        good, os.path.join(os.path.dirname(good), f"single-test--{names.stamp(at(3))}.json")
    )
    assert status(tree) != "stable"


@pytest.mark.req("F-091")
@pytest.mark.parametrize(
    "target", ["tools/b/_gradings/single-test", "_gradings/tools-aggregate-schema"]
)
def test_an_entry_in_another_place_grades_nothing_there(tmp_path: Path, target: str) -> None:
    tree = tree_of(tmp_path)
    import_one(tree, schema_of(tools=("a", "b")), [], now=at(0))
    good = put(tree, 1, place={**SCHEMA, "tool": "a"})
    forged = tmp_path / "providers" / "alpha" / "prices" / f"{target}--{names.stamp(at(1))}.json"
    forged.parent.mkdir(parents=True)
    shutil.copy(good, forged)
    area, place = (
        ("single-test", {**SCHEMA, "tool": "b"})
        if "tools/b" in target
        else ("tools-aggregate-schema", SCHEMA)
    )
    assert status(tree, area, place) != "stable"


@pytest.mark.req("F-091")
def test_an_entry_of_one_skill_grades_no_other(tree: Tree) -> None:
    put(tree, 1)
    put(tree, 1, area="tools-aggregate-schema")
    good = put(
        tree,
        2,
        judged(score=5),
        area="namespace-skills",
        place={**SCHEMA, "skill": "one"},
        persona=PERSONA,
    )
    other = Path(tree.root, "providers", "alpha", "prices", "skills", "two", "_gradings")
    other.mkdir(parents=True)
    shutil.copy(good, other)
    assert index_of(tree)["skills"]["prices.two"]["status"] == "blocked"


@pytest.mark.req("F-081")
@pytest.mark.parametrize("hours", [2, 3])
def test_a_new_entry_beside_a_renamed_one_is_the_newest_or_refused(tree: Tree, hours: int) -> None:
    put(tree, 1, judged(score=4))
    path = put(tree, 3, judged(score=1))
    os.rename(path, path.replace(names.stamp(at(3)), names.stamp(at(0.5))))
    assert status(tree) == "graded"
    with contextlib.suppress(AssayError):
        put(tree, hours, judged(score=4))
        assert status(tree) == "stable"


@pytest.mark.req("F-010", "F-013")
def test_a_grade_under_a_grading_system_that_does_not_exist_is_not_believed(tree: Tree) -> None:
    path = put(tree, 1, judged(score=1))
    Path(path).write_text(
        json.dumps({**read(path), "aggregateGrade": "B", "gradingSystem": "gradingSystem/9.0.0"})
    )
    assert status(tree) != "stable"


# --- changed schemas


@pytest.mark.req("F-070", "F-082", "X-36")
def test_a_changed_schema_makes_its_grades_pending_after_every_rebuild(tree: Tree) -> None:
    put(tree, 1)
    put(tree, 1, area="tools-aggregate-schema")
    assert index_of(tree)["schemas"]["prices"]["status"] == "stable"
    import_one(tree, schema_of(text="changed"), [], now=at(2))
    for _ in range(4):
        schema = index_of(tree)["schemas"]["prices"]
        assert (schema["status"], schema["reason"]) == (
            "pending",
            "schema changed, regrade required",
        )
        assert "grade" not in schema
        assert schema["tools"]["getPrice"]["status"] == "pending"
    assert not any("schema changed" in item["reason"] for item in index_of(tree)["blockers"])


@pytest.mark.req("F-082", "X-36")
def test_a_schema_that_changed_back_has_its_grades_again_only_as_a_new_version(tree: Tree) -> None:
    put(tree, 1)
    import_one(tree, schema_of(text="changed"), [], now=at(2))
    assert status(tree) == "pending"
    assert import_one(tree, schema_of(), [], now=at(3)).action == "new version"
    assert status(tree) == "stable"


@pytest.mark.req("F-010", "F-082")
def test_answers_about_another_version_than_the_tree_holds_are_refused(tree: Tree) -> None:
    assert code_of(put, tree, 1, schemaHash="00000000") == "PRO-006"


@pytest.mark.req("F-082", "X-36")
def test_without_the_snapshot_nothing_says_that_the_grade_still_holds(tree: Tree) -> None:
    put(tree, 1)
    for path in glob.glob(f"{tree.root}/providers/alpha/prices/prices--*"):
        os.remove(path)
    index = index_of(tree)
    assert (
        index["schemas"]["prices"]["status"],
        index["schemas"]["prices"]["tools"]["getPrice"]["status"],
    ) == ("blocked", "blocked")
    assert index["schemas"]["prices"]["tools"]["getPrice"]["reason"] == "its snapshot is gone"
    assert code_of(put, tree, 2) == "IDX-006"


def test_a_namespace_does_not_pass_once_its_schemas_are_gone(tree: Tree) -> None:
    put(tree, 1, judged(score=5), area="tools-aggregate-namespace")
    shutil.rmtree(f"{tree.root}/providers/alpha/prices")
    index = tree.index("providers", "alpha")
    assert isinstance(index, NamespaceIndex)
    assert (index.namespace_aggregate.status, index.schemas) == ("stable", {})
    gate = decide(["alpha"], GateEvidence({"alpha": index}, {}, ModuleLists(), {}, {}), RULES)
    assert (gate.passed, gate.violated) == (False, False)


# --- names, folders, hashes


@pytest.mark.req("F-083", "F-084", "F-085")
def test_a_hash_is_eight_hexadecimal_digits_over_canonical_text() -> None:
    canonical = '{"a":4,"b":0.1,"c":1e+21,"d":0,"e":1e-7,"f":100}'
    assert (
        hash8(
            {"f": 100, "e": 1e-7, "d": -0.0, "c": Decimal("1e21"), "b": Decimal("0.10"), "a": 4.0}
        )
        == sha256(canonical.encode()).hexdigest()[:8]
        == "7bfec050"
    )
    assert hash8({}) == "44136fa3"
    assert (
        hash8({"é": 1, "z": 1, "😀": 1, "ﬀ": 1})
        == sha256('{"z":1,"é":1,"😀":1,"ﬀ":1}'.encode()).hexdigest()[:8]
    )


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**60), 2**60)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@pytest.mark.req("F-083")
@given(st.dictionaries(st.text(), json_values, max_size=5))
def test_the_order_of_keys_never_moves_a_hash(value: dict[str, Any]) -> None:
    assert hash8(dict(reversed(list(value.items())))) == hash8(value)
    assert names.is_hash8(hash8(value))


@pytest.mark.req("F-084")
@pytest.mark.parametrize(
    "value", [float("nan"), float("inf"), {1, 2}, b"x", {"a": object()}, {1: 2}, 10**400]
)
def test_what_json_cannot_say_has_no_hash(value: Any) -> None:
    assert code_of(hash8, value) == "HSH-003"


@pytest.mark.req("F-085", "X-17")
def test_an_about_page_is_hashed_by_its_bytes_and_a_namespace_by_its_members() -> None:
    assert about_hash(b"# About\n") == sha256(b"# About\n").hexdigest()[:8]
    assert namespace_hash({"b": "2", "a": "1"}, None) == hash8(
        {"aboutHash": None, "members": {"a": "1", "b": "2"}}
    )
    assert namespace_hash({"a": "1"}, "x") != namespace_hash({"a": "1"}, None)


@pytest.mark.req("F-086", "X-17")
def test_the_hash_of_a_report_is_over_the_file_and_not_over_what_it_exports() -> None:
    schema = schema_of()
    assert schema.file_sha256 == "sha256:" + sha256(schema.source).hexdigest()
    assert schema._replace(source=schema.source + b" ").file_sha256 != schema.file_sha256
    assert hash8(schema._replace(source=schema.source + b" ").main) == hash8(schema.main)


@pytest.mark.req("F-088", "F-089")
@pytest.mark.parametrize(
    "when",
    [
        "2026-05-30T10:15:00Z",
        "2026-05-30T10-15Z",
        "2026-05-30T10-15-00.1Z",
        "2026-02-30T10-15-00Z",
        "2026-05-30T10-15-00Z\n",
        "",
        None,
        5,
    ],
)
def test_a_file_is_named_by_a_moment_to_the_second_that_exists(when: Any) -> None:
    assert code_of(names.grading_file, "single-test", when) == "GRD-041"


@pytest.mark.req("F-088")
def test_a_moment_is_written_in_ascii_digits() -> None:
    assert not names.is_stamp("٢٠٢٦-05-30T10-15-00Z")
    assert names.parse_stamp("٢٠٢٦-05-30T10-15-00Z") is None


@pytest.mark.req("F-089")
@pytest.mark.parametrize(
    ("persona", "lens"),
    [
        ("a", None),
        (None, "b"),
        ("", ""),
        ("A", "b"),
        ("a", "b_c"),
        ("1a", "b"),
        ("a--b", "c"),
        ("a", "../x"),
        (5, "b"),
        ("é", "b"),
    ],
)
def test_a_persona_and_its_lens_stand_together_or_not_at_all(persona: Any, lens: Any) -> None:
    assert (
        code_of(
            names.grading_file,
            "single-test",
            "2026-05-30T10-15-00Z",
            base_persona=persona,
            lens=lens,
        )
        == "GRD-042"
    )


@pytest.mark.req("F-089")
def test_names_of_files_follow_the_grammar() -> None:
    when = "2026-05-29T03-00-00Z"
    assert (
        names.grading_file(
            "selection-aggregate", when, base_persona="decision-maker", lens="crypto-trader"
        )
        == f"selection-aggregate--decision-maker--crypto-trader--{when}.json"
    )
    assert (
        names.primitive_file("prices", when, "0a1b2c3d", "mjs") == f"prices--{when}--0a1b2c3d.mjs"
    )
    assert code_of(names.grading_file, "unknown", "nonsense", base_persona="X") == "GRD-043"
    assert code_of(names.grading_file, "single-test", "nonsense", base_persona="X") == "GRD-041"


@pytest.mark.req("F-090", "X-22", "X-23")
def test_the_newest_version_is_the_newest_by_its_time_and_not_by_its_name() -> None:
    listed = [
        "a--zz--zz--2026-05-01T00-00-00Z.json",
        "a--aa--aa--2026-05-02T00-00-00Z.json",
        "b--2027-01-01T00-00-00Z.json",
    ]
    assert names.latest(listed, "a") == listed[1]
    hashes = ["s--2026-05-01T00-00-00Z--ffffffff.mjs", "s--2026-05-02T00-00-00Z--00000000.mjs"]
    assert names.latest(hashes, "s") == hashes[1]
    older_forms = [
        "s--2026-05-01T15-34Z--00000000.mjs",
        "s--2026-05-01T15-34-01.250Z--00000000.mjs",
        "s--2026-05-01T15-34-01Z--00000000.mjs",
    ]
    assert names.latest(older_forms, "s") == older_forms[1]
    assert names.latest(["a.json", "ab--2026-05-01T00-00-00Z.json"], "a") is None


@pytest.mark.req("F-089", "X-21")
def test_a_file_name_is_read_from_its_end_because_a_name_may_hold_two_hyphens(
    tmp_path: Path,
) -> None:
    inner = "a--2026-01-01T00-00-00Z--00000000"
    for name, moment in (
        ("a", "2026-05-01T00-00-00Z"),
        ("a--b", "2026-06-01T00-00-00Z"),
        (inner, "2026-07-01T00-00-00Z"),
        ("a--b--c", "2026-08-01T00-00-00Z"),
    ):
        file = names.primitive_file(name, moment, "93baef35", "mjs")
        (tmp_path / file).write_text("")
        assert names.stamp(names.file_stamp(file) or START) == moment
        assert manifest_name(file) == f"_manifest--{moment}--93baef35.json"
    for name in ("a", "a--b", inner, "a--b--c"):
        found = snapshot_of(str(tmp_path), name)
        assert found is not None
        assert found.file.startswith(f"{name}--2026-0")
        assert found.file.count("--") == name.count("--") + 2
    assert snapshot_of(str(tmp_path), "a--c") is None


@pytest.mark.req("F-090", "X-22")
@given(
    st.lists(
        st.tuples(st.sampled_from(["", "zz--a--", "aa--b--"]), st.integers(0, 10**6)),
        min_size=1,
        max_size=6,
        unique_by=lambda pair: pair[1],
    ),
    st.randoms(use_true_random=False),
)
def test_the_newest_version_does_not_depend_on_the_order_of_the_folder(
    items: Any, random: Any
) -> None:
    listed = [
        f"x--{persona}{names.stamp(START + timedelta(seconds=second))}.json"
        for persona, second in items
    ]
    expected = listed[max(range(len(items)), key=lambda number: items[number][1])]
    random.shuffle(listed)
    assert names.latest(listed, "x") == expected


@pytest.mark.req("F-091")
@pytest.mark.parametrize(
    ("area", "folder"),
    [
        ("single-test", "providers/n/s/tools/t/_gradings"),
        ("tools-aggregate-schema", "providers/n/s/_gradings"),
        ("tools-aggregate-namespace", "providers/n/_gradings"),
        ("namespace-description", "providers/n/_gradings"),
        ("namespace-skills", "providers/n/s/skills/k/_gradings"),
        ("about-namespace", "providers/n/s/resources/about/_gradings"),
        ("about-selection", "selections/g/resources/about/_gradings"),
        ("selection-skills-L1", "selections/g/skills/k/_gradings"),
        ("selection-skills-L2", "selections/g/skills/k/_gradings"),
        ("selection-skills-L3", "selections/g/skills/k/_gradings"),
        ("selection-aggregate", "selections/g/_gradings"),
    ],
)
@pytest.mark.parametrize(
    "key",
    [
        "n",
        "s",
        "t",
        "k",
        "g",
    ],
)
def test_gradings_lie_beside_what_they_grade(area: str, folder: str, key: Any) -> None:
    place = {"namespace": "n", "schema": "s", "tool": "t", "skill": "k", "selection": "g"}
    assert names.gradings_dir(area, place) == folder
    if f"/{key}/" in folder:
        missing = {name: value for name, value in place.items() if value != key}
        assert code_of(names.gradings_dir, area, missing) == "FMC-012"


@pytest.mark.req("F-091")
@pytest.mark.parametrize(
    "name",
    [
        "..",
        ".",
        "",
        "a/b",
        "a\\b",
        ".hidden",
        "-x",
        "a..b",
        "é",
        "a b",
        "a\n",
        "x" * 201,
        None,
        5,
        True,
        ["a"],
    ],
)
def test_no_name_leads_out_of_the_tree(name: Any) -> None:
    assert code_of(names.gradings_dir, "tools-aggregate-namespace", {"namespace": name}) in (
        "FMC-007",
        "FMC-012",
    )


@pytest.mark.req("F-091")
def test_a_namespace_that_is_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "tree" / "providers").mkdir(parents=True)
    (tmp_path / "outside").mkdir()
    os.symlink(tmp_path / "outside", tmp_path / "tree" / "providers" / "alpha")
    assert code_of(import_one, tree_of(tmp_path / "tree"), schema_of(), [], now=at(0)) == "FMC-009"
    assert os.listdir(tmp_path / "outside") == []


@pytest.mark.req("F-092", "F-095")
def test_two_entries_of_one_second_are_both_kept_in_their_order(tree: Tree) -> None:
    paths = [put(tree, 1, judged(score=score)) for score in (5, 4, 1)]
    assert len(set(paths)) == 3
    assert len({read(path)["gradingId"] for path in paths}) == 3
    assert tree.node("single-test", TOOL).path == paths[-1]
    assert status(tree) == "graded"


@pytest.mark.req("F-081", "F-092")
def test_two_personas_of_one_second_are_both_kept_in_their_order(tmp_path: Path) -> None:
    tree = tree_of(tmp_path)
    import_one(tree, schema_of(about="# About"), [], now=at(0))
    put(tree, 1)
    put(tree, 1, area="tools-aggregate-schema")
    put(
        tree,
        2,
        judged(score=5),
        area="about-namespace",
        persona={"basePersonaId": "schema-maintainer", "lensId": "x"},
    )
    second = put(
        tree,
        2,
        judged(score=3),
        area="about-namespace",
        persona={"basePersonaId": "ai-engineer", "lensId": "x"},
        why="scheduled",
    )
    node = tree.node("about-namespace", SCHEMA)
    assert (node.status, node.path) == ("graded", second)


@pytest.mark.req("F-081", "F-092")
def test_a_clock_that_stands_before_the_newest_entry_is_refused(tree: Tree) -> None:
    put(tree, 10)
    assert code_of(put, tree, 9) == "FMC-013"


# --- recording


@pytest.mark.req("F-024", "F-092")
def test_a_deterministic_and_a_judged_block_become_one_entry(tree: Tree) -> None:
    head = {
        "area": "single-test",
        "harness": "claude-code",
        "version": "flowmcp/4.0.0",
        "timestamp": time_text(at(1)),
    }
    path, place, built = record(
        tree, [{**head, "answers": [probe()]}, {**head, "answers": [judged()]}], TOOL, now=at(1)
    )
    assert [answer["questionId"] for answer in read(path)["gradings"]] == [
        "Q-api-availability",
        "Q-whenToUse",
    ]
    assert (place, built is not None) == (TOOL, True)
    assert (
        code_of(
            record,
            tree,
            [
                {**head, "answers": [probe()]},
                {**head, "area": "namespace-description", "answers": [judged()]},
            ],
            TOOL,
            now=at(2),
        )
        == "FMC-016"
    )
    assert code_of(record, tree, [{**head, "answers": [probe()]}], TOOL, now=at(2)) == "GRD-014"


@pytest.mark.req("F-060", "F-095", "F-097")
def test_every_write_leaves_whole_files_and_an_index_that_knows_it(tree: Tree) -> None:
    path = put(tree, 1)
    index = json.loads(Path(tree.root, "providers", "alpha", "index.json").read_text())
    node = index["schemas"]["prices"]["tools"]["getPrice"]
    assert os.path.join(tree.root, "providers", "alpha", node["ref"]) == path
    assert (
        node["boundTo"]
        == read(path)["schemaHash"]
        == index["schemas"]["prices"]["snapshot"]["hash"]
    )
    assert [
        name
        for _, _, found in os.walk(tree.root)
        for name in found
        if name.startswith(".") and name != ".lock"
    ] == []
    assert (
        b"schemaHash"
        not in Path(
            tree.root,
            "providers",
            "alpha",
            "prices",
            index["schemas"]["prices"]["snapshot"]["file"],
        ).read_bytes()
    )


@pytest.mark.req("F-107", "F-146")
def test_a_blocker_blocks_its_node_with_its_reason(tree: Tree) -> None:
    put(tree, 1)
    put(tree, 2, blocker="api-down", reason="503 for three days", answers=None)
    node = tree.node("single-test", TOOL)
    assert (node.status, node.reason) == ("blocked", "api-down")
    put(tree, 3)
    assert status(tree) == "stable"


@pytest.mark.req("F-055")
def test_a_grading_of_a_skill_that_is_not_named_is_refused(tree: Tree) -> None:
    assert code_of(put, tree, 1, judged(), area="namespace-skills", persona=PERSONA)


def test_a_refused_record_leaves_no_trace(tree: Tree) -> None:
    assert code_of(put, tree, 1, place={**TOOL, "namespace": "alhpa"}) == "IDX-006"
    assert tree.names("providers") == ["alpha"]


@pytest.mark.req("X-37")
@pytest.mark.parametrize("iteration", [11, -1, True, "1", 1.5])
def test_an_iteration_out_of_its_range_is_refused(tree: Tree, iteration: Any) -> None:
    assert code_of(put, tree, 1, iteration=iteration) == "GRD-030"
    put(tree, 1, iteration=3)


# --- import and export


@pytest.mark.req("F-092", "F-094")
def test_an_import_creates_adds_a_version_leaves_alone_or_blocks(tmp_path: Path) -> None:
    tree = tree_of(tmp_path)
    first = import_one(tree, schema_of(), [], now=at(0))
    held = files(tree.root)
    assert first.action == "created"
    assert import_one(tree, schema_of(), [], now=at(1)).action == "unchanged"
    assert files(tree.root) == held
    second = import_one(tree, schema_of(text="changed"), [], now=at(2))
    assert second.action == "new version"
    assert {path: data for path, data in files(tree.root).items() if path in held} == held
    blocked = import_one(tree, schema_of(text="broken"), [ERROR], now=at(3))
    assert (blocked.action, "too many tools" in blocked.reason) == ("blocked", True)
    assert status(tree, "tools-aggregate-schema") == "blocked"
    assert tree.node("tools-aggregate-schema", SCHEMA).reason == "validation-failed"


@pytest.mark.req("F-094")
def test_a_warning_blocks_no_import(tmp_path: Path) -> None:
    assert (
        import_one(
            tree_of(tmp_path),
            schema_of(),
            [msgspec.structs.replace(ERROR, level="warning")],
            now=at(0),
        ).action
        == "created"
    )


@pytest.mark.req("F-093", "F-094")
def test_an_import_keeps_the_source_byte_for_byte_and_its_parts_beside_it(tmp_path: Path) -> None:
    tree = tree_of(tmp_path)
    schema = schema_of(about="# About\nPrices.\n")
    written = import_one(tree, schema, [], now=at(0))
    assert Path(written.path).read_bytes() == schema.source
    assert Path(written.path).name == f"prices--2026-05-01T12-00-00Z--{hash8(schema.main)}.mjs"
    (page,) = glob.glob(f"{tree.root}/providers/alpha/prices/resources/about/about--*.md")
    assert Path(page).read_bytes() == b"# About\nPrices.\n"
    (tool,) = glob.glob(f"{tree.root}/providers/alpha/prices/tools/getPrice/getPrice--*.json")
    assert json.loads(Path(tool).read_text()) == schema.main["tools"]["getPrice"]


@pytest.mark.req("F-091", "F-094")
@pytest.mark.parametrize("tool", ["../x", "a/b", "", ".x"])
def test_a_tool_whose_name_is_no_name_of_a_file_is_not_imported(tmp_path: Path, tool: str) -> None:
    tree = tree_of(tmp_path)
    assert code_of(import_one, tree, schema_of(tools=(tool,)), [], now=at(0)) == "FMC-007"
    assert files(tree.root) == {}


@pytest.mark.req("F-009", "F-094", "X-04", "X-07", "X-28")
def test_an_export_is_strict_fresh_and_plainly_named(tree: Tree, tmp_path: Path) -> None:
    strict = put(tree, 1)
    put(tree, 2, harness="another", version="unknown")
    import_one(tree, schema_of(text="changed"), [], now=at(3))
    target = tmp_path / "out"
    written = export(tree, "providers", "alpha", str(target))
    assert os.path.basename(written[0]) == "index.json"
    assert (target / "prices.mjs").read_bytes() == schema_of(text="changed").source
    entries = list(target.rglob("_gradings/*.json"))
    assert [path.read_bytes() for path in entries] == [Path(strict).read_bytes()]
    index = json.loads((target / "index.json").read_text())
    validator = jsonschema_rs.Draft202012Validator(published_schema("index"), offline=True)
    assert validator.is_valid(index)
    assert "scoringSystem" not in index
    assert all(schema_valid(json.loads(path.read_text())) for path in entries)
    assert code_of(export, tree, "providers", "alpha", str(target)) == "FIL-008"
    assert code_of(export, tree, "providers", "beta", str(tmp_path / "other")) == "IDX-006"


@pytest.mark.req("F-092", "F-094")
def test_an_export_changes_nothing_in_the_tree(tree: Tree, tmp_path: Path) -> None:
    put(tree, 1)
    held = {str(path): path.read_bytes() for path in Path(tree.root).rglob("*") if path.is_file()}
    export(tree, "providers", "alpha", str(tmp_path.parent / f"{tmp_path.name}-out"))
    assert {
        str(path): path.read_bytes() for path in Path(tree.root).rglob("*") if path.is_file()
    } == held


# --- the index


def graded_namespace(folder: Path) -> Tree:
    tree = tree_of(folder)
    import_one(tree, schema_of(about="# About"), [], now=at(0))
    put(tree, 1)
    put(tree, 2, area="tools-aggregate-schema")
    put(tree, 3, judged(score=5), area="about-namespace", persona=PERSONA)
    put(
        tree,
        4,
        judged(),
        area="namespace-skills",
        place={**SCHEMA, "skill": "signpost"},
        persona=PERSONA,
        skillId="signpost",
    )
    put(tree, 5, judged(), area="namespace-description")
    put(tree, 6, judged(score=3), area="tools-aggregate-namespace")
    return tree


@pytest.mark.req("F-096", "F-099", "F-100", "F-101", "X-09")
def test_the_index_of_a_namespace_carries_all_six_areas(tmp_path: Path) -> None:
    index = index_of(graded_namespace(tmp_path))
    assert (index["indexVersion"], index["namespace"], index["status"], index["grade"]) == (
        2,
        "alpha",
        "partial",
        "C",
    )
    assert idx.index_fault(index) is None
    assert index["skills"]["prices.signpost"]["status"] == "stable"
    assert {
        key: index["summary"][key]
        for key in ("schemas", "tools", "toolsStable", "about", "description", "skills")
    } == {
        "schemas": 1,
        "tools": 1,
        "toolsStable": 1,
        "about": "stable",
        "description": "stable",
        "skills": 1,
    }
    assert index["namespaceAggregate"]["grade"] == "C"
    assert (
        index["schemas"]["prices"]["toolsAggregate"]["boundTo"]
        == index["schemas"]["prices"]["snapshot"]["hash"]
    )
    assert index["blockers"] == []


@pytest.mark.req("F-105", "F-106", "X-09")
def test_the_about_page_counts_in_the_grade_of_the_whole(tmp_path: Path) -> None:
    tree = graded_namespace(tmp_path)
    put(tree, 7, judged(score=1), area="about-namespace", persona=PERSONA, why="scheduled")
    assert index_of(tree)["grade"] == "F"


@pytest.mark.req("F-031", "X-09")
def test_where_nothing_is_graded_there_is_no_grade(tree: Tree) -> None:
    index = index_of(tree)
    assert "grade" not in index
    assert index["status"] == "blocked"


@pytest.mark.req("F-092", "F-096", "F-097")
def test_the_index_is_made_from_the_tree_alone_and_has_the_same_bytes_each_time(
    tmp_path: Path,
) -> None:
    tree = graded_namespace(tmp_path)
    path = tmp_path / "providers" / "alpha" / "index.json"
    first = path.read_bytes()
    path.unlink()
    index_of(tree)
    assert path.read_bytes() == first
    shutil.copytree(tmp_path / "providers", tmp_path / "copy" / "providers")
    (tmp_path / "copy" / "providers" / "alpha" / "index.json").unlink()
    index_of(tree_of(tmp_path / "copy"))
    assert (tmp_path / "copy" / "providers" / "alpha" / "index.json").read_bytes() == first


@pytest.mark.req("F-097")
def test_an_index_that_says_nothing_new_is_not_written_again(tmp_path: Path) -> None:
    tree = graded_namespace(tmp_path)
    path = tmp_path / "providers" / "alpha" / "index.json"
    os.utime(path, (1, 1))
    index_of(tree)
    assert path.stat().st_mtime == 1


@pytest.mark.req("F-009", "F-096")
def test_the_times_of_an_index_are_those_of_the_tree(tmp_path: Path) -> None:
    assert index_of(graded_namespace(tmp_path))["updatedAt"] == names.stamp(at(6))


@pytest.mark.req("F-157")
def test_what_is_out_of_scope_is_no_node_of_the_index(tmp_path: Path) -> None:
    tree, schema = tree_of(tmp_path), schema_of()
    schema.main["resources"] = {"table": {"source": "sqlite"}}
    schema.main["sharedLists"] = [{"ref": "x"}]
    schema.main.update(prompts={"ask": {}}, procedures={"do": {}})
    import_one(tree, schema, [], now=at(0))
    assert [path for path, _ in nodes_of(tree.index("providers", "alpha"))] == [
        "about",
        "description",
        "namespaceAggregate",
        "schemas.prices",
        "schemas.prices.toolsAggregate",
        "schemas.prices.tools.getPrice",
    ]


@pytest.mark.req("F-096", "F-100")
def test_an_index_has_the_published_form_without_its_two_version_keys(tmp_path: Path) -> None:
    index = json.loads(idx.index_bytes(index_of(graded_namespace(tmp_path))))
    validator = jsonschema_rs.Draft202012Validator(published_schema("index"), offline=True)
    assert not validator.is_valid(index)
    assert validator.is_valid(idx.strict(index))
    assert faults_by("index-extended", index, "the index") == []
    assert faults_by("index-extended", {**index, "scoringSystem": "1.0"}, "the index")


@pytest.mark.req("F-069", "F-096", "F-099", "F-108")
@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"indexVersion": 1, "status": "graded"}, "IDX-003"),
        ({"indexVersion": True}, "IDX-003"),
        ({"indexVersion": None}, "IDX-003"),
        ({"indexVersion": "2"}, "IDX-003"),
        ({"status": "graded"}, "IDX-007"),
        ({"description": {"status": "operational"}}, "IDX-007"),
        (
            {"schemas": {"a": {"status": "pending", "tools": {"t": {"status": "partial"}}}}},
            "IDX-007",
        ),
        ({"lockSnapshot": {"members": [{"gradingStatus": "fine"}]}}, "IDX-007"),
        ({"namespace": ...}, "IDX-001"),
        ({"updatedAt": ...}, "IDX-001"),
        ({"status": ...}, "IDX-001"),
        ({"description": ...}, "IDX-001"),
        ({"skills": ...}, "IDX-001"),
        ({"about": {}}, "IDX-001"),
        ({"about": 5}, "IDX-002"),
        ({"about": {"status": "graded", "grade": "E"}}, "IDX-007"),
    ],
)
def test_the_first_thing_wrong_with_an_index_is_told(change: dict[str, Any], code: str) -> None:
    sound = {
        "indexVersion": 2,
        "namespace": "a",
        "updatedAt": "x",
        "status": "pending",
        "description": {"status": "pending"},
        "skills": {},
    }
    assert idx.index_fault(sound) is None
    fault = idx.index_fault(
        {key: value for key, value in {**sound, **change}.items() if value is not ...}
    )
    assert fault is not None
    assert fault.code == code


@pytest.mark.req("F-108")
@pytest.mark.parametrize("value", [None, [], "x", 5])
def test_what_is_no_object_is_no_index(value: Any) -> None:
    fault = idx.index_fault(value)
    assert fault is not None
    assert fault.code == "IDX-002"


@pytest.mark.req("X-08")
def test_an_a_on_a_tool_is_never_shown(tree: Tree) -> None:
    path = put(tree, 1, judged(score=5))
    Path(path).write_text(json.dumps({**read(path), "aggregateGrade": "A"}))
    assert index_of(tree)["schemas"]["prices"]["tools"]["getPrice"]["status"] == "blocked"


# --- the gate


@pytest.mark.req("F-136", "F-137", "X-39")
def test_the_gate_opens_for_a_stable_schema_with_a_clean_validation_and_no_veto(
    tmp_path: Path,
) -> None:
    index = index_of(graded_namespace(tmp_path))
    node, clean = index["schemas"]["prices"], [VetoCheck("malicious-module", "clean", "", {})]

    def gate(shown: dict[str, Any] | None = node, **changes: Any) -> ToolGateResult:
        given: dict[str, Any] = {
            "findings": [],
            "checks": clean,
            "tools": list(node["tools"]),
            **changes,
        }
        return schema_gate("alpha.prices", shown, RULES, **given)

    assert gate().passed
    for unclear in (
        gate(checks=[clean[0]._replace(outcome="undetermined")]),
        gate(tools=None),
        gate(tools=[]),
    ):
        assert (unclear.passed, unclear.violated) == (False, False)
    shut = [
        gate(findings=[ERROR]),
        gate(checks=[clean[0]._replace(outcome="veto")]),
        gate(rejected=["about"]),
        gate({**node, "status": "graded"}),
        gate({**node, "grade": "C"}),
        gate({**node, "tools": {**node["tools"], "getPrice": {"status": "graded"}}}),
        gate({**node, "tools": {}}),
        gate(tools=[*node["tools"], "another"]),
    ]
    assert [(found.passed, found.violated) for found in shut] == [(False, True)] * len(shut)
    assert not gate(findings=None, checks=None).passed
    assert not gate(None).passed
    assert not namespace_gate("alpha", index, RULES).passed
