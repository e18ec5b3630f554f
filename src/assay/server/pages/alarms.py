"""Alarms: what needs attention in a project, and the sentences about it on the first page.

Every query reads a bounded number of rows from the end of an index.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

import msgspec

from assay.archive.workflows import WorkflowState
from assay.errors import count
from assay.judging.card import admit
from assay.records.decision import DECISION_SCHEMA
from assay.records.evaluation import Evaluation
from assay.records.exam import EXAM_GATE
from assay.records.tool_gate import SCHEMA_GATE
from assay.server.pages.judge_parts import current_cards, policies
from assay.server.state import Services
from assay.store import events, executions, reading
from assay.views.blocks import Paragraph, Part, Sentences
from assay.views.decision import decided as decided_as
from assay.views.evaluations import unchecked
from assay.views.pieces import address, clip, link, moment, phrase, small, verdict
from assay.views.workflow_card import CardBaseline

FAILED_LOOKED_AT = 200
JOBS = 8
RUNS_LOOKED_AT = 500
DECIDED = 20
NAME = 80
ENDED_BADLY = {"error": "in an error", "timeout": "at a time limit"}
DECISIONS = {
    DECISION_SCHEMA: "The last release decision:",
    EXAM_GATE: "The last exam gate",
    SCHEMA_GATE: "The last tool gate",
}
"""How a sentence about the newest decision of each kind begins."""


class _Gate(msgspec.Struct):
    status: Any = None


class _GateFailures(msgspec.Struct):
    status: Any = None
    hard_gates: dict[str, _Gate] = {}


_gates = msgspec.json.Decoder(_GateFailures).decode


class Alarm(NamedTuple):
    """Something that needs attention: how bad it is, what, and where to look."""

    kind: str
    text: str
    href: str
    at: str = ""


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
        *_of_cards(services, project),
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


def _called(baseline: CardBaseline) -> str:
    named = f"the baseline {clip(baseline.name, NAME)}"
    return named if baseline.name else "an earlier evaluation"


def _lost(name: str, evaluation: Evaluation, baseline: CardBaseline) -> Alarm:
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


def _worse(baseline: CardBaseline | None) -> Evaluation | None:
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
    for schema, words in DECISIONS.items():
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


def _of_cards(services: Services, project: str) -> Iterable[Alarm]:
    """Judges whose newest card is too old to gate, by the first policy on the shelf that has terms
    for judges.
    """
    terms = next(iter(policies(services).values()), None)
    if terms is None:
        return
    for card, page in current_cards(services, project).values():
        stale = [
            term.sentence
            for term in admit(card, terms, now=datetime.now(UTC)).terms
            if term.id == "age" and term.holds is not True
        ]
        if stale:
            yield Alarm("open", f"Judge {card.model} may not gate: {stale[0]}.", page)
