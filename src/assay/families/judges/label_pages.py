"""The pages for people who label: sets, the next item, overrides, and who labels."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from itertools import islice
from typing import Annotated, NamedTuple
from urllib.parse import quote, unquote

from fastapi import APIRouter, Query, Request
from starlette.responses import RedirectResponse, Response

from assay.errors import AssayError, ShelfError, UsageError, count
from assay.families.judges.label_views import (
    DRAWN,
    drawn_from,
    results_view,
    says,
    sets_table,
    shown_run,
    use_section,
)
from assay.families.judges.labelling import (
    DEFAULT_ITEMS,
    RunLabels,
    SetRequest,
    command_of,
    current,
    find_set,
    labels_of_evaluation,
    labels_of_run,
    labels_of_set,
    list_sets,
    make_set,
    order_for,
    override_label,
    results_of,
    run_named,
    saving,
    set_draft,
    set_label,
    side_order,
)
from assay.families.judges.records import (
    MAX_RATER,
    HumanLabel,
    LabelItem,
    LabelSet,
    Rater,
    StoredLabel,
    StoredSet,
    rater_names,
)
from assay.server import lookup
from assay.server.auth import READ, WRITE, Principal, cookie_name
from assay.server.lookup import absent
from assay.server.pages.evaluations import FIRST
from assay.server.pages.layout import SENT, PageRoute, page
from assay.server.pages.login import local
from assay.server.pages.run import SampleContext
from assay.server.problems import Problem, problem_of
from assay.server.state import SERVICES, Services, check_name
from assay.services.evaluations import StoredEvaluation
from assay.services.samples import SampleView, newest_evaluations
from assay.store.drafts import Item, digest_bytes
from assay.store.reading import stored_of
from assay.views.blocks import Column, Empty, Field, Note, Paragraph, Part, Table, section
from assay.views.pieces import address, clip, link, listed, moment, phrase, sentence

router = APIRouter(route_class=PageRoute, include_in_schema=False)
SHOWN = 20
RUBRIC = "rubric"
OFFERED = 20
LEAD = "People's own verdicts: blind, stored next to the grades, and used to calibrate judges."


@router.get("/label")
def show_sets(request: Request, principal: Principal = READ) -> Response:
    """The sets, and the form for a new one."""
    return _page(request, principal, {}, problem=None)


def _page(
    request: Request, principal: Principal, values: Mapping[str, str], *, problem: Problem | None
) -> Response:
    services: Services = request.app.state.services
    ledger, project = services.ledger, principal.project
    results = [
        results_of(stored, labels_of_set(ledger, stored.digest, project=project))
        for stored in islice(list_sets(ledger, project=project), SHOWN)
    ]
    total = ledger.count("labelset", project=project).n
    known = [evaluation.evaluation for evaluation in newest_evaluations(ledger, project, OFFERED)]
    names = list(dict.fromkeys(evaluation.name for evaluation in known))
    # an evaluation of one sample was probably only a try
    usual = next(
        (evaluation.name for evaluation in known if evaluation.totals.n > 1),
        names[0] if names else "",
    )
    parts: list[Part] = []
    if problem is not None:
        text = sentence(problem.detail)
        # only the fix for a rubric is about this page; others are for the terminal
        has_fix = problem.where == RUBRIC or problem.status >= 500
        fix = problem.fix if has_fix else "Change the form below."
        parts.append(Note(f"{text} {fix}".strip(), kind="bad"))
    if results:
        parts.append(sets_table(results, _address))
        if total > SHOWN:
            text = f"The newest {SHOWN} of {total:,} are shown; `assay label list` lists all."
            parts.append(Paragraph(text, "hint"))
    elif names:
        parts.append(Paragraph("No label sets yet. Make the first one below.", "hint"))
    else:
        text = "Labels are for samples of an evaluation, and no evaluation is stored yet."
        parts.append(Empty(text, FIRST))
    return page(
        request,
        "Label",
        *parts,
        nav="/label",
        lead=LEAD,
        status=200 if problem is None else problem.status,
        template="label_sets.html",
        fields=_fields(services, names) if names else [],
        values={"evaluation": usual, "n": str(DEFAULT_ITEMS), **values},
        can_write="write" in principal.scopes,
    )


def _fields(services: Services, names: list[str]) -> list[Field]:
    rubrics = sorted({entry.name for entry in services.shelf.entries("rubrics")})
    draws = [(name, text.capitalize()) for name, text in DRAWN.items()]
    return [
        Field("evaluation", "Evaluation", choices=names, hint="name, id or latest"),
        Field("pairs", "Compare with", choices=names, hint="nothing: score by a rubric"),
        Field("draw", "Draw", kind="select", choices=draws[1:], hint=draws[0][1]),
        Field("n", "Items", kind="number"),
        Field("rubric", "Rubric", choices=rubrics, hint="as the samples were graded"),
        Field("name", "Name", hint="from the evaluation"),
    ]


def _address(label_set: LabelSet) -> str:
    return f"/label/{label_set.id}"


@router.post("/label/sets")
async def make_one(
    request: Request,
    sent: Mapping[str, str] = SENT,
    principal: Principal = WRITE,
    services: Services = SERVICES,
) -> Response:
    """Draw a set and go to it; the same form twice makes one set."""
    try:
        label_set = await asyncio.to_thread(_new_set, services, principal.project, sent)
    except (AssayError, Problem) as error:
        return await asyncio.to_thread(_page, request, principal, sent, problem=problem_of(error))
    await services.writer.put(principal.project, [set_draft(label_set, author=principal.author)])
    return RedirectResponse(_address(label_set), 303)


def _new_set(services: Services, project: str, sent: Mapping[str, str]) -> LabelSet:
    fields = {name: value.strip() for name, value in sent.items()}
    n = fields.get("n") or str(DEFAULT_ITEMS)
    if not (n.isascii() and n.isdigit() and len(n) < 6):
        raise Problem(422, f"{n[:40]!r} is not a number of items.", where="n")
    rubric = fields.get("rubric", "")
    evaluation = lookup.evaluation(services, project, fields.get("evaluation", ""))
    other = lookup.evaluation(services, project, fields["pairs"]) if fields.get("pairs") else None
    draw = SetRequest(
        fields.get("draw") or "random",
        int(n),
        rubric=rubric,
        name=fields.get("name", ""),
        expected=bool(fields.get("expected")),
    )
    try:
        if rubric:
            check_name(rubric)
        return make_set(services.ledger, services.shelf, evaluation, other, draw, project=project)
    except (Problem, ShelfError) as error:
        fix = f"Choose one of the list. For one in a file, run {command_of(evaluation, 'FILE')}."
        raise Problem(422, str(error), where=RUBRIC, fix=fix) from None


def _cookie(request: Request) -> str:
    return cookie_name(request).replace("token", "rater")


def rater_of(request: Request, principal: Principal) -> Rater | None:
    """Who labels; None if no name has been given yet."""
    if principal.token:
        name = principal.name or f"token {principal.token}"
        return Rater(name=name, by="token", id=principal.token)
    name = _tidy(unquote(request.cookies.get(_cookie(request), "")))
    return Rater(name=name, by="stated") if name else None


def ask_name(request: Request) -> Response:
    """The form for the name of a person without a token; it leads back to this page."""
    query = f"?{request.url.query}" if request.url.query else ""
    return page(
        request,
        "Who is labelling?",
        nav="/label",
        lead="Your verdicts are stored under this name.",
        template="label_rater.html",
        to=f"{request.url.path}{query}",
    )


async def save_label(services: Services, principal: Principal, label: HumanLabel) -> None:
    """Store a label, unless the rater has already given the same one."""
    drafts = await asyncio.to_thread(saving, services.ledger, label, project=principal.project)
    if drafts:
        drafts = [draft._replace(author=principal.author) for draft in drafts]
        await services.writer.put(principal.project, drafts)


def rater_sentence(error: UsageError) -> str:
    """An error as a sentence on a form."""
    return f"{error.message[:1].upper()}{error.message[1:]} {error.fix}".strip()


def _tidy(name: str) -> str:
    kept = " ".join("".join(char if char.isprintable() else " " for char in name).split())
    return kept[:MAX_RATER]


@router.post("/label/rater")
async def name_rater(
    request: Request, sent: Mapping[str, str] = SENT, principal: Principal = WRITE
) -> Response:
    """Store the name of a person without a token in a cookie of their browser."""
    if principal.token:
        raise Problem(409, "your token carries your name.", fix="Labels are stored under it.")
    name = _tidy(sent.get("name", ""))
    if not name:
        raise Problem(422, "a name is missing.", where="name", fix="Go back and type yours.")
    response = RedirectResponse(local(sent.get("next")), 303)
    response.set_cookie(
        _cookie(request), quote(name), httponly=True, samesite="strict", path="/", max_age=31536000
    )
    return response


Given = Annotated[str, Query(max_length=2000)]


def people_table(labels: RunLabels) -> Table:
    """The verdicts people gave on a run, for its page."""
    names = rater_names(stored.label.rater for stored in (*labels.overrides, *labels.labels))
    rows = [
        [
            names[stored.label.rater],
            says(stored.label),
            clip(stored.label.comment, 1000, absent_as="none"),
            moment(stored.at),
        ]
        for stored in (*labels.overrides, *labels.labels)
    ]
    columns = ("Rater", Column("Says", "wide"), Column("Comment", "wide"), "When")
    return Table("People's verdicts", columns, rows, absent="No verdicts yet.", kind="stack")


def _run(
    services: Services, project: str, run: str, evaluation: str
) -> tuple[Item, StoredEvaluation | None]:
    within = lookup.evaluation(services, project, evaluation) if evaluation else None
    try:
        return run_named(services.ledger, run, within, project=project), within
    except AssayError:
        raise lookup.absent("run", run) from None


@router.get("/label/override")
def ask_override(
    request: Request,
    principal: Principal = READ,
    services: Services = SERVICES,
    run: Given = "",
    within: Annotated[str, Query(alias="in", max_length=200)] = "",
) -> Response:
    """The form."""
    if rater_of(request, principal) is None:
        return ask_name(request)
    return _form(request, services, principal, run, within)


def _form(
    request: Request,
    services: Services,
    principal: Principal,
    run: str,
    within: str,
    *,
    problem: str = "",
    reason: str = "",
    verdict: str = "",
) -> Response:
    item, _ = _run(services, principal.project, run, within)
    labels = labels_of_run(services.ledger, item.digest, project=principal.project)
    return page(
        request,
        f"Override {item.tree()['run_id']}",
        Note(problem, kind="bad") if problem else None,
        people_table(labels._replace(labels=())) if labels.overrides else None,
        nav="/label",
        status=422 if problem else 200,
        lead="Your verdict is shown next to the grade and counted. It doesn't change the grade,"
        " and no gate reads it.",
        template="label_override.html",
        run=run,
        within=within,
        rater=rater_of(request, principal),
        reason=reason,
        verdict=verdict,
        can_write="write" in principal.scopes,
    )


@router.post("/label/override")
async def save_override(
    request: Request,
    sent: Mapping[str, str] = SENT,
    principal: Principal = WRITE,
    services: Services = SERVICES,
) -> Response:
    """Store the override, and go back to the run."""
    run, within = sent.get("run", ""), sent.get("in", "")
    rater = rater_of(request, principal)
    if rater is None:
        raise Problem(409, "your name is missing.", fix="Type your name on the form first.")
    item, evaluation = await asyncio.to_thread(_run, services, principal.project, run, within)
    reason, verdict = sent.get("reason", ""), sent.get("verdict", "")
    try:
        label = override_label(
            item, evaluation and evaluation.digest, rater, verdict=verdict, reason=reason
        )
    except UsageError as error:
        return await asyncio.to_thread(
            _form,
            request,
            services,
            principal,
            run,
            within,
            problem=rater_sentence(error),
            reason=reason,
            verdict=verdict,
        )
    await save_label(services, principal, label)
    back = f"/runs/{quote(run, safe='')}" + (f"?in={quote(within, safe='')}" if within else "")
    return RedirectResponse(back, 303)


NAV = "/label"
SIDES = {"ab": {"first": "a", "second": "b"}, "ba": {"first": "b", "second": "a"}}
"""Which answers of a pair are the first and the second on the page."""


class RaterPlace(NamedTuple):
    """Where a rater is in a set."""

    stored: StoredSet
    rater: Rater
    order: list[LabelItem]
    own: dict[str, StoredLabel]
    """The rater's labels, by run."""
    gone: frozenset[str]
    """Items that can't be labelled, because a run was forgotten."""

    def at(self, number: int) -> int | None:
        """The place of an item in the rater's order, by its number in the set."""
        items = self.stored.set.items
        return self.order.index(items[number - 1]) if 1 <= number <= len(items) else None

    def address(self, place: int) -> str:
        """The address of an item, by its place in the rater's order."""
        number = self.stored.set.items.index(self.order[place]) + 1
        return f"/label/{self.stored.set.id}?item={number}"

    def open_after(self, place: int) -> int | None:
        """The next place without a label, wrapping around to the beginning."""
        whole = len(self.order)
        places = [(place + step) % whole for step in range(1, whole + 1)]
        done = self.own.keys() | self.gone
        return next((place for place in places if self.order[place].run not in done), None)


