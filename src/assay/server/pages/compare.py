"""Compares evaluations sample by sample, with the decision that `assay gate` would make between two
of them. A button stores it.

    /compare?of=nightly-41&of=nightly-42

The first is the baseline; the last is the candidate, unless `candidate` names another. The address
is the whole state. A comparison that the command refuses has no decision here.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Annotated, Any, NamedTuple

import msgspec
from fastapi import APIRouter, Query, Request
from starlette.responses import RedirectResponse, Response

from assay.errors import AssayError, InputError, NotEnoughEvidence
from assay.records.decision import read_decision
from assay.records.samples import SampleRow, SampleTexts, SideName, TextCollector, page_of
from assay.release.policy import ReleasePolicy, ReleaseRules, make_release_rules
from assay.server import lookup
from assay.server.auth import READ, WRITE, Principal
from assay.server.pages.evaluations import FIRST
from assay.server.pages.layout import SENT, PageRoute, page
from assay.server.posted_runs import grader_by, with_additions
from assay.server.problems import Problem
from assay.server.routes.decisions import store_last
from assay.server.state import SERVICES, Services, check_name
from assay.services.evaluation_choice import EvaluationChoice
from assay.services.evaluations import evaluation_label, first_grade
from assay.services.regraded import regraded
from assay.services.samples import (
    baseline_runs,
    newest_evaluations,
    run_rows,
    sample_rows,
    with_texts,
)
from assay.services.sides import Documents, read_texts
from assay.services.stored_compare import DecidedSides, ReleaseSide, choose_for, decide_stored
from assay.services.stored_sides import Take, decision_drafts
from assay.store.baselines import find_baseline, list_baselines
from assay.store.drafts import Draft, draft
from assay.store.reading import grades_of
from assay.views.blocks import (
    Button,
    Details,
    Empty,
    Note,
    Paragraph,
    Part,
    Region,
    Section,
    Verbatim,
    section,
)
from assay.views.compare import (
    ON_A_PAGE,
    UNMOVED,
    ComparedSample,
    CompareForm,
    CompareQuery,
    Version,
    compare_samples,
    count_movements,
    decision_parts,
    movement_chips,
    order_hint,
    page_links,
    samples_table,
    search_box,
    select_compared,
    versions_table,
)
from assay.views.decision import NAMED, new_failures
from assay.views.pieces import address, link, phrase, sentence, strong

_BARS = {
    "tolerance": "tolerance {:g} points",
    "min_pass_rate": "minimum pass rate {:.10g}%",
    "confidence": "confidence {:.10g}%",
    "min_overlap": "minimum overlap {:.10g}%",
}


class PageRules(NamedTuple):
    """The rules of a decision."""

    rules: ReleaseRules
    policy: str
    """The policy as a command names it."""
    text: str
    """The policy, and every number of it that assay.yaml changes."""
    project: str = ""
    """The rules of assay.yaml, if these are different ones."""


def rules_for(services: Services, policy: str) -> PageRules:
    """The project's rules, or those of another policy if one is named."""
    own = services.settings.release
    project = _page_rules(services, own.policy)
    chosen = _page_rules(services, check_name(policy)) if policy else project
    if own.config is not None and chosen.rules.digest != project.rules.digest:
        return chosen._replace(project=project.text)
    is_set = own.policy != "release" or any(value is not None for value in own.bars)
    return chosen._replace(text=f"{chosen.text}, from {own.source}") if is_set else chosen


def _page_rules(services: Services, policy: str) -> PageRules:
    loaded = services.shelf.policy_of("release", policy)
    own = services.settings.release
    bars = (
        _BARS[name].format(value if name == "tolerance" else value * 100)
        for name, value in own.bars._asdict().items()
        if value is not None
    )
    rules = make_release_rules(loaded, own.bars)
    return PageRules(rules, policy, ", ".join([str(loaded.id), *bars]))


def choice_for(
    services: Services, candidate: ReleaseSide, baseline: ReleaseSide
) -> EvaluationChoice:
    """What both sides are graded by."""
    own = services.settings.release
    choice = choose_for(
        candidate, baseline, policy=services.settings.policy, configured=own.graded_by
    )
    return with_additions(services, choice)


def _graded_by(services: Services, candidate: ReleaseSide, baseline: ReleaseSide) -> list[str]:
    """The options for what both sides are graded by that a command without assay.yaml needs."""
    settings, own = services.settings, services.settings.release
    try:
        choice = choice_for(services, candidate, baseline)
    except AssayError:  # there is no decision in this case
        return []
    named = choice.own is None  # else a profile that is named would replace it
    has_policy = "policy" in own.graded_by or settings.policy != "workflow"
    return [
        *(["--profile", own.profile] if named and own.profile else []),
        *(["--rubric", own.rubric] if named and own.rubric else []),
        *(["--grading-policy", choice.policy] if has_policy else []),
    ]


