"""Posted evidence, graded and stored: one document, a list of runs (all or none), or a stream of
lines (the good ones).
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from assay.errors import AssayError, count
from assay.files.json_files import Document
from assay.server import bodies
from assay.server.auth import Principal
from assay.server.grading import DraftedGrade, make
from assay.server.problems import MAX_FAULTS, Problem, problem_of
from assay.server.state import Services
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
