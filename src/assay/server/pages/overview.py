"""The first page: what needs attention, what runs, how it goes, and what was decided last.

Nothing here counts what is stored: every question reads a bounded number of rows from the end of an
index, and the page says of how many it speaks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from assay.files.json_files import parse_json
from assay.server.auth import Principal
from assay.server.pages import decisions, recent_runs
from assay.server.pages.alarms import alarms_of, attention
from assay.server.pages.layout import page
from assay.server.pages.routing import READER, PageRoute
from assay.server.pages.runs import FIRST
from assay.store import executions, jobs, recent
from assay.store.events import EVALUATING, EXECUTING, RUNNING
from assay.views.blocks import Empty, Figure, Group, Paragraph, Part, Table, section
from assay.views.grade_line import outcome
from assay.views.pieces import address, letter, link, listed, moment, phrase, small, verdict
from assay.views.pieces import shown as say

if TYPE_CHECKING:
    from collections.abc import Sequence

    from assay.server.pages.recent_runs import Window
    from assay.server.state import Services

router = APIRouter(route_class=PageRoute, include_in_schema=False)
SHOWN = 8
DECISIONS = 20
_BUSY = ("queued", "running", "cancelling")


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
            attention(alarms_of(services, project, found, decided)),
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
            outcome(one.passed),
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
