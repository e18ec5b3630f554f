"""Behaviour fingerprints: what each system makes of its golden inputs, as one digest.

A change of output without a new version number shows as a changed fingerprint and fails the build.
Words are not behaviour: reasons and explanations are left out. Scoring is fingerprinted on runs and
on formula probes; grading on scorecards that use only `zero_one`, so that a change of another
formula moves the scoring fingerprint alone. Profiles and policies are pinned to version 1, so that
publishing a new one moves nothing here.
"""

from __future__ import annotations

import os
import sys
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from assay.canon import digest
from assay.errors import InputError, ShelfError
from assay.exams.behaviour import grading_behaviour, scoring_behaviour
from assay.exams.marking import Marking
from assay.exams.policy import ExamRules
from assay.exams.versions import CURRENT as EXAM_SYSTEMS
from assay.files.atomic import atomic_write
from assay.files.json_files import Document, Unread, stream_documents
from assay.formulas import normalise
from assay.grading.grade import grade
from assay.grading.policy import make_rules
from assay.library import tables
from assay.library.behaviour import release_behaviour, tool_checks, tool_gates
from assay.library.lints import clashes
from assay.library.shelf import BUILTIN, Shelf, changed, measures, published, systems
from assay.records.grade import GRADING_SYSTEM
from assay.records.reading import read_run, read_scorecard
from assay.records.scorecard import SCORING_SYSTEM
from assay.release.policy import make_release_rules
from assay.scoring.metrics import MEASURES
from assay.scoring.metrics.examples import EXAMPLES
from assay.scoring.metrics.measure import Undetermined
from assay.scoring.profile import make_plan
from assay.scoring.scorecard import score
from assay.tools import aggregate as tool_grading
from assay.tools import status as tool_status
from assay.tools.aging import age_score
from assay.tools.answers import shown
from assay.tools.policy import SchemaRules
from assay.tools.protocol import build_prompts, grade_scores
from assay.tools.record import http_score
from assay.tools.source import Module, ToolSchema
from assay.tools.validation import validate
from assay.tools.versions import CURRENT as TOOL_SYSTEMS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from assay.records.grade import Grade
    from assay.records.scorecard import Scorecard

FAMILIES = ("workflow", "flowmcp", "exam", "release")
GOLDEN = os.path.join(BUILTIN, "golden")
TABLES = os.path.join(BUILTIN, "tables.lock")
_FIRST_MEASURES = ("tests_passed", "latency", "cost")
"""The measures of scoringSystem/1.0.0; one that is added changes no score."""


def _golden(name: str) -> Iterator[Document]:
    for document in stream_documents(os.path.join(GOLDEN, name)):
        if isinstance(document, Unread):
            raise ShelfError("LIB-002", document.fault.text(), where=document.fault.file)
        yield document


def scoring_fingerprint() -> str:
    """What the scoring system makes of its golden runs and formula probes."""
    shelf = Shelf()
    found: list[Any] = []
    for document in _golden("formulas.jsonl"):
        probe = document.tree
        try:
            found.append(normalise(probe["raw"], probe["formula_id"], probe["params"]))
        except InputError as error:
            found.append(error.code)
    for document in _golden("runs.jsonl"):
        run = read_run(document)
        profile = shelf.profile(run.workflow.profile or f"{run.workflow.family}@1")
        rubric = shelf.rubric(run.workflow.rubric) if run.workflow.rubric else None
        found.append(_scored(score(run, make_plan(profile, why="", rubric=rubric))))
        found.append(
            [
                None if isinstance(taken, Undetermined) else taken
                for taken in (MEASURES[name].take(run, {}) for name in _FIRST_MEASURES)
            ]
        )
    return digest(found)


def _scored(card: Scorecard) -> dict[str, Any]:
    return {
        "run_id": card.run_id,
        "gates": card.hard_gates,
        "criteria": [
            [
                item.name,
                item.raw_score,
                item.formula_id,
                item.params,
                item.weight,
                item.critical_floor,
                item.role,
                item.layer,
                item.n,
                item.missing is None,
            ]
            for item in card.criteria
        ],
        "steps": card.step_scores,
        "agents": card.agent_scores,
    }


