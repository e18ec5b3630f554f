"""Selections: counted by namespaces, gated by a frozen lock, graded only when every member stands
on its own.
"""

from __future__ import annotations

import glob
import json
import os
import re
import shutil
from datetime import UTC, datetime, timedelta
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
from assay.families.tools import index as idx
from assay.families.tools import names
from assay.families.tools.ecma import document_bytes, hash8
from assay.families.tools.entry import Trigger, faults_by, published_schema
from assay.families.tools.index import contradictions
from assay.families.tools.intake import export, import_one, import_selection
from assay.families.tools.manifest import snapshot_of
from assay.families.tools.names import AREAS, GROUP_BOUND
from assay.families.tools.policy import SchemaRules
from assay.families.tools.record import record
from assay.families.tools.records import LockedMember, SelectionLock
from assay.families.tools.records import document as plain
from assay.families.tools.regrade import regrade
from assay.families.tools.selection import (
    check_ready,
    check_selection,
    frozen_bytes,
    make_lock,
    namespaces_of,
    size_cap,
    size_outcome,
)
from assay.families.tools.source import ToolSchema
from assay.families.tools.status import READINESS, meets
from assay.families.tools.tree import Tree
from assay.library.shelf import Shelf

RULES = SchemaRules(Shelf().policy_of("flowmcp", "flowmcp"))
START = datetime(2026, 5, 1, 12, tzinfo=UTC)
LLM = {"kind": "llm", "name": "judge", "version": "1"}
PERSONA = {"basePersonaId": "decision-maker", "lensId": "crypto"}
VETO = {
    "triggeredBy": "illegal-content",
    "evidence": "seen",
    "graderIdentity": {"kind": "script", "name": "s", "version": "1"},
}
NAMESPACES = ("alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta")
HERE = {"selection": "defi"}


def at(hours: float) -> datetime:
    return START + timedelta(hours=hours)


def schema_of(namespace: str, *, text: str = "x") -> ToolSchema:
    main: dict[str, Any] = {
        "namespace": namespace,
        "name": "prices",
        "version": "4.0.0",
        "description": text,
        "root": f"https://api.{namespace}.com",
    }
    main["tools"] = {
        "getPrice": {"method": "GET", "path": "/x", "tests": [{"n": number} for number in range(3)]}
    }
    return ToolSchema(
        "flowmcp", "/x/prices.mjs", namespace, "prices", main, "{}", json.dumps(main).encode()
    )


def answer(question: str = "Q-personaUseCaseFit", score: Any = 5, **changes: Any) -> dict[str, Any]:
    made = {
        "questionId": question,
        "score": score,
        "weight": 1,
        "determinism": "non-deterministic",
        "graderIdentity": LLM,
        "llmModel": "m-1",
        "selectionContext": {"groupId": "defi", "personaIds": ["decision-maker"]},
        "reasoning": "It fits.",
    }
    return {**made, **changes}


def put(
    tree: Tree,
    hours: float,
    *answers: dict[str, Any],
    area: str = "selection-aggregate",
    place: dict[str, str] | None = None,
    why: str = "",
    **extra: Any,
) -> str:
    made = {
        "area": area,
        "harness": "claude-code",
        "version": "flowmcp/4.0.0",
        "timestamp": time_text(at(hours)),
        "answers": list(answers) or [answer()],
        **extra,
    }
    if AREAS[area].persona:
        made.setdefault("persona", PERSONA)
    return record(
        tree, [made], place or HERE, now=at(hours), trigger=Trigger(why) if why else None
    )[0]


def selection_of(count: int = 7, **changes: Any) -> dict[str, Any]:
    made = {
        "selectionId": "defi",
        "namespace": "group",
        "name": "DeFi",
        "version": "flowmcp/4.0.0",
        "description": "Prices of many sources.",
        "whenToUse": "To compare prices.",
        "personaIds": ["decision-maker"],
        "members": [{"schemaId": f"{namespace}.prices"} for namespace in NAMESPACES[:count]],
        "skills": [],
        "resources": {"about": "# About\nPrices of many sources.\n"},
    }
    return {key: value for key, value in {**made, **changes}.items() if value is not ...}


def members(tree: Tree, count: int = 7, *, hours: float = 1) -> None:
    """Import and grade that many schemas until they are stable."""
    for namespace in NAMESPACES[:count]:
        place = {"namespace": namespace, "schema": "prices"}
        import_one(tree, schema_of(namespace), [], now=at(0))
        put(
            tree,
            hours,
            answer("Q-whenToUse", 4),
            area="single-test",
            place={**place, "tool": "getPrice"},
        )
        put(tree, hours, answer("Q-whenToUse", 4), area="tools-aggregate-schema", place=place)


def lock_of(lock: Any) -> Any:
    return None if lock is None else msgspec.convert(lock, SelectionLock)


