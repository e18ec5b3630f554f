"""What a suite could show, from the baseline alone: the noise of a candidate must not turn an
answer into "not enough evidence".

The baseline's repeats show how far two runs of one sample are apart, and so how far two versions
that are the same would be. Without repeats, the two sides are assumed to have nothing in common,
which overstates the noise; an assumption refuses nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import lru_cache
from math import sqrt
from statistics import NormalDist, fmean, variance
from typing import NamedTuple

from assay.errors import count
from assay.records.decision import Expectation, RuleResult
from assay.release.observations import Attempt, Observed, Pair, fails_any
from assay.release.policy import Limits
from assay.stats.bounded import Mass, bounded
from assay.stats.intervals import t_quantile
from assay.stats.monotone import single, upper_rate_end
from assay.stats.power import smallest

WANTED = 0.8
"""The share of comparisons of a version with itself that should be promoted."""
MOST_REPEATS = 50
MOST_SAMPLES = 100_000
_normal = NormalDist()


class Noise(NamedTuple):
    """How much two runs of one sample differ."""

    scores: float
    """The variance of the scores within a sample, in points."""
    gates: float
    """The variance of failing a gate within a sample."""
    assumed: bool
    samples: int
    """Samples with repeats."""


def noise_of(baseline: Sequence[Observed]) -> Noise | None:
    """The noise of a version, from its repeats; assumed without any, and None from a single
    sample.
    """
    repeated = [side.attempts for side in baseline if len(side.attempts) > 1]
    if repeated:
        return Noise(
            fmean(_variance(runs) for runs in repeated),
            fmean(variance(map(_gates, runs)) for runs in repeated),
            False,
            len(repeated),
        )
    single = [side.attempts[0] for side in baseline if side.attempts]
    if len(single) < 2:
        return None
    return Noise(_variance(single), variance(map(_gates, single)), True, 0)


def _variance(runs: Sequence[Attempt]) -> float:
    return variance(run.score / 100 for run in runs)


_failing = fails_any(("gate",))


def _gates(run: Attempt) -> float:
    return float(_failing(run) is True)


class Shown(NamedTuple):
    """What so many samples and runs would show."""

    sd: float
    """Of the paired differences."""
    same_version_promoted: float
    smallest_loss: float


def shown_by(noise: Noise, n: int, runs: tuple[float, float], limits: Limits) -> Shown:
    """What n samples show, with so many runs of the candidate and the baseline."""
    spread = 1 / runs[0] + 1 / runs[1]
    sd = sqrt(noise.scores * spread)
    error = sd / sqrt(n)
    t = t_quantile(0.5 + limits.level / 2, max(1, n - 1))
    promoted = 1.0 if error == 0 else _normal.cdf(limits.margin / error - t)
    # one failure more and one less, as the end of the rate has them
    rate = sqrt(noise.gates * spread * n + 2) / (n + 2)
    allowed = limits.gate_increase + limits.gate_margin
    promoted *= _normal.cdf(allowed / rate - _normal.inv_cdf(0.95)) if noise.gates else 1.0
    if not limits.deterministic and _least_end(n) > allowed:
        promoted = 0.0  # too few samples, whatever the candidate does
    level = limits.errors.score or 0.01
    loss = (_normal.inv_cdf(1 - level) + _normal.inv_cdf(limits.power)) * error
    if limits.lenient:  # it passes unless it is shown to be worse, if that could have been shown
        promoted = 1 - limits.errors.total if loss <= limits.detect else 0.0
    return Shown(sd, promoted, loss)


def expectation_of(pairs: Sequence[Pair], limits: Limits) -> Expectation:
    """What these samples could show."""
    noise = noise_of([pair.baseline for pair in pairs])
    n = len(pairs)
    if noise is None or n < 2:
        return Expectation(
            sd=None,
            source="one sample of a baseline shows no spread",
            assumed=True,
            same_version_promoted=None,
            repeats_for={},
            smallest_loss=None,
        )
    runs = (
        1 / fmean(1 / (pair.candidate.announced or 1) for pair in pairs),
        1 / fmean(1 / (pair.baseline.announced or 1) for pair in pairs),
    )
    shown = shown_by(noise, n, runs, limits)
    source = (
        "assumed from one run of each sample, as if the two sides had nothing in common"
        if noise.assumed
        else f"from the baseline's repeats of {count(noise.samples, 'sample')}"
    )
    return Expectation(
        sd=shown.sd,
        source=source,
        assumed=noise.assumed,
        same_version_promoted=shown.same_version_promoted,
        repeats_for={
            "each": _repeats(lambda k: shown_by(noise, n, (k, k), limits)),
            "candidate": _repeats(lambda k: shown_by(noise, n, (k, runs[1]), limits)),
        },
        smallest_loss=shown.smallest_loss,
    )


def _repeats(shown: Callable[[int], Shown]) -> int | None:
    """The fewest runs of each sample with which a version is promoted against itself often enough;
    None if none of up to `MOST_REPEATS` does.
    """
    return next(
        (k for k in range(1, MOST_REPEATS + 1) if shown(k).same_version_promoted >= WANTED), None
    )


def samples_for(noise: Noise, runs: tuple[float, float], limits: Limits) -> int | None:
    """The fewest samples, with so many runs of the candidate and the baseline, that promote a
    version against itself often enough; None if that takes more than `MOST_SAMPLES`.
    """
    return smallest(
        lambda n: shown_by(noise, n, runs, limits).same_version_promoted >= WANTED,
        start=2,
        most=MOST_SAMPLES,
    )


def samples_to_detect(noise: Noise, runs: tuple[float, float], limits: Limits) -> int | None:
    """The fewest samples that can show a loss of `detect` points, at the policy's power."""
    return smallest(
        lambda n: shown_by(noise, n, runs, limits).smallest_loss <= limits.detect,
        start=2,
        most=MOST_SAMPLES,
    )


