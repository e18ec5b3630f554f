"""The samples of a stored evaluation as rows, next to those of what it is compared with; and the
state of each workflow.

Records never change under their digests, so the rows of recently viewed evaluations are cached:
paging, filtering and searching read the same ones again. Forgetting a record invalidates them.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from hashlib import sha256
from itertools import islice
from threading import Lock
from typing import Any, NamedTuple

from msgspec import DecodeError, Struct
from msgspec.json import Decoder

from assay.errors import AssayError
from assay.records.decision import DECISION_SCHEMA
from assay.records.evaluation import (
    EvaluatedRun,
    Evaluation,
    LastDecision,
    VersionedName,
    WorkflowBaseline,
    graded_by,
)
from assay.records.samples import (
    Baseline,
    SampleEvidence,
    SampleQuery,
    SampleRow,
    SampleRun,
    fold_samples,
    missing_samples,
    sample_evidence,
    sample_grade,
    sample_name,
    select_samples,
    with_evidence,
)
from assay.services.evaluations import StoredEvaluation, brief_evaluations, read_evaluation
from assay.services.storing import own_run
from assay.stats.intervals import rate_difference
from assay.store import reading
from assay.store.drafts import Item, key
from assay.store.ledger import Ledger
from assay.store.reading import (
    ActiveWorkflow,
    PassCount,
    active_workflows,
    evaluated_samples,
    evidence_of,
    grades_of,
    sample_counts,
)

_RUNS_AT_ONCE = 100  # a run may be megabytes
_REMEMBERED = 60_000
"""How many rows are cached; each 500 characters of text count as another row."""
_rows: OrderedDict[tuple[str, ...], tuple[list[SampleRow], int]] = OrderedDict()
_turn = Lock()


def sample_rows(
    ledger: Ledger, stored: StoredEvaluation, *, project: str, texts: bool = True
) -> list[SampleRow]:
    """Every sample of an evaluation, in its order, with its repeats folded into it. A run that was
    forgotten keeps its grade and has no texts. Without `texts` only grades are read, which is
    enough to count and to sort; `with_texts` adds those of the rows that are shown.
    """
    runs = stored.evaluation.runs
    if not texts:
        return run_rows(ledger, runs, project=project)
    key = (*_key(ledger, runs, project), "texts")
    known = _recall(key)
    if known is None:
        rows = run_rows(ledger, runs, project=project)
        known = _remember(key, with_texts(ledger, rows, project=project))
    return known


def run_rows(ledger: Ledger, runs: Sequence[EvaluatedRun], *, project: str) -> list[SampleRow]:
    """The samples of any runs, without texts."""
    key = _key(ledger, runs, project)
    known = _recall(key)
    if known is None:
        made = fold_samples((run, None) for run in _graded(ledger, runs, project))
        known = _remember(key, made)
    return known


def _key(ledger: Ledger, runs: Sequence[EvaluatedRun], project: str) -> tuple[str, ...]:
    """All that rows depend on: the ledger, the runs with their grades, and how much was
    forgotten.
    """
    of = sha256("".join(f"{run.run_id}\0{run.digest}{run.grade}\0" for run in runs).encode())
    forgotten = ledger.count("tombstone", project=project).n
    return ledger.database.where, project, of.hexdigest(), str(forgotten)


def _recall(key: tuple[str, ...]) -> list[SampleRow] | None:
    with _turn:
        known = _rows.get(key)
        if known is None:
            return None
        _rows.move_to_end(key)
        return [*known[0]]


def _remember(key: tuple[str, ...], rows: list[SampleRow]) -> list[SampleRow]:
    texts = sum(len(row.question) + len(row.answer) + len(row.expected) for row in rows)
    with _turn:
        _rows[key] = rows, len(rows) + texts // 500
        while sum(size for _, size in _rows.values()) > _REMEMBERED:
            _rows.popitem(last=False)
    return [*rows]


def with_texts(ledger: Ledger, rows: Sequence[SampleRow], *, project: str) -> list[SampleRow]:
    """The rows with what was asked, answered and expected in the worst run of each."""
    worst = (row.worst.digest for row in rows)
    bodies = map(_body, ledger.in_order(worst, project=project, at_once=_RUNS_AT_ONCE))
    return [
        with_evidence(row, None if body is None else sample_evidence(body))
        for row, body in zip(rows, bodies, strict=True)
    ]


def _graded(ledger: Ledger, runs: Sequence[EvaluatedRun], project: str) -> Iterator[SampleRun]:
    grades = ledger.in_order((run.grade for run in runs), project=project)
    for run, body in zip(runs, map(_body, grades), strict=True):
        if body is not None:
            yield SampleRun(run.run_id, run.digest, sample_grade(body))
        else:  # without a grade, only the run itself names its sample
            own = _body(ledger.get(run.digest, project=project))
            name = "" if own is None else sample_name(own)
            gone = run.grade is not None
            yield SampleRun(run.run_id, run.digest, sample=name, forgotten=gone)


def _body(item: Item | None) -> bytes | None:
    return None if item is None or item.body is None else item.checked()


EARLIER = 10
"""How many earlier evaluations of a workflow are candidates for the comparison."""
PAIRED = 50_000
"""Evaluations of up to this many runs are always compared sample by sample."""
_KEPT_COMPARED = 500
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
        if len(_shared) >= _KEPT_COMPARED:
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


ALWAYS_COMPARED = 2_000
"""Up to this many runs, differences from the baseline are counted on every page."""


class SampleView(NamedTuple):
    """Every sample of an evaluation, and those that a query shows in its order."""

    rows: Sequence[SampleRow]
    chosen: Sequence[SampleRow]
    """They have texts only if the query needs the texts of all samples."""
    compared: ComparedWith | None
    baseline: Baseline | None
    """None if nothing is compared; `incomparable` has the reason if `compared` has runs."""
    incomparable: str = ""
    missing: Sequence[SampleRow] = ()
    """The baseline's rows of samples that only it has. If a large evaluation has at least as many
    runs as the baseline, they are not looked for unless a query needs the baseline.
    """


def view_samples(
    ledger: Ledger, stored: StoredEvaluation, query: SampleQuery, *, project: str
) -> SampleView:
    """The samples of an evaluation as a query shows them."""
    rows = sample_rows(ledger, stored, project=project, texts=query.needs_texts)
    compared = compared_with(ledger, stored, project=project)
    baseline: Baseline | None = None
    incomparable = ""
    missing: Sequence[SampleRow] = ()
    n = len(stored.evaluation.runs)
    if compared is not None and (
        n <= ALWAYS_COMPARED or query.needs_baseline or n < len(compared.runs)
    ):
        before = run_rows(ledger, compared.runs, project=project)
        missing = missing_samples(rows, before)
        ours, theirs = policies_of(rows), policies_of(before)
        if ours == theirs:
            baseline = {row.sample: row for row in before}
        else:
            incomparable = f"it was graded by {_named(theirs)}, this evaluation by {_named(ours)}"
    chosen = select_samples(rows, query, baseline)
    return SampleView(rows, chosen, compared, baseline, incomparable, missing)


def policies_of(rows: Iterable[SampleRow]) -> list[str]:
    """The policies that graded the rows: grades of two are not compared."""
    return sorted({run.grade.policy or "" for row in rows for run in row.runs if run.grade})


def _named(policies: Sequence[str]) -> str:
    return " and ".join(policies) or "no policy"


MOST = 6
"""How many versions are shown."""
LOOKED_AT = 20
"""How many evaluations are searched, newest first."""
RUNS = 50_000
"""How many runs these evaluations may have together."""


class SampleVersion(NamedTuple):
    """The sample in another evaluation; of several repeats, the worst."""

    evaluation: Evaluation
    """Without its list of runs."""
    seq: int
    """The position of the evaluation in the ledger: a higher one is newer."""
    run: SampleRun
    evidence: SampleEvidence | None
    """None if the run was forgotten."""
    repeats: int


def other_versions(
    ledger: Ledger, *, project: str, workflow: str, dataset: str, sample: str, but: str = ""
) -> list[SampleVersion]:
    """The newest evaluations of a workflow on a dataset that have the sample, without the one of
    the digest `but`. At most LOOKED_AT evaluations are searched.
    """
    evaluations = _evaluations(ledger, project, workflow, dataset, but)
    places = evaluated_samples(ledger.database, project, list(evaluations), sample)
    versions = []
    for seq in sorted(places, reverse=True)[:MOST]:
        runs = _runs(ledger, project, places[seq])
        if runs:
            worst, evidence = min(runs, key=lambda pair: (pair[0].passed, pair[0].score))
            versions.append(SampleVersion(evaluations[seq], seq, worst, evidence, len(runs)))
    return versions


def _evaluations(
    ledger: Ledger, project: str, workflow: str, dataset: str, but: str
) -> dict[int, Evaluation]:
    evaluations: dict[int, Evaluation] = {}
    runs = 0
    for stored in newest_evaluations(
        ledger, project, LOOKED_AT, workflow=key(workflow), dataset=key(dataset)
    ):
        if stored.digest == but:
            continue
        runs += stored.evaluation.totals.n
        if runs > RUNS:
            break
        evaluations[stored.seq] = stored.evaluation
    return evaluations


def _runs(
    ledger: Ledger, project: str, digests: list[str]
) -> list[tuple[SampleRun, SampleEvidence | None]]:
    """The runs behind grades, or the runs themselves where they have no grade."""
    items = ledger.get_many(digests, project=project)
    behind = {
        digest: own_run(ledger, items[digest], runs, project=project)
        for digest, runs in evidence_of(ledger.database, project, digests).items()
        if digest in items
    }
    runs = ledger.get_many(set(behind.values()), project=project)
    sample_runs = []
    for digest in digests:
        item = items.get(digest)
        run = runs.get(behind.get(digest, "")) or (item if item and item.kind == "run" else None)
        if item is None or run is None:
            continue
        graded = item.kind == "grade" and item.body is not None
        grade = sample_grade(item.checked()) if graded else None
        evidence = None if run.body is None else sample_evidence(run.checked())
        name = (evidence.run_id if evidence else None) or (grade.run_id if grade else None)
        sample_runs.append((SampleRun(name or run.digest, run.digest, grade), evidence))
    return sample_runs


EVALUATIONS = EARLIER + 1
"""How many evaluations of a workflow are read: the newest, and what it may be compared with."""
NEWEST_LOOKED_AT = 50
"""How many evaluations are searched for what they were graded by."""
DECISIONS = 20
"""How many decisions are searched for the last one about a workflow."""
_KEPT_WORKFLOWS = 2000
_made_of: dict[tuple[str, str, str, bytes], tuple[str, ...]] = {}
"""The evaluation of each baseline, if there is one, by ledger, project, the newest evaluation at
that time, and the baseline's runs.
"""


class WorkflowState(NamedTuple):
    """A workflow with its last evaluations, its baseline and its last decision."""

    workflow: ActiveWorkflow
    evaluations: tuple[StoredEvaluation, ...] = ()
    """The newest first, without their lists of runs."""
    changed: tuple[str, ...] = ()
    """Digests of evaluations that don't match their digests, or can't be read."""
    baseline: WorkflowBaseline | None = None
    decision: LastDecision | None = None

    @property
    def name(self) -> str:
        """The workflow's id; a very long one is known only where an evaluation states it."""
        return self.evaluations[0].evaluation.workflow.id if self.evaluations else self.workflow.id


