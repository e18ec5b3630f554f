"""The list of runs. Its address is its state; a page costs the same wherever it stands, so it may
be short though more follow, and says so.
"""

from __future__ import annotations

import re
from datetime import date, timedelta
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import msgspec
from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from assay.records.grade import LETTERS
from assay.scoring.gates import GATES
from assay.server import lookup
from assay.server.auth import Principal
from assay.server.pages.layout import page
from assay.server.pages.routing import READER, PageRoute
from assay.server.run_pages import briefly, run_page
from assay.store import recent
from assay.store.listing import grades_of
from assay.store.names import seen
from assay.views.blocks import (
    Column,
    Empty,
    Field,
    Filters,
    Pager,
    Part,
    Table,
)
from assay.views.pieces import (
    absent,
    address,
    clip,
    letter,
    link,
    moment,
    phrase,
    points,
    small,
    verdict,
)
from assay.views.pieces import shown as say

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from assay.server.state import Services

router = APIRouter(route_class=PageRoute, include_in_schema=False)
ON_A_PAGE = 50
LOOKED_AT = 10_000
"""Runs whose ids are looked through for one page, where a text is looked for."""
OFFERED = 200
"""Names of workflows and datasets that a field offers."""
STATUSES = ("success", "failed", "error", "timeout", "cancelled")
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
COLUMNS = (
    Column("Run"),
    Column("Grade"),
    Column("Score", "n"),
    Column("Verdict", "wide"),
    Column("Workflow"),
    Column("Dataset"),
    Column("Started"),
)
FIRST = (
    "assay run workflow.yaml --dataset data.jsonl --db sqlite:///.assay/ledger.db\ncurl -d"
    " @run.json -H 'Content-Type: application/json' http://127.0.0.1:8321/api/v1/runs"
)
"""How the first run comes into a ledger."""

Text = Annotated[str | None, Query(max_length=500)]


class Reason(msgspec.Struct):
    """What a list says of a grade."""

    weighted_score: Any = None
    explanation: list[str] = []
    reason: Any = None
    hard_gate_failures: list[str] = []


_reason = msgspec.json.Decoder(Reason).decode


class Asked(NamedTuple):
    """What the address asks for. Nothing is said where it is empty."""

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
        """As it stands in an address."""
        found = {name: value or None for name, value in self._asdict().items()}
        found["from"], found["to"] = found.pop("began"), found.pop("ended")
        return found


@router.get("/runs")
def list_runs(
    request: Request,
    principal: Principal = READER,
    q: Text = None,
    workflow: Text = None,
    version: Text = None,
    dataset: Text = None,
    grade: Text = None,
    passed: Text = None,
    gate: Text = None,
    status: Text = None,
    tag: Text = None,
    began: Annotated[str | None, Query(alias="from", max_length=40)] = None,
    ended: Annotated[str | None, Query(alias="to", max_length=40)] = None,
    after: Annotated[str | None, Query(max_length=20)] = None,
    before: Annotated[str | None, Query(max_length=20)] = None,
) -> Response:
    """Runs, the newest first."""
    services: Services = request.app.state.services
    asked = Asked(
        *(
            (one or "").strip() or None
            for one in (
                q,
                workflow,
                version,
                dataset,
                grade,
                passed,
                gate,
                status,
                tag,
                began,
                ended,
            )
        )
    )
    found = _found(
        services,
        principal.project,
        asked,
        lookup.cursor(after or None),
        lookup.cursor(before or None),
    )
    form = Filters("/runs", _fields(services, principal.project), asked.query())
    items: list[dict[str, Any]] = found["items"]
    if not items and not any(asked) and not after and not before:
        return page(
            request,
            "Runs",
            Empty(
                "No run is stored in this project yet. A run comes in by the command or by the"
                " API:",
                FIRST,
            ),
            nav="/runs",
        )
    rows = Table(
        "Runs, the newest first",
        COLUMNS,
        _rows(services, principal.project, items),
        kind="stack runs",
        absent=_nothing(found["next"]),
    )
    ways = _ways(asked, found, paged=bool(after or before))
    return page(
        request,
        "Runs",
        form,
        rows,
        ways,
        nav="/runs",
        lead=_lead(services, principal.project, asked),
    )


def _fields(services: Services, project: str) -> list[Field]:
    workflows = seen(services.ledger.database, project, "workflow", limit=OFFERED)
    datasets = seen(services.ledger.database, project, "dataset", limit=OFFERED)
    versions = sorted({one.version for one in workflows if one.version})[:OFFERED]
    return [
        Field("q", "Run id holds", "search"),
        Field("workflow", "Workflow", choices=list(dict.fromkeys(one.id for one in workflows))),
        Field("version", "Version", choices=versions),
        Field("dataset", "Dataset", choices=list(dict.fromkeys(one.id for one in datasets))),
        Field("grade", "Grade", "select", LETTERS),
        Field("passed", "Verdict", "select", (("yes", "passed"), ("no", "not passed"))),
        Field("gate", "Gate that fails", choices=list(GATES)),
        Field("status", "Status of the run", "select", STATUSES),
        Field("tag", "Tag"),
        Field("from", "Started from", "date"),
        Field("to", "Started until", "date"),
    ]


def _lead(services: Services, project: str, asked: Asked) -> str:
    tally = services.ledger.count("run", project=project)
    stored = f"{tally.n:,} run{'s' if tally.n != 1 else ''} stored"
    used = [value for value in asked if value]
    return (
        f"{stored}; shown are those that the filter lets through, the newest first."
        if used
        else f"{stored}, the newest first."
    )