def locked(tree: Tree, document: dict[str, Any], *, hours: float = 2) -> dict[str, Any]:
    import_selection(tree, document, "selection.json", now=at(hours))
    with tree.locked("selections", "defi"):
        return plain(tree.take_lock("defi", now=at(hours)))


WORLDS: dict[int, dict[str, bytes]] = {}
"""The files of each tree that a test has made, for the tests that begin with the same."""


def world(folder: Path, count: int = 7, **changes: Any) -> Tree:
    """A tree with a locked selection of that many stable members."""
    tree = Tree(str(folder), RULES)
    if changes or count not in WORLDS:
        members(tree, count)
        locked(tree, selection_of(count, **changes))
        if not changes:
            files = [path for path in folder.rglob("*") if path.is_file()]
            WORLDS[count] = {str(one.relative_to(folder)): one.read_bytes() for one in files}
    else:
        for name, data in WORLDS[count].items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(data)
    return tree


def index_of(tree: Tree) -> dict[str, Any]:
    index = plain(tree.rebuild("selections", "defi"))
    assert list(contradictions(index, RULES)) == []
    return index


def read(path: str | Path) -> dict[str, Any]:
    return json.loads(Path(path).read_text())


def code_of(take: Any, *arguments: Any, **named: Any) -> str:
    with pytest.raises(AssayError) as caught:
        take(*arguments, **named)
    return caught.value.code


# --- size


@pytest.mark.req("F-109", "X-31", "X-32")
@pytest.mark.parametrize(
    "wrong",
    [
        -1,
        True,
        None,
        "7",
        6.5,
        [],
    ],
)
def test_the_number_of_namespaces_says_what_a_selection_may_reach(wrong: Any) -> None:
    assert [size_outcome(count, RULES) for count in (0, 1, 4, 5, 6, 7, 8, 10**6)] == [
        "n/a",
        "n/a",
        "n/a",
        "max B",
        "max B",
        "A allowed",
        "A allowed",
        "A allowed",
    ]
    assert [size_cap(count, RULES) for count in (5, 6, 7)] == ["B", "B", None]
    assert size_outcome(7.0, RULES) == "A allowed"
    assert code_of(size_outcome, wrong, RULES) == "FMC-012"


@pytest.mark.req("F-109", "X-31")
@given(st.lists(st.tuples(st.sampled_from(NAMESPACES), st.sampled_from("abcdef")), max_size=20))
def test_namespaces_count_and_members_do_not(pairs: list[tuple[str, str]]) -> None:
    assert namespaces_of(f"{namespace}.{schema}" for namespace, schema in pairs) == {
        namespace for namespace, _ in pairs
    }


@pytest.mark.req("F-109", "X-32")
def test_a_selection_of_four_namespaces_is_not_graded_however_many_members_it_has(
    tmp_path: Path,
) -> None:
    tree = world(tmp_path, 4)
    for area in (area for area in AREAS.values() if area.tier == GROUP_BOUND):
        place = {**HERE, "skill": "s"} if area.skill else HERE
        assert code_of(put, tree, 3, area=area.name, place=place) == "FMC-015"
    index = index_of(tree)
    assert (index["grade"], index["selectionAggregate"]["status"], index["summary"]["size"]) == (
        "n/a",
        "blocked",
        "n/a",
    )
    assert any(
        item["node"] == "selectionAggregate" and "4 namespaces" in item["reason"]
        for item in index["blockers"]
    )


@pytest.mark.req("F-109", "F-110")
@pytest.mark.parametrize(
    ("count", "grade"), [pytest.param(5, "B", marks=pytest.mark.campaign), (6, "B"), (7, "A")]
)
def test_a_selection_of_five_or_six_namespaces_cannot_be_a(
    tmp_path: Path, count: int, grade: str
) -> None:
    tree = world(tmp_path, count)
    path = put(tree, 3)
    assert read(path)["aggregateGrade"] == grade
    index = index_of(tree)
    assert (
        index["grade"],
        index["selectionAggregate"]["rawGrade"],
        index["selectionAggregate"]["status"],
    ) == (grade, "A", "stable")
    assert index["summary"]["namespaces"] == count


@pytest.mark.req("F-109")
def test_grading_again_does_not_lift_the_cap_of_a_small_selection(tmp_path: Path) -> None:
    tree = world(tmp_path, 6)
    put(tree, 3, answer(), answer("Q-apiAvailability", 4, timestamp=time_text(at(0))))
    (outcome,) = regrade(tree, "selections", "defi", "scheduled", now=at(24 * 40))
    assert (outcome.action, outcome.grade) == ("regraded", "B")


