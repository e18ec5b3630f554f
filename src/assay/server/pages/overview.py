"""The first page: what runs, what needs attention, and a card for each workflow.

Every query reads a bounded number of rows from the end of an index, however much is stored.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from assay.errors import count
from assay.records.decision import DECISION_SCHEMA
from assay.records.evaluation import Evaluation, WorkflowBaseline
from assay.server import lookup
from assay.server.auth import READ, Principal
from assay.server.pages.evaluations import FIRST
from assay.server.pages.layout import PageRoute, page
from assay.server.pages.running import running_section
from assay.server.pages.runs import POST
from assay.server.served import Alarm, gate_pages, served
from assay.server.state import SERVICES, Services
from assay.services.evaluations import StoredEvaluation, read_evaluation
from assay.services.samples import WorkflowState, listed_workflows, sample_rows, workflow_states
from assay.stats.intervals import wilson
from assay.store import events, executions, reading
from assay.store.reading import ActiveWorkflow, GradeOf, grades_of
from assay.views.blocks import Empty, Group, Pager, Paragraph, Part, Section, Sentences, section
from assay.views.charts import Chart
from assay.views.decision import decided as decided_as
from assay.views.evaluation import unchecked
from assay.views.pieces import address, clip, link, moment, phrase, small, verdict
from assay.views.workflow_card import CardRuns, runs_card, trend, workflow_card

FAILED_LOOKED_AT = 200
JOBS = 8
RUNS_LOOKED_AT = 500
DECIDED = 20
NAME = 80
ENDED_BADLY = {"error": "in an error", "timeout": "at a time limit"}


class _Gate(msgspec.Struct):
    status: Any = None


class _GateFailures(msgspec.Struct):
    status: Any = None
    hard_gates: dict[str, _Gate] = {}


_gates = msgspec.json.Decoder(_GateFailures).decode


def attention(alarms: Sequence[Alarm], evaluations: str = "") -> Part:
    """The alarms as links, worst first, or a sentence that there are none. `evaluations` names
    those without alarms.
    """
    if not alarms:
        held = f"every run of {evaluations} passed, " if evaluations else ""
        return Paragraph(
            verdict(
                "passed",
                f"Nothing: {held}no decision or gate failed, no gate is undetermined, no run ended"
                " in an error, no judge's card is stale.",
            )
        )
    return Sentences(
        [
            phrase(
                verdict("fail" if alarm.kind == "bad" else "undetermined", " "),
                " ",
                link(alarm.text, alarm.href),
                *([" ", small(moment(alarm.at))] if alarm.at else []),
            )
            for alarm in sorted(alarms, key=lambda alarm: alarm.kind != "bad")
        ]
    )


def alarms_of(services: Services, project: str) -> list[Alarm]:
    """What needs attention besides the evaluations."""
    database = services.ledger.database
    alarms = [
        *_of_decisions(reading.newest(database, project, "decision", limit=DECIDED)),
        *_of_gates(services, project),
        *_of_runs(services, project),
        *(
            alarm
            for family in served()
            if family.alarms is not None
            for alarm in family.alarms(services, project)
        ),
    ]
    alarms += [
        Alarm(
            "bad",
            f"The evaluation {job.request()['name']} failed: {_fault(job)}.",
            address("runs", workflow=job.request()["workflow"]["id"]),
            job.created_at,
        )
        for job in executions.newest(database, project, limit=JOBS)
        if job.state == events.FAILED
    ]
    return alarms


def alarms_of_workflows(states: Iterable[WorkflowState]) -> list[Alarm]:
    """Alarms for each workflow whose newest evaluation is worse than what it is compared with,
    lacks samples of it, has runs that did not pass, or can't be trusted.
    """
    return [alarm for state in states for alarm in _of_workflow(state)]


def _of_workflow(state: WorkflowState) -> Iterable[Alarm]:
    name = clip(state.name, NAME)
    if state.changed:
        text = f"{name}: {count(len(state.changed), 'evaluation')} changed after being stored."
        yield Alarm("bad", text, address("evaluations", workflow=state.name))
    for evaluation in [evaluated.evaluation for evaluated in state.evaluations[:1]]:
        totals, worse = evaluation.totals, _worse(state.baseline)
        if state.baseline is not None and state.baseline.lost:
            yield _lost(name, evaluation, state.baseline)
        rate = totals.pass_rate.value or 0.0
        # Lost samples may be all that is worse; the line about them says so.
        if worse is not None and state.baseline and rate < (worse.totals.pass_rate.value or 0.0):
            yield Alarm(
                "bad",
                f"{name}: the newest evaluation is worse than {_called(state.baseline)}: pass rate"
                f" {totals.pass_rate.value:.1%}, was {worse.totals.pass_rate.value:.1%}.",
                address("compare", of=(worse.id, evaluation.id)),
                evaluation.started,
            )
        elif totals.passed < totals.n:
            gate = max(
                totals.gate_failures.items(), key=lambda failure: failure[1], default=("", 0)
            )
            why = f"; {gate[1]:,} by gate {clip(gate[0], NAME)}" if gate[1] else ""
            yield Alarm(
                "bad" if why or totals.ungraded else "open",
                f"{name}: {totals.n - totals.passed:,} of {count(totals.n, 'run')} of the newest"
                f" evaluation did not pass{why}.",
                address("evaluations", evaluation.id, show="failed"),
                evaluation.started,
            )
        if note := unchecked(evaluation.settings):
            yield Alarm(
                "open",
                f"{name}: {note} in the newest evaluation.",
                address("evaluations", evaluation.id),
                evaluation.started,
            )


def _called(baseline: WorkflowBaseline) -> str:
    named = f"the baseline {clip(baseline.name, NAME)}"
    return named if baseline.name else "an earlier evaluation"


def _lost(name: str, evaluation: Evaluation, baseline: WorkflowBaseline) -> Alarm:
    """An alarm for samples that were left out, because they can't fail."""
    of = baseline.evaluation
    before = f"baseline:{baseline.name}" if of is None else of.id
    are = "is" if baseline.lost == 1 else "are"
    return Alarm(
        "bad",
        f"{name}: {count(baseline.lost, 'sample')} of {_called(baseline)} {are} missing in the"
        " newest evaluation.",
        address("compare", of=(before, evaluation.id), show="missing"),
        evaluation.started,
    )