def pairs_for_gates(limits: Limits) -> int | None:
    """The fewest pairs that can show that gates don't fail more often than allowed, if no pair
    differs.

    >>> pairs_for_gates(Limits())
    46
    """
    allowed = limits.gate_increase + limits.gate_margin
    return smallest(lambda n: _least_end(n) <= allowed, start=2, most=MOST_SAMPLES)


def pairs_for_bound(limits: Limits) -> int | None:
    """The fewest pairs without any difference with which the interval that assumes nothing shows
    that the score did not fall by the margin.

    >>> pairs_for_bound(Limits())
    122
    """

    def is_shown(n: int) -> bool:
        found = bounded([Mass(0.0, n)], lowest=-100.0, highest=100.0, level=limits.level)
        return found.low is not None and found.low > -limits.margin

    return smallest(is_shown, start=2, most=MOST_SAMPLES)


@lru_cache(maxsize=4096)
def _least_end(n: int) -> float:
    """The upper end of the rise in gate failures if none of n samples differs."""
    end = upper_rate_end(single(Counter({0.0: n})), level=0.95)
    return 1.0 if end is None else end


def too_weak(
    expectation: Expectation, rules: Sequence[RuleResult], pairs: int, limits: Limits
) -> str:
    """Why these samples can't show what the policy asks; empty if they can, or if that is only
    assumed, or if the score rule holds all the same.
    """
    known = {rule.id: rule for rule in rules}
    score, gates = known["score_non_inferiority"], known["gate_failure_rate"]
    allowed = limits.gate_increase + limits.gate_margin
    exact = limits.lenient or limits.deterministic
    if not exact and gates.holds is None and _least_end(pairs) > allowed:
        needed = pairs_for_gates(limits)
        return (
            f"{count(pairs, 'sample')} can't show that gates fail in at most {allowed:.0%} more of"
            f" the runs, whatever the candidate does; {'more' if needed is None else needed} could"
        )
    if expectation.assumed or expectation.sd is None or score.holds:
        return ""
    each = expectation.repeats_for.get("each")
    more = (
        f"; about {each} runs of each sample on both sides would"
        if each is not None
        else "; more samples are needed"
    )
    if limits.lenient:
        least = expectation.smallest_loss or 0.0
        if least <= limits.detect:
            return ""
        return (
            f"these samples would show a loss of {least:.1f} points, and the policy asks for one of"
            f" {limits.detect:g}{more}"
        )
    half = t_quantile(0.5 + limits.level / 2, pairs - 1) * expectation.sd / sqrt(pairs)
    if half < limits.margin:
        return ""
    return (
        f"these samples can't show a difference within {limits.margin:g} points even of a version"
        f" that is the same: two runs of it differ by {expectation.sd:.1f} points{more}"
    )