def gate_command(
    services: Services, project: str, candidate: ReleaseSide, baseline: ReleaseSide, policy: str
) -> str:
    """The command that makes the same decision, wherever it is run, and stores it."""
    settings, own = services.settings, services.settings.release
    address = settings.db
    is_file = address.startswith("sqlite:") or "://" not in address
    # the address of another database may contain a password: it comes from $ASSAY_DB or the file
    kept = own.config is not None and (any(own.additions) or not is_file)
    bars = {name: value for name, value in own.bars._asdict().items() if value is not None}
    words = (
        *("assay", "gate", candidate.name, "--baseline", baseline.name),
        *("--release-policy", policy or own.policy),
        *(word for name in bars for word in (f"--{name.replace('_', '-')}", repr(bars[name]))),
        *(word for name in own.quarantine for word in ("--quarantine", name)),
        *(word for name in own.slices for word in ("--slice", name)),
        *_graded_by(services, candidate, baseline),
        *(word for card in settings.cards for word in ("--judge-card", card)),
        *(["--library", settings.library] if settings.library else []),
        *(["--project", project] if project != "default" else []),
        *(["--config", str(own.config)] if kept else ["--no-config"]),
        *("--store", *([address] if is_file else [])),
    )
    return shlex.join(words)


BASELINE = "baseline:"
MOST = 2000
"""How many runs of a side a page decides on; grading more takes too long for a page."""
MAX_COMPARED = 5


class ComparedSide(NamedTuple):
    """One side of a comparison, for the decision and for display."""

    side: ReleaseSide
    version: Version


def find_sides(services: Services, project: str, names: Sequence[str]) -> list[ComparedSide]:
    """The sides that an address names, the baseline first. No name may occur twice."""
    if len(names) > MAX_COMPARED:
        raise Problem(
            422,
            f"a page compares at most {MAX_COMPARED} evaluations, not {len(names)}.",
            where="of",
            fix="Leave some of them out.",
        )
    sides: list[ComparedSide] = []
    for place, name in enumerate(names):
        compared = _find(services, project, name, first=place == 0)
        if any(compared.side.digest == other.side.digest for other in sides):
            raise InputError(
                "REL-002",
                f"{compared.version.name} would be compared with itself, which shows nothing.",
                where="of",
                fix="Choose another evaluation.",
            )
        sides.append(compared)
    return sides


def _find(services: Services, project: str, name: str, *, first: bool) -> ComparedSide:
    if name.startswith(BASELINE):
        return _baseline(services, project, name, first=first)
    stored = lookup.evaluation(services, project, name)
    of, label = stored.evaluation, evaluation_label(services.ledger, stored, project=project)
    return ComparedSide(
        ReleaseSide(label, stored=stored), Version(label, of.name, of, of.started, len(of.runs))
    )


def _baseline(services: Services, project: str, name: str, *, first: bool) -> ComparedSide:
    if not first:
        raise InputError(
            "REL-002",
            "a stored baseline can only come first: it is what the others are compared with.",
            where="of",
            fix="Choose an evaluation as the candidate.",
        )
    own = name.removeprefix(BASELINE)
    kept = find_baseline(services.ledger, own, project=project)
    if kept is None:
        raise NotEnoughEvidence(
            "REL-005",
            f"there is no baseline {own[:80]!r} in this project.",
            where="of",
            fix="Choose one in the form, or store one with `assay baseline set NAME --store`.",
        )
    side = ReleaseSide(own, kept=kept)
    made_at = str(kept.record.get("made_at") or "")
    return ComparedSide(side, Version(name, own, None, made_at, len(side.evidence)))


def rows_of_side(services: Services, project: str, side: ReleaseSide) -> list[SampleRow]:
    """The samples of a side with their stored grades, without texts; for the runs of a baseline,
    their newest grades.
    """
    ledger = services.ledger
    if side.stored is not None:
        return sample_rows(ledger, side.stored, project=project)
    runs = baseline_runs(ledger, side.evidence, project=project)
    return run_rows(ledger, runs, project=project)


def graded_alike(services: Services, project: str, sides: Sequence[ReleaseSide]) -> bool:
    """Whether all sides were stored with grades by the same rules, judging by their first grade."""
    first: Mapping[str, Any] | None = None
    for side in sides:
        tree = _first_grade(services, project, side)
        if tree is None:
            continue
        if first is not None and regraded(side.name, first, tree):
            return False
        first = first or tree
    return True


def _first_grade(services: Services, project: str, side: ReleaseSide) -> Any:
    ledger = services.ledger
    if side.stored is not None:
        return first_grade(ledger, side.stored, project=project)
    grades = grades_of(ledger.database, project, side.evidence[:1])
    newest = [stored[-1].digest for stored in grades.values() if stored]
    item = ledger.get(newest[0], project=project) if newest else None
    return None if item is None or item.body is None else item.tree()


