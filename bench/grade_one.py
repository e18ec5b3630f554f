"""Grading one scorecard in-process, exact and with findings, against a plain function that does the
same sums in floats.
"""

from __future__ import annotations

import sys
from typing import Any

import msgspec
from timing import functions, table

import assay
from assay.records.scorecard import Scorecard

CARD = {
    "schema": "assay.scorecard/1",
    "run_id": "r-1",
    "hard_gates": dict.fromkeys(
        ("outputs", "status", "steps", "schema", "dataset", "policy"), True
    ),
    "criteria": [
        {
            "name": "correctness",
            "raw_score": 4,
            "formula_id": "likert_1_5",
            "weight": 0.35,
            "critical_floor": {"norm": 0.7},
        },
        {"name": "completeness", "raw_score": 5, "formula_id": "likert_1_5", "weight": 0.25},
        {"name": "precision", "raw_score": 0.91, "formula_id": "zero_one", "weight": 0.2},
        {"name": "documentation", "raw_score": 1, "formula_id": "likert_neg2_2", "weight": 0.1},
        {
            "name": "efficiency",
            "raw_score": 12.5,
            "formula_id": "lower_is_better",
            "params": {"slo_good": 8, "slo_bad": 30},
            "weight": 0.1,
        },
    ],
}


def plain(card: dict[str, Any]) -> dict[str, Any]:
    """The same sums in floats: what a team would write by hand."""
    failures = [name for name, passed in card["hard_gates"].items() if not passed]
    total = weights = 0.0
    criteria, floors = [], []
    for criterion in card["criteria"]:
        raw, formula = criterion["raw_score"], criterion["formula_id"]
        if formula == "likert_1_5":
            norm = (raw - 1) / 4
        elif formula == "likert_neg2_2":
            norm = (raw + 2) / 4
        elif formula == "lower_is_better":
            good, bad = criterion["params"]["slo_good"], criterion["params"]["slo_bad"]
            norm = min(1.0, max(0.0, (bad - raw) / (bad - good)))
        else:
            norm = min(1.0, max(0.0, raw))
        floor = criterion.get("critical_floor")
        failed = floor is not None and norm < floor["norm"]
        if failed:
            floors.append(criterion["name"])
        total += criterion["weight"] * norm
        weights += criterion["weight"]
        criteria.append(
            {
                "name": criterion["name"],
                "norm": norm,
                "adjusted_norm": (norm + 10) / 21,
                "weight": criterion["weight"],
                "floor_failed": failed,
            }
        )
    score = round(100 * total / weights, 2)
    letter = (
        "A"
        if score >= 90
        else "B"
        if score >= 80
        else "C"
        if score >= 70
        else "D"
        if score >= 60
        else "F"
    )
    grade = "F" if failures else "D" if floors and letter in "ABC" else letter
    passed = not failures and not floors and score >= 70
    return {
        "run_id": card["run_id"],
        "grade": grade,
        "provisional_grade": letter,
        "passed": passed,
        "weighted_score": score,
        "criteria": criteria,
        "hard_gate_failures": failures,
        "floor_failures": floors,
        "findings": [
            f"{len(failures)} gates failed",
            f"{len(floors)} floors missed",
            "score reaches the threshold" if score >= 70 else "score below",
        ],
    }


def main() -> bool:
    record = msgspec.convert(CARD, Scorecard)
    assert assay.grade(record).weighted_score == plain(CARD)["weighted_score"]
    times = functions(
        {
            "plain floats": lambda: plain(CARD),
            "assay.grade(record)": lambda: assay.grade(record),
            "assay.grade(dict)": lambda: assay.grade(CARD),
        },
        calls=2000,
        rounds=15,
    )
    print(f"\nassay.grade(record): {1 / times['assay.grade(record)']:,.0f} a second")
    return table(
        "One scorecard, 5 criteria, 6 gates",
        times,
        base="plain floats",
        limits={"assay.grade(record)": 5.0},
        unit="us",
    )


if __name__ == "__main__":
    sys.exit(0 if main() else 1)
