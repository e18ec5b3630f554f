"""Behaviour fingerprints: what each system makes of its golden inputs, as one digest.

A change of output without a new version number shows as a changed fingerprint and fails the build. Words are not behaviour: reasons and explanations are
left out. Scoring is fingerprinted on runs and on formula probes; grading on scorecards that use only `zero_one`, so that a change of another formula moves
the scoring fingerprint alone. Profiles and policies are pinned to version 1, so that publishing a new one moves nothing here.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NamedTuple

from assay.canon import digest
from assay.errors import InputError, ShelfError
from assay.files import Document, Unread, stream_documents
from assay.formulas import normalise
from assay.grading.grade import grade
from assay.grading.policy import make_rules
from assay.library.shelf import BUILTIN, Shelf, changed, published, systems
from assay.records.grade import GRADING_SYSTEM
from assay.records.reading import read_run, read_scorecard
from assay.records.scorecard import SCORING_SYSTEM
from assay.scoring.metrics import MEASURES
from assay.scoring.metrics.measure import Undetermined
from assay.scoring.profile import make_plan
from assay.scoring.scorecard import score

if TYPE_CHECKING:
    from collections.abc import Iterator

    from assay.records.grade import Grade
    from assay.records.scorecard import Scorecard

FAMILIES = ("workflow",)
GOLDEN = os.path.join(BUILTIN, "golden")


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
        found.append([None if isinstance(taken, Undetermined) else taken for taken in (MEASURES[name].take(run) for name in MEASURES)])
    return digest(found)


def _scored(card: Scorecard) -> dict[str, Any]:
    return {
        "run_id": card.run_id,
        "gates": card.hard_gates,
        "criteria": [
            [item.name, item.raw_score, item.formula_id, item.params, item.weight, item.critical_floor, item.role, item.layer, item.n, item.missing is None]
            for item in card.criteria
        ],
        "steps": card.step_scores,
        "agents": card.agent_scores,
    }


def grading_fingerprint() -> str:
    """What the grading system makes of its golden scorecards."""
    rules = make_rules(Shelf().policy("workflow@1"))
    return digest([_graded(grade(read_scorecard(document), rules)) for document in _golden("scorecards.jsonl")])


def _graded(result: Grade) -> dict[str, Any]:
    return {
        "run_id": result.run_id,
        "grade": [result.grade, result.provisional_grade, result.passed, result.reason],
        "scores": [result.score_units, result.adjusted_score_units, result.threshold_units],
        "gates": result.hard_gate_failures,
        "floors": result.floor_failures,
        "criteria": [
            [item.name, item.norm_units, item.adjusted_units, item.contribution_units, item.floor_units, item.floor_failed] for item in result.criteria
        ],
        "rules": [[finding.rule, finding.fired, finding.subject] for finding in result.findings],
    }


class System(NamedTuple):
    """One system of one family: its version, and its fingerprint now."""

    family: str
    name: str
    version: str
    fingerprint: str


def current() -> list[System]:
    """Every system as it behaves now. One that cannot run, because a file it needs has changed, has the reason for a fingerprint."""
    found = []
    for name, version, take in (("scoring", SCORING_SYSTEM, scoring_fingerprint), ("grading", GRADING_SYSTEM, grading_fingerprint)):
        try:
            fingerprint = take()
        except ShelfError as error:
            fingerprint = f"none: {error}"
        found.append(System("workflow", name, version, fingerprint))
    return found


def check(now: list[System], recorded: dict[str, Any] | None = None) -> list[str]:
    """What changed without a new version: systems whose behaviour moved, and published files that are not what they were."""
    known = systems() if recorded is None else recorded
    found = []
    for system in now:
        record = known.get(system.family, {}).get(system.name)
        if record is None:
            found.append(f"{system.family} {system.name}: no fingerprint is recorded for {system.version}; run `assay library publish`")
        elif record["version"] != system.version:
            found.append(f"{system.family} {system.name}: {system.version} is not recorded yet (the lock has {record['version']}); run `assay library publish`")
        elif record["fingerprint"] != system.fingerprint:
            found.append(f"{system.family} {system.name}: behaviour changed and the version is still {system.version}; give it a new version")
    return found + [f"{key}: published and changed since; put the change into a new version" for key in changed(Shelf())]


def recordable(now: list[System]) -> dict[str, Any]:
    """The systems for the lock. Refuses one whose behaviour moved under a version that is already recorded."""
    known = systems()
    made: dict[str, Any] = {}
    for system in now:
        record = known.get(system.family, {}).get(system.name)
        if record is not None and record["version"] == system.version and record["fingerprint"] != system.fingerprint:
            raise ShelfError(
                "LIB-003", f"{system.family} {system.name}: behaviour changed and the version is still {system.version}.", fix="Give it a new version first."
            )
        made.setdefault(system.family, {})[system.name] = {"version": system.version, "fingerprint": system.fingerprint}
    return made


def versions(now: list[System], wrong: list[str]) -> dict[str, Any]:
    """The document `assay versions` prints."""
    families: dict[str, dict[str, str]] = {}
    fingerprints: dict[str, dict[str, str]] = {}
    for system in now:
        families.setdefault(system.family, {})[system.name] = system.version
        fingerprints.setdefault(system.family, {})[system.name] = system.fingerprint
    return {
        "scoringSystem": SCORING_SYSTEM,
        "gradingSystem": GRADING_SYSTEM,
        "families": families,
        "fingerprints": fingerprints,
        "published": published(),
        "changed": wrong,
    }