def _set(services: Services, project: str, name: str) -> StoredSet:
    stored = find_set(services.ledger, name, project=project)
    if stored is None:
        raise absent("label set", name)
    return stored


def _place(services: Services, project: str, stored: StoredSet, rater: Rater) -> RaterPlace:
    labels = labels_of_set(services.ledger, stored.digest, project=project)
    own = {stored.label.run: stored for stored in current(labels) if stored.label.rater == rater}
    wanted = {
        item.run: [item.run, *([item.other] if item.other else [])] for item in stored.set.items
    }
    digests = [digest_bytes(digest) for runs in wanted.values() for digest in runs]
    there = set(stored_of(services.ledger.database, project, digests))
    gone = frozenset(run for run, runs in wanted.items() if not there.issuperset(runs))
    return RaterPlace(stored, rater, order_for(stored, rater), own, gone)


@router.get("/label/{name}")
def show_item(
    request: Request,
    name: str,
    principal: Principal = READ,
    services: Services = SERVICES,
    item: Annotated[int | None, Query(ge=1)] = None,
    saved: str = "",
) -> Response:
    """The requested item, or the first one without a label."""
    stored = _set(services, principal.project, name)
    rater = rater_of(request, principal)
    if rater is None:
        return ask_name(request)
    place = _place(services, principal.project, stored, rater)
    at = place.open_after(-1) if item is None else place.at(item)
    if at is None:
        if item is not None:
            raise absent("item", f"{name}, item {item}")
        return RedirectResponse(f"/label/{stored.set.id}/results?done=yes", 303)
    return _item_page(request, services, principal, place, at, saved=saved)