@pytest.mark.req("F-109", "X-32")
@pytest.mark.parametrize(("count", "grade"), [(6, None), (4, "n/a")])
def test_an_a_that_another_program_wrote_into_a_small_selection_is_not_shown(
    tmp_path: Path, count: int, grade: str | None
) -> None:
    good = put(world(tmp_path / "large"), 3)
    tree = world(tmp_path / "small", count)
    home = Path(tree.root, "selections", "defi")
    snapshot = snapshot_of(str(home), "selection")
    assert snapshot is not None
    (home / "_gradings").mkdir()
    forged = {
        **read(good),
        "schemaHash": snapshot.hash8,
        "gradingId": f"{snapshot.hash8}--{names.stamp(at(3))}",
    }
    (home / "_gradings" / os.path.basename(good)).write_text(json.dumps(forged))
    index = index_of(tree)
    assert (index.get("grade"), index["selectionAggregate"]["status"]) == (grade, "blocked")
    assert f"{count} namespaces are fewer than" in index["selectionAggregate"]["reason"]


@pytest.mark.req("F-035", "F-110")
def test_a_large_selection_is_a_only_by_an_answer_that_is_bound_to_the_group(
    tmp_path: Path,
) -> None:
    tree = world(tmp_path)
    assert read(put(tree, 3, answer("Q-whenToUse", 5)))["aggregateGrade"] == "B"
    assert (
        read(
            put(
                tree, 4, answer("Q-whenToUse", 5), answer("Q-domainConformance", 5), why="scheduled"
            )
        )["aggregateGrade"]
        == "A"
    )


# --- members


@pytest.mark.req("F-102", "F-113")
def test_members_are_shown_as_they_stand_in_their_own_namespaces_and_never_copied(
    tmp_path: Path,
) -> None:
    tree = world(tmp_path)
    index = index_of(tree)
    member = index["members"]["alpha.prices"]
    assert (member["status"], member["grade"]) == ("stable", "B")
    assert (tmp_path / member["resolvedArtifact"]).is_file()
    assert (tmp_path / member["ref"]).is_file()
    inside = [path.name for path in (tmp_path / "selections").rglob("*") if path.is_file()]
    assert not any("prices" in name or "getPrice" in name for name in inside)


@pytest.mark.req("F-102", "F-113")
def test_a_member_that_is_not_in_the_tree_is_pending_and_listed_as_a_blocker(
    tmp_path: Path,
) -> None:
    tree = Tree(str(tmp_path), RULES)
    members(tree, 6)
    lock = locked(tree, selection_of(7))
    index = index_of(tree)
    assert index["members"]["eta.prices"] == {
        "status": "pending",
        "resolvedArtifact": None,
        "reason": "not imported",
    }
    assert {"node": "members.eta.prices", "reason": "not imported"} in index["blockers"]
    assert lock["members"][6] == {
        "schemaId": "eta.prices",
        "schemaVersion": None,
        "schemaHash": None,
        "gradingStatus": "pending",
        "override": None,
    }


@pytest.mark.req("F-113")
def test_grading_a_selection_writes_nothing_into_its_members(tmp_path: Path) -> None:
    tree = world(tmp_path)
    held = {
        path: path.read_bytes() for path in (tmp_path / "providers").rglob("*") if path.is_file()
    }
    put(tree, 3)
    assert {
        path: path.read_bytes() for path in (tmp_path / "providers").rglob("*") if path.is_file()
    } == held


@pytest.mark.req("F-105", "X-33")
def test_the_status_of_a_selection_is_that_of_its_members_its_pages_and_its_skills(
    tmp_path: Path,
) -> None:
    tree = world(tmp_path)
    put(tree, 3)
    put(tree, 3, area="about-selection")
    assert index_of(tree)["status"] == "operational"
    put(
        tree,
        4,
        answer("Q-selectionSkillL1", 3),
        area="selection-skills-L1",
        place={**HERE, "skill": "signpost"},
        skillId="signpost",
    )
    index = index_of(tree)
    assert (index["status"], index["skills"]["signpost"]["status"]) == ("partial", "graded")
    assert (index["summary"]["skills"], index["summary"]["skillsStable"]) == (1, 0)
    put(
        tree,
        5,
        area="selection-skills-L1",
        place={**HERE, "skill": "signpost"},
        skillId="signpost",
        categoricalVeto=VETO,
    )
    assert index_of(tree)["status"] == "rejected"


@pytest.mark.req("F-106")
def test_the_grade_of_a_selection_is_that_of_its_aggregate_alone(tmp_path: Path) -> None:
    tree = world(tmp_path)
    put(tree, 3, area="about-selection")
    assert "grade" not in index_of(tree)
    put(tree, 4, answer(score=3))
    assert index_of(tree)["grade"] == "C"