def _worse(baseline: WorkflowBaseline | None) -> Evaluation | None:
    """The evaluation that the newest one is shown to be worse than; None if there is none."""
    if baseline is None or baseline.evaluation is None or baseline.difference is None:
        return None
    high = baseline.difference.high
    return baseline.evaluation if high is not None and high < 0 else None


def _fault(job: executions.Job) -> str:
    """Why a job failed, as a sentence without a full stop."""
    last = next(iter(reversed(job.progress.get("faults") or [])), None)
    message = last.get("message") if isinstance(last, dict) else None
    return clip(message, 200, absent_as="no reason given").removesuffix(".")


def _of_decisions(decided: Sequence[reading.Brief]) -> Iterable[Alarm]:
    """The newest decision of each kind, if it didn't pass; older ones are ignored."""
    known = [
        decision
        for decision in decided
        if (decision.status, decision.passed, decision.policy) != (None, None, None)
    ]
    newest = {
        decision.schema: decision for decision in reversed(known)
    }  # without those that were forgotten
    sentences = {schema: page.newest for schema, page in gate_pages().items()}
    for schema, words in {DECISION_SCHEMA: "The last release decision:", **sentences}.items():
        decision = newest.get(schema)
        if decision is None or decision.status == "promote" or decision.passed is True:
            continue
        outcome = decided_as(decision.status, decision.passed).partition(" ")[2]
        yield Alarm(
            "open" if decision.status in ("hold", "not_enough_evidence") else "bad",
            f"{words} {outcome}.",
            address("decisions", decision.digest),
            decision.created_at,
        )


def _of_gates(services: Services, project: str) -> Iterable[Alarm]:
    bodies = reading.bodies(
        services.ledger.database, project, "grade", limit=FAILED_LOOKED_AT, passed=False
    )
    runs_of: dict[str, list[int]] = {}
    for place, (_, body) in enumerate(bodies):
        grade = _gates(body)
        if grade.status in ENDED_BADLY:  # which is why it has no evidence, and `_of_runs` says it
            continue
        for name, gate in grade.hard_gates.items():
            if gate.status == "undetermined":
                runs_of.setdefault(name, []).append(place)
    together: dict[tuple[int, ...], list[str]] = {}
    for name, places in runs_of.items():
        together.setdefault(tuple(places), []).append(name)
    for runs, names in sorted(together.items(), key=lambda item: -len(item[0]))[:4]:
        gates = f"Gate {names[0]} is" if len(names) == 1 else f"Gates {', '.join(names)} are"
        yield Alarm(
            "open",
            f"{gates} undetermined in {count(len(runs), 'run')} of the last {len(bodies)} that did"
            " not pass: no evidence.",
            address("runs", gate=names[0]),
        )


def _of_runs(services: Services, project: str) -> Iterable[Alarm]:
    newest = reading.newest(services.ledger.database, project, "run", limit=RUNS_LOOKED_AT)
    among = f" of the last {RUNS_LOOKED_AT:,}" if len(newest) == RUNS_LOOKED_AT else ""
    for status, words in ENDED_BADLY.items():
        ended = [run for run in newest if run.status == status]
        if ended:
            yield Alarm(
                "bad",
                f"{count(len(ended), 'run')}{among} ended {words}; the newest is"
                f" {ended[0].run_id or 'without an id'}.",
                address("runs", status=status),
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
