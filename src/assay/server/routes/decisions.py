"""Decisions and baselines: what may replace what, on documents that come along or on what the ledger holds."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from fastapi import APIRouter, Request
from starlette.responses import Response

from assay.deciding import Terms, decide, side_of
from assay.errors import NotEnoughEvidence
from assay.files import Document
from assay.release.baseline import BASELINE_SCHEMA, check_name
from assay.release.policy import make_release_rules
from assay.server import bodies, describing, finding
from assay.server.auth import admit
from assay.server.grading import make
from assay.server.problems import Problem
from assay.server.state import check_name as on_shelf
from assay.store.drafts import Draft, Link, digest_text, draft
from assay.store.reading import FILTERS

if TYPE_CHECKING:
    from assay.pipeline import Grader
    from assay.server.state import Services

router = APIRouter(tags=["decisions"], responses=describing.EVERY)
_SLICES = ("tag", "group", "family")
_DECISION = describing.taken(
    {
        "candidate": describing.SIDE,
        "baseline": describing.SIDE,
        "policy": describing.TEXT,
        "grading_policy": describing.TEXT,
        "profile": describing.TEXT,
        "rubric": describing.TEXT,
        "allow_unpaired": {"type": "boolean"},
        "quarantine": {"type": "array", "items": {"type": "string"}},
        "looks": {"type": "integer", "minimum": 1, "maximum": 1000},
        "slices": {"type": "array", "items": {"enum": list(_SLICES)}},
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
}


class Evidence(NamedTuple):
    """The documents of one side, and what has to be stored for it."""

    documents: list[Document]
    digests: list[str]
    drafts: list[Draft]


@router.post(
    "/decisions",
    status_code=201,
    summary="Decide whether a candidate may replace a baseline",
    responses=describing.POSTED,
    openapi_extra=describing.body(_DECISION),
)
async def post_decision(request: Request) -> Response:
    """The same rules as `assay gate`. The decision is stored with links to the evidence of both sides."""
    services: Services = request.app.state.services
    principal = await admit(request, "write")
    asked = bodies.fields(await bodies.tree(request, services.settings), _KEYS, required=("candidate", "baseline"))
    looks = asked.get("looks", 1)
    if not 1 <= looks <= 1000:
        raise Problem(422, "'looks' is a whole number from 1 to 1000.", where="looks")
    terms = Terms(bool(asked.get("allow_unpaired")), _texts(asked, "quarantine"), looks, _texts(asked, "slices"))
    if not set(terms.slices) <= set(_SLICES):
        raise Problem(422, f"slices are by {', '.join(_SLICES)}.", where="slices")
    document, drafts = await asyncio.to_thread(_decided, services, principal.project, principal.author, asked, terms)
    stored = (await services.writer.put(principal.project, drafts))[-1]
    services.metrics.count(f"decisions_{document['outcome']}")
    address = f"/api/v1/decisions/{stored.digest}"
    found = {"digest": stored.digest, "seq": stored.seq, "new": stored.new, "location": address, "decision": document}
    return bodies.answer(request, found, status=201, headers={"Location": address})


def _texts(asked: dict[str, Any], name: str) -> tuple[str, ...]:
    found = asked.get(name, [])
    if not all(isinstance(one, str) for one in found):
        raise Problem(422, f"'{name}' is a list of texts.", where=name)
    return tuple(found)


def _decided(services: Services, project: str, author: str, asked: dict[str, Any], terms: Terms) -> tuple[dict[str, Any], list[Draft]]:
    rules = make_release_rules(services.shelf.release_policy(on_shelf(asked.get("policy", "release"))))
    grader = services.grader(project, policy=asked.get("grading_policy"), profile=asked.get("profile"), rubric=asked.get("rubric"))
    sides = {name: _evidence(services, project, author, asked[name], grader, name) for name in ("candidate", "baseline")}
    ours, theirs = (side_of(sides[name].documents, grader, name=name) for name in ("candidate", "baseline"))
    document = decide(ours, theirs, rules, grader, terms=terms)
    made = draft(document, kind="decision", author=author)
    links = [Link(f"{name}_of", made.name, digest) for name, side in sides.items() for digest in dict.fromkeys(side.digests)]
    # the evidence first, each record once, and the decision last
    drafts = {one.digest: one for side in sides.values() for one in side.drafts}
    return document, [*drafts.values(), made._replace(links=tuple(links))]


def _evidence(services: Services, project: str, author: str, asked: Any, grader: Grader, name: str) -> Evidence:
    """One side, from what the request says of it."""
    if isinstance(asked, list):
        return _inline(asked, grader, author, name)
    found = bodies.fields(asked, {"digests": list, "filter": dict, "baseline": str})
    if len(found) != 1:
        raise Problem(422, "a side is a list of documents, or one of digests, filter and baseline.", where=name)
    if "baseline" in found:
        record = find_baseline(services, project, found["baseline"])
        digests = list(record["evidence_digests"])
    elif "digests" in found:
        digests = [str(digest) for digest in found["digests"]]
    else:
        digests = _filtered(services, project, found["filter"], name)
    if len(digests) > finding.MAX_SIDE:
        raise Problem(422, f"a side has at most {finding.MAX_SIDE:,} records.", where=name)
    items = [finding.record(services, project, None, digest) for digest in digests]
    wrong = next((item for item in items if item.kind not in ("run", "scorecard") or item.body is None), None)
    if wrong is not None:
        raise Problem(422, f"{wrong.digest} is no run or scorecard that is still there.", where=name)
    return Evidence([Document(item.tree(), item.digest) for item in items], [item.digest for item in items], [])


def _inline(asked: list[Any], grader: Grader, author: str, name: str) -> Evidence:
    if len(asked) > finding.MAX_SIDE:
        raise Problem(422, f"a side has at most {finding.MAX_SIDE:,} records.", where=name)
    documents = [Document(tree, name, at=f"[{index}]") for index, tree in enumerate(asked)]
    made = [
        make(one, grader, author=author) for one in documents if isinstance(one.tree, dict) and one.tree.get("schema") in ("assay.run/1", "assay.scorecard/1")
    ]
    return Evidence(documents, [one.evidence for one in made], [piece for one in made for piece in one.drafts])


def _filtered(services: Services, project: str, asked: dict[str, Any], name: str) -> list[str]:
    if not asked:
        raise Problem(422, "a filter names at least one thing.", where=f"{name}.filter", fix=f"They are {', '.join(FILTERS)}.")
    digests: list[str] = []
    cursor: int | None = None
    while True:
        page = services.ledger.find("run", asked, project=project, after=cursor, limit=1000)
        digests += [item.digest for item in page.items if item.body is not None]
        cursor = page.next_cursor
        if cursor is None or len(digests) > finding.MAX_SIDE:
            break
    if not digests:
        raise NotEnoughEvidence("REL-003", f"the {name} holds no runs: nothing matches its filter.", where=name)
    return digests


# --- baselines ----------------------------------------------------------------------------------------------------------------------------

_BASELINE = describing.taken(
    {"name": describing.TEXT, "evidence": describing.SIDE, "grading_policy": describing.TEXT, "profile": describing.TEXT}, "name", "evidence"
)


@router.post("/baselines", status_code=201, summary="Keep a baseline under a name", responses=describing.POSTED, openapi_extra=describing.body(_BASELINE))
async def post_baseline(request: Request) -> Response:
    """Nothing is overwritten: the newest of a name is meant by it, the older ones stay."""
    services: Services = request.app.state.services
    principal = await admit(request, "write")
    known: dict[str, type | tuple[type, ...]] = {"name": str, "evidence": (list, dict), "grading_policy": str, "profile": str}
    asked = bodies.fields(await bodies.tree(request, services.settings), known, required=("name", "evidence"))
    record, drafts = await asyncio.to_thread(_kept, services, principal.project, principal.author, asked)
    stored = (await services.writer.put(principal.project, drafts))[-1]
    address = f"/api/v1/baselines/{stored.digest}"
    found = {"digest": stored.digest, "seq": stored.seq, "new": stored.new, "location": address, "baseline": record}
    return bodies.answer(request, found, status=201, headers={"Location": address})


def _kept(services: Services, project: str, author: str, asked: dict[str, Any]) -> tuple[dict[str, Any], list[Draft]]:
    check_name(asked["name"])
    grader = services.grader(project, policy=asked.get("grading_policy"), profile=asked.get("profile"))
    found = _evidence(services, project, author, asked["evidence"], grader, "evidence")
    side = side_of(found.documents, grader, name=asked["name"])
    if not found.digests:
        raise Problem(422, "a baseline is made of runs or scorecards.", where="evidence")
    record = {
        "schema": BASELINE_SCHEMA,
        "name": asked["name"],
        "made_at": datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "evidence_digests": list(dict.fromkeys(found.digests)),
        "runs": side.runs,
        "samples": len(side.rows),
        "fingerprint": {"digest": side.fingerprint_digest, "fields": dict(side.fingerprint)},
        "summary": dict(side.summary),
    }
    made = draft(record, kind="baseline", author=author)
    links = tuple(Link("baseline_of", made.name, digest) for digest in record["evidence_digests"])
    pieces = {digest_text(one.digest): one for one in found.drafts}
    return record, [*pieces.values(), made._replace(links=links)]


def find_baseline(services: Services, project: str, name: str) -> dict[str, Any]:
    """The newest baseline of a name, or one by its digest."""
    if finding.DIGEST.fullmatch(name):
        tree = finding.record(services, project, "baseline", name).tree()
        return _whole(tree, name)
    cursor: int | None = None
    while True:
        page = services.ledger.find("baseline", project=project, after=cursor, limit=200, newest_first=True)
        for item in page.items:
            if item.body is not None and (tree := item.tree()).get("name") == name:
                return _whole(tree, name)
        cursor = page.next_cursor
        if cursor is None:
            raise NotEnoughEvidence("REL-005", f"there is no baseline {name[:80]!r}.", where="baseline")


def _whole(tree: Any, name: str) -> dict[str, Any]:
    if not isinstance(tree, dict) or not isinstance(tree.get("evidence_digests"), list):
        raise NotEnoughEvidence("REL-005", f"the baseline {name[:80]!r} names no evidence in this ledger.", where="baseline")
    return tree