def grading_fingerprint() -> str:
    """What the grading system makes of its golden scorecards."""
    shelf = Shelf()
    policies = [make_rules(shelf.policy(name)) for name in ("workflow@1", "workflow-judged@1")]
    return digest(
        [
            _graded(grade(read_scorecard(document), rules))
            for rules in policies
            for document in _golden("scorecards.jsonl")
        ]
    )


def _graded(result: Grade) -> dict[str, Any]:
    return {
        "run_id": result.run_id,
        "grade": [result.grade, result.provisional_grade, result.passed, result.reason],
        "scores": [result.score_units, result.adjusted_score_units, result.threshold_units],
        "gates": result.hard_gate_failures,
        "floors": result.floor_failures,
        "criteria": [
            [
                item.name,
                item.norm_units,
                item.adjusted_units,
                item.contribution_units,
                item.floor_units,
                item.floor_failed,
            ]
            for item in result.criteria
        ],
        "rules": [[finding.rule, finding.fired, finding.subject] for finding in result.findings],
    }


def tool_scoring_fingerprint() -> str:
    """What the scoring system of tool schemas makes of its golden evidence: answers, ages, prompts
    and validations.
    """
    return digest([_tried(_tool_score, document.tree) for document in _golden("tool_scores.jsonl")])


def _tool_score(probe: dict[str, Any]) -> Any:
    if probe["kind"] == "http":
        return http_score(probe["status"])
    if probe["kind"] == "age":
        return list(age_score(probe["dimension"], probe["days"], probe["score"]))
    if probe["kind"] == "prompts":
        return build_prompts(
            probe["description"], probe["tools"], when_to_use=probe.get("when_to_use")
        )
    if probe["kind"] == "checks":
        return tool_checks(probe)
    modules = tuple(Module(name, None, "import", 1, True) for name in probe.get("modules", ()))
    schema = ToolSchema(
        "flowmcp", "golden.mjs", "golden", "golden", probe["main"], "{}", b"", modules
    )
    # only what fails a validation moves a grade; the words of warnings may be mended under the same
    # version
    return [
        [finding.rule, finding.path] for finding in validate(schema) if finding.level == "error"
    ]


def tool_grading_fingerprint() -> str:
    """What the grading system of tool schemas makes of its golden scores: letters, statuses and
    rollups.
    """
    rules = SchemaRules(Shelf().schema_policy("flowmcp@1"))
    return digest(
        [
            _tried(lambda probe: _tool_grade(probe, rules), document.tree)
            for document in _golden("tool_grades.jsonl")
        ]
    )


def _tool_grade(probe: dict[str, Any], rules: SchemaRules) -> Any:
    if probe["kind"] == "rollup":
        return [
            tool_status.rollup_status(probe["statuses"]),
            tool_status.rollup_grade(probe["grades"]),
        ]
    if probe["kind"] == "gate":
        return tool_gates(probe, rules)
    if probe["kind"] == "report":
        verdict = grade_scores(probe["scores"], rules, validation_passed=probe["validation"])
        return [verdict.grade, verdict.raw_grade, shown(verdict.score)]
    pairs = list(zip(probe["scores"], probe["weights"], strict=True))
    found = tool_grading.aggregate(
        pairs,
        probe["tier"],
        rules,
        veto=probe["veto"],
        group_bound=probe["group_bound"],
        cap=probe["cap"],
    )
    return [
        found.grade,
        found.raw_grade,
        shown(found.mean),
        found.status,
        found.max_attainable,
        tool_status.letter_status(found.grade) if found.grade else None,
    ]


def _tried(take: Callable[[dict[str, Any]], Any], probe: dict[str, Any]) -> Any:
    try:
        return take(probe)
    except InputError as error:
        return error.code


def exam_scoring_fingerprint() -> str:
    """What the marking of exams makes of its golden answers."""
    marking = Marking(Shelf().exam_rubric("tutor@1"))
    return digest(
        scoring_behaviour((document.tree for document in _golden("exam_scores.jsonl")), marking)
    )