# --- finding


def _found(
    services: Services, project: str, asked: Asked, after: int | None, before: int | None
) -> dict[str, Any]:
    """A page: the runs after a place, or with `before` those that came just after it in time."""
    base = {
        key: value
        for key, value in (
            ("workflow", asked.workflow),
            ("workflow_version", asked.version),
            ("dataset", asked.dataset),
            ("tag", asked.tag),
        )
        if value
    }
    run_only = {
        key: value
        for key, value in (
            ("status", asked.status),
            ("started_from", asked.began),
            ("started_before", _until(asked.ended)),
        )
        if value
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
        base=base,
        run_only=run_only,
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


def _by_text(services: Services, project: str, asked: Asked, after: int | None) -> dict[str, Any]:
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
        said = reasons(services, project, items)
        items = [
            item
            for item in items
            if item["grade"]
            and item["grade"]["digest"] in said
            and asked.gate in said[item["grade"]["digest"]].hard_gate_failures
        ]
    return {
        "items": items,
        "next": None if found.next_cursor is None else str(found.next_cursor),
        "newer": None,
    }


def brief_runs(services: Services, project: str, digests: Sequence[str]) -> list[dict[str, Any]]:
    """Runs as the list shows them, by their digests and in their order."""
    there = services.ledger.get_many(digests, project=project)
    runs = [there[digest] for digest in digests if digest in there]
    rows: list[dict[str, Any]] = briefly(
        runs, grades_of(services.ledger.database, project, list(there)), None
    )["items"]
    return rows


def _fits(item: Mapping[str, Any], asked: Asked) -> bool:
    grade = item["grade"] or {}
    workflow, dataset = _part(item, "workflow"), _part(item, "dataset")
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


# --- showing


def _part(item: Mapping[str, Any], name: str) -> dict[str, Any]:
    found = item.get(name)
    return found if isinstance(found, dict) else {}


def reasons(
    services: Services, project: str, items: Sequence[Mapping[str, Any]]
) -> dict[str, Reason]:
    """What the grades of these runs say, by the digest of the grade."""
    wanted = [item["grade"]["digest"] for item in items if item["grade"]]
    return {
        digest: _reason(grade.body)
        for digest, grade in services.ledger.get_many(wanted, project=project).items()
        if grade.body is not None
    }


def because(reason: Reason) -> str:
    """Why, in words: the gates that do not pass by name; else the verdict sentence without its
    first half, which the columns beside it say.
    """
    closed = reason.hard_gate_failures
    if closed:
        more = f" and {len(closed) - 3} more" if len(closed) > 3 else ""
        return (
            f"gate{'s' if len(closed) > 1 else ''} {', '.join(closed[:3])}{more} {'do' if len(closed) > 1 else 'does'} not"  # noqa: E501
            " pass"
        )
    sentence = next(iter(reason.explanation), "")
    return sentence.partition(": ")[2] or sentence or say(reason.reason, "no reason is stated")


def _rows(services: Services, project: str, items: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    said = reasons(services, project, items)
    rows: list[list[str]] = []
    for item in items:
        grade = item["grade"]
        why = said.get(grade["digest"]) if grade else None
        rows.append(
            [
                run_link(item),
                letter(grade["grade"], grade["policy"]) if grade else say(None, "not graded"),
                points(why.weighted_score) if why else say(None, "no score"),
                _verdict(grade, why),
                workflow_of(item),
                _sample(item),
                moment(item["started_at"] or None, "not stated"),
            ]
        )
    return rows


def run_link(item: Mapping[str, Any]) -> str:
    """A run by its id, at the address of its digest: an id may be given twice."""
    name = "forgotten run" if item["forgotten"] else str(item["run_id"] or "without an id")
    return link(name, address("runs", item["digest"]))


def _verdict(grade: Mapping[str, Any] | None, why: Reason | None) -> str:
    if grade is None:
        return absent("no grade is stored")
    return phrase(
        *[
            verdict("passed" if grade["passed"] is True else "not passed"),
            " ",
            small(clip(because(why)) if why else "its grade was forgotten"),
        ]
    )


def workflow_of(item: Mapping[str, Any]) -> str:
    """The workflow with its version."""
    found = _part(item, "workflow")
    if not found:
        return say(None, "not stated")
    return phrase(
        *[
            clip(found.get("id")),
            " ",
            small("version ", clip(found.get("version"), 60)),
        ]
    )


def _sample(item: Mapping[str, Any]) -> str:
    found = _part(item, "dataset")
    if not found:
        return say(None, "not stated")
    return phrase(
        *[clip(found.get("id")), " ", small(clip(found.get("sample_id"), absent_as="no sample"))]
    )


def _nothing(more: str | None) -> str:
    if more is None:
        return "No run fits this filter."
    return "None of the runs that were looked at fits; there are more."


def _ways(asked: Asked, found: Mapping[str, Any], *, paged: bool) -> Part:
    query = asked.query()
    items = found["items"]
    said = f"{len(items)} run{'s' if len(items) != 1 else ''} on this page" if items else ""
    short_page = found["next"] is not None and len(items) < ON_A_PAGE
    if short_page:
        said = f"{said or 'No run on this page'}; more may follow further back"
    return Pager(
        newest=address("runs", **query) if paged else "",
        newer=address("runs", **query, before=found["newer"]) if found["newer"] else "",
        older=address("runs", **query, after=found["next"]) if found["next"] else "",
        summary=f"{said}." if said else "",
        look_further=short_page,
    )
