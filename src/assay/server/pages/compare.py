"""Compares evaluations sample by sample, with the decision that `assay gate` would make between two
of them. A button stores it.

    /compare?of=nightly-41&of=nightly-42

The first is the baseline; the last is the candidate, unless `candidate` names another. The address
is the whole state. A comparison that the command refuses has no decision here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Annotated

import msgspec
from fastapi import APIRouter, Query, Request
from starlette.responses import RedirectResponse, Response

from assay.errors import AssayError, InputError
from assay.records.decision import read_decision
from assay.release.policy import ReleasePolicy
from assay.server.auth import READ, WRITE, Principal
from assay.server.pages.compare_decision import decision_section, refuse_other_rules, refused
from assay.server.pages.compared_rules import rules_for
from assay.server.pages.compared_sides import (
    BASELINE,
    MAX_COMPARED,
    MOST,
    ComparedSide,
    decide_between,
    find_sides,
    graded_alike,
    rows_of_side,
)
from assay.server.pages.evaluations import FIRST
from assay.server.pages.layout import page
from assay.server.pages.routing import SENT, PageRoute
from assay.server.problems import Problem
from assay.server.routes.decisions import store_last
from assay.server.state import SERVICES, Services
from assay.services.samples import newest_evaluations, with_texts
from assay.services.stored_sides import decision_drafts
from assay.store.baselines import list_baselines
from assay.store.drafts import Draft
from assay.views.blocks import (
    Empty,
    Note,
    Paragraph,
    Part,
    Region,
    Section,
    section,
)
from assay.views.compare import (
    CompareForm,
    movement_chips,
    order_hint,
    page_links,
    samples_table,
    search_box,
    versions_table,
)
from assay.views.compare_rows import (
    ON_A_PAGE,
    UNMOVED,
    ComparedSample,
    CompareQuery,
    compare_samples,
    count_movements,
    select_compared,
)
from assay.views.pieces import address
from assay.views.sample_query import page_of

router = APIRouter(route_class=PageRoute, include_in_schema=False)
OFFERED = 100
FEW = 500
"""Up to this many rows in all, answers are always compared."""
LEAD = "Evaluations side by side, sample by sample, and whether the last may replace the first."
Given = Annotated[str, Query(max_length=500)]
Several = Annotated[list[Annotated[str, Query(max_length=500)]] | None, Query(max_length=20)]


@router.get("/compare")
def compare(
    request: Request,
    principal: Principal = READ,
    services: Services = SERVICES,
    of: Several = None,
    candidate: Given = "",
    policy: Given = "",
    show: Given = "",
    unmoved: Given = "",
    q: Given = "",
    sort: Given = "",
    page_: Annotated[str, Query(alias="page", max_length=9)] = "1",
) -> Response:
    """Evaluations side by side, or the form to choose them."""
    query = CompareQuery(
        of=tuple(filter(None, (name.strip() for name in of or ()))),
        candidate=candidate.strip(),
        policy=policy.strip(),
        show=show,
        q=q.strip(),
        sort=sort,
        unmoved=unmoved if unmoved in UNMOVED else "",
        page=int(page_) if page_.isascii() and page_.isdigit() else 1,
    )
    if request.headers.get("HX-Target") == "samples":  # the rest of the page stays as it is
        return page(request, "Compare", *_parts(services, principal, query, decide=False))
    chooser = _form(services, principal.project, query)
    if not chooser.evaluations and not query.of:
        nothing = Empty(
            "No evaluation is stored in this project yet. Each `assay run` and `assay import`"
            " stores one:",
            FIRST,
        )
        return page(request, "Compare", nothing, nav="/compare", lead=LEAD)
    parts: Sequence[Part] = ()
    status = 200
    if len(query.of) < 2:
        if query.of:
            parts = [Paragraph("Choose the candidate too.", "absent")]
    else:
        try:
            parts = _parts(services, principal, query)
        except (AssayError, Problem) as error:
            parts, status = [refused("Not compared", error)], 422
    return page(request, "Compare", chooser, *parts, nav="/compare", lead=LEAD, status=status)


# --- the form


def _form(services: Services, project: str, query: CompareQuery) -> CompareForm:
    """The evaluations on offer and those selected. An evaluation that is older than those on offer
    stays selected.
    """
    choices = list(_evaluations(services, project))
    known = [key for key, _ in choices]
    baselines = _baselines(services, project)
    offered = [*known, *(key for key, _ in baselines)]
    choices += [(name, name) for name in dict.fromkeys(query.of) if name not in offered]
    places = min(MAX_COMPARED, max(2, len(query.of) + 1))
    chosen = [*query.of[:places], *[""] * (places - len(query.of))]
    policies = [
        entry.id
        for entry in services.shelf.entries("policies")
        if isinstance(services.shelf.load("policies", entry), ReleasePolicy)
    ]
    opened = len(query.of) < 2
    usual = rules_for(services, "").text
    return CompareForm(choices, baselines, chosen, policies, query.policy, opened, usual)


def _evaluations(services: Services, project: str) -> Iterator[tuple[str, str]]:
    """Evaluations by name, each with its own label; by digest if a newer one has
    the name.
    """
    names: set[str] = set()
    for digest, _, _, evaluation in newest_evaluations(services.ledger, project, OFFERED):
        key = digest if evaluation.name in names else evaluation.name
        names.add(evaluation.name)
        version = f"{evaluation.workflow.id} {evaluation.workflow.version or ''}".strip()
        yield (
            key,
            f"{evaluation.name} · {version} · {evaluation.started[:16].replace('T', ' ')} UTC",
        )


def _baselines(services: Services, project: str) -> list[tuple[str, str]]:
    """The newest of each stored baseline of runs."""
    baselines: dict[str, str] = {}
    for listed in islice(list_baselines(services.ledger, project=project), OFFERED):
        if listed.kept is not None and listed.kept.record.get("kind", "runs") == "runs":
            name, made_at = listed.kept.record.get("name"), listed.kept.record.get("made_at")
            day = f" · {made_at[:10]}" if isinstance(made_at, str) else ""
            baselines.setdefault(f"{BASELINE}{name}", f"baseline {name}{day}")
    return list(baselines.items())


# --- what is compared


def _parts(
    services: Services, principal: Principal, query: CompareQuery, *, decide: bool = True
) -> list[Part]:
    sides = find_sides(services, principal.project, query.of)
    judged = _judged(sides, query)
    if not decide:
        return [_samples(services, principal.project, sides, judged, query)]
    decision, unmoved = decision_section(services, principal, sides[judged], sides[0], query)
    if not unmoved and not graded_alike(services, principal.project, [side.side for side in sides]):
        unmoved = "regraded"
    query = msgspec.structs.replace(query, unmoved=unmoved)
    return [
        versions_table([side.version for side in sides], judged, query),
        decision,
        _samples(services, principal.project, sides, judged, query),
    ]


def _judged(sides: Sequence[ComparedSide], query: CompareQuery) -> int:
    """The position of the candidate: the last, or the one that the query names."""
    if not query.candidate:
        return len(sides) - 1
    for place, side in enumerate(sides[1:], 1):
        if query.candidate in (side.version.reference, side.version.name, query.of[place]):
            return place
    raise InputError(
        "REL-002",
        f"{query.candidate[:80]!r} is not one of the evaluations that are compared with the"
        " baseline.",
        where="candidate",
        fix="Choose one of them.",
    )


def _samples(
    services: Services,
    project: str,
    sides: Sequence[ComparedSide],
    judged: int,
    query: CompareQuery,
) -> Section:
    if query.unmoved:
        order = query.sort if query.sort.endswith("sample") else "sample"
        query = msgspec.structs.replace(query, show="", sort=order)
    rows = [rows_of_side(services, project, side.side) for side in sides]
    texts = query.needs_texts or sum(map(len, rows)) <= FEW
    if texts:
        rows = [with_texts(services.ledger, side_rows, project=project) for side_rows in rows]
    samples = compare_samples(rows, judged)
    selected = select_compared(samples, query)
    shown = page_of([sample.any for sample in selected], query.page, on_a_page=ON_A_PAGE)
    start = max(0, shown.first - 1)
    part = selected[start : start + len(shown.rows)]
    versions = [side.version for side in sides]
    counts = count_movements(samples)
    if not texts:
        del counts["answer"]
    return section(
        "Samples",
        Region(
            "samples",
            [
                Note(UNMOVED[query.unmoved])
                if query.unmoved
                else movement_chips(counts, len(samples), query),
                order_hint(len(selected), query),
                search_box(query),
                samples_table(shown, _with_texts(services, project, part), versions, query),
                page_links(shown, query),
            ],
        ),
    )


def _with_texts(
    services: Services, project: str, samples: Sequence[ComparedSample]
) -> list[ComparedSample]:
    rows = [row for sample in samples for row in sample.rows if row is not None]
    read = iter(with_texts(services.ledger, rows, project=project))
    return [
        msgspec.structs.replace(
            sample, rows=tuple(None if row is None else next(read) for row in sample.rows)
        )
        for sample in samples
    ]


# --- storing the decision


@router.post("/compare")
async def store_decision(
    request: Request,
    sent: Mapping[str, str] = SENT,
    principal: Principal = WRITE,
    services: Services = SERVICES,
) -> Response:
    """Make the decision again and store it, with the grades and the evidence of both sides. It is
    refused if it differs from the one on the page.
    """
    drafts = await services.in_turn(principal.project, lambda: _drafts(services, principal, sent))
    digest = drafts[-1].name
    if digest != sent.get("decision"):
        raise Problem(
            409,
            "the decision has changed since this page was loaded.",
            fix="Reload the comparison and check what changed.",
        )
    stored = await store_last(services, principal.project, drafts)
    if stored.new:
        services.metrics.count(f"decisions_{read_decision(drafts[-1].body).outcome}")
    return RedirectResponse(address("decisions", stored.digest), 303)


def _drafts(services: Services, principal: Principal, sent: Mapping[str, str]) -> list[Draft]:
    """Everything a decision depends on, and the decision last."""
    names = (sent.get("baseline", ""), sent.get("candidate", ""))
    theirs, ours = (
        side_found.side for side_found in find_sides(services, principal.project, list(names))
    )
    if max(len(ours.evidence), len(theirs.evidence)) > MOST:
        raise Problem(422, f"a side has more than {MOST:,} runs.", fix="Decide with `assay gate`.")
    refuse_other_rules(services, sent.get("policy", ""))
    drafts: dict[bytes, Draft] = {}
    decided = decide_between(
        services,
        principal.project,
        ours,
        theirs,
        sent.get("policy", ""),
        take=lambda group: drafts.update((item.digest, item) for item in group),
        author=principal.author,
    )
    decision = decision_drafts(
        decided.decision,
        decided.candidate,
        decided.baseline,
        made=decided.made,
        author=principal.author,
    )
    return [*drafts.values(), *decision]