def _item_page(
    request: Request,
    services: Services,
    principal: Principal,
    place: RaterPlace,
    at: int,
    *,
    sent: Mapping[str, str] | None = None,
    problem: str = "",
    saved: str = "",
) -> Response:
    label_set, item = place.stored.set, place.order[at]
    wanted = [item.run, *([item.other] if item.other else [])]
    records = services.ledger.get_many(wanted, project=principal.project)
    runs = [
        shown_run(record.checked())
        for digest in wanted
        if (record := records.get(digest)) is not None and record.body is not None
    ]
    is_gone = len(runs) < len(wanted)
    order = side_order(place.stored, place.rater, item)
    if order == "ba":
        runs.reverse()
    known = place.own.get(item.run)
    number = label_set.items.index(item) + 1
    rule = (
        "A correction counts for 10 minutes, unless somebody else labels the item first. Later"
        " changes are kept but don't count."
    )
    before = known and Note(phrase("You labelled this ", moment(known.at), ". ", rule), kind="good")
    return page(
        request,
        f"Item {at + 1:,} of {len(place.order):,}",
        Note(problem, kind="bad") if problem else before,
        nav=NAV,
        status=422 if problem else 200,
        scripts=("label.js",),
        template="label_item.html",
        set=label_set,
        number=number,
        saved=saved if saved.isascii() and saved.isdigit() else "",
        runs=[] if is_gone else runs,
        is_gone=is_gone,
        # Only pairs with equal inputs are drawn: the question is the same on both sides.
        shared=None if is_gone else runs[0],
        values=_values(place, item, known) if sent is None else sent,
        done=len(place.own),
        rater=place.rater,
        drafts=f"{label_set.id}/{place.rater.by}/{place.rater.id or place.rater.name}",
        previous=place.address(at - 1) if at else "",
        following=place.address(at + 1) if at + 1 < len(place.order) else "",
        can_write="write" in principal.scopes,
        choices=(
            ("first", "First answer"),
            ("second", "Second answer"),
            ("tie", "Tie"),
        ),
    )


