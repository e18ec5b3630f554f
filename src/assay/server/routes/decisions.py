"""Decisions and baselines, from posted or stored documents."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

from fastapi import APIRouter, Request
from msgspec.structs import astuple
from starlette.responses import Response

from assay.errors import NotEnoughEvidence
from assay.files.json_files import Document
from assay.records.decision import Decision
from assay.records.evaluation import VersionedName
from assay.release.baseline import age_warning, check_name, moment_of
from assay.release.plan import check_plan
from assay.release.policy import ReleaseRules, make_release_rules
from assay.server import bodies, lookup, openapi
from assay.server.auth import BASELINE, WRITE, Principal
from assay.server.grading import BasedGrader
from assay.server.posted_runs import check_same, grader_by, with_additions, with_configured
from assay.server.problems import Problem
from assay.server.requests import SIDE, BaselineRequest, DecisionRequest, StoredSide
from assay.server.routing import Route
from assay.server.state import SERVICES, Services
from assay.server.state import check_name as on_shelf
from assay.services.compare import Asked, FreshRuns, Origin, compare, kept_baseline
from assay.services.evaluation_choice import (
    MAP,
    EvaluationChoice,
    baseline_settings,
    made_profile,
    own_profile,
)
from assay.services.evaluations import (
    StoredEvaluation,
    evaluation_label,
    need_evaluation,
    versions_of,
)
from assay.services.grading import Grader
from assay.services.rules import GradedSide, RulesRequest, graded_side, rules_for
from assay.services.sides import severe_of
from assay.services.stored_compare import ReleaseSide, origin_of
from assay.services.stored_sides import (
    KeptSide,
    baseline_draft,
    baseline_record,
    decision_drafts,
    keep_side,
    replacing,
)
from assay.services.storing import NO_BASIS
from assay.store.drafts import Body, Draft, Stored
from assay.store.reading import FILTERS

router = APIRouter(route_class=Route, prefix="/api/v1", tags=["decisions"], responses=openapi.EVERY)
_FIELDS = {"profile": "`profile`", "rubric": "`rubric`", "policy": "`grading_policy`"}
_RULES = (
    "Name the rules of the baseline with `profile`, `rubric` and `grading_policy`, or keep a new"
    " baseline."
)
_TOGETHER = 1500
"""How many records of a side are stored together; other requests get a turn in between."""


class Evidence(NamedTuple):
    """The documents of one side. `stored` has the bodies of those that come from the ledger, by
    digest.
    """

    documents: list[Document]
    stored: dict[str, Body]
    evaluation: StoredEvaluation | None = None
    """The evaluation that they belong to."""
    kept: Mapping[str, Any] | None = None
    """The baseline's record, if they are a baseline."""
    origin: Origin = Origin()


@router.post(
    "/decisions",
    status_code=201,
    summary="Decide whether a candidate may replace a baseline",
    responses=openapi.POSTED,
    openapi_extra=openapi.body(DecisionRequest),
)
async def post_decision(
    request: Request, principal: Principal = WRITE, services: Services = SERVICES
) -> Response:
    """The same rules as `assay gate`. The decision is stored with links to the evidence and the
    grades of both sides.
    """
    body = await bodies.read(request, services.settings, DecisionRequest)
    document, drafts = await services.in_turn(
        principal.project,
        lambda: _decided(services, principal.project, principal.author, body),
    )
    stored = await store_last(services, principal.project, drafts)
    services.metrics.count(f"decisions_{document.outcome}")
    return bodies.created(request, stored, "decisions", decision=document)


async def store_last(services: Services, project: str, drafts: list[Draft]) -> Stored:
    """Store what a record depends on, part by part, and the record last."""
    for start in range(0, len(drafts) - 1, _TOGETHER):
        await services.writer.put(project, drafts[start : min(start + _TOGETHER, len(drafts) - 1)])
    return (await services.writer.put(project, drafts[-1:]))[0]