def listed_workflows(ledger: Ledger, project: str) -> list[ActiveWorkflow]:
    """Every workflow of a project, the one with the newest run or evaluation first."""
    known = {workflow.id: workflow for workflow in active_workflows(ledger.database, project)}
    for evaluation in reading.newest(ledger.database, project, "evaluation", limit=5 * EVALUATIONS):
        if evaluation.workflow is not None:  # graded again, or its runs were forgotten
            before = known.get(evaluation.workflow, ActiveWorkflow(evaluation.workflow, 1, 0, 0))
            known[evaluation.workflow] = before._replace(
                newest_seq=max(before.newest_seq, evaluation.seq)
            )
    return sorted(known.values(), key=lambda workflow: (-workflow.newest_seq, workflow.id))


def workflow_states(
    ledger: Ledger,
    project: str,
    workflows: Sequence[ActiveWorkflow],
    *,
    before: int | None = None,
) -> list[WorkflowState]:
    """The state of each of these workflows; with `before`, from the evaluations before that
    position.
    """
    states = [_with_evaluations(ledger, project, workflow, before) for workflow in workflows]
    subjects = {
        (newest.workflow.id, newest.dataset.id)
        for state in states
        for newest in [stored.evaluation for stored in state.evaluations[:1]]
    }
    named = named_baselines(ledger, subjects, project=project) if subjects else {}
    decided = _decisions(ledger, project, {workflow.id for workflow in workflows})
    return [
        state._replace(
            baseline=_baseline(ledger, project, state, named),
            decision=decided.get(state.workflow.id),
        )
        for state in states
    ]


