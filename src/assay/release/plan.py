"""The plan of a decision: what is declared before anything is evaluated, and how many samples it
takes.

A plan fixes the policy with its margin, level and interval, the looks, the slices and the samples.
It carries a digest, so that it cannot be changed afterwards without notice; a decision made with it
names every field that is not as it was declared. Nothing here decides.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from math import log, sqrt
from typing import Any, NamedTuple

from assay.canon import digest, time_text
from assay.errors import InputError
from assay.exact import is_number
from assay.files.json_files import read_json
from assay.release.pairs import Pair
from assay.release.policy import ReleaseRules
from assay.release.sides import Side
from assay.stats.estimate import DIFFERENCES
from assay.stats.intervals import normal_quantile
from assay.stats.power import (
    detectable_mean,
    detectable_rate,
    samples_for_mean,
    samples_if_all_equal,
)
from assay.stats.sequential import anytime_mean

PLAN_SCHEMA = "assay.plan/1"
MOST = 200_000
"""Pairs beyond which a plan with several looks is not worked out."""

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


class Spread(NamedTuple):
    """The standard deviation of paired differences, and how it is known."""

    sd: float | None
    source: str
    """In words."""


def spread_of(baseline: Side) -> Spread:
    """The spread that paired differences will have, from the baseline alone.

    Repeats of its samples show how far two runs of the same sample are apart. Without repeats the
    two sides are assumed to be unrelated, which overestimates the number of samples needed.
    """
    squares, freedom = 0.0, 0
    for repeats in baseline.repeats.values():
        if len(repeats) > 1:
            scores = [float(repeat.score) / 100 for repeat in repeats]
            mean = sum(scores) / len(scores)
            squares += sum((score - mean) ** 2 for score in scores)
            freedom += len(scores) - 1
    if freedom and squares > 0:
        return Spread(
            sqrt(2 * squares / freedom),
            f"from the repeats of the baseline, {freedom} degrees of freedom, for a candidate that"
            " varies as much",
        )
    scores = [float(row.score) / 100 for row in baseline.rows.values()]
    n = len(scores)
    if n < 2:
        return Spread(None, "one sample of a baseline shows no spread")
    mean = sum(scores) / n
    sd = sqrt(2 * sum((score - mean) ** 2 for score in scores) / (n - 1))
    if sd == 0:
        return Spread(None, "all scores of the baseline are equal, so it shows no spread")
    return Spread(
        sd,
        "from the scores of the baseline, as if the two sides had nothing in common: more than"
        " paired differences usually have",
    )


def spread_of_pairs(pairs: Sequence[Pair]) -> Spread:
    """The spread of the differences of a first comparison, over the samples that both sides
    have.
    """
    values = [
        pair.ours - pair.theirs
        for pair in pairs
        if pair.candidate is not None and pair.baseline is not None
    ]
    if len(values) < 2:
        return Spread(None, "fewer than two paired samples show no spread")
    mean = sum(values) / len(values)
    sd = sqrt(sum((value - mean) ** 2 for value in values) / (len(values) - 1))
    equal = "" if sd > 0 else ", whose differences are all equal"
    return Spread(sd, f"from {len(values)} paired samples{equal}")


def needed_samples(
    rules: ReleaseRules, *, effect: float, power: float, sd: float | None, looks: int = 1
) -> int | None:
    """How many pairs show that the drop is below the margin, when the true difference is `effect`;
    None if no number does.

    Never fewer than the policy asks for. If the spread is unknown, and for the interval that
    assumes nothing, at least enough to exclude a rare total loss.
    """
    if effect + rules.margin <= 0:
        return None
    least = rules.min_pairs
    if (sd is None or rules.guaranteed) and rules.margin > 0:
        least = max(least, samples_if_all_equal(rules.margin, level=rules.level))
    if not sd:
        return least
    if looks > 1:
        needed = _for_looks(rules, effect=effect, power=power, sd=sd)
        return None if needed is None else max(least, needed)
    number = samples_for_mean(
        effect=effect, sd=sd, margin=rules.margin, power=power, level=rules.level
    )
    return None if number is None else max(least, number)


def _for_looks(rules: ReleaseRules, *, effect: float, power: float, sd: float) -> int | None:
    """About how many pairs a confidence sequence needs: differences of two values with this spread,
    and a mean that is unlucky as often as the power allows.
    """

    def reached(n: int) -> bool:
        mean = effect - normal_quantile(power) * sd / sqrt(n)
        values = [max(-100.0, mean - sd), min(100.0, mean + sd)] * (n // 2)
        low = anytime_mean(values, DIFFERENCES, level=rules.level).low
        return low is not None and low > -rules.margin

    high = 32
    while not reached(high):
        high *= 2
        if high > MOST:
            return None
    low = high // 2
    while high - low > max(2, low // 50):
        middle = (low + high) // 2
        low, high = (low, middle) if reached(middle) else (middle, high)
    return high


def rates_of(n: int, *, failure_rate: float | None, power: float, level: float) -> dict[str, Any]:
    """Which gate failures n pairs can detect.

    `seen_once` is the smallest share of newly failing samples of which at least one shows up with
    that power: with nothing allowed, one is enough to reject. `detectable_increase` is the smallest
    rise of the rate that an interval would show, if the sides fail independently as often as the
    baseline does.
    """
    rates: dict[str, Any] = {
        "n": n,
        "failure_rate": failure_rate,
        "seen_once": 1 - (1 - power) ** (1 / n) if n else None,
        "detectable_increase": None,
    }
    if n and failure_rate is not None:
        differ = 2 * failure_rate * (1 - failure_rate)
        # a rise needs pairs that differ: from a rate of 0 it is the rise itself that they make
        rates["detectable_increase"] = (
            detectable_rate(n, discordant=differ, power=power, level=level)
            if differ > 0
            else _rise_from_nothing(n, power, level)
        )
    return rates


def _rise_from_nothing(n: int, power: float, level: float) -> float | None:
    """The smallest share of new failures, where none failed before, that n pairs show to be above
    0.
    """
    shares = [step / 200 for step in range(1, 200)]
    return next(
        (
            share
            for share in shares
            if (rate := detectable_rate(n, discordant=share, power=power, level=level)) is not None
            and rate <= share
        ),
        None,
    )


def failures_for(rate: float, *, power: float) -> int:
    """How many samples show at least one failure of this rate with that power.

    >>> failures_for(0.01, power=0.8)
    161
    """
    return max(1, -int(log(1 - power) // -log(1 - rate)))


def make_plan(
    rules: ReleaseRules,
    *,
    effect: float,
    power: float,
    spread: Spread,
    looks: int,
    slices: Sequence[str],
    now: datetime,
    baseline: Side | None = None,
    samples: Sequence[str] | None = None,
) -> dict[str, Any]:
    """The plan as a document, with what it takes and what this number of samples can see."""
    n = None if samples is None else len(samples)
    failed = (
        None
        if baseline is None or not baseline.rows
        else sum(bool(row.failed) for row in baseline.rows.values()) / len(baseline.rows)
    )
    needed = needed_samples(rules, effect=effect, power=power, sd=spread.sd, looks=looks)
    sees = (
        None
        if n is None or n < 2 or not spread.sd
        else detectable_mean(n, sd=spread.sd, margin=rules.margin, power=power, level=rules.level)
    )
    plan: dict[str, Any] = {
        "schema": PLAN_SCHEMA,
        **rules.declared(),
        "looks": looks,
        "slices": sorted(set(slices)),
        "samples": None if samples is None else sorted(samples),
        "effect": effect,
        "power": power,
        "sd": spread.sd,
        "sd_source": spread.source,
        "needed": needed,
        "enough": None if n is None or needed is None else n >= needed,
        "n": n,
        "smallest_effect": sees,
        "rates": (
            None if n is None else rates_of(n, failure_rate=failed, power=power, level=rules.level)
        ),
        "made_at": time_text(now),
    }
    return {**plan, "digest": digest(plan)}


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
