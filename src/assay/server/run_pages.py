"""Pages of runs with their newest grade. Every page costs the same: it reads a bounded number of
rows, and `next` is the cursor of the following one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

import msgspec

from assay.records.grade_line import GradeLine
from assay.server.state import Services
from assay.services.storing import own_run
from assay.store.drafts import Item, moment_key
from assay.store.reading import SPAN, GradeOf, evidence_of, grades_of, span_moment

LOOKED_AT = 2000
"""How many rows are examined for one page."""
AT_ONCE = 100
"""The smallest number of grades read at once."""


class _RunBrief(msgspec.Struct):
    run_id: Any = None
    workflow: Any = None
    dataset: Any = None
    status: Any = None
    tags: Any = None
    started_at: Any = None
    latency_ms: Any = None
    cost_usd: Any = None


_brief = msgspec.json.Decoder(_RunBrief).decode
_line = msgspec.json.Decoder(GradeLine).decode


def run_page(
    services: Services,
    project: str,
    filters: Mapping[str, Any],
    *,
    gate: str | None,
    after: int | None,
    limit: int,
    newest_first: bool,
) -> dict[str, Any]:
    """One page. Filters on the grade go through the grades, all others through the runs; one that
    is None doesn't filter.
    """
    span = read_span(filters)
    base = {name: value for name, value in filters.items() if value is not None}
    run_only, of_grade = (
        {name: base.pop(name) for name in names if name in base}
        for names in (("status", *SPAN), ("grade", "passed"))
    )
    database = services.ledger.database
    find = partial(
        services.ledger.find, project=project, newest_first=newest_first, look_at=LOOKED_AT
    )
    if not of_grade and gate is None:
        page = find("run", {**base, **run_only}, after=after, limit=limit)
        graded = grades_of(database, project, [run.digest for run in page.items])
        return briefly(page.items, graded, page.next_cursor)
    fitting_runs: dict[str, Item] = {}
    newest: dict[str, list[GradeOf]] = {}
    looked = 0
    cursor = after
    # With a gate, more at once: few grades have failed it.
    at_once = max(limit, AT_ONCE if gate is None else LOOKED_AT // 4)
    while True:
        page = find("grade", {**base, **of_grade}, after=cursor, limit=at_once)
        looked += max(len(page.items), AT_ONCE)
        fitting = [
            item
            for item in page.items
            if gate is None
            or (item.body is not None and gate in _line(item.body).hard_gate_failures)
        ]
        evidence = evidence_of(database, project, [item.digest for item in fitting])
        behind = {
            item.digest: own_run(services.ledger, item, evidence[item.digest], project=project)
            for item in fitting
            if item.digest in evidence
        }
        runs = services.ledger.get_many(set(behind.values()), project=project)
        graded = grades_of(database, project, list(runs))
        cursor = page.next_cursor
        for index, item in enumerate(fitting):
            run = runs.get(behind.get(item.digest, ""))
            # only the newest grade of a run counts, or one that says the same
            if (
                run is not None
                and run.kind == "run"
                and run.digest not in fitting_runs
                and _fits(run, run_only, span)
            ):
                grades = graded.get(run.digest, [])
                own = next((grade for grade in grades if grade.digest == item.digest), None)
                if own is not None and own[2:] == grades[-1][2:]:
                    fitting_runs[run.digest] = run
                    newest[run.digest] = grades
            if len(fitting_runs) == limit and index + 1 < len(fitting):
                cursor = item.seq
                break
        if cursor is None or len(fitting_runs) >= limit or looked >= LOOKED_AT:
            return briefly(fitting_runs.values(), newest, cursor)


def _fits(run: Item, wanted: dict[str, Any], span: Mapping[str, str]) -> bool:
    if not wanted:
        return True
    if run.body is None:
        return False
    brief = _brief(run.body)
    has_status = "status" not in wanted or brief.status == wanted["status"]
    return has_status and is_within(brief.started_at, span)


def read_span(filters: Mapping[str, Any]) -> dict[str, str]:
    """The filters on the start of a run as moments; an error for one that is not a time."""
    named = {name: filters.get(name) for name in SPAN}
    return {name: span_moment(name, value) for name, value in named.items() if value is not None}


def is_within(started_at: Any, span: Mapping[str, str]) -> bool:
    """Whether a run started within a span; a run that doesn't state its start is in none."""
    if not span:
        return True
    started = moment_key(started_at)
    return (
        started is not None
        and started >= span.get("started_from", started)
        and ("started_before" not in span or started < span["started_before"])
    )


def briefly(
    runs: Iterable[Item], grades: dict[str, list[GradeOf]], cursor: int | None
) -> dict[str, Any]:
    """Runs as a list shows them, each with its newest grade."""
    rows = []
    for run in runs:
        brief = _RunBrief() if run.body is None else _brief(run.body)
        newest = grades.get(run.digest)
        rows.append(
            {
                "digest": run.digest,
                "seq": run.seq,
                "created_at": run.created_at,
                "forgotten": run.body is None,
                **msgspec.structs.asdict(brief),
                "grade": newest[-1]._asdict() if newest else None,
            }
        )
    return {"items": rows, "next": None if cursor is None else str(cursor)}
