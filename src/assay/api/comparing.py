"""Read evaluations back, summarize them, and decide between two."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from assay.api.results import EvaluationOutcome, GateOutcome, SummaryOutcome, block_of
from assay.errors import InputError, NotEnoughEvidence
from assay.files.json_files import Document, Unread, stream_documents
from assay.pipeline.choice import Choice
from assay.pipeline.deciding import Terms, decide, declared, side_of
from assay.pipeline.given_grades import grades_of
from assay.pipeline.grading import DEFAULT_POLICY
from assay.registry import is_path
from assay.release.policy import make_release_rules

if TYPE_CHECKING:
    from assay.pipeline.grading import Graded, Grader

Source = str | EvaluationOutcome
"""An outcome, a file of runs or grades, or a reference to a stored evaluation."""
LEDGER = ".assay/ledger.db"


def load(
    reference: str,
    *,
    profile: str | None = None,
    policy: str = DEFAULT_POLICY,
    rubric: str | None = None,
    library: str | None = None,
    store: str | None = None,
) -> EvaluationOutcome:
    """Runs, graded: of a file (runs, scorecards, or `assay.grades/1`), or of a stored evaluation.

    A path has a slash or an extension; anything else is a reference, such as a name, `latest` or
    `latest~1`, in the ledger `store` (default: the nearest `.assay/ledger.db`).
    """
    choice = Choice(policy, profile, rubric, library)
    graded = list(_graded(_documents(reference, store), choice.grader()))
    return EvaluationOutcome(None, graded, choice=choice, name=reference)


def summary(
    *sources: Source,
    profile: str | None = None,
    policy: str = DEFAULT_POLICY,
    rubric: str | None = None,
    library: str | None = None,
    store: str | None = None,
) -> SummaryOutcome:
    """Pass rate, scores, gates and the reasons of failures over all runs of the sources."""
    grader = Choice(policy, profile, rubric, library).grader()
    graded: list[Graded] = []
    for source in sources:
        graded += (
            source.graded
            if isinstance(source, EvaluationOutcome)
            else _graded(_documents(source, store), grader)
        )
    return SummaryOutcome(block_of(graded))


def gate(
    candidate: Source,
    baseline: Source,
    *,
    release_policy: str = "release",
    profile: str | None = None,
    policy: str | None = None,
    rubric: str | None = None,
    library: str | None = None,
    store: str | None = None,
) -> GateOutcome:
    """Whether the candidate may replace the baseline, with the statistics of the decision.

    Evidence is graded again here, both sides by the same profile, rubric and policy: those given,
    else those of the baseline, else of the candidate. The result is true only for `promote`.
    """
    known = [one.choice for one in (baseline, candidate) if isinstance(one, EvaluationOutcome)]
    base = known[0] if known else Choice(DEFAULT_POLICY, None, None, None)
    grader = Choice(
        policy or base.policy,
        profile or base.profile,
        rubric or base.rubric,
        library or base.library,
    ).grader()
    rules = make_release_rules(grader.shelf.policy_of("release", release_policy))
    new, old = (
        side_of(_documents(source, store), grader, name=name)
        for name, source in (("candidate", candidate), ("baseline", baseline))
    )
    plan, samples = declared(None, rules, looks=1, slices=())
    return GateOutcome(decide(new, old, rules, grader, terms=Terms(plan=plan, samples=samples)))


def _documents(source: Source, store: str | None) -> Iterator[Document | Unread]:
    if isinstance(source, EvaluationOutcome):
        return source.documents()
    return stream_documents(source) if is_path(source) else _stored(source, store)


def _stored(reference: str, store: str | None) -> Iterator[Document]:
    """The runs of a stored evaluation."""
    from assay.archive.evaluations import find_evaluation, stored_runs
    from assay.store.ledger import DEFAULT_PROJECT, open_ledger

    url = store or _nearest()
    if "://" not in url:
        url = f"sqlite:///{url}"
    with open_ledger(url, read_only=True) as ledger:
        found = find_evaluation(ledger, reference, project=DEFAULT_PROJECT)
        if found is None:
            raise NotEnoughEvidence(
                "STO-008",
                f"no evaluation is named '{reference[:100]}'.",
                where=ledger.where,
                fix="`assay evals` lists them. A path has a slash or an extension.",
            )
        for item in stored_runs(ledger, found, project=DEFAULT_PROJECT):
            yield Document(item.tree(), reference)


def _nearest() -> str:
    """The ledger of the nearest folder that has one, from the working folder upwards."""
    here = Path.cwd()
    for folder in (here, *here.parents):
        if (folder / LEDGER).is_file():
            return str(folder / LEDGER)
    raise NotEnoughEvidence(
        "STO-008",
        f"there is no {LEDGER} here or above.",
        fix="`assay run` stores its evaluations there; or name a file of runs by its path.",
    )


def _graded(documents: Iterator[Document | Unread], grader: Grader) -> Iterator[Graded]:
    for document in documents:
        if isinstance(document, Unread):
            fault = document.fault
            raise InputError(fault.code, fault.message, where=fault.file, faults=[fault])
        yield from grades_of(document, grader)
