"""Two sides of a decision for tests: scorecards or runs, and the whole way from them to a promotion
without a command line.
"""

from __future__ import annotations

import json
import random
from decimal import Decimal
from pathlib import Path
from typing import Any

from assay.files.json_files import Document
from assay.library.shelf import Shelf
from assay.pipeline.grading import Grader
from assay.release.pairs import pair_up
from assay.release.policy import ReleaseRules, make_release_rules
from assay.release.promotion import Promotion, promote
from assay.release.sides import Side, SideBuilder
from documents import scorecard

GRADER = Grader(Shelf())
RULES: ReleaseRules = make_release_rules(Shelf().policy_of("release", "release"))
STRICT: ReleaseRules = make_release_rules(Shelf().policy_of("release", "release-strict"))
SHRINKAGE = GRADER.rules.shrinkage
GATES = {"no_policy_violation": True, "looks_right": True}


def drawn(n: int, *, seed: int = 1, low: float = 70, high: float = 95) -> list[float]:
    """Scores of n samples, in hundredths."""
    found = random.Random(seed)
    return [round(found.uniform(low, high), 2) for _ in range(n)]


def card(sample: object, score: float | str, **changes: Any) -> dict[str, Any]:
    """A scorecard of one sample with this score on 0..100. `floor` gives its criterion a critical
    floor, `role` a role.
    """
    floor, role, other = (
        changes.pop("floor", None),
        changes.pop("role", None),
        changes.pop("other", None),
    )
    criterion: dict[str, Any] = {"norm": Decimal(str(score)) / 100}
    if floor is not None:
        criterion["critical_floor"] = {"norm": Decimal(str(floor))}
    if role is not None:
        criterion["role"] = role
    criteria = [criterion] if other is None else [criterion, other]
    return scorecard(
        *criteria,
        **{
            "run_id": f"r-{sample}",
            "sample_id": f"s-{sample}",
            "hard_gates": dict(GATES),
            **changes,
        },
    )


def cards(scores: list[float], **changes: Any) -> list[dict[str, Any]]:
    """One scorecard for each score, with samples that are numbered."""
    return [card(f"{index:04}", score, **changes) for index, score in enumerate(scores)]


def side(documents: list[dict[str, Any]], name: str = "side") -> Side:
    """A side from documents, graded by the default policy."""
    builder = SideBuilder(name)
    for index, document in enumerate(documents):
        graded = GRADER.grade(Document(document, name))
        builder.add(
            graded.grade,
            attempt=graded.run.attempt if graded.run is not None else None,
            digest=f"{index}",
            content=f"{name} {index}",
        )
    return builder.side({})


def decide(
    candidate: list[dict[str, Any]],
    baseline: list[dict[str, Any]],
    *,
    rules: ReleaseRules = RULES,
    planned: list[str] | None = None,
    **options: Any,
) -> Promotion:
    """Pair and promote."""
    return promote(
        pair_up(side(candidate, "candidate"), side(baseline, "baseline"), planned=planned),
        rules,
        shrinkage=SHRINKAGE,
        **options,
    )


def rule(promotion: Promotion, name: str) -> Any:
    """One rule of a promotion."""
    return next(one for one in promotion.rules if one.id == name)


def write(path: Path, documents: list[dict[str, Any]]) -> Path:
    """Documents as a .jsonl file."""
    path.write_text("".join(json.dumps(document, default=float) + "\n" for document in documents))
    return path
