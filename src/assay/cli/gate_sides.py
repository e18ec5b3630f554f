"""Reading the two sides of a decision: runs, scorecards, grades, or a stored baseline."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from msgspec import structs

from assay.canon import digest
from assay.errors import Fault, InputError, NotEnoughEvidence
from assay.files import Document, Unread, stream_documents
from assay.formulas import formula
from assay.pipeline import Graded
from assay.records.digests import run_digest, scorecard_digest
from assay.records.grade import GRADES_SCHEMA
from assay.records.scorecard import SCORECARD_SCHEMA
from assay.release.sides import Side, SideBuilder
from assay.release.summary import Summary

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from assay.pipeline import Grader
    from assay.records.grade import Grade
    from assay.release.policy import ReleaseRules

MAX_FAULTS = 20


def read_side(paths: Sequence[str], grader: Grader, *, name: str) -> Side:
    """One side of a comparison, from its files. A line that cannot be read stops everything: what it held is not known."""
    builder, summary = SideBuilder(name), Summary()
    faults: list[Fault] = []
    count = 0
    for path in paths:
        for document in stream_documents(path):
            if isinstance(document, Unread):
                faults.append(document.fault)
                continue
            try:
                for graded in _graded(document, grader):
                    run = graded.run
                    one = graded.grade
                    builder.add(
                        one, attempt=run.attempt if run is not None else None, digest=run_digest(run) if run is not None else scorecard_digest(one.scorecard)
                    )
                    summary.add(one)
                    count += 1
            except InputError as error:
                if getattr(error, "of_shelf", False) or error.code.startswith(("LIB-", "REL-")):
                    raise
                faults += error.faults or [Fault(error.message, code=error.code, file=document.file, line=document.line)]
            if len(faults) >= MAX_FAULTS:
                break
    if faults:
        raise InputError(faults[0].code, faults[0].message, where=faults[0].file, faults=faults[:MAX_FAULTS])
    if not count:
        raise NotEnoughEvidence("REL-003", f"the {name} holds no runs.", where=", ".join(paths))
    return builder.side(summary.shown())


def _graded(document: Document, grader: Grader) -> Iterator[Graded]:
    tree = document.tree
    if isinstance(tree, dict) and tree.get("schema") == GRADES_SCHEMA:
        results = tree.get("results")
        if tree.get("faults"):
            raise _refused(document, f"the grades were made although {len(tree['faults'])} inputs could not be read; what they held is not known.")
        if not isinstance(results, list):
            raise _refused(document, "the grades have no results.")
        for result in results:
            yield Graded(again(result, grader, where=document.file), None)
    elif isinstance(tree, dict) and "schema" not in tree and "hard_gates" in tree and "grade" in tree:
        yield Graded(again(tree, grader, where=document.file), None)  # a line of `-o grades.jsonl`
    else:
        yield grader.grade(document)


def _refused(document: Document, message: str) -> InputError:
    return InputError("REL-008", message, where=document.file, faults=[Fault(message, code="REL-008", file=document.file, line=document.line)])


def again(result: Any, grader: Grader, *, where: str) -> Grade:
    """A grade made again from its own result. A result that its numbers do not bear out is refused."""
    run_id = result.get("run_id") if isinstance(result, dict) else None
    try:
        card = {
            "schema": SCORECARD_SCHEMA,
            "run_id": run_id,
            "hard_gates": {name: {"pass": True, "fail": False}.get(gate["status"]) for name, gate in result["hard_gates"].items()},
            "criteria": [_criterion(item) for item in result["criteria"]],
            "pass_threshold": result["pass_threshold"],
            "sample_id": result.get("sample_id"),
            "group": result.get("group"),
            "tags": result.get("tags") or [],
            **{key: result[key] for key in ("workflow", "dataset", "status", "judge", "scoringSystem") if result.get(key) is not None},
            **({"latency_ms": result["operations"].get("latency_ms"), "cost_usd": result["operations"].get("cost_usd")} if result.get("operations") else {}),
        }
        for kind in ("profile", "rubric"):
            if result.get(kind):
                card[kind] = {"id": result[kind], "why": "as the grades say"}
        named = (result["grade"], result["weighted_score"], result["passed"], result["policy"])
        known = result.get("digests") or {}
    except (KeyError, TypeError, AttributeError) as error:
        raise InputError("REL-008", f"a result of the grades lacks {error}.", where=where) from None
    if named[3] != grader.rules.policy:
        raise InputError(
            "REL-008", f"the grade of {run_id!r} was made by {named[3]}, not by {grader.rules.policy}.", where=where, fix=f"Say --grading-policy {named[3]}."
        )
    from assay.grading.grade import grade
    from assay.records.reading import read_scorecard

    scorecard = read_scorecard(Document(card, where))
    scorecard = structs.replace(scorecard, digests={key: known[key] for key in ("profile", "rubric") if key in known})
    made = grade(scorecard, grader.rules, judges=grader.judges)
    if (made.grade, made.weighted_score, made.passed) != (named[0], float(named[1]), named[2]):
        raise InputError(
            "REL-008",
            f"the grade of {run_id!r} does not follow from its own numbers: {named[:3]}, recomputed {made.grade}, {made.weighted_score}.",
            where=where,
        )
    return made


def _criterion(item: dict[str, Any]) -> dict[str, Any]:
    formula(item["formula_id"])
    found = {
        key: item[key] for key in ("name", "raw_score", "formula_id", "weight", "params", "role", "layer", "n", "label", "missing") if item.get(key) is not None
    }
    found.setdefault("raw_score", None)
    floor = item.get("critical_floor")
    if floor is not None and floor.get("from") == "criterion":
        found["critical_floor"] = {"norm": floor["norm"]}
    elif floor is not None and floor.get("from") == "override":
        found["floor_override"] = {"value": {"norm": floor["norm"]}, "reason": "as the grades say"}
    return found


def read_baseline(paths: Sequence[str], grader: Grader, *, folder: str, rules: ReleaseRules, now: datetime | None) -> Side:
    """The baseline: files, or the name of a stored one."""
    if len(paths) == 1 and not os.path.exists(paths[0]) and not paths[0].endswith((".json", ".jsonl", ".ndjson")):
        from assay.release.baseline import check_age, find

        stored = find(folder, paths[0])
        check_age(stored, rules, now=now)
        return read_side([stored.path], grader, name=f"baseline {stored.name}")
    return read_side(paths, grader, name="baseline")


def content_digest(paths: Sequence[str]) -> str:
    """What a set of files holds."""
    from assay.release.attestation import file_digest

    return digest(sorted(file_digest(path) for path in paths))
