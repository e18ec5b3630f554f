"""Posted evidence, graded and stored: one document, a list of runs (all or none), or a stream of
lines (the good ones).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from assay.canon import digest
from assay.errors import AssayError, InputError, ShelfError, count
from assay.files.json_files import Document
from assay.records.evidence import Workflow
from assay.scoring.extension import extended
from assay.scoring.profile import load_profile
from assay.server import bodies
from assay.server.auth import Principal
from assay.server.grading import BasedGrader, DraftedGrade, make
from assay.server.problems import MAX_FAULTS, Problem, problem_of
from assay.server.state import Services, check_name
from assay.services.evaluation_choice import OWN, EvaluationChoice, covers
from assay.services.grading import Grader

BRIEF = ("run_id", "grade", "passed", "weighted_score", "hard_gate_failures")
"""The fields of each grade in the answer to a stream of lines."""
BLOCK = 128
"""Lines that are graded and stored together."""
MAX_LIST = 5000
TURN = 32
"""How many runs are graded before other requests have their turn."""
MAX_INVALID = 1000
"""How many invalid lines a stream may have: the rest is not read."""
_ONE = "Send at least one run."


async def post_one(
    request: Request,
    services: Services,
    principal: Principal,
    grader: Grader,
    data: bytes,
    *,
    kind: str,
    address: str,
) -> Response:
    """Grade and store one document."""
    graded = await services.graded(
        principal.project, data, lambda: _made(bodies.parsed(data), grader, principal, kind)
    )
    result = (await services.store(principal.project, [graded]))[0].result(address=address)
    return bodies.answer(
        request,
        result,
        status=201 if result["new"] else 200,
        headers={"Location": result["location"]},
    )


def _made(
    tree: Any, grader: Grader, principal: Principal, kind: str, *, at: str = ""
) -> DraftedGrade:
    if isinstance(tree, dict) and tree.get("schema") not in (None, kind):
        raise Problem(
            422,
            f"can't read the schema {str(tree['schema'])[:80]!r} here.",
            code="FIL-006",
            where="schema",
            fix=f'Write "schema": "{kind}".',
        )
    made = make(bodies.document(tree, at=at), grader, author=principal.author)
    # The garbage collector goes through all that waits for the disk, again and again.
    return made._replace(payload={key: made.payload[key] for key in BRIEF})


async def post_list(
    request: Request, services: Services, principal: Principal, grader: Grader, trees: list[Any]
) -> Response:
    """Grade and store a list of runs, all of them or none."""
    if not trees:
        raise Problem(422, "the list is empty.", code="FIL-005", where="body", fix=_ONE)
    if len(trees) > MAX_LIST:
        raise Problem(
            413,
            f"the list has {len(trees):,} runs; the limit is {MAX_LIST:,}.",
            fix="Send lines (application/x-ndjson).",
        )
    graded, faults = [], []
    for index, tree in enumerate(trees):
        try:
            graded.append(
                await services.at_once(
                    principal.project,
                    partial(_made, tree, grader, principal, "assay.run/1", at=f"[{index}]"),
                )
            )
        except (AssayError, Problem) as error:
            faults.append((index, problem_of(error)))
        if index % TURN == TURN - 1:
            await asyncio.sleep(0)
    if faults:
        index, first = faults[0]
        listed = [
            fault
            for _, problem in faults
            for fault in (
                problem.faults or [{"path": "", "message": problem.detail, "code": problem.code}]
            )
        ]
        raise Problem(
            422,
            f"{len(faults)} of {len(trees)} runs are invalid, so none was stored: {first.detail}",
            code=first.code,
            where=f"[{index}]",
            fix=first.fix,
            faults=listed,
        )
    results = [kept.result() for kept in await services.store(principal.project, graded)]
    new = sum(result["new"] for result in results)
    counts = {"received": len(trees), "stored": len(results), "new": new, "faults": 0}
    return bodies.answer(
        request, {"results": results, "faults": [], "counts": counts}, status=201 if new else 200
    )


async def post_lines(
    request: Request, services: Services, principal: Principal, grader: Grader
) -> Response:
    """Grade and store a stream of lines, block by block as it arrives. Valid lines are kept; if any
    is invalid, the answer is a 422 that lists the faults.
    """
    results: list[dict[str, Any]] = []
    faults: list[dict[str, Any]] = []
    block: list[tuple[int, DraftedGrade]] = []
    found, invalid = 0, 0

    async def flush() -> None:
        kept = await services.store(principal.project, [graded for _, graded in block])
        for (line, graded), stored in zip(block, kept, strict=True):
            results.append(
                {
                    "line": line,
                    "digest": stored.evidence.digest,
                    "grade_digest": stored.grade.digest,
                    "new": stored.evidence.new,
                    **{key: graded.payload[key] for key in BRIEF},
                }
            )
        block.clear()

    async for number, line in bodies.lines(request, services.settings):
        try:
            work = partial(_of_line, line, number, grader, principal)
            block.append((number, await services.graded(principal.project, line, work)))
        except (AssayError, Problem) as error:
            listed = _listed(problem_of(error), number)
            found, invalid = found + len(listed), invalid + 1
            faults += listed[: MAX_FAULTS - len(faults)]
        if invalid > MAX_INVALID:
            break
        if len(block) >= BLOCK:
            await flush()
        if number % TURN == 0:
            await asyncio.sleep(0)
    if block:
        await flush()
    new = sum(result["new"] for result in results)
    counts = {
        "received": len(results) + invalid,
        "stored": len(results),
        "new": new,
        "faults": found,
    }
    if faults or not results:
        words = (
            f"{count(found, 'fault')}; {count(len(results), 'line')} stored."
            if faults
            else "the body has no lines."
        )
        rest = f"The lines after the {MAX_INVALID:,} invalid ones were not read."
        raise Problem(
            422,
            words,
            code=str(faults[0]["code"]) if faults else "FIL-005",
            where="body",
            fix=_ONE if not faults else rest if invalid > MAX_INVALID else "",
            faults=faults,
            extra={"counts": counts, "results": results},
        )
    return bodies.answer(
        request, {"results": results, "faults": [], "counts": counts}, status=201 if new else 200
    )


def _of_line(line: bytes, number: int, grader: Grader, principal: Principal) -> DraftedGrade:
    tree = bodies.parsed(line, line=number)
    if isinstance(tree, dict) and tree.get("schema") == "assay.scorecard/1":
        raise Problem(422, "this is a scorecard, not a run.", code="FIL-006")
    return make(Document(tree, "body", number), grader, author=principal.author)


def _listed(problem: Problem, line: int) -> list[dict[str, Any]]:
    """The faults of one line."""
    alone = {"line": line, "message": problem.detail, "code": problem.code}
    return [dict(fault) for fault in problem.faults or [alone]]


_KINDS = {"profile": "profiles", "rubric": "rubrics", "policy": "policies"}


def grader_of(
    services: Services, project: str, named: Mapping[str, str | None] = MappingProxyType({})
) -> BasedGrader:
    """The grader of evidence that arrives: by assay.yaml, else by what the request names, else by
    what each run names.
    """
    return services.grader(project, **_rules(services, named))


def _rules(services: Services, named: Mapping[str, str | None]) -> dict[str, Any]:
    rules = with_configured(services, named, policy="policy")
    own = services.settings.release
    # required of every run, even of one that was made without the scorers
    if own.scorers and any(own.additions):
        if own.extended is None:
            raise InputError(
                "CFG-001",
                "scorers are declared, but no profile to add them to.",
                where=own.source,
                fix="Add `profile:` to assay.yaml.",
            )
        rules["profile"] = own.extended
    return rules


def own_profile(services: Services) -> dict[str, Any]:
    """The profile of assay.yaml, as an evaluation keeps it to be replayed and compared, if no shelf
    has it: with what scorers add, or a file of the project.
    """
    own = services.settings.release
    if own.extended is not None:
        profile = services.shelf.load("profiles", own.extended)
        return {"own_profile": {"profile": profile, "rubric": own.rubric}}
    if own.profile is None:
        return {}
    shelf, profile = services.shelf, services.shelf.load("profiles", own.profile)
    on_it = any(entry.id == profile.id for entry in shelf.entries("profiles"))
    return {} if on_it else {"project_profile": profile}


def check_rules(accepted: Mapping[str, Any], rules: str) -> None:
    """Refuse to continue an execution under other rules than those it was accepted with."""
    if rules != accepted.get("rules", rules):
        raise InputError(
            "RUN-005",
            "the profile, rubric or policy is not the one that this execution was accepted with:"
            " its runs would be graded by two sets of rules.",
            fix="Ask for a new execution, or restore the rules.",
        )


def rules_digest(grader: BasedGrader, workflow: Workflow) -> str:
    """The profile, rubric and policy that grade the runs of a workflow, as one digest."""
    return digest({**grader.plan_for(workflow).plan.digests, "policy": grader.rules.digest})


def grader_by(
    services: Services, project: str, choice: EvaluationChoice, *, stored_cards: bool
) -> BasedGrader:
    """The grader of the sides of a comparison."""
    return services.grader(
        project,
        policy=choice.policy,
        profile=None if choice.own is not None else choice.profile,
        rubric=choice.rubric,
        own=choice.own,
        stored_cards=stored_cards,
    )


def with_configured(
    services: Services, named: Mapping[str, str | None], *, policy: str = "grading_policy"
) -> dict[str, Any]:
    """The rules that a request names, completed from assay.yaml. A request can't deviate from the
    file: it would set its own bar. `policy` is the field that names the policy.
    """
    own = services.settings.release
    given = {kind: name for kind, name in named.items() if name is not None}
    for kind, name in given.items():
        wanted = own.graded_by.get(kind)
        if kind == "policy" and own.config is not None:
            wanted = own.grading_policy  # the default if the file names none
        # a rubric replaces weights and floors of the profile
        fixed = wanted is not None or (kind == "rubric" and own.profile is not None)
        if not fixed or name == wanted:
            continue
        field = policy if kind == "policy" else kind
        if wanted is None:
            profile = services.shelf.load("profiles", str(own.profile)).id
            raise Problem(
                422,
                f"{own.source} sets the profile {profile!r} without a rubric.",
                where=field,
                fix=f"Leave `{field}` out.",
            )
        check_same(services, kind, name, wanted, field=field)
    return {**given, **own.graded_by}


def check_same(services: Services, what: str, name: str, wanted: str, *, field: str) -> None:
    """Refuse a name in a request that doesn't mean the rules of assay.yaml. Those may be a file or
    a part of assay.yaml: then the shelf doesn't have the name that results show.
    """
    kind = _KINDS[what.split()[-1]]
    own = services.shelf.load(kind, wanted)
    try:
        is_same = services.shelf.load(kind, check_name(name)) == own
    except ShelfError as error:
        is_same = name in (own.id, own.id.partition("@")[0])
        if error.code != "LIB-001" or not is_same:
            raise
    if not is_same:
        source = services.settings.release.source
        raise Problem(
            422,
            f"the {what} of {source} is {own.id!r}, not {name[:80]!r}.",
            where=field,
            fix=f"Leave `{field}` out.",
        )


def with_additions(services: Services, choice: EvaluationChoice) -> EvaluationChoice:
    """The choice with what the scorers of assay.yaml require of every run. Refuses a profile that
    evaluations bring with them if it requires less than the file's.
    """
    own = services.settings.release
    if choice.own is None and own.extended is not None:  # by this, evidence that arrives is graded
        return choice._replace(profile=own.extended)
    needs_profile = choice.own is not None and own.profile is not None
    if choice.made is not None or not (any(own.additions) or needs_profile):
        return choice
    profile = (
        load_profile(Document(dict(choice.own), OWN))
        if choice.own is not None
        else None
        if choice.profile is None
        else services.shelf.profile(choice.profile)
    )
    if profile is not None and needs_profile and own.profile is not None:
        wanted = extended(services.shelf.profile(own.profile), own.additions)
        # another criterion with a weight would dilute those of the file
        if not covers(profile, wanted) or len(profile.criteria) > len(wanted.criteria):
            raise InputError(
                "REL-002",
                f"these evaluations bring the profile {profile.id}, which doesn't have the gates,"
                f" criteria and terms for judges of {wanted.id}, the profile of {own.source}.",
                fix=f"Declare scorers that have a weight in {own.source}, not in a workflow file,"
                " and run both versions again with `assay run`.",
            )
    if profile is None or extended(profile, own.additions) != profile:
        raise InputError(
            "REL-002",
            f"{own.source} declares scorers or gates that these evaluations were made without.",
            fix="Run both versions again with `assay run`.",
        )
    return choice