def _decided(
    services: Services, project: str, author: str, body: DecisionRequest
) -> tuple[Decision, list[Draft]]:
    rules = _rules(services, body.policy)
    plan = None if body.plan is None else check_plan(body.plan, where="plan")
    drafts: dict[bytes, Draft] = {}  # the evidence first, each record once, and the decision last
    candidate = read_evidence(services, project, body.candidate, "candidate")
    judged = versions_of(document.tree for document in candidate.documents)
    baseline = read_evidence(services, project, body.baseline, "baseline", judged=judged)
    choice = _choice(services, _named_rules(body), baseline, candidate)
    # like the command, which uses only the cards it is given
    grader = grader_by(services, project, choice, stored_cards=False)
    ours = _side(candidate, author, grader, drafts, "candidate", rules)
    theirs = _side(
        baseline,
        author,
        grader,
        drafts,
        f"baseline {baseline.origin.name}".strip() if baseline.kept else "baseline",
        rules,
    )
    fresh = [
        None
        if side is None
        else _side(
            read_evidence(services, project, side, name), author, grader, drafts, name, rules
        )
        for side, name in (
            (body.fresh, "fresh candidate"),
            (body.fresh_baseline, "fresh baseline"),
        )
    ]
    own = services.settings.release
    asked = Asked(
        tuple(dict.fromkeys((*own.quarantine, *body.quarantine))),
        tuple(dict.fromkeys((*own.slices, *body.slices))),
        plan,
        candidate.origin,
        baseline.origin,
        frozenset(_named_rules(body)),
        choice.made,
        other_rules=_RULES,
        fresh=FreshRuns(*fresh),
    )
    document = compare(ours, theirs, rules, grader, asked)
    return document, [
        *drafts.values(),
        *decision_drafts(
            document,
            ours,
            theirs,
            fresh=fresh,
            plan=plan,
            made=choice.made,
            author=author,
        ),
    ]


def _rules(services: Services, policy: str | None) -> ReleaseRules:
    """The release rules of the project, with its margins and bars. If an assay.yaml sets them, a
    request can't name others: a decision by weaker rules would be stored like any other.
    """
    own = services.settings.release
    project = make_release_rules(services.shelf.policy_of("release", own.policy), own.bars)
    if policy is None:
        return project
    if own.config is None:
        return make_release_rules(services.shelf.policy_of("release", on_shelf(policy)), own.bars)
    check_same(services, "release policy", policy, own.policy, field="policy")
    return project


def _named_rules(body: DecisionRequest | BaselineRequest) -> dict[str, str]:
    """The rules that a request names."""
    rubric = body.rubric if isinstance(body, DecisionRequest) else None
    named = {"profile": body.profile, "rubric": rubric, "policy": body.grading_policy}
    return {kind: value for kind, value in named.items() if value is not None}


def _choice(
    services: Services,
    requested: Mapping[str, str],
    baseline: Evidence,
    candidate: Evidence | None = None,
) -> EvaluationChoice:
    """What both sides are graded by: the rules of the request or of assay.yaml, else those of their
    evaluations.
    """
    with_configured(services, requested)  # refuses what assay.yaml sets otherwise
    choice = rules_for(
        RulesRequest(
            [] if candidate is None else [_graded_side("the candidate", candidate)],
            [_graded_side("the baseline", baseline)],
            requested,
            services.settings.release.graded_by,
            services.settings.policy,
            _FIELDS,
            _RULES,
        )
    )
    return with_additions(services, choice)


def _graded_side(name: str, evidence: Evidence) -> GradedSide:
    stored = evidence.evaluation
    if stored is not None:
        return graded_side(f"{name} {stored.evaluation.name}", stored.evaluation.settings)
    return graded_side(name, baseline_settings(evidence.kept), kept=evidence.kept is not None)


def _side(
    evidence: Evidence,
    author: str,
    grader: Grader,
    drafts: dict[bytes, Draft],
    name: str,
    rules: ReleaseRules | None = None,
) -> KeptSide:
    """One side, and the drafts of what it depends on."""
    basis = grader.basis if isinstance(grader, BasedGrader) else NO_BASIS

    def take(group: list[Draft]) -> None:
        drafts.update((item.digest, item) for item in group)

    return keep_side(
        partial(iter, evidence.documents),
        grader,
        take,
        name=name,
        severe=None if rules is None else severe_of(rules),
        basis=basis,
        author=author,
        stored=evidence.stored,
    )


