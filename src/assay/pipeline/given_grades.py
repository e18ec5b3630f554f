"""Documents to grades: a run or a scorecard is graded, a given grade is recomputed from its own
numbers and refused if they disagree.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import structs

from assay.errors import Fault, InputError
from assay.files.json_files import Document
from assay.formulas import formula
from assay.pipeline.grading import Graded, Grader
from assay.records.grade import Grade, is_graded
from assay.records.reading import read_scorecard
from assay.records.scorecard import SCORECARD_SCHEMA


def grades_of(document: Document, grader: Grader) -> Iterator[Graded]:
    """The grades of one document: a run or a scorecard is graded, a grade is recomputed from its
    own numbers.
    """
    tree = document.tree
    if not is_graded(tree):
        yield grader.grade(document)
    elif "schema" not in tree:
        yield Graded(again(tree, grader, where=document.file), None)
    else:
        if tree.get("faults"):
            raise _refused(
                document,
                f"the grades were made although {len(tree['faults'])} inputs could not be read;"
                " what they held is not known.",
            )
        if not isinstance(tree.get("results"), list):
            raise _refused(document, "the grades have no results.")
        for result in tree["results"]:
            yield Graded(again(result, grader, where=document.file), None)


def _refused(document: Document, message: str) -> InputError:
    return InputError(
        "REL-008",
        message,
        where=document.file,
        faults=[Fault(message, code="REL-008", file=document.file, line=document.line)],
    )


def again(result: Any, grader: Grader, *, where: str) -> Grade:
    """A grade recomputed from its own result. A result that its numbers don't support is
    refused.
    """
    run_id = result.get("run_id") if isinstance(result, dict) else None
    try:
        card = _card(result, run_id)
        named = (result["grade"], result["weighted_score"], result["passed"], result["policy"])
        said = (named[0], float(named[1]), named[2])
        known = dict(result.get("digests") or {})
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise InputError("REL-008", f"a result of the grades lacks {error}.", where=where) from None
    if named[3] != grader.rules.policy:
        raise InputError(
            "REL-008",
            f"the grade of {run_id!r} was made by {named[3]}, not by {grader.rules.policy}.",
            where=where,
            fix="Name that grading policy.",
        )
    scorecard = read_scorecard(Document(card, where))
    scorecard = grader.required(
        structs.replace(
            scorecard, digests={key: known[key] for key in ("profile", "rubric") if key in known}
        )
    )
    for name, now in scorecard.digests.items():
        if name.startswith("plugin:") and known.get(name) != now:
            raise InputError(
                "REL-008",
                f"the grade of {run_id!r} was made with another version of"
                f" '{name.partition('/')[2]}' than the one that is installed.",
                where=where,
                fix="Grade its runs again.",
            )
    made = grader.grade_card(scorecard)
    if (made.grade, made.weighted_score, made.passed) != said:
        recomputed = f"recomputed {made.grade}, {made.weighted_score}"
        raise InputError(
            "REL-008",
            f"the grade of {run_id!r} does not follow from its own numbers: {named[:3]},"
            f" {recomputed}.",
            where=where,
        )
    return made


def _card(result: Mapping[str, Any], run_id: Any) -> dict[str, Any]:
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
        **{
            key: result[key]
            for key in ("workflow", "dataset", "status", "judge", "scoringSystem")
            if result.get(key) is not None
        },
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


_KEPT = (
    "name",
    "raw_score",
    "formula_id",
    "weight",
    "params",
    "role",
    "layer",
    "n",
    "label",
    "missing",
    "source",
    "disagreement",
)


def _criterion(item: Mapping[str, Any]) -> dict[str, Any]:
    formula(item["formula_id"])
    found: dict[str, Any] = {key: item[key] for key in _KEPT if item.get(key) is not None}
    found.setdefault("raw_score", None)
    floor = item.get("critical_floor")
    if floor is not None and floor.get("from") == "criterion":
        found["critical_floor"] = {"norm": floor["norm"]}
    elif floor is not None and floor.get("from") == "override":
        found["floor_override"] = {"value": {"norm": floor["norm"]}, "reason": "as the grades say"}
    return found
