"""The context of a sample: its evaluation, the samples before and after it in the view it was
opened from, its repeats, and the same sample in other evaluations.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from fastapi import Request

from assay.records.evidence import Run
from assay.server.lookup import RunWithGrades, run_with_grades
from assay.server.routing import reads
from assay.server.state import Services
from assay.services.evaluations import StoredEvaluation, find_evaluation
from assay.services.samples import evaluations_of, other_versions, sample_rows, view_samples
from assay.views.blocks import Note, Part, Section
from assay.views.pieces import address
from assay.views.sample import LONGEST, OtherAnswer, Walk, repeats, versions
from assay.views.sample_query import SampleQuery, neighbours, read_query, select_samples
from assay.views.samples import SampleEvidence, SampleRow, SampleRun, answer_text, sample_evidence

LONGEST_NAME = 200
READS = reads("in", *SampleQuery.__struct_fields__)
"""The parameters of an address that names a context."""


class SampleContext(NamedTuple):
    """The evaluation that a run is shown in, if there is one."""

    stored: StoredEvaluation | None
    query: SampleQuery
    note: str = ""
    """Why the run is not shown in the evaluation that the address names."""

    def of(self, run: SampleRun) -> str:
        """The address of another run in the same view."""
        assert self.stored is not None, "a run is only next to others within an evaluation"
        return address("runs", run.digest, in_=self.stored.evaluation.id, **self.query.pairs())


def opened(
    services: Services, project: str, request: Request, name: str
) -> tuple[RunWithGrades | None, SampleContext]:
    """The run that a name means in the evaluation of `?in=`, and that evaluation: many evaluations
    may have the id. None if the address names no evaluation that has the run.
    """
    query = read_query(request.query_params.getlist)
    reference = request.query_params.get("in", "")
    if not reference:
        return None, SampleContext(None, query)
    stored = find_evaluation(services.ledger, reference[:LONGEST_NAME], project=project)
    if stored is None:
        note = f"This project has no evaluation {reference[:LONGEST_NAME]!r}."
        return None, SampleContext(None, query, note)
    runs = stored.evaluation.runs
    run = next((run for run in runs if name in (run.digest, run.run_id, run.grade)), None)
    if run is None:
        note = f"The evaluation {stored.evaluation.name} does not contain this run."
        return None, SampleContext(None, query, note)
    graded_run = run_with_grades(services, project, run.grade or run.digest)
    return graded_run, SampleContext(stored, query)


def placed(
    services: Services, project: str, graded_run: RunWithGrades, context: SampleContext
) -> SampleContext:
    """The context of a run; if the address names no evaluation, the newest that has the run."""
    if context.stored is not None:
        return context
    newest = next(evaluations_of(services.ledger, graded_run.item.digest, project=project), None)
    return context._replace(stored=newest)


def around(
    services: Services, project: str, graded_run: RunWithGrades, context: SampleContext
) -> tuple[Walk | None, list[Part]]:
    """Links to the samples before and after, in the view of the address, and the repeats of this
    one.
    """
    notes: list[Part] = [Note(context.note)] if context.note else []
    if context.stored is None:
        return None, notes
    stored, query = context.stored, context.query
    chosen: Sequence[SampleRow]
    if query.needs_baseline:
        view = view_samples(services.ledger, stored, query, project=project)
        rows, chosen = view.rows, view.chosen
    else:
        rows = sample_rows(services.ledger, stored, project=project, texts=query.needs_texts)
        chosen = select_samples(rows, query)
    near = neighbours(chosen, graded_run.item.digest)
    place = f"{near.place:,} of {near.total:,}" if near.place else f"not among the {near.total:,}"
    walk = Walk(
        address("evaluations", stored.evaluation.id, **query.pairs()),
        stored.evaluation.name,
        context.of(near.previous.worst) if near.previous else "",
        context.of(near.following.worst) if near.following else "",
        f"{place} in this view" if query.filters else place,
    )
    own = [row for row in rows if any(run.digest == graded_run.item.digest for run in row.runs)]
    runs = sorted(own[0].runs, key=lambda run: run.run_id) if own else []
    return walk, [*notes, *repeats(runs, graded_run.item.digest, [context.of(run) for run in runs])]


def elsewhere(
    services: Services,
    project: str,
    graded_run: RunWithGrades,
    run: Run,
    context: SampleContext,
) -> list[Section]:
    """The same sample in other evaluations of its workflow, with the differences marked."""
    if not run.dataset.sample_id:
        return []
    stored = context.stored
    evidence = sample_evidence(graded_run.item.checked())
    others = []
    for version in other_versions(
        services.ledger,
        project=project,
        workflow=run.workflow.id,
        dataset=run.dataset.id,
        sample=run.dataset.sample_id,
        but=stored.digest if stored else "",
    ):
        if version.run.digest == graded_run.item.digest:
            continue
        older = version.seq < (stored.seq if stored else graded_run.item.seq)
        pair = [version.evaluation.id, stored.evaluation.id if stored else ""]
        remarks = [
            f"Worst of {version.repeats} repeats." if version.repeats > 1 else "",
            "Its inputs differ."
            if version.evidence and version.evidence.inputs != evidence.inputs
            else "",
        ]
        others.append(
            OtherAnswer(
                version.evaluation.name,
                version.evaluation.workflow.version or "not stated",
                address("runs", version.run.digest, in_=version.evaluation.id),
                address("evaluations", version.evaluation.id),
                address("compare", of=pair if older else pair[::-1]) if stored else "",
                older,
                _answer(version.evidence),
                version.run,
                version.evidence is None,
                version.evidence is not None and version.evidence.outputs == evidence.outputs,
                " ".join(filter(None, remarks)),
            )
        )
    return versions(_answer(evidence), others)


def _answer(evidence: SampleEvidence | None) -> str | None:
    """A run's answer; None if it has none or was forgotten."""
    return answer_text(evidence, most=LONGEST) if evidence and evidence.outputs else None
