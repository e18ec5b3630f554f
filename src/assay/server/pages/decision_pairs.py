"""The samples of a stored decision, pair by pair, from the stored grades it is based on. Nothing is
graded again.

A sample that was repeated has the mean of its scores, as in the decision. For a decision on many
runs, only the samples that the decision itself names are shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from assay import exact
from assay.archive.sides import DecisionEvidence
from assay.records.decision import Decision
from assay.server.state import Services
from assay.store.reading import grades_of
from assay.views.charts.decisions import ScorePair
from assay.views.decision_samples import (
    NO_TEXTS,
    SideName,
    TextCollector,
    Texts,
    samples_to_show,
    title_in,
)
from assay.views.pieces import address
from assay.views.samples import sample_evidence, sample_grade

MOST = 1000
"""Up to this many runs of a side, every pair is shown."""


class _Grade(msgspec.Struct):
    run_id: Any = None
    sample_id: Any = None
    dataset: dict[str, Any] | None = None
    weighted_score: Any = None


_read = msgspec.json.Decoder(_Grade).decode


class Pairs(NamedTuple):
    """The scores of every pair, and the address of each sample's run on either side."""

    pairs: Sequence[ScorePair] | None
    """None if there are too many, or no evidence is stored."""
    runs: dict[str, str]
    """The addresses of the candidate's runs, by sample."""
    before: dict[str, str]
    """The addresses of the baseline's runs, by sample."""
    texts: Texts = NO_TEXTS
    """Question and answers of the samples that the decision names."""


def pairs_of(
    services: Services,
    project: str,
    decided_on: DecisionEvidence,
    decision: Decision,
    *,
    within: Mapping[str, str | None] | None = None,
) -> Pairs:
    """Every pair of a decision. `within` names the evaluation of each side, if it has one."""
    sides: dict[SideName, list[str]] = {
        "candidate": decided_on.candidate,
        "baseline": decided_on.baseline,
    }
    runs: dict[str, dict[str, str]] = {name: {} for name in sides}
    named, collector = set(samples_to_show(decision)), TextCollector()
    if not all(sides.values()) or any(len(side_pairs) > MOST for side_pairs in sides.values()):
        return Pairs(None, {}, {})
    scores: dict[str, dict[str, list[float]]] = {}
    for name, evidence in sides.items():
        shown: list[tuple[str, str, bytes]] = []
        for digest, body in _grades(services, project, evidence, set(decided_on.decided)):
            grade = _read(body)
            sample = _sample(grade)
            if sample in named:
                shown.append((digest, sample, body))
            if exact.is_number(grade.weighted_score):
                scores.setdefault(sample, {}).setdefault(name, []).append(
                    float(grade.weighted_score)
                )
            runs[name][sample] = address("runs", digest, in_=(within or {}).get(name))
        _collect(services, project, name, shown, collector)
    means = {
        sample: {name: sum(values) / len(values) for name, values in by_side.items()}
        for sample, by_side in scores.items()
        if sample not in decision.missing.quarantined
    }
    pairs = [
        ScorePair(
            sample,
            by_side.get("candidate"),
            by_side.get("baseline"),
            title_in(decision, sample),
        )
        for sample, by_side in means.items()
    ]
    return Pairs(pairs, runs["candidate"], runs["baseline"], collector.texts())


def _collect(
    services: Services,
    project: str,
    side: SideName,
    shown: Sequence[tuple[str, str, bytes]],
    into: TextCollector,
) -> None:
    """The texts of these runs of a side: their digests, their samples and their grades."""
    bodies = services.ledger.get_many({digest for digest, _, _ in shown}, project=project)
    for digest, sample, graded in shown:
        item = bodies.get(digest)
        if item is not None and item.body is not None and item.kind == "run":
            into.add(side, sample, sample_grade(graded), sample_evidence(item.checked()))


def _grades(
    services: Services, project: str, evidence: list[str], decided: set[str]
) -> Iterable[tuple[str, bytes]]:
    """The grade of each record that the decision is based on, with that record. Runs with the same
    scorecard share its grades.
    """
    known = grades_of(services.ledger.database, project, evidence)
    chosen = {
        digest: next(
            (grade.digest for grade in known.get(digest, ()) if grade.digest in decided), None
        )
        for digest in evidence
    }
    bodies = services.ledger.get_many(
        {grade for grade in chosen.values() if grade is not None}, project=project
    )
    for digest, grade in chosen.items():
        item = bodies.get(grade or "")
        if item is not None and item.body is not None:
            yield digest, item.body


def _sample(grade: _Grade) -> str:
    dataset = grade.dataset or {}
    if dataset.get("id") is not None:
        return f"{dataset['id']}/{dataset.get('sample_id')}"
    return str(grade.sample_id if grade.sample_id is not None else grade.run_id)
