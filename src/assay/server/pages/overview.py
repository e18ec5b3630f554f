"""The first page: what runs, what needs attention, and a card for each workflow.

Every query reads a bounded number of rows from the end of an index, however much is stored.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from assay.archive.evaluations import StoredEvaluation, read_evaluation
from assay.archive.samples import sample_rows
from assay.archive.workflows import (
    WorkflowState,
    listed_workflows,
    workflow_states,
)
from assay.errors import count
from assay.server import lookup
from assay.server.auth import READ, Principal
from assay.server.pages.alarms import alarms_of, alarms_of_workflows, attention
from assay.server.pages.evaluations import FIRST
from assay.server.pages.layout import page
from assay.server.pages.routing import PageRoute
from assay.server.pages.running import running_section
from assay.server.pages.runs import POST
from assay.server.state import SERVICES, Services
from assay.stats.intervals import wilson
from assay.store import reading
from assay.store.reading import ActiveWorkflow, GradeOf, grades_of
from assay.views.blocks import Empty, Group, Pager, Paragraph, Part, Section, section
from assay.views.charts import Chart
from assay.views.pieces import address, link, phrase
from assay.views.workflow_card import (
    CardRuns,
    runs_card,
    trend,
    workflow_card,
)

router = APIRouter(route_class=PageRoute, include_in_schema=False)
CARDS = 8
WATCHED = 24
"""How many workflows are checked for what needs attention."""
GRADES = 200
"""How many runs the card of a workflow without evaluations summarises."""
FLOORS = 500
"""The most runs of an evaluation whose missed floors its card counts."""


@router.get("/")
def overview(
    request: Request,
    principal: Principal = READ,
    services: Services = SERVICES,
    start: Annotated[int, Query(alias="from", ge=0, le=100_000)] = 0,
) -> Response:
    """The state of a project on one page."""
    project = principal.project
    workflows = listed_workflows(services.ledger, project)
    now = running_section(services, principal)
    alarms = alarms_of(services, project)
    if not workflows and not alarms:
        stored = services.ledger.count(project=project).n
        lead = f"Nothing is {'graded' if stored else 'stored'} in this project yet."
        parts = [*([now] if now else []), _first(), _runs()]
        return page(request, "Overview", *parts, nav="/", lead=lead)
    # Attention is about the same workflows on every page of cards.
    watched = workflow_states(services.ledger, project, workflows[:WATCHED])
    states = (
        watched[start : start + CARDS]
        if start + CARDS <= WATCHED
        else workflow_states(services.ledger, project, workflows[start : start + CARDS])
    )
    parts = [
        *([now] if now else []),
        section(
            "Needs attention",
            attention(
                [*alarms_of_workflows(watched), *alarms], _evaluations(watched, len(workflows))
            ),
            id="attention",
        ),
        Group([_card(services, project, state) for state in states], "workflows"),
        *_more(len(workflows), start, len(states)),
        _runs(),
    ]
    lead = f"{count(len(workflows), 'workflow')}"
    lead += ", the most recently active first." if len(workflows) > 1 else "."
    return page(request, "Overview", *parts, nav="/", lead=lead)


def _evaluations(watched: Sequence[WorkflowState], total: int) -> str:
    """The newest evaluations that were checked, in words; empty if there are none."""
    n = sum(bool(state.evaluations) for state in watched)
    if not n:
        return ""
    of = f" of the {len(watched)} most recently active workflows" if total > len(watched) else ""
    return f"the newest evaluation{'s' if n > 1 else ''}{of}"


def _first() -> Part:
    return Empty(
        "Workflows appear here with their evaluations, trends and decisions. To begin, run your"
        " workflow or the example, or import a result file you already have:",
        FIRST,
        more=f"Or post the evidence of a run: `{POST}`",
    )


def _runs() -> Part:
    """A link to a page that isn't in the menu."""
    return Paragraph(phrase(link("Runs", "/runs"), " one by one."), "hint")


def _more(total: int, start: int, shown: int) -> list[Part]:
    if not start and shown == total:
        return []
    end = start + shown
    return [
        Pager(
            newest="/" if start else "",
            newer=address(from_=str(start - CARDS)) if start > CARDS else "",
            older=address(from_=str(end)) if end < total else "",
            summary=f"Workflows {start + 1:,} to {end:,} of {total:,}" if shown else "No workflow",
        )
    ]


# --- cards


def _card(services: Services, project: str, state: WorkflowState) -> Section:
    if not state.evaluations:
        grades = _grades(services, project, state.workflow.id)
        return runs_card(
            state.name,
            state.workflow.runs,
            state.workflow.versions,
            grades,
            changed=len(state.changed),
        )
    newest = state.evaluations[0]
    return workflow_card(
        state.name,
        [evaluation.evaluation for evaluation in state.evaluations],
        baseline=state.baseline,
        decision=state.decision,
        changed=len(state.changed),
        chart=address("charts", "workflows", newest.digest),
        floors=_floors(services, project, newest) if newest.evaluation.totals.n <= FLOORS else None,
    )


def _floors(services: Services, project: str, newest: StoredEvaluation) -> Counter[str]:
    """How many runs of an evaluation miss each floor."""
    whole = read_evaluation(lookup.record(services, project, "evaluation", newest.digest))
    rows = sample_rows(services.ledger, whole, project=project, texts=False)
    grades = (run.grade for row in rows for run in row.runs)
    return Counter(name for grade in grades if grade is not None for name in grade.floor_failures)


def _grades(services: Services, project: str, workflow: str) -> CardRuns | None:
    """A summary of the grades of a workflow's newest runs, under the policy of the first: letters
    and verdicts of different policies are never combined.
    """
    database = services.ledger.database
    runs = reading.newest(database, project, "run", limit=GRADES, workflow=workflow)
    grades = grades_of(database, project, [run.digest for run in runs])
    newest = [(run, grades[run.digest][-1]) for run in runs if run.digest in grades]
    if not newest:
        return None
    first = newest[0][1]
    same: dict[str, GradeOf] = {}
    for run, graded in newest:
        if graded.policy == first.policy:
            same.setdefault(run.run_id or run.digest, graded)
    passed = sum(graded.passed is True for graded in same.values())
    rate = wilson(passed, len(same))
    stored = lookup.record(services, project, "grade", first.digest)
    return CardRuns(len(same), rate, first.policy, stored.created_at)


def workflow_chart(services: Services, project: str, digest: str, name: str) -> Chart | None:
    """The trend of a workflow up to one of its evaluations; None if the name is unknown."""
    item = lookup.record(services, project, "evaluation", digest)
    database = services.ledger.database
    if name != "pass-rates":
        return None
    of = reading.newest(database, project, "evaluation", limit=1, before=item.seq + 1)
    workflow = of[0].workflow if of and of[0].digest == item.digest else None
    if workflow is None:
        return None
    (state,) = workflow_states(
        services.ledger, project, [ActiveWorkflow(workflow, 1, 0, 0)], before=item.seq + 1
    )
    compared = state.baseline
    return trend(
        [evaluation.evaluation for evaluation in state.evaluations],
        compared.evaluation if compared is not None and compared.name else None,
    )
