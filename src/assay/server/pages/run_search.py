"""The search for runs: what an address asks for, and the runs of one page that fit.

Every page costs the same, however far down the list, so it may be short though more follow.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date, timedelta
from typing import Any, NamedTuple

from assay.server.pages.run_rows import brief_runs, part_of, reasons
from assay.server.run_pages import run_page
from assay.server.state import Services
from assay.store import recent

ON_A_PAGE = 50
LOOKED_AT = 10_000
"""Runs whose ids are searched for one page, if there is a search text."""
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
        """As in an address."""
        found = {name: value or None for name, value in self._asdict().items()}
        found["from"], found["to"] = found.pop("began"), found.pop("ended")
        return found


def found_runs(
    services: Services, project: str, asked: RunQuery, after: int | None, before: int | None
) -> dict[str, Any]:
    """A page: the runs after a place, or with `before` those that came just after it in time."""
    base = {
        "workflow": asked.workflow,
        "workflow_version": asked.version,
        "dataset": asked.dataset,
        "tag": asked.tag,
    }
    run_only = {
        "status": asked.status,
        "started_from": asked.began,
        "started_before": _until(asked.ended),
    }
    of_grade: dict[str, Any] = {"grade": asked.grade} if asked.grade else {}
    if asked.passed:
        of_grade["passed"] = asked.passed == "yes"
    if asked.q:
        return _by_text(services, project, asked, after)
    newest_first = before is None
    found = run_page(
        services,
        project,
        base={key: value for key, value in base.items() if value},
        run_only={key: value for key, value in run_only.items() if value},
        of_grade=of_grade,
        gate=asked.gate,
        after=after if newest_first else before,
        limit=ON_A_PAGE,
        newest_first=newest_first,
    )
    if newest_first:
        return {
            **found,
            "newer": (
                str(found["items"][0]["seq"]) if after is not None and found["items"] else None
            ),
        }
    items = found["items"][::-1]
    return {
        "items": items,
        "newer": found["next"],
        "next": str(items[-1]["seq"]) if items else None,
    }


def _until(text: str | None) -> str | None:
    """A day is meant to its end.

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
    services: Services, project: str, asked: RunQuery, after: int | None
) -> dict[str, Any]:
    """Runs whose id holds a text, out of the next so many; then the other filters on these."""
    found = recent.containing(
        services.ledger.database,
        project,
        asked.q or "",
        after=after,
        look_at=LOOKED_AT,
        limit=ON_A_PAGE,
    )
    newest = brief_runs(services, project, found.digests)
    items = [item for item in newest if _fits(item, asked)]
    if asked.gate:
        grades = reasons(services, project, items)
        items = [
            item
            for item in items
            if item["grade"]
            and item["grade"]["digest"] in grades
            and asked.gate in grades[item["grade"]["digest"]].hard_gate_failures
        ]
    return {
        "items": items,
        "next": None if found.next_cursor is None else str(found.next_cursor),
        "newer": None,
    }


def _fits(item: Mapping[str, Any], asked: RunQuery) -> bool:
    grade = item["grade"] or {}
    workflow, dataset = part_of(item, "workflow"), part_of(item, "dataset")
    pairs = (
        (asked.workflow, workflow.get("id")),
        (asked.version, workflow.get("version")),
        (asked.dataset, dataset.get("id")),
        (asked.grade, grade.get("grade")),
        (asked.status, item["status"]),
        (asked.passed, "yes" if grade.get("passed") else "no"),
    )
    began = str(item["started_at"] or "")
    return (
        all(wanted is None or wanted == value for wanted, value in pairs)
        and (asked.tag is None or asked.tag in (item["tags"] or ()))
        and (asked.began is None or began >= asked.began)
        and (asked.ended is None or (bool(began) and began < (_until(asked.ended) or "")))
    )
