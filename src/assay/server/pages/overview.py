"""The first page: what needs attention, what runs, how it goes, and what was decided last.

Nothing here counts what is stored: every question reads a bounded number of rows from the end of an
index, and the page says of how many it speaks.
"""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import msgspec
from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from assay.files.json_files import parse_json
from assay.grading.policy import Policy, make_rules
from assay.judging.card import admit, newest, read_card
from assay.server.auth import Principal
from assay.server.pages import decisions, recent_runs
from assay.server.pages.layout import page
from assay.server.pages.routing import READER, PageRoute
from assay.server.pages.runs import FIRST
from assay.store import executions, jobs, recent
from assay.store.events import EVALUATING, EXECUTING, RUNNING
from assay.views.blocks import (
    Empty,
    Figure,
    Group,
    Paragraph,
    Part,
    Sentences,
    Table,
    section,
)
from assay.views.pieces import (
    address,
    letter,
    link,
    listed,
    moment,
    phrase,
    small,
    verdict,
)
from assay.views.pieces import shown as say

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from assay.server.pages.recent_runs import Window
    from assay.server.state import Services

router = APIRouter(route_class=PageRoute, include_in_schema=False)
SHOWN = 8
DECISIONS = 20
FAILED_LOOKED_AT = 200
CARDS = 50
ENDED_BADLY = ("error", "timeout")
_BUSY = ("queued", "running", "cancelling")


class _Gate(msgspec.Struct):
    status: Any = None


class _Gates(msgspec.Struct):
    hard_gates: dict[str, _Gate] = {}


_gates = msgspec.json.Decoder(_Gates).decode


class Alarm(NamedTuple):
    """Something that needs attention: how bad it is, what, and where to look."""

    kind: str
    text: str
    href: str


@router.get("/")
def overview(
    request: Request,
    principal: Principal = READER,
    policy: Annotated[str | None, Query(max_length=200)] = None,
) -> Response:
    """The state of a project on one page."""
    services: Services = request.app.state.services
    project = principal.project
    found = recent_runs.window(services, project)
    decided = recent.newest(services.ledger.database, project, "decision", limit=DECISIONS)
    running = _running(services, project)
    if not found.grades and not decided:
        lead = (
            f"Nothing is {'graded' if services.ledger.count(project=project).n else 'stored'} in"
            " this project yet."
        )
        return page(
            request,
            "Overview",
            *([running] if running else []),
            _first(),
            _results(),
            nav="/",
            lead=lead,
        )
    parts = [
        section(
            "Needs attention",
            _attention(_alarms(services, project, found, decided)),
            id="attention",
        ),
        section("Running now", running or Paragraph("Nothing runs now.", "absent"), id="running"),
    ]
    body = [
        Group(parts, "columns"),
        _charts(services, found, policy),
        _decisions(services, project, decided),
        _newest(found),
        _results(),
    ]
    return page(request, "Overview", *body, nav="/", lead=_lead(found))


def _lead(found: Window) -> str:
    n = len(found.grades)
    runs = f"{n:,} graded run{'s' if n != 1 else ''} and scorecards"
    return (
        f"All {runs} of this project."
        if found.whole
        else f"Of the last {recent_runs.WINDOW:,} grades: {runs}."
    )


def _first() -> Part:
    return Empty(
        "Runs, grades and decisions appear here as they come in. To begin, send the evidence of a"
        " run:",
        FIRST,
        more="Or run a workflow with `assay run`.",
    )


def _results() -> Part:
    """The way to what has no place in the menu."""
    return Paragraph(
        phrase(
            link("Results", "/results"),
            " of measures, ranks, summaries and drift that commands stored.",
        ),
        "hint",
    )


# --- attention


def _attention(alarms: Sequence[Alarm]) -> Part:
    if not alarms:
        return Paragraph(
            verdict(
                "passed",
                "Nothing: no decision failed, no gate is undetermined, no run ended in error, no"
                " judge's card is stale.",
            )
        )
    return Sentences(
        [
            phrase(
                verdict("fail" if alarm.kind == "bad" else "undetermined", " "),
                " ",
                link(alarm.text, alarm.href),
            )
            for alarm in alarms
        ]
    )


