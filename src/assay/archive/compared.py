"""What an evaluation is compared with by default: the named baseline of its workflow and dataset;
without one, an earlier evaluation (see `earlier_evaluation`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

from msgspec import DecodeError, Struct
from msgspec.json import Decoder

from assay.archive.evaluations import StoredEvaluation, brief_evaluations, read_evaluation
from assay.errors import AssayError
from assay.records.evaluation import EvaluatedRun, VersionedName
from assay.store import reading
from assay.store.drafts import key
from assay.store.ledger import Ledger
from assay.store.reading import PassCount, grades_of, sample_counts

EARLIER = 10
"""How many earlier evaluations of a workflow are candidates for the comparison."""
PAIRED = 50_000
"""Evaluations of up to this many runs are always compared sample by sample."""
_REMEMBERED = 500
_LOOKED_AT = 50
"""How many baselines are examined, newest first; their records are large."""
_AT_ONCE = 10


class ComparedWith(NamedTuple):
    """The runs to compare with, and where they come from."""

    runs: Sequence[EvaluatedRun]
    evaluation: StoredEvaluation | None
    """None for a baseline that was not made of one evaluation."""
    baseline: str = ""
    """The name of the baseline; empty for the evaluation before."""


class SharedSamples(NamedTuple):
    """Two evaluations on the samples of the baseline: a sample that the newest lacks counts as
    failed, and one that only the newest has is left out.
    """

    passed: int
    n: int
    passed_before: int
    n_before: int
    lost: int = 0
    """Samples that the newest lacks; of large evaluations, how many fewer runs it has."""
    reason: str = ""
    """Why the counts don't show which evaluation is better; empty if they do."""


_shared: dict[tuple[str, str, str, str, int], SharedSamples] = {}
"""Cached by ledger, project, the two digests, and how much was ever forgotten."""


class NamedBaseline(Struct):
    """The fields of a baseline that are read here."""

    name: str = ""
    kind: str = "runs"
    evidence_digests: list[str] = []


class _RunSubject(Struct, frozen=True):
    workflow: VersionedName
    dataset: VersionedName


read_named_baseline = Decoder(NamedBaseline).decode
_subject = Decoder(_RunSubject)


def named_baseline(
    ledger: Ledger, workflow: VersionedName, dataset: VersionedName, *, project: str
) -> NamedBaseline | None:
    """The newest baseline of a workflow on a dataset, according to its first run."""
    subject = (workflow.id, dataset.id)
    return named_baselines(ledger, {subject}, project=project).get(subject)


def named_baselines(
    ledger: Ledger, subjects: Collection[tuple[str, str]], *, project: str
) -> dict[tuple[str, str], NamedBaseline]:
    """The newest baselines of many pairs of a workflow and a dataset; pairs without a baseline are
    left out.
    """
    baselines: dict[tuple[str, str], NamedBaseline] = {}
    for baseline in _baselines(ledger, project):
        if len(baselines) == len(subjects):
            break
        first = ledger.get(baseline.evidence_digests[0], project=project)
        if first is None or first.body is None or first.kind != "run":
            continue
        try:
            subject = _subject.decode(first.checked())
        except (AssayError, DecodeError):
            continue
        pair = (subject.workflow.id, subject.dataset.id)
        if pair in subjects:
            baselines.setdefault(pair, baseline)
    return baselines


def _baselines(ledger: Ledger, project: str) -> Iterator[NamedBaseline]:
    items = ledger.each("baseline", project=project, at_once=_AT_ONCE, newest_first=True)
    for item in islice(items, _LOOKED_AT):
        try:
            baseline = read_named_baseline(item.checked())
        except (AssayError, DecodeError):
            continue
        if baseline.kind == "runs" and baseline.evidence_digests:
            yield baseline


def compared_with(ledger: Ledger, stored: StoredEvaluation, *, project: str) -> ComparedWith | None:
    """What an evaluation is compared with; None if there is nothing. An evaluation that is the
    baseline itself is compared with the one before it.
    """
    of = stored.evaluation
    named = named_baseline(ledger, of.workflow, of.dataset, project=project)
    if named is not None:
        own = {run.digest for run in of.runs}
        if own != set(named.evidence_digests):
            return _of_baseline(ledger, named, project)
    before = _before(ledger, stored, project)
    return None if before is None else ComparedWith(before.evaluation.runs, before)


def newest_evaluations(
    ledger: Ledger, project: str, limit: int, **only: Any
) -> list[StoredEvaluation]:
    """The last evaluations, the newest first, without their runs; `only` narrows them down as
    `reading.newest` does.
    """
    briefs = reading.newest(ledger.database, project, "evaluation", limit=limit, **only)
    return brief_evaluations(ledger, project, [brief.digest for brief in briefs])


def _before(ledger: Ledger, stored: StoredEvaluation, project: str) -> StoredEvaluation | None:
    """The evaluation before one, with its runs."""
    earlier = newest_evaluations(
        ledger,
        project,
        EARLIER,
        workflow=key(stored.evaluation.workflow.id),
        dataset=key(stored.evaluation.dataset.id),
        before=stored.seq,
    )
    chosen = earlier_evaluation(ledger, stored, earlier, project=project)
    item = None if chosen is None else ledger.get(chosen.digest, project=project)
    return None if item is None or item.body is None else read_evaluation(item)


