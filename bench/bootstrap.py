"""Bootstrap intervals, 10,000 resamples of 10,000 items, against scipy.stats.bootstrap in one run:
time, memory, and the same answer.

scipy runs as its manual says and also with batch=100, which is its fastest and smallest; the limits
are against that one. Graded items have 5 values, whole points 101, real ones 4 decimals. The ends
may differ by Monte-Carlo error: five of its standard errors. Memory is the peak of what Python and
numpy allocate during one call. Needs numpy and scipy.
"""

from __future__ import annotations

import sys
import time
import tracemalloc
from collections import Counter
from collections.abc import Callable
from operator import sub
from typing import Any

import numpy as np
from scipy import stats
from timing import functions, table

from assay.stats.bootstrap import bootstrap_mean
from assay.stats.comparison import compare_differences

ITEMS, RESAMPLES, LEVEL = 10_000, 10_000, 0.95


def made(*, seed: int) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """A candidate and a baseline of each kind."""
    draw = np.random.default_rng(seed)
    real = np.round(draw.beta(5, 2, ITEMS), 4)
    graded = draw.choice([0.0, 0.25, 0.5, 0.75, 1.0], ITEMS, p=[0.05, 0.1, 0.2, 0.35, 0.3])
    moved = np.where(
        draw.random(ITEMS) < 0.8, graded, draw.choice([0.0, 0.25, 0.5, 0.75, 1.0], ITEMS)
    )
    points = np.round(draw.beta(5, 2, ITEMS) * 100)
    return {
        "graded, 5 values": (moved, graded),
        "whole points, 101 values": (np.clip(points + draw.integers(-3, 4, ITEMS), 0, 100), points),
        "real, 4 decimals": (
            np.round(np.clip(real + draw.normal(0.01, 0.15, ITEMS), 0, 1), 4),
            real,
        ),
    }


def peers(
    kind: str, method: str, ours: np.ndarray, theirs: np.ndarray, batch: int | None
) -> tuple[float, float]:
    draw = np.random.default_rng(11)
    if kind == "mean":
        found = stats.bootstrap(
            (ours,),
            np.mean,
            n_resamples=RESAMPLES,
            batch=batch,
            method=method,
            vectorized=True,
            rng=draw,
        )
    else:
        found = stats.bootstrap(
            (ours, theirs),
            lambda a, b, axis=-1: (a - b).mean(axis),
            paired=True,
            n_resamples=RESAMPLES,
            batch=batch,
            method=method,
            vectorized=True,
            rng=draw,
        )
    return float(found.confidence_interval.low), float(found.confidence_interval.high)


def peak(function: Callable[[], object]) -> float:
    """MiB at the most."""
    tracemalloc.start()
    function()
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return most / 2**20


def main() -> bool:
    good = True
    for name, (candidate, baseline) in made(seed=3).items():
        ours, theirs = candidate.tolist(), baseline.tolist()
        for kind in ("mean", "paired difference"):
            for method in ("percentile", "bca"):

                def assay(
                    seed: int = 1,
                    kind: str = kind,
                    method: Any = method,
                    ours: list[float] = ours,
                    theirs: list[float] = theirs,
                ) -> Any:
                    apart = [one - other for one, other in zip(ours, theirs, strict=True)]
                    return bootstrap_mean(
                        ours if kind == "mean" else apart, seed=seed, method=method
                    )

                def scipy(
                    batch: int | None = 100,
                    kind: str = kind,
                    method: str = method,
                    a: np.ndarray = candidate,
                    b: np.ndarray = baseline,
                ) -> Any:
                    return peers("mean" if kind == "mean" else "paired", method, a, b, batch)

                found, expected = assay(), scipy()
                error = np.std(candidate if kind == "mean" else candidate - baseline) / ITEMS**0.5
                # the standard error of a 2.5% quantile of as many normal draws, times the root of 2
                # for two of them
                noise = error * (0.025 * 0.975 / RESAMPLES) ** 0.5 / 0.0584 * 2**0.5
                away = max(abs(found.low - expected[0]), abs(found.high - expected[1])) / noise
                if away > 5:
                    raise SystemExit(
                        f"{name}, {kind}, {method}: {away:.1f} Monte-Carlo errors from scipy"
                    )
                memory, peer_memory = peak(assay), peak(scipy)
                times = functions({"scipy batch=100": scipy, "assay": assay}, calls=1, rounds=3)
                limit = 0.1 if name.startswith("graded") else 1.0
                title = (
                    f"{name}: {method} interval of a {kind}; ends within {away:.1f} Monte-Carlo"
                    f" errors; {memory:.1f} MiB against {peer_memory:.1f}"
                )
                good = (
                    table(title, times, base="scipy batch=100", limits={"assay": limit})
                    and memory < peer_memory
                    and good
                )
    candidate, baseline = made(seed=3)["graded, 5 values"]
    times = functions(
        {
            "scipy, no batch": lambda: peers("mean", "percentile", candidate, baseline, None),
            "assay": lambda: bootstrap_mean(candidate.tolist(), seed=1),
        },
        calls=1,
        rounds=1,
    )
    good = (
        table(
            "graded, as scipy's manual says", times, base="scipy, no batch", limits={"assay": 0.1}
        )
        and good
    )
    draw = np.random.default_rng(5)
    many = np.round(draw.uniform(0, 100, 100_000), 2)
    other = np.round(np.clip(many + draw.normal(0, 5, 100_000), 0, 100), 2)
    ours, theirs = other.tolist(), many.tolist()
    started = time.perf_counter()
    compare_differences(Counter(map(sub, ours, theirs)), margin=1.0)
    print(
        f"\ncompare_differences of 100,000 pairs, no numpy: {time.perf_counter() - started:.2f} s"
    )
    return good


if __name__ == "__main__":
    sys.exit(0 if main() else 1)
