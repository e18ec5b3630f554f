"""Turn documents into grades: grade runs and scorecards, and recompute given grades, which are
refused if their numbers disagree.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from assay.errors import EvidenceError, Fault, InputError, count
from assay.files.json_files import Document
from assay.formulas import formula
from assay.records.grade import Grade, is_graded
from assay.records.reading import read_scorecard
from assay.records.scorecard import SCORECARD_SCHEMA
from assay.services.grading import Graded, Grader, located


def grades_of(document: Document, grader: Grader) -> Iterator[Graded]:
    """The grades of one document: of a run or a scorecard, or those of a document of grades,
    recomputed.
    """
    tree = document.tree
    if not is_graded(tree):
        yield grader.grade(document)
    elif "schema" not in tree:
        yield Graded(recompute(tree, grader, where=document.file), None)
    else:
        results, faults = tree.get("results"), tree.get("faults") or []
        if not isinstance(results, list) or not isinstance(faults, list):
            raise _refused(document, "`results` and `faults` of the grades must be lists.")
        if faults:
            first = faults[0] if isinstance(faults[0], dict) else {}
            example = f"{first.get('file')}: {first.get('message')}"
            raise _refused(
                document,
                f"the grades are incomplete: {count(len(faults), 'input')} could not be graded,"
                f" such as {example[:300]}",
            )
        for result in results:
            yield Graded(recompute(result, grader, where=document.file), None)


def _refused(document: Document, message: str) -> InputError:
    return InputError(
        "REL-008",
        message,
        where=document.file,
        faults=[Fault(message, code="REL-008", file=document.file, line=document.line)],
    )


def recompute(result: Any, grader: Grader, *, where: str) -> Grade:
    """A grade recomputed from its result. Raises an error if the result states another grade."""
    run_id = result.get("run_id") if isinstance(result, dict) else None
    try:
        digests = dict(result.get("digests") or {})
        document = Document(_card(result, run_id, digests), where)
        named = (result["grade"], result["weighted_score"], result["passed"])
        stated = (named[0], float(named[1]), named[2])
        policy = result["policy"]
    except KeyError as error:
        raise InputError("REL-008", f"a result of the grades lacks {error}.", where=where) from None
    except (TypeError, AttributeError, ValueError, OverflowError) as error:
        raise InputError(
            "REL-008", f"a result of the grades is malformed: {error}.", where=where
        ) from None
    if policy != grader.rules.policy:
        raise InputError(
            "REL-008",
            f"the grade of {run_id!r} was made by {policy}, not by {grader.rules.policy}.",
            where=where,
            fix="Pass that policy with --policy; `assay gate` calls it --grading-policy.",
        )
    try:
        scorecard = grader.required(read_scorecard(document))
        for name, now in scorecard.digests.items():
            if name.startswith("plugin:") and digests.get(name) != now:
                raise InputError(
                    "REL-008",
                    f"the grade of {run_id!r} was made with another version of"
                    f" '{name.partition('/')[2]}' than the one that is installed.",
                    where=where,
                    fix="Grade its runs again.",
                )
        grade = grader.grade_card(scorecard)
    except EvidenceError as error:
        raise located(error, document) from None
    if (grade.grade, grade.weighted_score, grade.passed) != stated:
        raise InputError(
            "REL-008",
            f"the grade of {run_id!r} does not follow from its own numbers: {named},"
            f" recomputed {grade.grade}, {grade.weighted_score}.",
            where=where,
        )
    return grade


def _card(result: Mapping[str, Any], run_id: Any, digests: Mapping[str, Any]) -> dict[str, Any]:
    card = {
        "schema": SCORECARD_SCHEMA,
        "run_id": run_id,
        "hard_gates": {
            name: {"pass": True, "fail": False}.get(gate["status"])
            for name, gate in result["hard_gates"].items()
        },
        "gate_reasons": {
            name: gate["reason"]
            for name, gate in result["hard_gates"].items()
            if isinstance(gate.get("reason"), str)
        },
        "criteria": [_criterion(item) for item in result["criteria"]],
        "pass_threshold": result["pass_threshold"],
        "sample_id": result.get("sample_id"),
        "group": result.get("group"),
        "tags": result.get("tags") or [],
        "digests": {key: digests[key] for key in ("profile", "rubric") if key in digests},
        **{key: result[key] for key in _CARRIED if result.get(key) is not None},
        **(
            {key: result["operations"].get(key) for key in ("latency_ms", "cost_usd")}
            if result.get("operations")
            else {}
        ),
    }
    for kind in ("profile", "rubric"):
        if result.get(kind):
            card[kind] = {"id": result[kind], "why": "as the grades say"}
    return card


_CARRIED = ("workflow", "dataset", "status", "attempt", "attempts", "judge", "scoringSystem")
_KEPT = (
    *("name", "raw_score", "formula_id", "weight", "params", "role", "layer", "n", "label"),
    *("missing", "source", "disagreement"),
)


def _criterion(item: Mapping[str, Any]) -> dict[str, Any]:
    formula(item["formula_id"])
    criterion: dict[str, Any] = {key: item[key] for key in _KEPT if item.get(key) is not None}
    criterion.setdefault("raw_score", None)
    floor = item.get("critical_floor")
    if floor is not None and floor.get("from") == "criterion":
        criterion["critical_floor"] = {"norm": floor["norm"]}
    elif floor is not None and floor.get("from") == "override":
        value = {"norm": floor["norm"]}
        criterion["floor_override"] = {"value": value, "reason": "as the grades say"}
    return criterion
