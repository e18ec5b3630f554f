"""The search for runs: the filters in an address, and the runs of one page that match.

Every page costs the same, however far down the list it is, so it may be short even if more follow.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date, timedelta
from typing import Any, NamedTuple

from assay.server.pages.run_rows import brief_runs, part_of, reasons
from assay.server.run_pages import is_within, read_span, run_page
from assay.server.state import Services
from assay.store import recent

ON_A_PAGE = 50
LOOKED_AT = 10_000
"""How many ids of runs are searched for one page, if there is a search text."""
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")


class RunQuery(NamedTuple):
    """The filters in the address; an empty one doesn't filter."""

    q: str | None = None
    workflow: str | None = None
    version: str | None = None
    dataset: str | None = None
    grade: str | None = None
    passed: str | None = None
    gate: str | None = None
    status: str | None = None
    tag: str | None = None
    began: str | None = None
    ended: str | None = None

    def query(self) -> dict[str, str | None]:
        """The filters as the query of an address."""
        pairs = {name: value or None for name, value in self._asdict().items()}
        pairs["from"], pairs["to"] = pairs.pop("began"), pairs.pop("ended")
        return pairs


def found_runs(
    services: Services, project: str, query: RunQuery, after: int | None, before: int | None
) -> dict[str, Any]:
    """A page: the runs after a place in the list, or with `before` those just before it."""
    filters = {
        "workflow": query.workflow,
        "workflow_version": query.version,
        "dataset": query.dataset,
        "tag": query.tag,
        "status": query.status,
        "started_from": query.began,
        "started_before": _until(query.ended),
        "grade": query.grade,
        "passed": None if query.passed is None else query.passed == "yes",
    }
    if query.q:
        return _by_text(services, project, query, read_span(filters), after)
    newest_first = before is None
    page = run_page(
        services,
        project,
        filters,
        gate=query.gate,
        after=after if newest_first else before,
        limit=ON_A_PAGE,
        newest_first=newest_first,
    )
    if newest_first:
        return {
            **page,
            "newer": (
                str(page["items"][0]["seq"]) if after is not None and page["items"] else None
            ),
        }
    items = page["items"][::-1]
    return {
        "items": items,
        "newer": page["next"],
        "next": str(items[-1]["seq"]) if items else None,
    }


def _until(text: str | None) -> str | None:
    """The end of a span: of a day, the day after.

    >>> _until("2026-11-15"), _until("2026-11-15T10:00:00Z"), _until("2026-13-99")
    ('2026-11-16', '2026-11-15T10:00:00Z', '2026-13-99')
    """
    if text is None or not _DAY.fullmatch(text):
        return text
    try:
        return str(date.fromisoformat(text) + timedelta(days=1))
    except (ValueError, OverflowError):
        return text


def _by_text(
    services: Services, project: str, query: RunQuery, span: Mapping[str, str], after: int | None
) -> dict[str, Any]:
    """Runs whose id contains a text, among the next LOOKED_AT, that match the other filters."""
    search = recent.containing(
        services.ledger.database,
        project,
        query.q or "",
        after=after,
        look_at=LOOKED_AT,
        limit=ON_A_PAGE,
    )
    newest = brief_runs(services, project, search.digests)
    items = [item for item in newest if _fits(item, query) and is_within(item["started_at"], span)]
    if query.gate:
        grades = reasons(services, project, items)
        items = [
            item
            for item in items
            if item["grade"]
            and item["grade"]["digest"] in grades
            and query.gate in grades[item["grade"]["digest"]].hard_gate_failures
        ]
    return {
        "items": items,
        "next": None if search.next_cursor is None else str(search.next_cursor),
        "newer": None,
    }


def _fits(item: Mapping[str, Any], query: RunQuery) -> bool:
    grade = item["grade"] or {}
    workflow, dataset = part_of(item, "workflow"), part_of(item, "dataset")
    pairs = (
        (query.workflow, workflow.get("id")),
        (query.version, workflow.get("version")),
        (query.dataset, dataset.get("id")),
        (query.grade, grade.get("grade")),
        (query.status, item["status"]),
        (query.passed, {None: None, True: "yes", False: "no"}[grade.get("passed")]),
    )
    return all(wanted is None or wanted == value for wanted, value in pairs) and (
        query.tag is None or query.tag in (item["tags"] or ())
    )
