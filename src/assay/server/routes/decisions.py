"""Decisions and baselines: what may replace what, on documents that come along or on what the
ledger holds.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from fastapi import APIRouter, Request
from starlette.responses import Response

from assay.archive.grades import NO_BASIS
from assay.archive.sides import (
    KeptSide,
    baseline_draft,
    baseline_record,
    decision_drafts,
    keep_side,
)
from assay.errors import NotEnoughEvidence
from assay.files.json_files import Document
from assay.pipeline.deciding import Terms, check_kept_age, decide, declared
from assay.records.decision import Decision
from assay.release.baseline import check_name
from assay.release.plan import check_plan
from assay.release.policy import make_release_rules
from assay.server import bodies, lookup, openapi
from assay.server.auth import admit
from assay.server.grading import BasedGrader
from assay.server.problems import Problem
from assay.server.state import check_name as on_shelf
from assay.store import baselines
from assay.store.drafts import Body, Draft, Stored
from assay.store.reading import FILTERS

if TYPE_CHECKING:
    from assay.pipeline.grading import Grader
    from assay.release.policy import ReleaseRules
    from assay.server.state import Services

router = APIRouter(tags=["decisions"], responses=openapi.EVERY)
_SLICES = ("tag", "group", "family")
_TOGETHER = 1500
"""Records of a side that are stored together, so that others get their turn."""
_DECISION = openapi.taken(
    {
        "candidate": openapi.SIDE,
        "baseline": openapi.SIDE,
        "policy": openapi.TEXT,
        "grading_policy": openapi.TEXT,
        "profile": openapi.TEXT,
        "rubric": openapi.TEXT,
        "allow_unpaired": {"type": "boolean"},
        "quarantine": {"type": "array", "items": {"type": "string"}},
        "looks": {"type": "integer", "minimum": 1, "maximum": 1000},
        "slices": {"type": "array", "items": {"enum": list(_SLICES)}},
        "plan": {
            "type": "object",
            "description": (
                "the plan that was declared before, as `assay gate --plan -o plan.json` writes it"
            ),
        },
    },
    "candidate",
    "baseline",
)
_KEYS: dict[str, type | tuple[type, ...]] = {
    **dict.fromkeys(("candidate", "baseline"), (list, dict)),
    **dict.fromkeys(("policy", "grading_policy", "profile", "rubric"), str),
    "allow_unpaired": bool,
    "quarantine": list,
    "looks": int,
    "slices": list,
    "plan": dict,
}


class Evidence(NamedTuple):
    """The documents of one side. `stored` has the bodies of those that come from the ledger, by
    digest.
    """

    documents: list[Document]
    stored: dict[str, Body]


@router.post(
    "/decisions",
    status_code=201,
    summary="Decide whether a candidate may replace a baseline",
    responses=openapi.POSTED,
    openapi_extra=openapi.body(_DECISION),
)
async def post_decision(request: Request) -> Response:
    """The same rules as `assay gate`. The decision is stored with links to the evidence and the
    grades of both sides.
    """
    services: Services = request.app.state.services
    principal = await admit(request, "write")
    asked = bodies.fields(
        await bodies.tree(request, services.settings), _KEYS, required=("candidate", "baseline")
    )
    looks = asked.get("looks", 1)
    if not 1 <= looks <= 1000:
        raise Problem(422, "'looks' is a whole number from 1 to 1000.", where="looks")
    terms = Terms(
        bool(asked.get("allow_unpaired")),
        _texts(asked, "quarantine"),
        looks,
        _texts(asked, "slices"),
    )
    if not set(terms.slices) <= set(_SLICES):
        raise Problem(422, f"slices are by {', '.join(_SLICES)}.", where="slices")
    document, drafts = await services.in_turn(
        principal.project,
        lambda: _decided(services, principal.project, principal.author, asked, terms),
    )
    stored = await _put(services, principal.project, drafts)
    services.metrics.count(f"decisions_{document.outcome}")
    address = f"/api/v1/decisions/{stored.digest}"
    found = {
        "digest": stored.digest,
        "seq": stored.seq,
        "new": stored.new,
        "location": address,
        "decision": document,
    }
    return bodies.answer(request, found, status=201, headers={"Location": address})


def _texts(asked: dict[str, Any], name: str) -> tuple[str, ...]:
    found = asked.get(name, [])
    if not all(isinstance(one, str) for one in found):
        raise Problem(422, f"'{name}' is a list of texts.", where=name)
    return tuple(found)


async def _put(services: Services, project: str, drafts: list[Draft]) -> Stored:
    """Store what a record rests on, part by part, and then the record, which comes last."""
    for start in range(0, len(drafts) - 1, _TOGETHER):
        await services.writer.put(project, drafts[start : min(start + _TOGETHER, len(drafts) - 1)])
    return (await services.writer.put(project, drafts[-1:]))[0]


def _decided(
    services: Services, project: str, author: str, asked: dict[str, Any], terms: Terms
) -> tuple[Decision, list[Draft]]:
    rules = make_release_rules(
        services.shelf.policy_of("release", on_shelf(asked.get("policy", "release")))
    )
    plan = check_plan(asked["plan"], where="plan") if "plan" in asked else None
    said = declared(plan, rules, looks=terms.looks, slices=terms.slices)
    grader = services.grader(
        project,
        policy=asked.get("grading_policy"),
        profile=asked.get("profile"),
        rubric=asked.get("rubric"),
    )
    drafts: dict[bytes, Draft] = {}  # the evidence first, each record once, and the decision last
    ours, theirs = (
        _side(services, project, author, asked[name], grader, drafts, name, rules=rules)
        for name in ("candidate", "baseline")
    )
    document = decide(
        ours.side,
        theirs.side,
        rules,
        grader,
        terms=terms._replace(plan=said.plan, samples=said.samples),
    )
    return document, [
        *drafts.values(),
        *decision_drafts(document, ours, theirs, plan=plan, author=author),
    ]


def _side(
    services: Services,
    project: str,
    author: str,
    asked: Any,
    grader: Grader,
    drafts: dict[bytes, Draft],
    name: str,
    *,
    rules: ReleaseRules | None = None,
) -> KeptSide:
    """One side, and the drafts of what it rests on."""
    found = _evidence(services, project, asked, name, rules)
    basis = grader.basis if isinstance(grader, BasedGrader) else NO_BASIS

    def take(group: list[Draft]) -> None:
        drafts.update((one.digest, one) for one in group)

    return keep_side(
        found.documents, grader, take, name=name, basis=basis, author=author, stored=found.stored
    )


def _evidence(
    services: Services, project: str, asked: Any, name: str, rules: ReleaseRules | None
) -> Evidence:
    """The documents of one side, from what the request says of it. With rules a baseline may be too
    old for them.
    """
    if isinstance(asked, list):
        return _inline(asked, name)
    found = bodies.fields(asked, {"digests": list, "filter": dict, "baseline": str})
    if len(found) != 1:
        raise Problem(
            422,
            "a side is a list of documents, or one of digests, filter and baseline.",
            where=name,
        )
    if "baseline" in found:
        record = find_baseline(services, project, found["baseline"])
        if rules is not None:
            check_kept_age(record, rules, where=name)
        digests = list(record["evidence_digests"])
    elif "digests" in found:
        digests = [str(digest) for digest in found["digests"]]
    else:
        digests = _filtered(services, project, found["filter"], name)
    if len(digests) > lookup.MAX_SIDE:
        raise Problem(422, f"a side has at most {lookup.MAX_SIDE:,} records.", where=name)
    items = [lookup.record(services, project, None, digest) for digest in digests]
    wrong = next(
        (item for item in items if item.kind not in ("run", "scorecard") or item.body is None), None
    )
    if wrong is not None:
        raise Problem(
            422, f"{wrong.digest} is no run or scorecard that is still there.", where=name
        )
    return Evidence(
        [Document(item.tree(), item.digest) for item in items],
        {item.digest: Body(item.body or b"") for item in items},
    )


def _inline(asked: list[Any], name: str) -> Evidence:
    if len(asked) > lookup.MAX_SIDE:
        raise Problem(422, f"a side has at most {lookup.MAX_SIDE:,} records.", where=name)
    return Evidence([Document(tree, name, at=f"[{index}]") for index, tree in enumerate(asked)], {})


def _filtered(services: Services, project: str, asked: dict[str, Any], name: str) -> list[str]:
    if not asked:
        raise Problem(
            422,
            "a filter names at least one thing.",
            where=f"{name}.filter",
            fix=f"They are {', '.join(FILTERS)}.",
        )
    digests: list[str] = []
    cursor: int | None = None
    while True:
        page = services.ledger.find("run", asked, project=project, after=cursor, limit=1000)
        digests += [item.digest for item in page.items if item.body is not None]
        cursor = page.next_cursor
        if cursor is None or len(digests) > lookup.MAX_SIDE:
            break
    if not digests:
        raise NotEnoughEvidence(
            "REL-003", f"the {name} holds no runs: nothing matches its filter.", where=name
        )
    return digests


# --- baselines

_BASELINE = openapi.taken(
    {
        "name": openapi.TEXT,
        "evidence": openapi.SIDE,
        "grading_policy": openapi.TEXT,
        "profile": openapi.TEXT,
    },
    "name",
    "evidence",
)


@router.post(
    "/baselines",
    status_code=201,
    summary="Keep a baseline under a name",
    responses=openapi.POSTED,
    openapi_extra=openapi.body(_BASELINE),
)
async def post_baseline(request: Request) -> Response:
    """Nothing is overwritten: the newest of a name is meant by it, the older ones stay."""
    services: Services = request.app.state.services
    principal = await admit(request, "write")
    known: dict[str, type | tuple[type, ...]] = {
        "name": str,
        "evidence": (list, dict),
        "grading_policy": str,
        "profile": str,
    }
    asked = bodies.fields(
        await bodies.tree(request, services.settings), known, required=("name", "evidence")
    )
    record, drafts = await services.in_turn(
        principal.project, lambda: _kept(services, principal.project, principal.author, asked)
    )
    stored = await _put(services, principal.project, drafts)
    address = f"/api/v1/baselines/{stored.digest}"
    found = {
        "digest": stored.digest,
        "seq": stored.seq,
        "new": stored.new,
        "location": address,
        "baseline": record,
    }
    return bodies.answer(request, found, status=201, headers={"Location": address})


def _kept(
    services: Services, project: str, author: str, asked: dict[str, Any]
) -> tuple[dict[str, Any], list[Draft]]:
    check_name(asked["name"])
    grader = services.grader(
        project, policy=asked.get("grading_policy"), profile=asked.get("profile")
    )
    drafts: dict[bytes, Draft] = {}
    kept = _side(services, project, author, asked["evidence"], grader, drafts, "evidence")
    if not kept.evidence or kept.bare:
        raise Problem(422, "a baseline is made of runs or scorecards.", where="evidence")
    record = baseline_record(asked["name"], kept, now=datetime.now(UTC))
    return record, [*drafts.values(), baseline_draft(record, author=author)]


def find_baseline(services: Services, project: str, name: str) -> dict[str, Any]:
    """The newest baseline of a name, or one by its digest."""
    found = baselines.find_baseline(services.ledger, name, project=project)
    if found is not None:
        return found.record
    if lookup.DIGEST.fullmatch(name):
        raise lookup.absent("baseline", name)
    raise NotEnoughEvidence("REL-005", f"there is no baseline {name[:80]!r}.", where="baseline")