def _values(place: RaterPlace, item: LabelItem, known: StoredLabel | None) -> dict[str, str]:
    """The rater's label as the fields of its form."""
    if known is None:
        return {}
    values = {"comment": known.label.comment}
    if known.label.pair is not None:
        sides = SIDES[side_order(place.stored, place.rater, item)]
        values["choice"] = next(
            (side for side, which in sides.items() if which == known.label.pair.choice), "tie"
        )
    rubric = place.stored.set.rubric
    for index, criterion in enumerate(rubric.criteria if rubric else ()):
        if criterion.name in (known.label.scores or {}):
            values[f"c{index}"] = str((known.label.scores or {})[criterion.name])
    return values


@router.post("/label/{name}")
async def save_item(
    request: Request,
    name: str,
    sent: Mapping[str, str] = SENT,
    principal: Principal = WRITE,
    services: Services = SERVICES,
) -> Response:
    """Store the label of an item, and go on to the next one without a label."""
    stored = await asyncio.to_thread(_set, services, principal.project, name)
    rater = rater_of(request, principal)
    if rater is None:
        raise Problem(
            409, "the rater's name is missing.", fix="Open the set and type your name first."
        )
    place = await asyncio.to_thread(_place, services, principal.project, stored, rater)
    number = sent.get("item", "")
    at = (
        place.at(int(number)) if number.isascii() and number.isdigit() and len(number) < 6 else None
    )
    if at is None:
        raise Problem(422, "the form names no item of this set.", where="item")
    item = place.order[at]
    order = side_order(stored, rater, item)
    rubric = stored.set.rubric
    try:
        label = set_label(
            stored,
            item,
            rater,
            scores={
                criterion.name: sent.get(f"c{index}", "")
                for index, criterion in enumerate(rubric.criteria if rubric else ())
            },
            choice=SIDES[order].get(sent.get("choice", ""), sent.get("choice", "")),
            order=order,
            comment=sent.get("comment", ""),
        )
    except UsageError as error:
        return await asyncio.to_thread(
            _item_page,
            request,
            services,
            principal,
            place,
            at,
            sent=sent,
            problem=rater_sentence(error),
        )
    await save_label(services, principal, label)
    following = place._replace(gone=place.gone | {item.run}).open_after(at)
    to = (
        f"/label/{stored.set.id}/results?done=yes"
        if following is None
        else f"{place.address(following)}&saved={number}"
    )
    return RedirectResponse(to, 303)


