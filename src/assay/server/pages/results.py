"""Results that commands stored: measures, ranks, summaries, drift. A result is shown as stored,
with its inputs; nothing is computed here.
"""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from assay.server import lookup
from assay.server.auth import READ, Principal
from assay.server.pages.layout import block, page
from assay.server.pages.lineage import PAGE_OF
from assay.server.pages.paging import Cursor, RecordList, record_page
from assay.server.pages.routing import PageRoute
from assay.server.state import SERVICES, Services
from assay.store.drafts import Item
from assay.store.results import verb_of
from assay.views.blocks import (
    Column,
    Empty,
    Facts,
    Paragraph,
    Part,
    Table,
    section,
)
from assay.views.pieces import (
    address,
    clip,
    code,
    link,
    moment,
    number,
    phrase,
    short_digest,
    shown,
    words,
)

router = APIRouter(route_class=PageRoute, include_in_schema=False)
LIST = RecordList("result", "Results", "/", 20, "stored. The same input gives the same record.")
"""Few on a page, because results can be large."""
MAX_FACTS = 40
MADE_OF = 20
FIRST = "assay report summary latest --store"
COLUMNS = (Column("Result"), Column("Stored"), Column("By"), Column("Digest"))


@router.get("/results")
def list_results(
    request: Request,
    principal: Principal = READ,
    services: Services = SERVICES,
    after: Cursor = None,
    before: Cursor = None,
) -> Response:
    """The results of a project, the newest first."""
    return record_page(
        request,
        services,
        principal.project,
        LIST,
        lambda items: Table(
            "Results, the newest first",
            COLUMNS,
            list(map(_row, items)),
            kind="stack runs",
            absent="No result is stored.",
        ),
        after=after,
        before=before,
        empty=lambda: Empty(
            "No result is stored in this project yet. To store the summary of the latest"
            " evaluation:",
            FIRST,
            "`assay measure`, `assay report rank` and `assay judge drift` take `--store` too.",
        ),
    )


def _row(item: Item) -> list[str]:
    name = name_of(item) if item.body is not None else f"{name_of(item)}, forgotten"
    return [
        link(name, address("results", item.digest)),
        moment(item.created_at),
        shown(item.author, "not recorded"),
        short_digest(item.digest),
    ]


def name_of(item: Item) -> str:
    """The name of a result: the command that printed it, else its schema."""
    verb = verb_of(item.schema)
    return verb.capitalize() if verb else str(clip(item.schema or "A result", 100))


@router.get("/results/{digest}")
def show_result(
    request: Request, digest: str, principal: Principal = READ, services: Services = SERVICES
) -> Response:
    """One result."""
    item = lookup.record(services, principal.project, "result", digest)
    document: dict[str, Any] = item.tree()
    whole = address("api", "v1", "records", digest)
    verb = verb_of(item.schema)
    again = (
        [
            Paragraph(
                phrase(
                    "It is not replayed: ", code(f"assay {verb}"), " makes it again from its input."
                ),
                "hint",
            )
        ]
        if verb
        else []
    )
    body = [
        _in_short(document),
        section("Document", block("As stored", document, whole), id="document"),
        _made_of(services, principal.project, digest),
        section(
            "Record",
            Paragraph(
                phrase(
                    short_digest(digest),
                    " stored ",
                    moment(item.created_at),
                    ", by ",
                    shown(item.author, "not recorded"),
                    ". ",
                    link("The whole record", whole),
                )
            ),
            *again,
            id="record",
        ),
    ]
    return page(request, name_of(item)[:200], *body, nav="/")


def _in_short(document: dict[str, Any]) -> Part:
    """The top-level values of a document, those with an interval included. The whole document is
    shown below them.
    """
    plain = [
        (words(key)[:100], _value(value))
        for key, value in document.items()
        if key != "schema" and (not isinstance(value, dict | list) or _is_interval(value))
    ]
    if not plain:
        return ""
    return section("In short", Facts(plain[:MAX_FACTS], kind="small"), id="short")


def _is_interval(value: Any) -> bool:
    return isinstance(value, dict) and {"value", "low", "high"} <= value.keys()


def _value(value: Any) -> str:
    if _is_interval(value):
        return number(value["value"], interval=value, digits=4, absent_as="not known")
    return clip(value)


def _made_of(services: Services, project: str, digest: str) -> Part:
    """The stored records that a result was made of."""
    sources = services.ledger.made_of(digest, project=project)
    kinds = {
        name: item.kind
        for name, item in services.ledger.get_many(sources[:MADE_OF], project=project).items()
    }
    rows = []
    for name in sources[:MADE_OF]:
        where = PAGE_OF.get(kinds.get(name, ""), "")
        rows.append(
            [
                short_digest(
                    name, address(where, name) if where else address("api", "v1", "records", name)
                ),
                kinds.get(name, "record"),
            ]
        )
    table = Table(
        "What it was made from",
        ("Record", "Kind"),
        rows,
        absent="Its inputs are not in the ledger.",
    )
    more = (
        [Paragraph(f"The first {MADE_OF} are shown; there are more.", "hint")]
        if len(sources) > MADE_OF
        else []
    )
    return section("Made of", table, *more, id="made-of")