def read_evidence(
    services: Services,
    project: str,
    side: list[Any] | StoredSide,
    name: str,
    *,
    judged: Collection[VersionedName] = (),
) -> Evidence:
    """The documents of one side of a request; `judged` has the versions that it is compared
    with.
    """
    if isinstance(side, list):
        return _inline(side, name)
    if (keys := sum(value is not None for value in astuple(side))) != 1:
        raise Problem(422, f"must have one key, not {keys}. Expected: {SIDE}.", where=name)
    evaluation: StoredEvaluation | None = None
    kept: Mapping[str, Any] | None = None
    origin = Origin()
    if side.baseline is not None:
        found = lookup.baseline(services, project, side.baseline)
        kept = found.record
        origin = Origin(found.name, digest=found.name, kept=kept, where=name)
        digests = list(kept["evidence_digests"])
    elif side.evaluation is not None:
        evaluation = need_evaluation(
            services.ledger, side.evaluation, project=project, judged=judged, where=name
        )
        origin = origin_of(
            services.ledger,
            ReleaseSide(evaluation_label(services.ledger, evaluation, project=project), evaluation),
            project=project,
        )._replace(named=side.evaluation, where=name)
        digests = [run.digest for run in evaluation.evaluation.runs]
    else:
        digests = side.digests or _filtered(services, project, side.filter or {}, name)
    _check_size(len(digests), name)
    items = [lookup.record(services, project, None, digest) for digest in digests]
    wrong = next(
        (item for item in items if item.kind not in ("run", "scorecard") or item.body is None), None
    )
    if wrong is not None:
        raise Problem(422, f"{wrong.digest} is not a stored run or scorecard.", where=name)
    return Evidence(
        [Document(item.tree(), item.digest) for item in items],
        {item.digest: Body(item.body or b"") for item in items},
        evaluation,
        kept,
        origin,
    )


def _check_size(n: int, name: str) -> None:
    if n > lookup.MAX_SIDE:
        raise Problem(
            422,
            f"a side has at most {lookup.MAX_SIDE:,} records.",
            where=name,
            fix="Narrow the filter, or decide with `assay gate`.",
        )


def _inline(documents: list[Any], name: str) -> Evidence:
    _check_size(len(documents), name)
    return Evidence(
        [bodies.document(tree, at=f"{name}[{index}]") for index, tree in enumerate(documents)], {}
    )


def _filtered(services: Services, project: str, filters: dict[str, Any], name: str) -> list[str]:
    if not filters:
        raise Problem(
            422,
            "the filter is empty.",
            where=f"{name}.filter",
            fix=f"Filter by {', '.join(FILTERS)}.",
        )
    runs = services.ledger.each("run", filters, project=project, at_once=1000)
    digests = [item.digest for item in islice(runs, lookup.MAX_SIDE + 1)]
    _check_size(len(digests), name)  # before any is left out: there may be more than were read
    # A trace whose spans came late has a run for each time it was graded; the last has all spans.
    links = services.ledger.links_of_many(digests, project=project)
    superseded = {link.target for link in links if link.relation == "supersedes"}
    used = [digest for digest in digests if digest not in superseded]
    if not used:
        raise NotEnoughEvidence(
            "REL-003",
            f"the {name} has no runs: nothing matches its filter.",
            where=name,
            fix="Widen the filter.",
        )
    return used


# --- baselines


@router.post(
    "/baselines",
    status_code=201,
    summary="Keep a baseline under a name",
    responses=openapi.POSTED,
    openapi_extra=openapi.body(BaselineRequest),
)
async def post_baseline(
    request: Request, principal: Principal = BASELINE, services: Services = SERVICES
) -> Response:
    """Nothing is overwritten: a name means its newest baseline, and the older ones stay."""
    asked = await bodies.read(request, services.settings, BaselineRequest)
    record, drafts = await services.in_turn(
        principal.project, lambda: _kept(services, principal.project, principal.author, asked)
    )
    stored = await store_last(services, principal.project, drafts)
    kept, rules = kept_baseline(record, "baseline"), _rules(services, None)
    warning = age_warning(kept, rules, now=None, then="Decisions refuse it.")
    warnings = [] if warning is None else [warning]
    return bodies.created(request, stored, "baselines", baseline=record, warnings=warnings)


def _kept(
    services: Services, project: str, author: str, body: BaselineRequest
) -> tuple[dict[str, Any], list[Draft]]:
    check_name(body.name)
    drafts: dict[bytes, Draft] = {}
    evidence = read_evidence(services, project, body.evidence, "evidence")
    choice = _choice(services, _named_rules(body), evidence)
    grader = grader_by(services, project, choice, stored_cards=True)
    kept = _side(evidence, author, grader, drafts, "evidence")
    if not kept.evidence or kept.bare:
        raise Problem(422, "a baseline is made of runs or scorecards.", where="evidence")
    stored = evidence.evaluation
    settings = {} if stored is None or body.profile else stored.evaluation.settings
    made = made_profile(body.name, own_profile(settings), settings.get(MAP))
    now = datetime.now(UTC)
    if stored is not None:  # a new name makes no evaluation newer
        now = min(now, moment_of(stored.evaluation.started, body.name))
    record = baseline_record(body.name, kept, now=now, made=made)
    record = replacing(services.ledger, record, project=project)
    return record, [*drafts.values(), baseline_draft(record, author=author)]
