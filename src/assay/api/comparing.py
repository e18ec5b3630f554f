"""Read evaluations back, summarize them, and decide between two."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from assay.api.results import (
    EvaluationOutcome,
    GateOutcome,
    RehearsalOutcome,
    SummaryOutcome,
    block_of,
)
from assay.api.sources import OTHER_RULES, ReadSource, Source, SourceReader
from assay.errors import InputError, NotEnoughEvidence, raise_faults
from assay.files.json_files import Document, Unread
from assay.release.plan import read_plan
from assay.release.policy import Bars, make_release_rules
from assay.release.sides import Side
from assay.services.compare import Acceptance, Asked, FreshRuns, compare
from assay.services.given_grades import grades_of
from assay.services.grading import Graded, Grader
from assay.services.rehearse import RELEASES, Rehearsing
from assay.services.rehearse import rehearse as rehearse_sides
from assay.services.sides import Rereadable, severe_of, side_of


def load(
    reference: str,
    *,
    profile: str | None = None,
    policy: str | None = None,
    rubric: str | None = None,
    library: str | None = None,
    store: str | None = None,
    project: str | None = None,
) -> EvaluationOutcome:
    """Runs, graded: of a file (runs, scorecards, or `assay.grades/1`), or of a stored evaluation.

    A path has a slash or an extension; anything else is a reference, such as a name, `latest` or
    `latest~1`, in the ledger `store` (default: the nearest `.assay/ledger.db`). Runs are graded by
    what is given here, else by the nearest `assay.yaml`, else by what graded the evaluation.

    >>> import assay
    >>> from importlib.resources import files
    >>> found = assay.load(str(files("assay.cli") / "examples" / "rag.jsonl"))
    >>> [grade["grade"] for grade in found.grades]
    ['A', 'F', 'F']
    """
    reader = SourceReader(store, project, library)
    read = reader.read(reference)
    bar = reader.graded_by([], [read.graded], _given(profile, policy, rubric))
    choice = reader.required(bar.choice)
    graded = list(_graded(iter(read.documents), choice.grader()))
    _refuse_repeats(graded, reference)
    return EvaluationOutcome(
        None, graded, choice=choice, name=reference, made=bar.made, origin=read.origin
    )


def project_grader(profile: str | None, policy: str | None, library: str | None) -> Grader:
    """A grader by what is given, else by the nearest `assay.yaml`, whose scorers and gates are
    required of every run.
    """
    reader = SourceReader(None, None, library)
    return reader.required(reader.graded_by([], [], _given(profile, policy, None)).choice).grader()


def _given(profile: str | None, policy: str | None, rubric: str | None) -> dict[str, str]:
    """The rules that a caller names."""
    named = {"profile": profile, "policy": policy, "rubric": rubric}
    return {kind: value for kind, value in named.items() if value is not None}


def summary(
    *sources: Source,
    profile: str | None = None,
    policy: str | None = None,
    rubric: str | None = None,
    library: str | None = None,
    store: str | None = None,
    project: str | None = None,
) -> SummaryOutcome:
    """Pass rate, scores, gates and the reasons of failures over all runs of the sources.

    >>> import assay
    >>> from importlib.resources import files
    >>> found = assay.summary(str(files("assay.cli") / "examples" / "rag.jsonl"))
    >>> found.block.n, round(found.block.pass_rate.value, 2)
    (3, 0.33)
    """
    graded: list[Graded] = []
    loaded: list[Graded] = []
    for source in sources:
        newer, into = source, graded
        if not isinstance(newer, EvaluationOutcome):
            into = loaded
            newer = load(
                newer,
                profile=profile,
                policy=policy,
                rubric=rubric,
                library=library,
                store=store,
                project=project,
            )
        if not newer.graded:  # the job that was to fill it did not run
            raise NotEnoughEvidence("FIL-005", "contains no runs.", where=newer.name or "")
        into += newer.graded
    _refuse_repeats([*graded, *loaded])
    return SummaryOutcome(block_of([*graded, *loaded]))


def gate(
    candidate: Source,
    baseline: Source,
    *,
    release_policy: str | None = None,
    tolerance: float | None = None,
    quarantine: Sequence[str] = (),
    slices: Sequence[str] = (),
    plan: str | None = None,
    fresh: Source | None = None,
    fresh_baseline: Source | None = None,
    accept: Acceptance | None = None,
    profile: str | None = None,
    policy: str | None = None,
    rubric: str | None = None,
    library: str | None = None,
    store: str | None = None,
    project: str | None = None,
) -> GateOutcome:
    """Whether the candidate may replace the baseline, with the statistics of the decision.

    Evidence is graded again here, both sides by the same profile, rubric and policy: those given,
    else those of the baseline, else of the nearest `assay.yaml`, which also sets the release
    policy, the tolerance and the minimum pass rate. A candidate never brings its own rules: if the
    baseline doesn't say what graded it, you must name them. The result is true only for `promote`.
    `fresh` and `fresh_baseline` are runs that were made again of the samples that seem to fail
    newly.

    >>> import assay
    >>> from importlib.resources import files
    >>> sides = files("assay.cli") / "examples" / "release"
    >>> found = assay.gate(str(sides / "candidate.jsonl"), str(sides / "baseline.jsonl"))
    >>> found.outcome, bool(found)
    ('hold', False)
    """
    reader = SourceReader(store, project, library)
    given = _given(profile, policy, rubric)
    new = reader.read(candidate)
    old = reader.read(baseline, judged=new.documents)
    bar = reader.bar(new, old, given)
    grader = reader.required(bar.choice).grader()
    release = reader.release
    rules = make_release_rules(
        grader.shelf.policy_of("release", release_policy or release.policy or "release"),
        Bars(
            release.tolerance if tolerance is None else tolerance,
            release.min_pass_rate,
            release.confidence,
            release.min_overlap,
        ),
    )

    def side(read: ReadSource, name: str) -> Rereadable:
        made = side_of(read.documents, grader, name=name, severe=severe_of(rules))
        return Rereadable(made, partial(iter, read.documents))

    sides = side(new, "candidate"), side(old, "baseline")
    asked = Asked(
        tuple(dict.fromkeys((*reader.quarantine, *quarantine))),
        tuple(dict.fromkeys((*reader.slices, *slices))),
        None if plan is None else read_plan(plan),
        new.origin,
        old.origin,
        frozenset(given),
        bar.made,
        other_rules=OTHER_RULES,
        fresh=FreshRuns(
            *(
                None if source is None else side(reader.read(source), f"fresh {name}")
                for name, source in (("candidate", fresh), ("baseline", fresh_baseline))
            )
        ),
        accepted=accept or Acceptance(),
    )
    return GateOutcome(compare(sides[0], sides[1], rules, grader, asked))


def rehearse(
    evaluation: Source,
    other: Source | None = None,
    *,
    release_policy: str | None = None,
    tolerance: float | None = None,
    recommend: bool = False,
    seed: int = 0,
    releases: int = RELEASES,
    profile: str | None = None,
    policy: str | None = None,
    rubric: str | None = None,
    library: str | None = None,
    store: str | None = None,
    project: str | None = None,
) -> RehearsalOutcome:
    """How often a release policy would reject, hold and promote a version against itself, from its
    repeats, and which planted regressions it would find; with `other`, how often that version would
    be promoted over this one.

    `recommend` also proposes numbers of runs, a margin and a policy. Runs are graded as in `gate`,
    where the evaluation is the baseline.

    >>> import assay
    >>> from itertools import cycle
    >>> answers = cycle(["WHY", "WHY", "WHY", "HOW"])
    >>> repeats = assay.evaluate(
    ...     lambda question: next(answers),
    ...     [{"id": f"q{n}", "question": "why", "expected": {"answer": "WHY"}} for n in range(30)],
    ...     profile="rag-measured",
    ...     repeats=3,
    ... )
    >>> made = assay.rehearse(repeats, releases=20).rehearsal
    >>> made.evaluation.samples, made.evaluation.runs, made.policy
    (30, 90, 'release@1')
    """
    reader = SourceReader(store, project, library)
    given = _given(profile, policy, rubric)
    older = reader.read(evaluation)
    newer = None if other is None else reader.read(other)
    grader = reader.required(reader.bar(older, older, given).choice).grader()
    release = reader.release
    rules = make_release_rules(
        grader.shelf.policy_of("release", release_policy or release.policy or "release"),
        Bars(
            release.tolerance if tolerance is None else tolerance,
            release.min_pass_rate,
            release.confidence,
        ),
    )

    def side(read: ReadSource, name: str) -> Side:
        named = read.source if isinstance(read.source, str) else read.source.name or name
        return side_of(read.documents, grader, name=named, severe=severe_of(rules))

    made = rehearse_sides(
        side(older, "the evaluation"),
        rules,
        Rehearsing(releases, seed, recommend),
        other=None if newer is None else side(newer, "the other version"),
    )
    return RehearsalOutcome(made)


def _graded(documents: Iterator[Document | Unread], grader: Grader) -> Iterator[Graded]:
    for document in documents:
        if isinstance(document, Unread):
            raise_faults([document.fault], where=document.fault.file)
        else:
            yield from grades_of(document, grader)


def _refuse_repeats(graded: Sequence[Graded], where: str = "") -> None:
    """Refuse a run that would count twice."""
    seen: set[str] = set()
    for graded_run in graded:
        run = graded_run.grade.run_id
        if run in seen:
            raise InputError(
                "FIL-007", f"the run id {run[:80]!r} appears more than once.", where=where
            )
        seen.add(run)
