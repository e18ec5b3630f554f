"""Two sides of a decision for tests: scorecards or runs, and the whole way from them to a decision
without a command line.
"""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from assay.files.json_files import Document
from assay.library.shelf import Shelf
from assay.records.decision import Decision, RuleResult
from assay.release.policy import Bars, ReleaseRules, make_release_rules
from assay.release.sides import Side
from assay.services.compare import Asked, FreshRuns, compare
from assay.services.grading import Grader
from assay.services.sides import Rereadable, severe_of, side_of
from documents import scorecard

GRADER = Grader(Shelf())
POLICY = Shelf().policy_of("release", "release")
RULES: ReleaseRules = make_release_rules(POLICY)
STRICT: ReleaseRules = make_release_rules(Shelf().policy_of("release", "release-strict"))
LENIENT: ReleaseRules = make_release_rules(Shelf().policy_of("release", "regression"))
SHRINKAGE = GRADER.rules.shrinkage
GATES = {"no_policy_violation": True, "looks_right": True}


def policy(**changes: Any) -> ReleaseRules:
    """The rules of `release@1` with other numbers."""
    return make_release_rules(replace(POLICY, **changes))


DETERMINISTIC = policy(deterministic=True)
NEVER = policy(confirm="never")


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
    made: dict[str, Any] = scorecard(
        *criteria,
        **{
            "run_id": f"r-{sample}",
            "sample_id": f"s-{sample}",
            "hard_gates": dict(GATES),
            **changes,
        },
    )
    return made


def cards(scores: Sequence[float], **changes: Any) -> list[dict[str, Any]]:
    """One scorecard for each score, with samples that are numbered."""
    return [card(f"{index:04}", score, **changes) for index, score in enumerate(scores)]


def failing(
    places: set[int], scores: Sequence[float], gate: str = "looks_right"
) -> list[dict[str, Any]]:
    """Scorecards of which these fail a gate."""
    made = cards(scores)
    for place in places:
        made[place]["hard_gates"][gate] = False
    return made


def again(
    document: dict[str, Any], times: int, *, name: str = "fresh", **changes: Any
) -> list[dict[str, Any]]:
    """Fresh runs of a scorecard: its numbered attempts, under other ids."""
    return [
        {
            **document,
            "run_id": f"{name}-{document['run_id']}-{attempt}",
            "attempt": attempt,
            **changes,
        }
        for attempt in range(1, times + 1)
    ]


def read(
    documents: list[dict[str, Any]],
    name: str = "side",
    *,
    rules: ReleaseRules = RULES,
    grader: Grader = GRADER,
) -> Rereadable:
    """A side from documents, which can be read again."""
    listed = [Document(document, name) for document in documents]
    side = side_of(listed, grader, name=name, severe=severe_of(rules))
    return Rereadable(side, lambda: listed)


def side(documents: list[dict[str, Any]], name: str = "side") -> Side:
    """A side from documents, graded by the default policy."""
    return read(documents, name).side


def decide(
    candidate: list[dict[str, Any]],
    baseline: list[dict[str, Any]],
    *,
    rules: ReleaseRules = RULES,
    bars: Bars | None = None,
    grader: Grader = GRADER,
    fresh: tuple[list[dict[str, Any]], list[dict[str, Any]]] | None = None,
    **asked: Any,
) -> Decision:
    """What `compare` decides. `fresh` are fresh runs of the candidate and of the baseline."""
    if bars is not None:
        rules = make_release_rules(POLICY, bars)
    made = [
        read(documents, f"fresh {name}", rules=rules, grader=grader) if documents else None
        for name, documents in zip(("candidate", "baseline"), fresh or ([], []), strict=True)
    ]
    return compare(
        read(candidate, "candidate", rules=rules, grader=grader),
        read(baseline, "baseline", rules=rules, grader=grader),
        rules,
        grader,
        Asked(fresh=FreshRuns(*made), **asked),
    )


def rule(decision: Decision, name: str) -> RuleResult:
    """One rule of a decision."""
    return next(one for one in decision.rules if one.id == name)


def verdict(found: RuleResult) -> str:
    """`holds`, `violated` or `open`."""
    return "violated" if found.violated else "holds" if found.holds else "open"


def verdicts(decision: Decision) -> dict[str, str]:
    """The verdict of each rule."""
    return {found.id: verdict(found) for found in decision.rules}


def write(path: Path, documents: list[dict[str, Any]]) -> Path:
    """Documents as a .jsonl file."""
    path.write_text("".join(json.dumps(document, default=float) + "\n" for document in documents))
    return path
