"""Compare two sets of stored runs: the decision as POST /decisions would make it, worked out for
the page and not stored. The address is the whole state.

A set is a workflow with its version (`faq@3`, each part quoted), on one dataset where one is
chosen, or a stored baseline (`baseline:production`).
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple
from urllib.parse import quote, unquote

import msgspec
from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from assay.archive.grades import settled
from assay.errors import AssayError, InputError, NotEnoughEvidence
from assay.files.json_files import Document
from assay.pipeline.deciding import Terms, check_kept_age, decide, declared, side_of
from assay.release.policy import ReleasePolicy, make_release_rules
from assay.release.sides import sample_of
from assay.server import lookup
from assay.server.auth import Principal
from assay.server.pages.decision_pairs import Pairs
from assay.server.pages.layout import page
from assay.server.pages.routing import READER, PageRoute
from assay.server.pages.runs import FIRST
from assay.server.problems import Problem
from assay.server.routes.decisions import find_baseline
from assay.server.state import check_name
from assay.store.names import seen
from assay.views.blocks import Empty, Field, Filters, Note, Paragraph, Section, Verbatim, section
from assay.views.charts.decisions import ScorePair
from assay.views.decision_sections import decision_view
from assay.views.pieces import address, phrase, strong

if TYPE_CHECKING:
    from collections.abc import Sequence

    from assay.pipeline.grading import Graded
    from assay.records.decision import Decision
    from assay.release.policy import ReleaseRules
    from assay.release.sides import Side
    from assay.server.state import Services
    from assay.store.drafts import Item

router = APIRouter(route_class=PageRoute, include_in_schema=False)
MOST = 2000
"""Runs of one side that a page works on; more take longer than a page may."""
OFFERED = 500
BASELINES = 50
BASELINE = "baseline:"
NEWEST = "newest"
Given = Annotated[str | None, Query(max_length=2000)]


class _KeptSide(msgspec.Struct):
    name: Any = None
    kind: Any = None
    runs: Any = None


class _Sample(msgspec.Struct):
    dataset: Any = None
    attempt: Any = None


_kept = msgspec.json.Decoder(_KeptSide).decode
_sample = msgspec.json.Decoder(_Sample).decode


class CompareQuery(NamedTuple):
    """What the address asks for."""

    candidate: str = ""
    baseline: str = ""
    dataset: str = ""
    policy: str = ""
    repeats: str = ""


class Taken(NamedTuple):
    """The runs of one side, and how many older ones were left out for newer ones of the same
    sample.
    """

    items: list[Item]
    left_out: int


class ComparedSides(NamedTuple):
    """A decision that is not stored, and what it was made on."""

    decision: Decision
    pairs: Pairs
    notes: list[str]


def named(id: str, version: str | None) -> str:
    """A name with its version as an address has it.

    >>> named("faq", "3"), named("a@b", None)
    ('faq@3', 'a%40b')
    """
    return quote(id, safe=" ") + ("" if version is None else f"@{quote(version, safe=' ')}")


def parted(text: str, where: str) -> tuple[str, str | None]:
    """A name and its version out of an address.

    >>> parted("a%40b@3", "candidate"), parted("faq", "candidate")
    (('a@b', '3'), ('faq', None))
    """
    name, at, version = text.partition("@")
    if not name or "@" in version:
        raise Problem(
            422,
            f"{text[:80]!r} names no set.",
            where=where,
            fix="Choose one in the form: it is a workflow and its version, as faq@3.",
        )
    return unquote(name), unquote(version) if at else None


@router.get("/compare")
def compare(
    request: Request,
    principal: Principal = READER,
    candidate: Given = None,
    baseline: Given = None,
    dataset: Given = None,
    policy: Given = None,
    repeats: Given = None,
) -> Response:
    """Two sets side by side, or the form to choose them."""
    services: Services = request.app.state.services
    asked = CompareQuery(
        *((one or "").strip() for one in (candidate, baseline, dataset, policy, repeats))
    )
    form = _form(services, principal.project, asked)
    lead = (
        "Whether one set of stored runs may replace another, by the rules of a release policy."
        " Nothing is stored."
    )
    if form is None:
        nothing = Empty(
            "No run is stored in this project yet, so there is nothing to compare. A run comes in"
            " by the command or by the API:",
            FIRST,
        )
        return page(request, "Compare", nothing, nav="/decisions", lead=lead)
    if not asked.candidate or not asked.baseline:
        missing = (
            "Choose a candidate and a baseline."
            if not (asked.candidate or asked.baseline)
            else f"Choose the {'candidate' if asked.baseline else 'baseline'} too."
        )
        return page(
            request,
            "Compare",
            form,
            Paragraph(missing, "absent"),
            nav="/decisions",
            lead=lead,
        )
    try:
        found = _compared(services, principal.project, asked)
    except (AssayError, Problem) as error:
        message = error.detail if isinstance(error, Problem) else error.message
        fix = [Paragraph(phrase(strong("What to do: "), error.fix))] if error.fix else []
        refused = section(
            "Not compared",
            Note(f"{message[:1].upper()}{message[1:]}", "bad"),
            *fix,
            Paragraph(f"Error {error.code}.", "hint"),
            id="refused",
        )
        return page(request, "Compare", form, refused, nav="/decisions", lead=lead, status=422)
    return page(
        request,
        "Compare",
        form,
        Note("Worked out now from the stored runs; this decision is not stored."),
        *map(Note, found.notes),
        *decision_view(found.decision, pairs=found.pairs.pairs, runs=found.pairs.runs),
        _keep(asked),
        nav="/decisions",
        lead=lead,
    )


# --- the form


def _form(services: Services, project: str, asked: CompareQuery) -> Filters | None:
    """What there is to choose from; None where nothing is stored."""
    database = services.ledger.database
    workflows = [
        (
            named(one.id, one.version),
            f"{one.id} {one.version or ''}".strip() + f" ({one.runs:,} runs)",
        )
        for one in seen(database, project, "workflow", limit=OFFERED)
    ]
    kept = _baselines(services, project)
    if not workflows and not kept:
        return None
    datasets = [
        (named(one.id, one.version), f"{one.id} {one.version or ''}".strip())
        for one in seen(database, project, "dataset", limit=OFFERED)
    ]
    policies = [
        (entry.id, entry.id)
        for entry in services.shelf.entries("policies")
        if isinstance(services.shelf.load("policies", entry.id), ReleasePolicy)
    ]
    fields = [
        Field("candidate", "Candidate", "select", workflows, "choose"),
        Field("baseline", "Baseline", "select", [*kept, *workflows], "choose"),
        Field("dataset", "Dataset", "select", datasets, "any, as the runs say"),
        Field("policy", "Release policy", "select", policies, "release, the newest"),
        Field(
            "repeats",
            "Samples that were run more than once",
            "select",
            [(NEWEST, "take the newest run of each")],
            "only as numbered attempts",
        ),
    ]
    return Filters(
        "/compare", fields, asked._asdict(), title="Choose two sets", button="Compare", kind="sets"
    )


def _baselines(services: Services, project: str) -> list[tuple[str, str]]:
    """The newest of each stored baseline of runs."""
    found: dict[str, str] = {}
    for item in services.ledger.find(
        "baseline", project=project, limit=BASELINES, newest_first=True
    ).items:
        if (
            item.body is not None
            and (one := _kept(item.body)).kind != "exam"
            and isinstance(one.name, str)
        ):
            found.setdefault(
                BASELINE + quote(one.name, safe=" "),
                f"baseline {one.name} ({item.created_at[:10]})",
            )
    return list(found.items())


def _keep(asked: CompareQuery) -> Section:
    """How to have this decision stored."""
    if asked.repeats == NEWEST:
        return section(
            "To store it",
            Paragraph("Post the digests of the runs you mean to /api/v1/decisions."),
            id="keep",
        )
    sides = {
        side: _filter(getattr(asked, side), asked.dataset, side)
        for side in ("candidate", "baseline")
    }
    body = msgspec.json.encode(
        {**sides, **({"policy": asked.policy} if asked.policy else {})}
    ).decode()
    command = (
        "curl -H 'Content-Type: application/json' -d"
        f" {shlex.quote(body)} http://127.0.0.1:8321/api/v1/decisions"
    )
    return section(
        "To store it",
        Verbatim(command),
        id="keep",
        hint="The same decision, stored with the evidence and the grades of both sides:",
    )


def _filter(text: str, dataset: str, where: str) -> dict[str, Any]:
    if text.startswith(BASELINE):
        return {"baseline": unquote(text.removeprefix(BASELINE))}
    name, version = parted(text, where)
    wanted = {"workflow": name, **({"workflow_version": version} if version is not None else {})}
    if dataset:
        id, of = parted(dataset, "dataset")
        wanted |= {"dataset": id, **({"dataset_version": of} if of is not None else {})}
    return {"filter": wanted}


# --- comparing


def _compared(services: Services, project: str, asked: CompareQuery) -> ComparedSides:
    rules = make_release_rules(
        services.shelf.policy_of("release", check_name(asked.policy or "release"))
    )
    grader = services.grader(project)
    runs: dict[str, str] = {}
    notes = ["Both sides are the same set."] if asked.candidate == asked.baseline else []
    sides: list[Side] = []
    for name in ("candidate", "baseline"):
        taken = _taken(services, project, getattr(asked, name), asked, name, rules)
        if taken.left_out:
            notes.append(
                f"Of the {name} {taken.left_out:,} older runs are left out: a newer one of the same"
                " sample is there."
            )

        def seen_(document: Document, graded: Graded, *, mine: bool = name == "candidate") -> None:
            if mine:
                runs[sample_of(graded.grade)] = address("runs", document.file)

        documents = (settled(Document(item.tree(), item.digest)) for item in taken.items)
        sides.append(side_of(documents, grader, name=name, seen=seen_))
    ours, theirs = sides
    terms = Terms(plan=declared(None, rules, looks=1, slices=()).plan)
    decision = decide(ours, theirs, rules, grader, terms=terms)
    samples = list(dict.fromkeys([*ours.rows, *theirs.rows]))
    pairs = [ScorePair(sample, _score(ours, sample), _score(theirs, sample)) for sample in samples]
    return ComparedSides(decision, Pairs(pairs, runs), notes)


def _score(side: Side, sample: str) -> float | None:
    row = side.rows.get(sample)
    return None if row is None else float(row.score) / 100


def _taken(
    services: Services, project: str, text: str, asked: CompareQuery, name: str, rules: ReleaseRules
) -> Taken:
    wanted = _filter(text, asked.dataset, name)
    if "baseline" in wanted:
        record = find_baseline(services, project, wanted["baseline"])
        check_kept_age(record, rules, where=name)
        digests = [str(digest) for digest in record["evidence_digests"]]
        if len(digests) > MOST:
            raise _too_many(name)
        items = [lookup.record(services, project, None, digest) for digest in digests]
        if any(item.kind not in ("run", "scorecard") for item in items):
            raise InputError(
                "REL-002",
                f"the {name} is no baseline of runs, so there is nothing to pair.",
                where=name,
                fix="Choose another.",
            )
        if any(item.body is None for item in items):
            raise NotEnoughEvidence(
                "REL-003",
                f"evidence of the {name} was forgotten.",
                where=name,
                fix="Keep a new baseline.",
            )
        return Taken(items, 0)
    found: list[Item] = []
    cursor: int | None = None
    while True:
        part = services.ledger.find(
            "run", wanted["filter"], project=project, after=cursor, limit=1000, newest_first=True
        )
        found += [item for item in part.items if item.body is not None]
        cursor = part.next_cursor
        if cursor is None or len(found) > MOST:
            break
    if not found:
        raise NotEnoughEvidence(
            "REL-003",
            f"the {name} holds no runs: none is stored of this set.",
            where=name,
            fix="Choose another set or dataset.",
        )
    if len(found) > MOST:
        raise _too_many(name)
    return _newest(found) if asked.repeats == NEWEST else Taken(found, 0)


def _too_many(name: str) -> Problem:
    return Problem(
        422,
        f"the {name} has more than {MOST:,} runs, which is more than a page works on.",
        where=name,
        fix="Choose a dataset, or decide with `assay gate` or POST /api/v1/decisions.",
    )


def _newest(items: Sequence[Item]) -> Taken:
    """The newest run of each sample and attempt, the oldest first."""
    kept: dict[str, Item] = {}
    for item in items:
        said = _sample(item.body or b"{}")
        kept.setdefault(
            msgspec.json.encode([said.dataset, said.attempt], order="sorted").decode(), item
        )
    return Taken(list(kept.values()), len(items) - len(kept))