def exam_grading_fingerprint() -> str:
    """What the gates of exams make of their golden results."""
    shelf = Shelf()
    rules, marking = ExamRules(shelf.exam_policy("exam@1")), Marking(shelf.exam_rubric("tutor@1"))
    return digest(
        grading_behaviour(
            (document.tree for document in _golden("exam_grades.jsonl")), marking, rules
        )
    )


def measure_fingerprints() -> dict[str, str]:
    """What each measure makes of the golden runs, by `id@version`: a measure has a version of its
    own.
    """
    runs = [
        read_run(document)
        for name in ("runs.jsonl", "measures.jsonl")
        for document in _golden(name)
    ]
    found = {}
    for name in MEASURES:
        measure = MEASURES[name]
        choices = (
            (measure.params, {**measure.params, **EXAMPLES[name].params})
            if name in EXAMPLES
            else (measure.params,)
        )
        taken = [measure.take(run, params) for params in choices for run in runs]
        found[f"{name}@{measure.version}"] = digest(
            [None if isinstance(value, Undetermined) else value for value in taken]
        )
    return found


def release_fingerprint() -> str:
    """What the release rules make of golden comparisons."""
    shelf = Shelf()
    grading = make_rules(shelf.policy("workflow@1"))
    policies = [
        make_release_rules(shelf.release_policy(name)) for name in ("release@1", "release-strict@1")
    ]
    return digest(
        [
            _tried(lambda probe: release_behaviour(probe, grading, policies), document.tree)
            for document in _golden("decisions.jsonl")
        ]
    )


class System(NamedTuple):
    """One system of one family: its version, what it makes of its golden inputs, and every table
    and constant that it decides by.
    """

    family: str
    name: str
    version: str
    fingerprint: str
    tables: Mapping[str, str] = {}


def current() -> list[System]:
    """Every system as it behaves now. One that cannot run, because a file it needs has changed, has
    the reason for a fingerprint.
    """
    found = []
    for family, name, version, take in (
        ("workflow", "scoring", SCORING_SYSTEM, scoring_fingerprint),
        ("workflow", "grading", GRADING_SYSTEM, grading_fingerprint),
        ("flowmcp", "scoring", TOOL_SYSTEMS.scoring, tool_scoring_fingerprint),
        ("flowmcp", "grading", TOOL_SYSTEMS.grading, tool_grading_fingerprint),
        ("exam", "scoring", EXAM_SYSTEMS.scoring, exam_scoring_fingerprint),
        ("exam", "grading", EXAM_SYSTEMS.grading, exam_grading_fingerprint),
        ("release", "grading", GRADING_SYSTEM, release_fingerprint),
    ):
        try:
            fingerprint = take()
        except ShelfError as error:
            fingerprint = f"none: {error}"
        found.append(System(family, name, version, fingerprint, tables.of_system(family, name)))
    return found


def check(now: list[System], recorded: dict[str, Any] | None = None) -> list[str]:
    """What changed without a new version: systems whose behaviour moved, and published files that
    are not what they were.
    """
    known = systems() if recorded is None else recorded
    found = []
    for system in now:
        record = known.get(system.family, {}).get(system.name)
        if record is None:
            found.append(
                f"{system.family} {system.name}: no fingerprint is recorded for {system.version};"
                " run `assay library publish`"
            )
        elif record["version"] != system.version:
            found.append(
                f"{system.family} {system.name}: {system.version} is not recorded yet (the lock has"
                f" {record['version']}); run `assay library publish`"
            )
        elif record["fingerprint"] != system.fingerprint:
            found.append(
                f"{system.family} {system.name}: behaviour changed and the version is still"
                f" {system.version}; give it a new version"
            )
    if recorded is None:
        found += [text for system in now for text in moved_tables(system)]
        held = measures()
        for name, taken in measure_fingerprints().items():
            if name not in held:
                found.append(
                    f"measure {name}: no fingerprint is recorded; run `assay library publish`"
                )
            elif held[name] != taken:
                found.append(
                    f"measure {name}: behaviour changed and the version is still the same; give it"
                    " a new version"
                )
    wrong = changed(Shelf())
    found += [
        f"{key}: published and changed since; put the change into a new version" for key in wrong
    ]
    return (
        found if wrong else found + [f"{fault.file}: {fault.message}" for fault in clashes(Shelf())]
    )