@pytest.mark.req("F-105")
def test_a_rejected_member_rejects_the_selection(tmp_path: Path) -> None:
    tree = world(tmp_path)
    put(tree, 3)
    put(
        tree,
        4,
        area="tools-aggregate-schema",
        place={"namespace": "alpha", "schema": "prices"},
        categoricalVeto=VETO,
    )
    index = index_of(tree)
    assert (index["status"], index["members"]["alpha.prices"]["status"]) == ("rejected", "rejected")


@pytest.mark.req("F-082", "F-102")
def test_a_selection_that_changed_is_pending_again(tmp_path: Path) -> None:
    tree = world(tmp_path)
    put(tree, 3)
    locked(tree, selection_of(7, whenToUse="To compare prices and volumes."), hours=4)
    for _ in range(3):
        node = index_of(tree)["selectionAggregate"]
        assert (node["status"], node["reason"]) == ("pending", "schema changed, regrade required")


@pytest.mark.parametrize(
    "spoiled", [b"", b"[]", b"{", b'{"members": "x"}', b'{"members": [null]}', b"\xff"]
)
def test_a_selection_that_cannot_be_read_is_blocked_and_never_crashes_the_index(
    tmp_path: Path, spoiled: bytes
) -> None:
    tree = world(tmp_path)
    (path,) = glob.glob(f"{tmp_path}/selections/defi/selection--*")
    Path(path).write_bytes(spoiled)
    assert index_of(tree)["status"] in ("blocked", "pending")


@pytest.mark.parametrize("member", [5, None, ["x"], {"a": 1}])
def test_a_member_that_is_no_text_never_crashes_the_index(tmp_path: Path, member: Any) -> None:
    tree = world(tmp_path, 5)
    (path,) = glob.glob(f"{tmp_path}/selections/defi/selection--*")
    Path(path).write_text(json.dumps({**selection_of(5), "members": [{"schemaId": member}]}))
    assert index_of(tree)["status"] == "blocked"


# --- the lock


@pytest.mark.req("F-098", "F-103")
def test_a_lock_freezes_each_member_with_its_version_hash_and_status(tmp_path: Path) -> None:
    tree = world(tmp_path)
    lock = read(tmp_path / "selections" / "defi" / "index.json")["lockSnapshot"]
    assert (lock["selectionId"], lock["generatedAt"], lock["selectionVersion"]) == (
        "defi",
        time_text(at(2)),
        names.stamp(at(2)),
    )
    assert lock["selectionHash"] == hash8(selection_of(7))
    for member in lock["members"]:
        namespace = member["schemaId"].partition(".")[0]
        assert member == {
            "schemaId": f"{namespace}.prices",
            "schemaVersion": names.stamp(at(0)),
            "schemaHash": hash8(schema_of(namespace).main),
            "gradingStatus": "stable",
            "override": None,
        }
    assert frozen_bytes(tree.home("selections", "defi")) is not None


@pytest.mark.req("F-098", "F-103", "F-096")
def test_the_index_of_a_selection_has_the_published_form(tmp_path: Path) -> None:
    tree = world(tmp_path)
    put(tree, 3)
    validator = jsonschema_rs.Draft202012Validator(published_schema("index"), offline=True)
    assert validator.is_valid(idx.strict(read(tmp_path / "selections" / "defi" / "index.json")))
    assert idx.index_fault(read(tmp_path / "selections" / "defi" / "index.json")) is None
    index = read(tmp_path / "selections" / "defi" / "index.json")
    assert faults_by("index-extended", index, "the index") == []


@pytest.mark.req("F-098", "F-092")
def test_the_lock_is_kept_byte_for_byte_whatever_changes_and_however_another_program_formatted_it(
    tmp_path: Path,
) -> None:
    tree = world(tmp_path)
    path = tmp_path / "selections" / "defi" / "index.json"
    document = read(path)
    strange = re.sub(
        r'("\w+":)', r"\1\t  ", json.dumps(document["lockSnapshot"], indent=7)
    ).replace("defi", "d\\u0065fi")
    head = {key: value for key, value in document.items() if key != "lockSnapshot"}
    path.write_text(json.dumps({"lockSnapshot": "HERE", **head}).replace('"HERE"', strange))
    frozen = frozen_bytes(tree.home("selections", "defi"))
    assert frozen == strange.encode()
    put(tree, 3)
    import_one(tree, schema_of("alpha", text="changed"), [], now=at(4))
    for _ in range(3):
        index = index_of(tree)
        assert strange.encode() in path.read_bytes()
        assert read(path)["lockSnapshot"] == document["lockSnapshot"]
    assert index["members"]["alpha.prices"]["status"] == "pending"