def evaluations_graded_by(
    ledger: Ledger, project: str, wanted: Callable[[reading.GradedBy, Evaluation], bool]
) -> list[StoredEvaluation]:
    """Those of the last evaluations of a project that were graded by something, the newest first,
    without their runs.
    """
    briefs = reading.newest(ledger.database, project, "evaluation", limit=NEWEST_LOOKED_AT)
    graded = reading.graded_by(ledger.database, project, [brief.seq for brief in briefs])
    evaluations = brief_evaluations(
        ledger, project, [brief.digest for brief in briefs if brief.seq in graded]
    )
    return [
        evaluation
        for evaluation in evaluations
        if wanted(graded[evaluation.seq], evaluation.evaluation)
    ]


def _with_evaluations(
    ledger: Ledger, project: str, workflow: ActiveWorkflow, before: int | None
) -> WorkflowState:
    """A workflow with its last evaluations, without those of chosen samples, and the digests of
    those that can't be trusted.
    """
    briefs = reading.newest(
        ledger.database,
        project,
        "evaluation",
        limit=EVALUATIONS,
        workflow=workflow.id,
        before=before,
    )
    digests = [brief.digest for brief in briefs]
    evaluations = brief_evaluations(ledger, project, digests)
    known = {evaluation.digest for evaluation in evaluations}
    changed = (digest for digest in digests if digest not in known)
    whole = tuple(stored for stored in evaluations if not stored.evaluation.only)
    return WorkflowState(workflow, whole, tuple(changed))