def earlier_evaluation(
    ledger: Ledger,
    newest: StoredEvaluation,
    earlier: Sequence[StoredEvaluation],
    *,
    project: str,
) -> StoredEvaluation | None:
    """The earlier evaluation (given newest first) that an evaluation on the same dataset is
    compared with: the last one, unless the newest lacks more samples of an earlier one. A file that
    lost its failing rows would otherwise be its own baseline as soon as it is imported again.
    """
    of = newest.evaluation.dataset
    on_dataset = [
        evaluation
        for evaluation in earlier
        if evaluation.evaluation.dataset.id == of.id and not evaluation.evaluation.only
    ]

    def lost(evaluation: StoredEvaluation) -> int:
        if evaluation.evaluation.dataset != of:
            return 0
        return shared_samples(ledger, newest, evaluation, project=project).lost

    return max(on_dataset, key=lost) if len(on_dataset) > 1 else next(iter(on_dataset), None)


def shared_samples(
    ledger: Ledger, newest: StoredEvaluation, baseline: StoredEvaluation, *, project: str
) -> SharedSamples:
    """The results of two evaluations on the samples of the baseline. Their lists of runs are not
    needed.
    """
    ours, theirs = newest.evaluation.totals, baseline.evaluation.totals
    if max(ours.n, theirs.n) > PAIRED:
        lost = max(0, theirs.n - ours.n)
        reason = f"one of them has more than {PAIRED:,} runs"
        return SharedSamples(ours.passed, ours.n + lost, theirs.passed, theirs.n, lost, reason)
    forgotten = ledger.count("tombstone", project=project).n
    key = (ledger.where, project, newest.digest, baseline.digest, forgotten)
    shared = _shared.get(key)
    if shared is None:
        if len(_shared) >= _REMEMBERED:
            _shared.clear()
        shared = _shared[key] = _paired(ledger, newest, baseline, project)
    return shared


def _paired(
    ledger: Ledger, newest: StoredEvaluation, baseline: StoredEvaluation, project: str
) -> SharedSamples:
    none = PassCount(0, 0)
    now, before = (
        sample_counts(ledger.database, project, evaluation.seq) for evaluation in (newest, baseline)
    )
    nameless, nameless_before = now.pop(None, none), before.pop(None, none)
    if not before:  # no sample has a name: only their number can be compared
        ours, theirs = newest.evaluation.totals, baseline.evaluation.totals
        lost = max(0, theirs.n - ours.n)
        return SharedSamples(ours.passed, ours.n + lost, theirs.passed, theirs.n, lost)
    kept = [counts for sample, counts in now.items() if sample in before]
    gone = [counts for sample, counts in before.items() if sample not in now]
    added = len(now) - len(kept)
    # Repeats of samples that pass would outweigh those that fail.
    uneven = any(before[name].runs != counts.runs for name, counts in now.items() if name in before)
    # A sample of the baseline without a name may be any of those that only the newest has.
    unnamed = max(0, nameless_before.runs - nameless.runs - added)
    return SharedSamples(
        sum(counts.passed for counts in kept),
        sum(counts.runs for counts in kept) + sum(counts.runs for counts in gone) + unnamed,
        sum(counts.passed for counts in before.values()),
        sum(counts.runs for counts in before.values()),
        len(gone) + unnamed,
        "they repeat their samples a different number of times" if uneven else "",
    )


def _of_baseline(ledger: Ledger, named: NamedBaseline, project: str) -> ComparedWith:
    digests = named.evidence_digests
    stored = evaluation_of_runs(ledger, digests, project=project)
    if stored is not None:
        return ComparedWith(stored.evaluation.runs, stored, named.name)
    return ComparedWith(baseline_runs(ledger, digests, project=project), None, named.name)


def baseline_runs(ledger: Ledger, digests: Sequence[str], *, project: str) -> list[EvaluatedRun]:
    """The runs of a baseline, each with its newest grade."""
    grades = grades_of(ledger.database, project, digests)
    return [
        EvaluatedRun(
            run_id=digest,
            digest=digest,
            grade=grades[digest][-1].digest if grades.get(digest) else None,
        )
        for digest in digests
    ]


def evaluations_of(ledger: Ledger, run: str, *, project: str) -> Iterator[StoredEvaluation]:
    """The evaluations that a run belongs to, by its digest; the newest first."""
    grades = grades_of(ledger.database, project, [run]).get(run, ())
    links = ledger.links_of_many([run, *(grade.digest for grade in grades)], project=project)
    sources = [link.source for link in links if link.relation == "evaluates" and link.source]
    for digest in reversed(dict.fromkeys(sources)):
        item = ledger.get(digest, project=project)
        if item is None or item.body is None or item.kind != "evaluation":
            continue
        stored = read_evaluation(item)
        # another run with the same scorecard shares the grades of this one
        if any(one.digest == run for one in stored.evaluation.runs):
            yield stored


def evaluation_of_runs(
    ledger: Ledger, runs: Sequence[str], *, project: str
) -> StoredEvaluation | None:
    """The newest evaluation with exactly these runs, by their digests; None if there is none."""
    return next(
        (
            stored
            for stored in (evaluations_of(ledger, runs[0], project=project) if runs else ())
            if {run.digest for run in stored.evaluation.runs} == set(runs)
        ),
        None,
    )