def texts_between(
    services: Services,
    project: str,
    candidate: ReleaseSide,
    baseline: ReleaseSide,
    decided: DecidedSides,
) -> dict[str, SampleTexts]:
    """Question and answers of the samples that newly fail."""
    named = {item.sample for item in new_failures(decided.decision)[:NAMED]}
    collector = TextCollector()
    if named:
        choice = choice_for(services, candidate, baseline)
        grader = grader_by(services, project, choice, stored_cards=False)
        sides: tuple[tuple[SideName, Documents], ...] = (
            ("candidate", decided.candidate.documents),
            ("baseline", decided.baseline.documents),
        )
        for name, documents in sides:
            for _ in read_texts(documents, grader, name, named, collector):
                pass
    return collector.texts()


def decide_between(
    services: Services,
    project: str,
    candidate: ReleaseSide,
    baseline: ReleaseSide,
    policy: str,
    *,
    take: Take | None = None,
    author: str | None = None,
) -> DecidedSides:
    """The decision on two sides, as `assay gate` makes it under the same assay.yaml."""
    rules, choice = rules_for(services, policy).rules, choice_for(services, candidate, baseline)
    # like the command, which uses only the cards it is given
    grader = grader_by(services, project, choice, stored_cards=False)
    return decide_stored(
        services.ledger,
        candidate,
        baseline,
        rules,
        grader,
        choice=choice,
        project=project,
        quarantine=services.settings.release.quarantine,
        slices=services.settings.release.slices,
        take=take,
        basis=grader.basis,
        author=author,
    )


def refused(title: str, error: AssayError | Problem) -> Section:
    """Why something was refused, and what to do."""
    message = error.detail if isinstance(error, Problem) else error.message
    fix = [Paragraph(phrase(strong("What to do: "), error.fix))] if error.fix else []
    return section(
        title,
        Note(sentence(message), "bad"),
        *fix,
        Paragraph(f"Error {error.code}.", "hint"),
        id="refused",
    )


def decision_section(
    services: Services,
    principal: Principal,
    candidate: ComparedSide,
    baseline: ComparedSide,
    query: CompareQuery,
) -> tuple[Section, str]:
    """Whether the candidate may replace the baseline, by the rules of the command; and, if stored
    scores don't show what moved, the reason as a key of UNMOVED.
    """
    project, ours, theirs = principal.project, candidate.side, baseline.side
    command = Verbatim(gate_command(services, project, ours, theirs, query.policy))
    title = f"May {candidate.version.name} replace {baseline.version.name}?"
    why_not = (
        f"a side has more than {MOST:,} runs, which takes longer than a page may"
        if max(len(ours.evidence), len(theirs.evidence)) > MOST
        else ""
    )
    if why_not:
        text = f"Not decided here: {why_not}. The command decides, and stores the decision:"
        return section(title, Note(text), command, id="decision"), ""
    try:
        rules = rules_for(services, query.policy)
        decided = decide_between(services, project, ours, theirs, query.policy)
        texts = texts_between(services, project, ours, theirs, decided)
    except (AssayError, Problem) as error:
        parts = refused("No decision", error).parts
        return section(title, *parts, id="decision", kind="refused"), "refused"
    unmoved = "regraded" if decided.regraded else ""
    if rules.project:
        return section(
            title,
            Note(_other_rules(rules), "bad"),
            *decision_parts(decided.decision, under=rules.text, texts=texts),
            Paragraph("This page doesn't store it. The command does:"),
            command,
            id="decision",
        ), unmoved
    return section(
        title,
        *decision_parts(decided.decision, under=rules.text, texts=texts),
        _storing(services, principal, decided, (ours, theirs), query.policy),
        Details("The same decision by the command", [command]),
        id="decision",
    ), unmoved


def _other_rules(rules: PageRules) -> str:
    return (
        f"{rules.text}: not the project's release rules. `assay gate` decides under"
        f" {rules.project} here."
    )


def refuse_other_rules(services: Services, policy: str) -> None:
    """Refuse to store a decision that was not made by the project's rules."""
    rules = rules_for(services, policy)
    if rules.project:
        raise Problem(422, _other_rules(rules), fix="Choose the project's rules in the form.")


def _storing(
    services: Services,
    principal: Principal,
    decided: DecidedSides,
    sides: tuple[ReleaseSide, ReleaseSide],
    policy: str,
) -> Part:
    """The button that stores a decision, or where it is stored."""
    name = draft(decided.decision.tree(), kind="decision").name
    if services.ledger.get(name, project=principal.project) is not None:
        stored = link("Open the stored decision", address("decisions", name))
        return Paragraph(phrase("This decision is stored. ", stored))
    if "write" not in principal.scopes:
        return Paragraph("Not stored: that needs a token with the `write` scope.", "hint")
    # by digest: a name may mean another evaluation by the time the button is pressed
    candidate, baseline = (
        side.digest if side.stored is not None else BASELINE + side.digest for side in sides
    )
    hidden = {"candidate": candidate, "baseline": baseline, "policy": policy, "decision": name}
    return Button("Store this decision", "/compare", hidden)


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