@router.get("/label/{name}/results")
def show_results(
    request: Request,
    name: str,
    principal: Principal = READ,
    services: Services = SERVICES,
    done: str = "",
) -> Response:
    """The results of a set's labels. For an item that the reader has not labelled, no label is
    shown.
    """
    stored = _set(services, principal.project, name)
    labels = labels_of_set(services.ledger, stored.digest, project=principal.project)
    rater = rater_of(request, principal)
    seen = {stored.label.run for stored in labels if stored.label.rater == rater}
    label_set = stored.set
    numbers = {item.run: number for number, item in enumerate(label_set.items, 1)}
    parts = results_view(
        results_of(stored, labels),
        seen=seen,
        href=lambda item: f"/label/{label_set.id}?item={numbers[item.run]}",
    )
    left = len(label_set.items) - len(seen)
    thanks = Note("You have labelled every item of this set. Thank you.", kind="good")
    more = link(f"Label ({left:,} left for you)", f"/label/{label_set.id}") if left else ""
    ways = filter(None, (more, link("Label sets", "/label")))
    return page(
        request,
        label_set.name,
        Paragraph(listed(ways, " · ")),
        thanks if done and left <= 0 else None,
        *parts,
        use_section(label_set),
        nav=NAV,
        lead=f"{'Pairs' if label_set.other else 'Scores'} of {drawn_from(label_set)}",
    )


OVERRIDES = 5
"""How many runs with an override are linked."""


def people_of_run(services: Services, project: str, digest: str, context: SampleContext) -> Part:
    """People's verdicts, which no gate reads. Labels are only counted: a rater who has yet to label
    this sample must not see other labels.
    """
    labels = labels_of_run(services.ledger, digest, project=project)
    within = context.stored.evaluation.id if context.stored else None
    href = address("label", "override", run=digest, in_=within)
    raters = len({stored.label.rater for stored in labels.labels})
    text = f"{count(len(labels.labels), 'label')} by {count(raters, 'rater')}. "
    counted = Paragraph(phrase(text, link("Sets of labels", address("label"))))
    nothing = Paragraph("No verdicts on this run yet.", "absent")
    return section(
        "People's verdicts",
        people_table(labels._replace(labels=())) if labels.overrides else None,
        counted if labels.labels else None if labels.overrides else nothing,
        Paragraph(link("Give your own verdict, with the reason", href)),
        id="people",
    )


def people_of_evaluation(
    services: Services, project: str, stored: StoredEvaluation, view: SampleView
) -> str:
    """How many verdicts people gave on these runs, with links; empty if there are none."""
    labels = labels_of_evaluation(services.ledger, stored.digest, project=project)
    parts = []
    if labels.labels:
        on = f" on {count(labels.items, 'run')} by {count(labels.raters, 'rater')}"
        parts.append(phrase(link(count(labels.labels, "label"), "/label"), on))
    if labels.overrides:
        names = {run.digest: row.sample for row in view.rows for run in row.runs}
        runs = [
            link(clip(names.get(run, run), 60), address("runs", run, in_=stored.evaluation.id))
            for run in labels.overridden[:OVERRIDES]
        ]
        more = labels.overrides - len(runs)
        parts.append(
            phrase(
                f"overrides on {count(labels.overrides, 'run')} ({labels.to_pass:,} pass,"
                f" {labels.to_fail:,} fail): ",
                listed(runs),
                f" and {more:,} more" if more else "",
            )
        )
    return phrase("People's verdicts: ", listed(parts, "; ")) if parts else ""