def _alarms(
    services: Services, project: str, found: Window, decided: Sequence[recent.Brief]
) -> list[Alarm]:
    alarms = [
        *_of_decisions(decided),
        *_of_gates(services, project),
        *_of_runs(services, project, found),
        *_of_cards(services, project),
    ]
    alarms += [
        Alarm(
            "bad",
            f"A job to {job.request()['kind']} failed ({when_text(job.created_at)}).",
            address("api", "v1", "jobs", job.id),
        )
        for job in jobs.newest(services.ledger.database, jobs.AGAIN, project, limit=SHOWN)
        if job.state == jobs.FAILED
    ]
    return sorted(alarms, key=lambda alarm: alarm.kind != "bad")


def when_text(moment: str) -> str:
    """A moment to the minute, within a sentence."""
    return moment[:16].replace("T", " ")


def _of_decisions(decided: Sequence[recent.Brief]) -> Iterable[Alarm]:
    """The newest decision, where it does not promote; an older one is history."""
    for one in decided[:1]:
        if one.status != "promote":
            words = str(one.status or "no outcome").replace("_", " ")
            yield Alarm(
                "bad" if one.status == "reject" else "open",
                f"The last decision: {words} ({when_text(one.created_at)}).",
                address("decisions", one.digest),
            )


def _of_gates(services: Services, project: str) -> Iterable[Alarm]:
    bodies = recent.bodies(
        services.ledger.database, project, "grade", limit=FAILED_LOOKED_AT, passed=False
    )
    open_: Counter[str] = Counter()
    for _, body in bodies:
        open_.update(
            name for name, gate in _gates(body).hard_gates.items() if gate.status == "undetermined"
        )
    for name, n in open_.most_common(4):
        runs = f"{n} run{'s' if n != 1 else ''}"
        yield Alarm(
            "open",
            f"Gate {name} is undetermined in {runs} of the last {len(bodies)} that did not pass: no"
            " evidence.",
            address("runs", gate=name),
        )


def _of_runs(services: Services, project: str, found: Window) -> Iterable[Alarm]:
    oldest = found.grades[-1].seq if found.grades else 0
    for status in ENDED_BADLY:
        ended = [
            one
            for one in recent.newest(
                services.ledger.database, project, "run", limit=100, status=status
            )
            if found.whole or one.seq >= oldest
        ]
        if ended:
            many = (
                "100 or more runs"
                if len(ended) == 100
                else f"{len(ended)} run{'s' if len(ended) != 1 else ''}"
            )
            words = {"error": "in an error", "timeout": "at a time limit"}[status]
            yield Alarm(
                "bad",
                f"{many} ended {words}; the newest is {ended[0].run_id or 'without an id'}.",
                address("runs", status=status),
            )


def _of_cards(services: Services, project: str) -> Iterable[Alarm]:
    """Judges whose newest card is too old to gate, by the first policy on the shelf that has terms
    for judges.
    """
    stored = services.ledger.find("card", project=project, limit=CARDS, newest_first=True).items
    digests = {item.tree()["digest"]: item.digest for item in stored if item.body is not None}
    trees = [*services.cards, *(item.tree() for item in stored if item.body is not None)]
    cards = [read_card(tree) for tree in trees]
    if not cards:
        return
    names = dict.fromkeys(
        [services.settings.policy, *(entry.id for entry in services.shelf.entries("policies"))]
    )
    loaded = (services.shelf.load("policies", name) for name in names)
    terms = next(
        (
            rules.judge_terms
            for one in loaded
            if isinstance(one, Policy) and (rules := make_rules(one)).judge_terms is not None
        ),
        None,
    )
    if terms is None:
        return
    for card in (card for of_model in newest(cards).values() for card in of_model):
        stale = [
            term.sentence
            for term in admit(card, terms, now=datetime.now(UTC)).terms
            if term.id == "age" and term.holds is not True
        ]
        if stale:
            digest = digests.get(card.digest)
            yield Alarm(
                "open",
                f"Judge {card.model} may not gate: {stale[0]}.",
                address("judges", digest) if digest else "/judges",
            )


# --- running