@pytest.mark.req("F-092", "F-098")
def test_a_deleted_index_gives_the_same_bytes_again_with_its_lock(tmp_path: Path) -> None:
    tree = world(tmp_path)
    put(tree, 3)
    path = tmp_path / "selections" / "defi" / "index.json"
    held = path.read_bytes()
    assert b"lockSnapshot" in held
    path.unlink()
    index_of(tree)
    assert path.read_bytes() == held
    path.write_bytes(b"\xff nonsense")
    index_of(tree)
    assert path.read_bytes() == held, "the lock has a file of its own"


@pytest.mark.req("F-098", "X-35")
def test_a_new_lock_stands_beside_the_old_one(tmp_path: Path) -> None:
    tree = world(tmp_path)
    first = Path(glob.glob(f"{tmp_path}/selections/defi/lock--*")[0]).read_bytes()
    import_one(tree, schema_of("alpha", text="changed"), [], now=at(3))
    with tree.locked("selections", "defi"):
        newer = plain(tree.take_lock("defi", now=at(4)))
    locks = sorted(glob.glob(f"{tmp_path}/selections/defi/lock--*"))
    assert len(locks) == 2
    assert Path(locks[0]).read_bytes() == first
    assert newer["members"][0]["gradingStatus"] == "pending"
    assert read(tmp_path / "selections" / "defi" / "index.json")["lockSnapshot"] == newer
    with tree.locked("selections", "defi"):
        tree.take_lock("defi", now=at(4))
        assert code_of(tree.take_lock, "defi", now=at(3)) == "FMC-013"
    assert len(glob.glob(f"{tmp_path}/selections/defi/lock--*")) == 3
    assert Path(locks[1]).read_bytes() == document_bytes(newer)


@pytest.mark.req("F-103")
def test_only_a_name_and_a_description_may_be_overridden() -> None:
    def lock(override: Any) -> Any:
        return plain(
            make_lock(
                "defi",
                [
                    LockedMember(
                        schema_id="alpha.prices", grading_status="stable", override=override
                    )
                ],
                version=None,
                selection={},
                now=START,
            )
        )

    assert lock({"name": "x", "description": "y"})["members"][0]["override"] == {
        "name": "x",
        "description": "y",
    }
    assert lock(None)["members"][0]["override"] is None
    for wrong in ({"version": "1"}, {"name": "x", "schemaHash": "0"}, {"Name": "x"}):
        assert code_of(lock, wrong) == "LCK-005"
    assert (
        code_of(
            make_lock,
            "defi",
            [LockedMember(schema_id="a.b", grading_status="operational")],
            version=None,
            selection={},
            now=START,
        )
        == "IDX-007"
    )


@pytest.mark.req("F-103")
@pytest.mark.parametrize("override", [True, 5, ["name"]])
def test_an_override_that_is_no_object_is_refused_with_a_code(
    tmp_path: Path, override: Any
) -> None:
    listed = [{"schemaId": f"{namespace}.prices", "override": override} for namespace in NAMESPACES]
    assert code_of(locked, Tree(str(tmp_path), RULES), selection_of(7, members=listed))


@pytest.mark.req("F-098")
def test_a_lock_that_was_edited_in_the_index_does_not_open_the_gate(tmp_path: Path) -> None:
    tree = Tree(str(tmp_path), RULES)
    members(tree)
    import_one(tree, schema_of("alpha", text="changed"), [], now=at(2))
    locked(tree, selection_of(7), hours=3)
    path = tmp_path / "selections" / "defi" / "index.json"
    path.write_text(
        path.read_text().replace('"gradingStatus": "pending"', '"gradingStatus": "stable"')
    )
    assert code_of(put, tree, 4) == "LCK-006"
    path.unlink()
    assert code_of(put, tree, 4) == "PRE-004"


# --- the gate before a group-bound grading


@pytest.mark.req("F-117", "F-118", "F-119")
def test_members_that_are_not_stable_stop_every_group_bound_grading_and_each_is_named(
    tmp_path: Path,
) -> None:
    tree = Tree(str(tmp_path), RULES)
    members(tree, 6)
    import_one(tree, schema_of("eta"), [], now=at(0))
    import_one(tree, schema_of("alpha", text="changed"), [], now=at(2))
    locked(tree, selection_of(7), hours=3)
    entries = tree.entry_paths("selections", "defi")
    with pytest.raises(InputError) as caught:
        put(tree, 4)
    assert caught.value.code == "PRE-004"
    assert [fault.message for fault in caught.value.faults] == [
        f"alpha.prices ({hash8(schema_of('alpha', text='changed').main)}) is pending.",
        f"eta.prices ({hash8(schema_of('eta').main)}) is pending.",
    ]
    assert all(fault.fix for fault in caught.value.faults)
    for name in ("about-selection", "selection-skills-L1", "selection-aggregate"):
        assert code_of(put, tree, 4, area=name, place={**HERE, "skill": "s"}) == "PRE-004"
    assert tree.entry_paths("selections", "defi") == entries


