"""What a decision can show: from noise and the number of samples, before anything is evaluated; and
the plan that fixes it.

A plan fixes the policy with its margin, level and interval, the looks, the slices and the samples.
It carries a digest, so that it cannot be changed afterwards without notice; a decision made with it
names every field that is not as it was declared. Nothing here decides.

Repeats can stand in for samples where the noise is within them: a baseline that was run five times
is known better, and needs that only once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from math import sqrt
from statistics import NormalDist, fmean, variance
from typing import Any, NamedTuple

from assay.canon import digest, time_text
from assay.errors import InputError, count
from assay.exact import is_number
from assay.files.json_files import read_json
from assay.records.decision import Expectation, RuleResult
from assay.release.confirmation import turns_for
from assay.release.observations import PASS, Attempt, Observed, Pair, Share, fails, fails_any
from assay.release.policy import Limits, ReleaseRules
from assay.release.sides import Side
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


PLAN_SCHEMA = "assay.plan/1"
RUNS = (1, 2, 3, 5, 8)
"""Runs of each sample that a plan compares."""
BANKED = 5
"""Runs of the baseline that a plan considers, besides those it has."""
DECLARED = {
    "policy": "the policy",
    "policy_digest": "the content of the policy",
    "margin": "the margin",
    "level": "the level",
    "min_pairs": "the minimum of pairs",
    "interval": "the kind of interval",
    "looks": "the number of looks",
    "slices": "the slices",
}


def make_plan(
    rules: ReleaseRules,
    *,
    slices: Sequence[str],
    now: datetime,
    baseline: Side | None = None,
    samples: Sequence[str] | None = None,
) -> dict[str, Any]:
    """The plan as a document, with what these samples show at several numbers of runs."""
    limits = rules.limits
    observed = (
        []
        if baseline is None or samples is None
        else [baseline.samples[name].observed for name in samples]
    )
    noise, n = noise_of(observed), len(observed)
    plan: dict[str, Any] = {
        "schema": PLAN_SCHEMA,
        **rules.declared(),
        "slices": sorted(set(slices)),
        "samples": None if samples is None else sorted(samples),
        "n": n or None,
        "noise": None if noise is None else noise._asdict(),
        "wanted": WANTED,
        "shown": [],
        "samples_for": {},
        "confirmation": _confirmation(observed, limits) if observed else None,
        "made_at": time_text(now),
    }
    if noise is not None and n > 1:
        has = max(len(side.attempts) for side in observed)
        pairs = [(runs, runs) for runs in RUNS] + [
            (runs, bank) for bank in sorted({has, BANKED} - {1}) for runs in RUNS if runs < bank
        ]
        for ours, theirs in pairs:
            shown = shown_by(noise, n, (ours, theirs), limits)
            plan["shown"].append(
                {
                    "candidate_runs": ours,
                    "baseline_runs": theirs,
                    "banked": theirs <= has,
                    "runs": n * (ours + (0 if theirs <= has else theirs)),
                    "same_version_promoted": round(shown.same_version_promoted, 4),
                    "smallest_loss": round(shown.smallest_loss, 4),
                }
            )
        for runs in RUNS:
            plan["samples_for"][str(runs)] = samples_for(noise, (runs, runs), limits)
    return {**plan, "digest": digest(plan)}


def _confirmation(observed: Sequence[Observed], limits: Limits) -> dict[str, Any]:
    """How many fresh turns confirm a suspect, and how many suspects chance makes with one run of
    each sample on both sides.
    """
    pairs = [Pair(str(place), Observed((), 1), side) for place, side in enumerate(observed)]
    turns = 0 if limits.deterministic else turns_for(pairs, false_alarm=limits.errors.confirmed)
    spread = [
        share.failing * (share.runs - share.failing) / (share.runs * (share.runs - 1))
        for side in observed
        if (share := Share.seen(side, fails(PASS))).runs > 1
    ]
    expected = None if not spread else len(observed) * sum(spread) / len(spread)
    return {
        "repeats": turns,
        "suspects_by_chance": None if expected is None else round(expected, 2),
    }


def read_plan(path: str) -> dict[str, Any]:
    """A plan from its file, as it was written."""
    return check_plan(read_json(path).tree, where=path)


def check_plan(tree: Any, *, where: str) -> dict[str, Any]:
    """A plan from outside; one that is malformed or was changed is refused."""
    if not isinstance(tree, dict) or tree.get("schema") != PLAN_SCHEMA:
        raise InputError(
            "REL-001",
            f"is not a plan ({PLAN_SCHEMA}).",
            where=where,
            fix="`assay gate --plan -o plan.json` writes one.",
        )
    absent = [name for name in (*DECLARED, "samples", "digest") if name not in tree]
    if absent:
        raise InputError("REL-001", f"the plan lacks {', '.join(absent)}.", where=where)
    samples = tree["samples"]
    if samples is not None and not (
        isinstance(samples, list) and samples and all(isinstance(name, str) for name in samples)
    ):
        raise InputError("REL-001", "the samples of the plan are not a list of names.", where=where)
    if digest({key: value for key, value in tree.items() if key != "digest"}) != tree["digest"]:
        raise InputError(
            "REL-001",
            "the plan does not match its digest: it was changed later.",
            where=where,
            fix="Declare a new plan before you run.",
        )
    return tree


def changes(declared: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """A sentence for each field that is not as it was declared; empty if the plan was kept.

    >>> changes({"policy": "release@1", "margin": 1.0}, {"policy": "release@1", "margin": 2.0})
    ['the margin was declared as 1 and is 2']
    """
    sentences = []
    for name, words in DECLARED.items():
        before, after = _shown(declared.get(name)), _shown(now.get(name))
        if before == after or (
            name == "policy_digest" and declared.get("policy") != now.get("policy")
        ):
            continue
        verb, now_verb = ("were", "are") if name == "slices" else ("was", "is")
        sentences.append(
            f"{words} changed, and its name did not"
            if name == "policy_digest"
            else f"{words} {verb} declared as {before} and {now_verb} {after}"
        )
    return sentences


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(sorted(map(str, value))) or "none"
    return f"{float(value):g}" if is_number(value) else str(value)
