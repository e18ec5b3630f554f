"""Decide over 100,000 paired samples, beside a plain loop that pairs them and makes Student's
interval.

The plain loop matches two tables on their sample, takes the differences of the scores, counts gate
failures, and stops there: it has no floors, no severe failures, no adjusted scores and no list of
what fell. Both start from rows in memory; reading and grading are in `stream.py`. The difference
and its ends are the same for both, or the run stops.
"""

from __future__ import annotations

import random
import sys
from math import sqrt

import timing

from assay.exact import Ratio, shrinkage
from assay.library.shelf import Shelf
from assay.release.pairs import pair_up
from assay.release.policy import make_release_rules
from assay.release.promotion import Promotion, promote
from assay.release.sides import Row, Side, Stratum
from assay.release.summary import Summary
from assay.stats.intervals import t_quantile

COUNT = 100_000
STRATUM = Stratum("bench@1", ("correctness", "safety", "speed"), (5, 3, 2), ("zero_one",) * 3)
GATES = frozenset({"schema_contract_valid", "no_policy_violation", "overall_status_success"})


def side(name: str, seed: int) -> Side:
    """One side: graded scores, of which one in fifty fails a gate."""
    drawn = random.Random(seed)
    rows = {}
    for number in range(COUNT):
        norms = tuple(drawn.choice((750_000_000, 875_000_000, 1_000_000_000)) for _ in range(3))
        score = (
            sum(weight * norm for weight, norm in zip(STRATUM.weights, norms, strict=True))
            // 1_000_000
        )
        failed = frozenset({"overall_status_success"}) if number % 50 == 0 else frozenset()
        sample = f"bench/s-{number:06}"
        rows[sample] = Row(
            sample,
            score,
            not failed,
            GATES,
            failed,
            frozenset(),
            frozenset(),
            norms,
            STRATUM,
            None,
            frozenset(),
            "rag",
            (f"r-{number}",),
            {},
            {},
            norms,
            7000,
            {},
        )
    return Side(
        name, rows, {"policy": ["workflow@1"]}, Summary().block(), {"evidence": name}, COUNT, {}
    )


def plain(ours: dict[str, Row], theirs: dict[str, Row]) -> tuple[float, float, float]:
    """The mean difference with Student's interval, and whether more gates fail, by a plain loop."""
    differences, rise = [], 0
    for sample in sorted(ours.keys() & theirs.keys()):
        one, other = ours[sample], theirs[sample]
        differences.append((one.score - other.score) / 100)
        rise += bool(one.failed) - bool(other.failed)
    n = len(differences)
    mean = sum(differences) / n
    half = t_quantile(0.975, n - 1) * sqrt(
        sum((one - mean) ** 2 for one in differences) / (n - 1) / n
    )
    return float(mean), float(mean - half), float(rise)


def main() -> int:
    """The decision, and the same with pairing."""
    rules = make_release_rules(Shelf().policy_of("release", "release"))
    pull = shrinkage(Ratio(1, 2), Ratio(20, 1))
    candidate, baseline = side("candidate", 1), side("baseline", 2)
    pairs = pair_up(candidate, baseline)

    def decide() -> Promotion:
        return promote(pairs, rules, shrinkage=pull)

    found, (mean, low, _) = (
        decide().comparison.difference,
        plain(dict(candidate.rows), dict(baseline.rows)),
    )
    if (
        found.value is None
        or found.low is None
        or abs(found.value - mean) > 1e-9
        or abs(found.low - low) > 1e-9
    ):
        raise SystemExit(f"the intervals do not agree: {found} and {mean}, {low}")
    times = timing.functions(
        {
            "plain loop": lambda: plain(dict(candidate.rows), dict(baseline.rows)),
            "promote": decide,
            "pair and promote": lambda: promote(
                pair_up(candidate, baseline), rules, shrinkage=pull
            ),
        },
        calls=1,
        rounds=5,
    )
    return (
        0
        if timing.table(
            f"A decision over {COUNT:,} paired samples",
            times,
            base="plain loop",
            limits={"promote": 12, "pair and promote": 14},
        )
        else 1
    )


if __name__ == "__main__":
    sys.exit(main())