@pytest.mark.req("F-117", "F-098")
def test_the_gate_reads_the_frozen_lock_and_not_the_live_members(tmp_path: Path) -> None:
    tree = Tree(str(tmp_path), RULES)
    members(tree, 6)
    import_one(tree, schema_of("eta"), [], now=at(0))
    locked(tree, selection_of(7))
    members(tree, 7, hours=3)
    assert index_of(tree)["members"]["eta.prices"]["status"] == "stable"
    assert code_of(put, tree, 4) == "PRE-004"
    with tree.locked("selections", "defi"):
        tree.take_lock("defi", now=at(5))
    put(tree, 6)


@pytest.mark.req("F-117", "F-119")
def test_a_selection_without_a_lock_is_not_graded(tmp_path: Path) -> None:
    tree = Tree(str(tmp_path), RULES)
    members(tree)
    import_selection(tree, selection_of(7), "s", now=at(2))
    assert code_of(put, tree, 3) in ("PRE-004", "FMC-015")
    assert tree.entry_paths("selections", "defi") == []


@pytest.mark.req("F-117", "F-119")
@pytest.mark.parametrize(
    "listed",
    [
        None,
        [],
        {},
        "stable",
        [None],
        ["Stable"],
        [True],
        ["stable", "graded"],
        [["stable"]],
        ["operational"],
    ],
)
def test_no_members_and_any_other_status_than_stable_fail_the_gate(listed: Any) -> None:
    outcome = OPS["precondition"]({"members": listed})
    assert (outcome["passed"], outcome["error"]) == (False, "PRE-004")


@pytest.mark.req("F-117")
@given(
    st.lists(
        st.sampled_from(["stable", "graded", "pending", "blocked", "rejected"]),
        min_size=1,
        max_size=8,
    )
)
def test_the_gate_opens_exactly_when_every_member_is_stable(statuses: list[str]) -> None:
    lock = {
        "members": [
            {"schemaId": "a.b", "schemaHash": "0", "gradingStatus": status} for status in statuses
        ]
    }
    if set(statuses) == {"stable"}:
        check_ready(lock_of(lock))
    else:
        assert code_of(check_ready, lock_of(lock)) == "PRE-004"


@pytest.mark.req("F-119")
@pytest.mark.parametrize(
    "lock",
    [
        None,
        {},
        {"members": []},
        {"members": [{}]},
        {"members": [{"gradingStatus": None}]},
    ],
)
def test_a_lock_that_holds_nothing_fails_the_gate(lock: Any) -> None:
    assert code_of(check_ready, lock_of(lock)) == "PRE-004"


@pytest.mark.req("F-117")
def test_a_single_grading_waits_for_nobody(tmp_path: Path) -> None:
    tree = Tree(str(tmp_path), RULES)
    import_one(tree, schema_of("alpha"), [], now=at(0))
    put(
        tree,
        1,
        answer("Q-whenToUse", 4),
        area="single-test",
        place={"namespace": "alpha", "schema": "prices", "tool": "getPrice"},
    )


@pytest.mark.req("F-117")
def test_the_about_page_of_a_namespace_waits_for_its_schemas(tmp_path: Path) -> None:
    tree = Tree(str(tmp_path), RULES)
    place = {"namespace": "alpha", "schema": "prices"}
    import_one(tree, schema_of("alpha"), [], now=at(0))
    assert (
        code_of(put, tree, 1, answer("Q-whenToUse", 4), area="about-namespace", place=place)
        == "PRE-004"
    )
    members(tree, 1, hours=2)
    put(tree, 3, answer("Q-whenToUse", 4), area="about-namespace", place=place)


@pytest.mark.req("F-111")
def test_without_an_about_page_nothing_group_bound_is_graded(tmp_path: Path) -> None:
    tree = world(tmp_path, resources=...)
    assert code_of(put, tree, 3) == "FMC-015"
    assert tree.entry_paths("selections", "defi") == []


@pytest.mark.req("F-120")
@pytest.mark.parametrize(
    "wrong",
    [
        None,
        "",
        "Stable",
        3,
        [],
    ],
)
def test_readiness_is_a_ladder(wrong: Any) -> None:
    assert READINESS == ("imported", "structural-valid", "deterministic-green", "stable")
    for lower, level in enumerate(READINESS):
        assert [meets(level, required) for required in READINESS] == [
            upper <= lower for upper in range(4)
        ]
    assert code_of(meets, wrong, "stable") == "FMC-012"
    assert code_of(meets, "stable", wrong) == "FMC-012"


