"""Advice on what would change a decision: what to restore, what to fix, how many samples would be
enough, and which margin these samples could decide.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import floor
from shlex import quote
from typing import NamedTuple

from assay.errors import count
from assay.records.decision import MissingSamples, RuleResult
from assay.release.policy import ReleaseRules
from assay.release.promotion_rules import SCORE_RULE, SHOWN
from assay.stats.comparison import Comparison

MANY = 1_000
"""If more samples than this are needed, a decision also states which margin it could decide now."""


class Seen(NamedTuple):
    """What a decision is based on."""

    rules: tuple[RuleResult, ...]
    comparison: Comparison
    n_paired: int
    missing: MissingSamples


def would_change(seen: Seen, outcome: str, rules: ReleaseRules) -> list[str]:
    """Sentences on what would change the outcome."""
    paired, difference = seen.n_paired, seen.comparison.difference
    if outcome == "promote":
        if difference.low is None:
            return []
        room = difference.low + rules.margin
        return [f"The lower end of the difference is {room:.2f} points above the limit."]
    gates, scored, floored, severe, *_ = seen.rules
    changes = [
        f"Restore what the baseline has: {_names(rule.evidence['lost'], 'what')}. If you changed it"
        " on purpose, evaluate the baseline with the change, and compare again."
        for rule in seen.rules
        if "lost" in rule.evidence
    ]
    if gates.violated and "lost" not in gates.evidence:
        excess = gates.evidence["candidate"]["failed"] - gates.evidence["baseline"]["failed"]
        names = _names([{"sample": name} for name in gates.evidence["newly_failing"]])
        changes.append(f"Fix {excess:,} of the samples that newly fail a gate: {names}.")
    if floored.violated and floored.evidence["new"]:
        changes.append(f"Raise these above their floor: {_names(floored.evidence['new'])}.")
    if severe.violated:
        changes.append(f"Fix severe failures: {_names(severe.evidence['items'])}.")
    if scored.holds is False and difference.value is not None and difference.low is not None:
        if seen.comparison.claims.non_inferior:
            if "lost_runs" in scored.evidence:
                changes.append(
                    f"{_to_supply(seen.missing)}: without them, a drop in scores can't be ruled"
                    " out."
                )
        elif (needed := samples_to_show(seen, rules)) is not None:
            changes.append(
                f"With this difference and spread, about {needed:,} paired samples would show"
                f" that the drop is below {rules.margin:g}."
            )
        elif (rise := floor(-(difference.low + rules.margin) * 100) + 1) < -difference.value * 100:
            # a larger one may not be possible, and would shrink the spread
            changes.append(
                f"With this many samples and this spread, the scores must rise by {rise / 100:.2f}"
                " points on average."
            )
    if paired < rules.min_pairs:
        changes.append(
            f"Add {count(rules.min_pairs - paired, 'paired sample')} to reach the minimum of"
            f" {rules.min_pairs}."
        )
    return changes


def _to_supply(missing: MissingSamples) -> str:
    if missing.candidate or not missing.baseline:
        return "Supply the missing runs"
    return (
        "Supply the missing runs of the baseline (or, if its dataset had no such sample yet, leave"
        f" it out with --quarantine {quote(missing.baseline[0])})"
    )


def _names(items: Sequence[Mapping[str, str]], key: str = "sample") -> str:
    unique = list(dict.fromkeys(item[key] for item in items))
    least = "at least " if len(items) == SHOWN else ""  # a rule lists no more
    return ", ".join(unique[:5]) + (f" and {least}{len(unique) - 5:,} more" if unique[5:] else "")


def decidable_margin(seen: Seen, rules: ReleaseRules) -> float | None:
    """The smallest margin under which the score rule would hold; None if it holds or is violated,
    if fewer than `MANY` samples would show the policy's own margin, or if no margin would do.
    """
    scored = next(rule for rule in seen.rules if rule.id == SCORE_RULE)
    if scored.holds is not False or scored.violated:
        return None
    difference = scored.evidence["difference"]
    ends = [difference["low"], scored.evidence["adjusted_difference"]]
    if "lost_runs" in scored.evidence:
        ends.append(scored.evidence["lost_runs"]["low"])
    if None in ends or (samples_to_show(seen, rules) or 0) < MANY:
        return None
    margin = (floor(-min(ends) * 100) + 1) / 100  # strictly above, in hundredths of a point
    return margin if rules.margin < margin < 100 else None


def samples_to_show(seen: Seen, rules: ReleaseRules) -> int | None:
    """About how many pairs would show that the drop is below the margin, with this difference and
    spread; None if no number would.
    """
    difference = seen.comparison.difference
    if difference.value is None or difference.low is None:
        return None
    half, above = difference.value - difference.low, difference.value + rules.margin
    if above <= 0 or half <= 0:
        return None
    return int(-(-seen.n_paired * half**2 // above**2))