def _baseline(
    ledger: Ledger,
    project: str,
    state: WorkflowState,
    named: dict[tuple[str, str], NamedBaseline],
) -> WorkflowBaseline | None:
    """The named baseline of the newest evaluation's workflow and dataset, else the evaluation
    before it on that dataset. The baseline itself is compared with the one before, too.
    """
    if not state.evaluations:
        return None
    newest, *older = state.evaluations
    of = newest.evaluation
    kept = named.get((of.workflow.id, of.dataset.id))
    if kept is not None:
        try:
            evaluation = _evaluation_of(ledger, project, kept, newest)
        except AssayError:  # the page of the evaluation shows what is wrong
            return WorkflowBaseline(kept.name, None, reason="its evaluation can't be read")
        if evaluation is None:
            return WorkflowBaseline(
                kept.name,
                None,
                reason="it was not made of one stored evaluation",
                lost=max(0, len(kept.evidence_digests) - of.totals.n),
            )
        if evaluation.digest != newest.digest:
            return _compared(ledger, project, kept.name, newest, evaluation)
    before = earlier_evaluation(ledger, newest, older, project=project)
    return None if before is None else _compared(ledger, project, "", newest, before)


def _evaluation_of(
    ledger: Ledger, project: str, kept: NamedBaseline, newest: StoredEvaluation
) -> StoredEvaluation | None:
    """The evaluation that a baseline was made of, without its runs. The search reads lists of runs,
    so it is repeated only after a new evaluation.
    """
    runs = kept.evidence_digests
    key = (ledger.where, project, newest.digest, sha256("".join(runs).encode()).digest())
    digests = _made_of.get(key)
    if digests is None:
        evaluation = evaluation_of_runs(ledger, runs, project=project)
        if len(_made_of) > _KEPT_WORKFLOWS:
            _made_of.clear()
        digests = _made_of[key] = () if evaluation is None else (evaluation.digest,)
    return next(iter(brief_evaluations(ledger, project, digests)), None)


def _compared(
    ledger: Ledger, project: str, name: str, newest: StoredEvaluation, baseline: StoredEvaluation
) -> WorkflowBaseline:
    of, other = newest.evaluation, baseline.evaluation
    ours, theirs = of.totals, other.totals
    reason = (
        "one of them has no graded run"
        if ours.ungraded == ours.n or theirs.ungraded == theirs.n
        else "they are on different versions of the dataset"
        if of.dataset != other.dataset
        else "they were graded by different rules"
        if graded_by(of.settings) != graded_by(other.settings)
        else ""
    )
    if of.dataset != other.dataset:
        return WorkflowBaseline(name, other, reason=reason)
    shared = shared_samples(ledger, newest, baseline, project=project)
    reason = reason or shared.reason
    difference = None if reason else rate_difference(*shared[:4])
    return WorkflowBaseline(name, other, difference, reason, shared.lost)


def _decisions(ledger: Ledger, project: str, workflows: Collection[str]) -> dict[str, LastDecision]:
    """The newest release decision about each workflow, among the last few of the project."""
    last = [
        brief
        for brief in reading.newest(ledger.database, project, "decision", limit=DECISIONS)
        if brief.schema == DECISION_SCHEMA and brief.status is not None
    ]
    sides = reading.sides_of(ledger.database, project, [brief.seq for brief in last], look_at=1)
    decisions: dict[str, LastDecision] = {}
    for brief in last:
        for workflow, version in sides.get(brief.seq, {}).get("candidate", ()):
            if workflow in workflows:
                decisions.setdefault(
                    workflow,
                    LastDecision(
                        brief.digest, brief.status, brief.policy, brief.created_at, version
                    ),
                )
    return decisions