@pytest.mark.req("F-120")
@pytest.mark.parametrize(
    "area", ["tools-aggregate-namespace", "namespace-description", "namespace-skills"]
)
def test_an_area_of_a_namespace_waits_until_its_schemas_pass_their_validation(
    tmp_path: Path, area: str
) -> None:
    from assay.families.tools.records import SchemaFinding

    tree = Tree(str(tmp_path), RULES)
    import_one(
        tree,
        schema_of("alpha"),
        [SchemaFinding("VAL030", "error", "tools", "too many.", "Split.")],
        now=at(0),
    )
    extra = (
        {"place": {"namespace": "alpha", "schema": "prices", "skill": "s"}}
        if area == "namespace-skills"
        else {"place": {"namespace": "alpha"}}
    )
    assert code_of(put, tree, 1, answer("Q-whenToUse", 5), area=area, **extra) == "PRE-004"


# --- the document


@pytest.mark.req("F-114", "F-115", "F-155", "X-19")
@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"selectionId": "DeFi"}, "SEL-001"),
        ({"selectionId": ...}, "SEL-001"),
        ({"selectionId": "../x"}, "SEL-001"),
        ({"namespace": "A"}, "SEL-001"),
        ({"name": ""}, "SEL-001"),
        ({"version": "4.0.0"}, "SEL-001"),
        ({"version": "flowmcp/3.0.0"}, "SEL-001"),
        ({"description": "too short"}, "SEL-001"),
        ({"description": " " * 20}, "SEL-001"),
        ({"whenToUse": "  "}, "SEL-001"),
        ({"whenToUse": ...}, "SEL-001"),
        ({"personaIds": []}, "SEL-S4"),
        ({"personaIds": [""]}, "SEL-S4"),
        ({"personaIds": ["security-reviewer"]}, "SEL-S4"),
        ({"members": []}, "SEL-002"),
        ({"members": ...}, "SEL-002"),
        ({"members": "x"}, "SEL-002"),
        ({"members": [{"schemaId": "alpha"}]}, "SEL-003"),
        ({"members": [{"schemaId": "alpha/prices"}]}, "SEL-003"),
        ({"members": [{"schemaId": 5}]}, "SEL-003"),
        ({"members": [{}]}, "SEL-003"),
        ({"members": [{"schemaId": "a.b"}, {"schemaId": "a.b"}]}, "SEL-S1"),
        ({"skills": [{"file": str(number)} for number in range(5)]}, "SEL-S3"),
        ({"skills": {}}, "SEL-S3"),
        ({"skills": [5]}, "SEL-S3"),
        ({"skills": [{}]}, "SEL-S3"),
        ({"skills": [{"file": " "}]}, "SEL-S3"),
    ],
)
def test_a_selection_says_what_it_lacks(change: dict[str, Any], code: str) -> None:
    assert check_selection(selection_of()) == selection_of()
    assert code_of(check_selection, selection_of(**change)) == code


@pytest.mark.req("F-114")
@pytest.mark.parametrize(
    "wrong",
    [
        None,
        [],
        "x",
        5,
    ],
)
def test_every_fault_of_a_selection_is_told_at_once(wrong: Any) -> None:
    with pytest.raises(InputError) as caught:
        check_selection({})
    assert {fault.path for fault in caught.value.faults} == {
        "selectionId",
        "namespace",
        "name",
        "version",
        "description",
        "whenToUse",
        "personaIds",
        "members",
    }
    assert code_of(check_selection, wrong) == "SEL-001"


@pytest.mark.req("F-114")
def test_the_version_of_a_selection_is_written_in_ascii_digits() -> None:
    assert code_of(check_selection, selection_of(version="flowmcp/4.٢.0")) == "SEL-001"


@pytest.mark.req("F-092", "F-094")
def test_importing_a_selection_creates_adds_or_leaves_alone(tmp_path: Path) -> None:
    tree = Tree(str(tmp_path), RULES)
    steps = [(0, selection_of()), (1, selection_of()), (2, selection_of(5)), (3, selection_of())]
    assert [
        import_selection(tree, document, "s", now=at(hours)).action for hours, document in steps
    ] == ["created", "unchanged", "new version", "new version"]
    assert len(glob.glob(f"{tmp_path}/selections/defi/selection--*")) == 3


@pytest.mark.req("F-094")
def test_an_exported_selection_has_its_plain_name_and_its_lock(tmp_path: Path) -> None:
    tree = world(tmp_path / "tree")
    put(tree, 3)
    written = export(tree, "selections", "defi", str(tmp_path / "out"))
    assert os.path.basename(written[0]) == "index.json"
    assert read(tmp_path / "out" / "selection.json") == selection_of(7)
    frozen = frozen_bytes(tree.home("selections", "defi"))
    assert frozen is not None
    assert frozen in (tmp_path / "out" / "index.json").read_bytes()
    assert len(list((tmp_path / "out" / "_gradings").iterdir())) == 1


# --- skills


