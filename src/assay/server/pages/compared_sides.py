"""The sides of a comparison, found by the names in its address, and the decision between two of
them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from assay.archive.compared import baseline_runs
from assay.archive.evaluations import evaluation_label, first_grade
from assay.archive.samples import run_rows, sample_rows
from assay.archive.sides import Take
from assay.errors import InputError, NotEnoughEvidence
from assay.pipeline.regraded import regraded
from assay.pipeline.sample_texts import read_texts
from assay.pipeline.sides import Documents
from assay.server import lookup
from assay.server.graded_by import grader_by
from assay.server.pages.compared_rules import choice_for, rules_for
from assay.server.problems import Problem
from assay.server.state import Services
from assay.services.stored_compare import DecidedSides, ReleaseSide, decide_stored
from assay.store.baselines import find_baseline
from assay.store.reading import grades_of
from assay.views.compare import Version
from assay.views.decision_samples import (
    NAMED,
    SampleTexts,
    SideName,
    TextCollector,
    new_failures,
)
from assay.views.samples import SampleRow

BASELINE = "baseline:"
MOST = 2000
"""How many runs of a side a page decides on; grading more takes too long for a page."""
MAX_COMPARED = 5


class ComparedSide(NamedTuple):
    """One side of a comparison, for the decision and for display."""

    side: ReleaseSide
    version: Version


def find_sides(services: Services, project: str, names: Sequence[str]) -> list[ComparedSide]:
    """The sides that an address names, the baseline first. No name may occur twice."""
    if len(names) > MAX_COMPARED:
        raise Problem(
            422,
            f"a page compares at most {MAX_COMPARED} evaluations, not {len(names)}.",
            where="of",
            fix="Leave some of them out.",
        )
    sides: list[ComparedSide] = []
    for place, name in enumerate(names):
        compared = _find(services, project, name, first=place == 0)
        if any(compared.side.digest == other.side.digest for other in sides):
            raise InputError(
                "REL-002",
                f"{compared.version.name} would be compared with itself, which shows nothing.",
                where="of",
                fix="Choose another evaluation.",
            )
        sides.append(compared)
    return sides


def _find(services: Services, project: str, name: str, *, first: bool) -> ComparedSide:
    if name.startswith(BASELINE):
        return _baseline(services, project, name, first=first)
    stored = lookup.evaluation(services, project, name)
    of, label = stored.evaluation, evaluation_label(services.ledger, stored, project=project)
    return ComparedSide(
        ReleaseSide(label, stored=stored), Version(label, of.name, of, of.started, len(of.runs))
    )


def _baseline(services: Services, project: str, name: str, *, first: bool) -> ComparedSide:
    if not first:
        raise InputError(
            "REL-002",
            "a stored baseline can only come first: it is what the others are compared with.",
            where="of",
            fix="Choose an evaluation as the candidate.",
        )
    own = name.removeprefix(BASELINE)
    kept = find_baseline(services.ledger, own, project=project)
    if kept is None:
        raise NotEnoughEvidence(
            "REL-005",
            f"there is no baseline {own[:80]!r} in this project.",
            where="of",
            fix="Choose one in the form, or store one with `assay baseline set NAME --store`.",
        )
    side = ReleaseSide(own, kept=kept)
    made_at = str(kept.record.get("made_at") or "")
    return ComparedSide(side, Version(name, own, None, made_at, len(side.evidence)))


def rows_of_side(services: Services, project: str, side: ReleaseSide) -> list[SampleRow]:
    """The samples of a side with their stored grades, without texts; for the runs of a baseline,
    their newest grades.
    """
    ledger = services.ledger
    if side.stored is not None:
        return sample_rows(ledger, side.stored, project=project)
    runs = baseline_runs(ledger, side.evidence, project=project)
    return run_rows(ledger, runs, project=project)


def graded_alike(services: Services, project: str, sides: Sequence[ReleaseSide]) -> bool:
    """Whether all sides were stored with grades by the same rules, judging by their first grade."""
    first: Mapping[str, Any] | None = None
    for side in sides:
        tree = _first_grade(services, project, side)
        if tree is None:
            continue
        if first is not None and regraded(side.name, first, tree):
            return False
        first = first or tree
    return True


def _first_grade(services: Services, project: str, side: ReleaseSide) -> Any:
    ledger = services.ledger
    if side.stored is not None:
        return first_grade(ledger, side.stored, project=project)
    grades = grades_of(ledger.database, project, side.evidence[:1])
    newest = [stored[-1].digest for stored in grades.values() if stored]
    item = ledger.get(newest[0], project=project) if newest else None
    return None if item is None or item.body is None else item.tree()


def texts_between(
    services: Services,
    project: str,
    candidate: ReleaseSide,
    baseline: ReleaseSide,
    decided: DecidedSides,
) -> dict[str, SampleTexts]:
    """Question and answers of the samples that newly fail."""
    named = {item.sample for item in new_failures(decided.decision)[:NAMED]}
    collector = TextCollector()
    if named:
        choice = choice_for(services, candidate, baseline)
        grader = grader_by(services, project, choice, stored_cards=False)
        sides: tuple[tuple[SideName, Documents], ...] = (
            ("candidate", decided.candidate.documents),
            ("baseline", decided.baseline.documents),
        )
        for name, documents in sides:
            for _ in read_texts(documents, grader, name, named, collector):
                pass
    return collector.texts()


def decide_between(
    services: Services,
    project: str,
    candidate: ReleaseSide,
    baseline: ReleaseSide,
    policy: str,
    *,
    take: Take | None = None,
    author: str | None = None,
) -> DecidedSides:
    """The decision on two sides, as `assay gate` makes it under the same assay.yaml."""
    rules, choice = rules_for(services, policy).rules, choice_for(services, candidate, baseline)
    # like the command, which uses only the cards it is given
    grader = grader_by(services, project, choice, stored_cards=False)
    return decide_stored(
        services.ledger,
        candidate,
        baseline,
        rules,
        grader,
        choice=choice,
        project=project,
        quarantine=services.settings.release.quarantine,
        slices=services.settings.release.slices,
        take=take,
        basis=grader.basis,
        author=author,
    )
