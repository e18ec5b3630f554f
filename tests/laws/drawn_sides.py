"""Random sides of scorecards, with repeats, gaps and noise, for the laws of a decision."""

from __future__ import annotations

import copy
import random
from typing import Any

from assay.release.policy import ReleaseRules
from sides import POLICY, policy

GATES = ("no_policy_violation", "looks_right", "third")
SEVERE = GATES[0]
ORDER = {"reject": 0, "not_enough_evidence": 1, "hold": 2, "promote": 3}
Cards = list[dict[str, Any]]


def card(sample: int, attempt: int, side: str, draw: random.Random) -> dict[str, Any]:
    """One run: it mostly passes."""
    answer = 0.95 if draw.random() < 0.75 else draw.choice((0.3, 0.8, 1.0, None))
    safe = 1.0 if draw.random() < 0.9 else draw.choice((0.5, None))
    criteria = [
        {"name": name, "raw_score": raw, "formula_id": "zero_one", "weight": weight, **more}
        | ({"missing": "nobody scored it"} if raw is None else {})
        for name, raw, weight, more in (
            ("answer", answer, 3, {"critical_floor": {"norm": 0.5}}),
            ("safe", safe, 1, {"role": "safety"}),
        )
    ]
    return {
        "schema": "assay.scorecard/1",
        "run_id": f"{side}-{sample}-{attempt}",
        "sample_id": f"s-{sample}",
        "attempt": attempt,
        "status": draw.choice(("success",) * 14 + ("error",)),
        "hard_gates": {
            gate: True if draw.random() < 0.88 else draw.choice((False, False, None))
            for gate in GATES
        },
        "criteria": criteria,
    }


def one_side(side: str, n: int, attempts: int, draw: random.Random) -> Cards:
    """So many samples, each with up to so many runs; now and then one is lost."""
    return [
        card(sample, attempt, side, draw) | {"attempts": attempts}
        for sample in range(n)
        for attempt in range(1, attempts + 1)
        if attempt == 1 or draw.random() < 0.95
    ]


def case(seed: int) -> tuple[ReleaseRules, Cards, Cards, tuple[Cards, Cards]]:
    """Rules that let some through, the two sides, often alike, and fresh runs of some samples."""
    draw = random.Random(seed)
    rules = policy(
        min_pairs=2,
        gate_margin=draw.choice((0.3, 0.6, 1.0)),
        gate_failure_increase=draw.choice((0, 0, 0.2)),
        criterion_margin=draw.choice((5, 40)),
        deterministic=False,
        confirm=draw.choice(("fresh", "fresh", "never")),
        looks=1,
        burden=draw.choice(("not_worse", "not_worse", "not_shown_worse")),
        scores=_scores(draw.choice((5.0, 20.0, 60.0))),
        severe=_severe(draw.choice(((SEVERE,), ()))),
        min_pass_rate=draw.choice((None, None, 0.6)),
    )
    n = draw.choice((4, 6, 9))
    baseline = one_side("theirs", n, draw.choice((1, 1, 2, 3)), draw)
    other = one_side("ours", n, draw.choice((1, 1, 2, 3)), draw)
    alike = draw.random() < 0.7
    known = {(one["sample_id"], one["attempt"]): one for one in baseline}
    candidate = []
    for one in other:
        same = known.get((one["sample_id"], one["attempt"]))
        if alike and same is not None and draw.random() < 0.85:
            one = copy.deepcopy(same) | {"run_id": one["run_id"], "attempts": one["attempts"]}
        candidate.append(one)
    groups = draw.choice((None, None, 5))
    if groups is not None:
        for one in (*candidate, *baseline):
            one["group"] = f"g-{int(one['sample_id'][2:]) % groups}"
    fresh = [
        [
            card(sample, attempt, f"fresh-{side}", draw)
            for sample in range(0, n, 2)
            for attempt in range(1, draw.choice((1, 3, 8)) + 1)
        ]
        for side in ("ours", "theirs")
    ]
    return rules, candidate, baseline, (fresh[0], fresh[1])


def _scores(margin: float) -> Any:
    from msgspec.structs import replace

    return replace(POLICY.scores, margin=margin)


def _severe(gates: tuple[str, ...]) -> Any:
    from msgspec.structs import replace

    return replace(POLICY.severe, gates=list(gates), fresh_runs=4)