@pytest.mark.req("F-116")
@pytest.mark.parametrize(
    ("signposts", "topics", "cases", "found"),
    [
        (
            {"l1-start": "see l2-trend, then l2-compare."},
            {"l2-trend": "use l3-daily", "l2-compare": ""},
            ["l3-daily"],
            (True, True, []),
        ),
        ({"l1-start": "see l2-trend"}, {"l2-trend": "", "l2-x": ""}, [], (False, True, [])),
        ({"a": "l2-x", "b": ""}, {"l2-x": ""}, [], (False, True, [])),
        ({"l1": "l2-x"}, {"l2-x": ""}, ["l3-y"], (True, False, [])),
        (
            {"l1": "see l2-trends"},
            {"l2-trend": "l3-gone and l3-here"},
            ["l3-here"],
            (False, True, ["l2-trends", "l3-gone"]),
        ),
    ],
)
def test_signposts_name_every_topic_and_topics_every_use_case(
    signposts: dict[str, str],
    topics: dict[str, str],
    cases: list[str],
    found: tuple[bool, bool, list[str]],
) -> None:
    outcome = OPS["skills.crossref"]({"L1": signposts, "L2": topics, "L3": cases})
    assert (outcome["ruleA"], outcome["ruleB"], outcome["dangling"]) == found


@pytest.mark.req("F-116")
@pytest.mark.parametrize(
    ("area", "before"),
    [
        ("selection-skills-L2", "selection-skills-L1"),
        ("selection-skills-L3", "selection-skills-L2"),
    ],
)
def test_a_skill_waits_for_the_level_before_it(tmp_path: Path, area: str, before: str) -> None:
    tree = world(tmp_path)
    with pytest.raises(InputError, match=before) as caught:
        put(tree, 3, area=area, place={**HERE, "skill": "s"}, skillId="s")
    assert caught.value.code == "FMC-015"


@pytest.mark.req("F-116")
def test_the_levels_are_graded_one_after_the_other(tmp_path: Path) -> None:
    tree = world(tmp_path)
    for hours, level in ((3, "L1"), (4, "L2"), (5, "L3")):
        put(
            tree,
            hours,
            area=f"selection-skills-{level}",
            place={**HERE, "skill": f"skill-{level.lower()}"},
            skillId=f"skill-{level.lower()}",
        )
    assert index_of(tree)["summary"]["skillsStable"] == 3


@pytest.mark.req("F-091")
def test_an_entry_of_one_skill_grades_no_other(tmp_path: Path) -> None:
    tree = world(tmp_path)
    good = put(tree, 3, area="selection-skills-L1", place={**HERE, "skill": "one"}, skillId="one")
    other = tmp_path / "selections" / "defi" / "skills" / "two" / "_gradings"
    other.mkdir(parents=True)
    shutil.copy(good, other)
    assert index_of(tree)["skills"]["two"]["status"] == "blocked"


@pytest.mark.req("F-112")
def test_a_broken_convention_costs_points_and_is_no_veto(tmp_path: Path) -> None:
    tree = world(tmp_path)
    entry = read(put(tree, 3, answer("Q-domainConformance", 1), answer("Q-personaUseCaseFit", 5)))
    assert (entry["aggregateGrade"], entry["categoricalVeto"]) == ("C", None)


def test_a_grading_of_a_selection_that_is_not_named_leaves_no_trace(tmp_path: Path) -> None:
    tree = Tree(str(tmp_path), RULES)
    assert code_of(put, tree, 1, place={})
    assert tree.names("selections") == []


@pytest.mark.req("F-117")
def test_a_lock_of_another_version_of_the_selection_does_not_open_the_gate(tmp_path: Path) -> None:
    tree = world(tmp_path)
    import_one(tree, schema_of("theta"), [], now=at(2))
    extended = [*selection_of(7)["members"], {"schemaId": "theta.prices"}]
    import_selection(tree, selection_of(7, members=extended), "s", now=at(3))
    assert code_of(put, tree, 4) == "PRE-004"
    with tree.locked("selections", "defi"):
        tree.take_lock("defi", now=at(5))
    with pytest.raises(InputError, match=r"theta.prices .* is pending"):
        put(tree, 6)


def test_the_grade_of_a_selection_does_not_outlast_an_edit_in_the_tree(tmp_path: Path) -> None:
    tree = world(tmp_path)
    put(tree, 3)
    assert index_of(tree)["grade"] == "A"
    (path,) = glob.glob(f"{tmp_path}/selections/defi/selection--*")
    edited = selection_of(7, members=[*selection_of(6)["members"], {"schemaId": "eta.volumes"}])
    Path(path).write_text(json.dumps(edited))
    index = index_of(tree)
    assert (index.get("grade"), index["selectionAggregate"]["status"]) == (None, "pending")
    assert index["blockers"][0] == {
        "node": "selection",
        "reason": f"{Path(path).name} was changed: its hash is {hash8(edited)}",
        "broken": True,
    }