def moved_tables(system: System) -> list[str]:
    """What changed in the tables of a system since they were recorded."""
    held = recorded_tables().get(f"{system.family} {system.name}", {})
    found = []
    for key in sorted(held.keys() | system.tables.keys()):
        if key.endswith(tables.CODE) and (
            sys.version_info[:2] != tables.RECORDED_WITH or held.get(key) == system.tables.get(key)
        ):
            continue
        if key.endswith(tables.CODE) and key in held and key in system.tables:
            module, after = (
                key.removesuffix(tables.CODE),
                f"if a verdict can move, {system.version} must become another",
            )
            found.append(
                f"{system.family} {system.name}: the code of {module} changed; {after}, otherwise"
                " run `assay library publish`"
            )
        elif key not in system.tables:
            found.append(
                f"{system.family} {system.name}: {key} is recorded and gone; run `assay library"
                " publish`"
            )
        elif key not in held:
            found.append(
                f"{system.family} {system.name}: {key} is not recorded yet; run `assay library"
                " publish`"
            )
        elif held[key] != system.tables[key]:
            found.append(
                f"{system.family} {system.name}: {key} changed and the version is still"
                f" {system.version}; give it a new version"
            )
    return found


@lru_cache(maxsize=1)
def recorded_tables() -> dict[str, dict[str, str]]:
    """The tables of each system as they were recorded, by `family name`. They stand in a file of
    their own: only this check reads them.
    """
    if not os.path.exists(TABLES):
        return {}
    with open(TABLES, "rb") as stream:
        found: dict[str, dict[str, str]] = msgspec.json.decode(stream.read())
    return found


def record_tables(now: list[System]) -> None:
    """Record the tables of each system. Refuses one that changed under a recorded version; one that
    is new or gone changes nothing by itself.
    """
    held = systems()
    for system in now:
        same = held.get(system.family, {}).get(system.name, {}).get("version") == system.version
        wrong = (
            [text for text in moved_tables(system) if "give it a new version" in text]
            if same
            else []
        )
        if wrong:
            raise ShelfError("LIB-003", f"{wrong[0]}.", fix="Give it a new version first.")
    with atomic_write(TABLES) as stream:
        document = {
            f"{system.family} {system.name}": dict(sorted(system.tables.items())) for system in now
        }
        stream.write(msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n")
    recorded_tables.cache_clear()


def recordable(now: list[System]) -> dict[str, Any]:
    """The systems for the lock. Refuses one whose behaviour moved under a version that is already
    recorded.
    """
    known = systems()
    made: dict[str, Any] = {}
    for system in now:
        record = known.get(system.family, {}).get(system.name)
        if (
            record is not None
            and record["version"] == system.version
            and record["fingerprint"] != system.fingerprint
        ):
            raise ShelfError(
                "LIB-003",
                f"{system.family} {system.name}: behaviour changed and the version is still"
                f" {system.version}.",
                fix="Give it a new version first.",
            )
        made.setdefault(system.family, {})[system.name] = {
            "version": system.version,
            "fingerprint": system.fingerprint,
        }
    return made


def recordable_measures() -> dict[str, str]:
    """The measures for the lock. Refuses one whose behaviour moved under a version that is already
    recorded.
    """
    held, found = measures(), measure_fingerprints()
    moved = [name for name, taken in found.items() if held.get(name, taken) != taken]
    if moved:
        raise ShelfError(
            "LIB-003",
            f"the measure {moved[0]} behaves otherwise and its version is still the same.",
            fix="Give it a new version first.",
        )
    return {**held, **found}


def versions(now: list[System], wrong: list[str]) -> dict[str, Any]:
    """The document `assay versions` prints."""
    families: dict[str, dict[str, str]] = {}
    fingerprints: dict[str, dict[str, str]] = {}
    for system in now:
        families.setdefault(system.family, {})[system.name] = system.version
        fingerprints.setdefault(system.family, {})[system.name] = digest(
            [system.fingerprint, dict(system.tables)]
        )
    return {
        "scoringSystem": SCORING_SYSTEM,
        "gradingSystem": GRADING_SYSTEM,
        "families": families,
        "fingerprints": fingerprints,
        "published": published(),
        "changed": wrong,
    }