def _running(services: Services, project: str) -> Part:
    """Runs in progress, executions and jobs that are not over; nothing where there are none."""
    database = services.ledger.database
    live = recent.live(database, project, (RUNNING, EXECUTING, EVALUATING), limit=SHOWN + 1)
    rows: list[list[str]] = []
    for one in live[:SHOWN]:
        head = parse_json(one.head)
        name = str(head.get("run_id", one.run_id))
        workflow = head.get("workflow") if isinstance(head.get("workflow"), dict) else {}
        rows.append(
            [
                link(name, address("runs", name, "live")),
                verdict(one.state),
                f"{one.events:,} event{'s' if one.events != 1 else ''}",
                say(workflow.get("id")),
                moment(one.created_at),
            ]
        )
    for execution in jobs.newest(database, jobs.EXECUTION, project, limit=SHOWN):
        if execution.state in _BUSY:
            asked = execution.request()
            counts = executions.counts(database, execution.id)
            done = (
                f"{sum(counts.get(state, 0) for state in ('done', 'failed', 'cancelled')):,} of"
                f" {sum(counts.values()):,} runs"
            )
            name = f"execution {execution.id[:12]}"
            where = address("runs", workflow=str(asked["workflow"]["id"]))
            rows.append(
                [
                    link(name, where),
                    verdict(execution.state),
                    done,
                    say(asked["workflow"].get("id")),
                    moment(execution.created_at),
                ]
            )
    for job in jobs.newest(database, jobs.AGAIN, project, limit=SHOWN):
        if job.state in _BUSY:
            done = f"{job.progress.get('seen', 0):,} looked at"
            rows.append(
                [
                    link(
                        f"{job.request()['kind']} {job.id[:8]}",
                        address("api", "v1", "jobs", job.id),
                    ),
                    verdict(job.state),
                    done,
                    "",
                    moment(job.created_at),
                ]
            )
    if not rows:
        return ""
    more = (
        [Paragraph(f"The {SHOWN} newest runs are shown; more are in progress.", "hint")]
        if len(live) > SHOWN
        else []
    )
    return Group(
        [Table("Running now", ("What", "State", "So far", "Workflow", "Since"), rows), *more]
    )


# --- trends


def _charts(services: Services, found: Window, wanted: str | None) -> Part:
    policies = found.policies
    if not policies:
        return ""
    policy = wanted if wanted in policies else policies[0]
    url = address("charts", "overview", policy)
    mix, rates = (
        recent_runs.mix(found, policy, recent_runs.letters_of(services, policy)),
        recent_runs.rates(found, policy),
    )
    others = [link(name, address(policy=name)) for name in policies if name != policy]
    said = (
        f"Under {policy}, {'all' if found.whole else 'the newest'} {len(found.of(policy)):,} runs,"
        " by when they were graded."
    )
    ways = [Paragraph(phrase("Other policies: ", listed(others, " ")), "hint")] if others else []
    grid = Group(
        [Figure(mix, f"{url}/{mix.name}"), Figure(rates, f"{url}/{rates.name}")], "columns"
    )
    return section("Trends", grid, *ways, id="mix", hint=said)


def _decisions(services: Services, project: str, decided: Sequence[recent.Brief]) -> Part:
    if not decided:
        nothing = Empty(
            "No decision is stored yet. A candidate is decided on against a baseline:",
            decisions.FIRST,
        )
        return section("Latest decisions", nothing, id="decisions")
    found = services.ledger.get_many([one.digest for one in decided[:SHOWN]], project=project)
    items = [found[one.digest] for one in decided[:SHOWN] if one.digest in found]
    listed = Table(
        "Latest decisions",
        decisions.COLUMNS,
        decisions.rows_of_decisions(services, project, items),
        kind="stack",
    )
    return section("Latest decisions", listed, id="decisions")


def _newest(found: Window) -> Part:
    rows = [
        [
            link(one.run_id or "without an id", address("runs", one.digest)),
            letter(one.grade, one.policy),
            verdict("passed" if one.passed is True else "not passed"),
            (
                phrase(
                    *[
                        say(one.workflow, "a bare scorecard"),
                        " ",
                        small("version ", say(one.workflow_version)),
                    ]
                )
                if one.workflow
                else say(None, "a bare scorecard")
            ),
            moment(one.created_at),
        ]
        for one in found.grades[:SHOWN]
    ]
    listed = Table(
        "Newest runs",
        ("Run", "Grade", "Verdict", "Workflow", "Graded"),
        rows,
        absent="No run is graded yet.",
        kind="stack",
    )
    return section("Newest runs", listed, Paragraph(link("All runs", "/runs")), id="newest")
