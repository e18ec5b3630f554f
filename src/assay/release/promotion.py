"""May the candidate replace the baseline? Four rules on paired samples, and the one outcome that follows from them.

The sample set is the plan's, else the union of both sides. A sample that the candidate lost counts as score 0 with every gate failed; one that the baseline
lost counts as 100 with every gate passed: so forgetting evidence never helps. Outcomes, in this order: `reject` where a rule is shown to be violated,
whatever n; `not_enough_evidence` where there are too few pairs, or a rule could not be judged; `hold` where the interval straddles minus the margin; else
`promote`. Nothing here reads files or grades.
"""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple

from assay import exact
from assay.exact import NORM_ONE
from assay.release.sides import Row, Side, Stratum
from assay.stats.comparison import Comparison, compare_failures, compare_paired

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from assay.release.policy import ReleaseRules

SHOWN = 50
"""Items that a rule's evidence lists; all are counted."""


class Pair(NamedTuple):
    """One sample on both sides. A side that lost it is None, and counts as the worst or the best there is."""

    sample: str
    candidate: Row | None
    baseline: Row | None

    @property
    def known(self) -> Row:
        """The side that is there."""
        found = self.candidate or self.baseline
        assert found is not None
        return found


class Rule(NamedTuple):
    """One promotion rule, and what it rests on."""

    id: str
    holds: bool | None
    """None where it could not be judged."""
    violated: bool
    """Shown to be violated; a rule may fail to hold without that."""
    reason: str
    evidence: dict[str, Any]

    def shown(self) -> dict[str, Any]:
        """As it stands in `assay.decision/1`."""
        return {"id": self.id, "holds": self.holds, "violated": self.violated, "reason": self.reason, "evidence": self.evidence}


class Promotion(NamedTuple):
    """The outcome with its rules and numbers."""

    outcome: str
    reason: str
    rules: tuple[Rule, ...]
    comparison: Comparison
    adjusted_difference: float | None
    missing: dict[str, list[str]]
    pairs: tuple[Pair, ...]
    n_paired: int
    would_change: tuple[str, ...]


def pair_up(candidate: Side, baseline: Side, *, planned: Sequence[str] | None = None) -> list[Pair]:
    """Every sample of the plan, or of both sides, in the order of their names. A planned sample that nobody has is missing on both sides."""
    names = sorted(set(planned) if planned is not None else candidate.rows.keys() | baseline.rows.keys())
    return [Pair(name, candidate.rows.get(name), baseline.rows.get(name)) for name in names]


def promote(
    pairs: Sequence[Pair],
    rules: ReleaseRules,
    *,
    shrinkage: exact.Shrinkage,
    quarantined: Sequence[str] = (),
) -> Promotion:
    """Decide. `quarantined` samples, each named by somebody, take no part and are listed."""
    lost_by_both = [pair.sample for pair in pairs if pair.candidate is None and pair.baseline is None]
    out = frozenset(quarantined)
    used = [pair for pair in pairs if pair.sample not in out and (pair.candidate is not None or pair.baseline is not None)]
    both = sum(1 for pair in used if pair.candidate is not None and pair.baseline is not None)
    missing = {
        "candidate": [pair.sample for pair in used if pair.candidate is None] + lost_by_both,
        "baseline": [pair.sample for pair in used if pair.baseline is None],
        "quarantined": sorted(out & {pair.sample for pair in pairs}),
    }
    comparison = _compare(used, rules)
    adjusted = adjusted_difference(used, shrinkage, n=both)
    found = (
        _gate_failures(used, rules, lost=len(lost_by_both)),
        _scores(comparison, adjusted, rules),
        _floors(used, rules),
        _severe(used, rules),
    )
    outcome, reason = _outcome(found, both, rules, comparison)
    return Promotion(outcome, reason, found, comparison, adjusted, missing, tuple(used), both, tuple(_would_change(found, outcome, both, rules, comparison)))


def _points(row: Row | None, absent: float) -> float:
    return absent if row is None else float(row.score) / 100


def _compare(pairs: Sequence[Pair], rules: ReleaseRules) -> Comparison:
    candidate = [_points(pair.candidate, 0.0) for pair in pairs]
    baseline = [_points(pair.baseline, 100.0) for pair in pairs]
    groups = [pair.known.group for pair in pairs]
    grouped = any(count > 1 for group, count in Counter(groups).items() if group is not None)
    return compare_paired(
        candidate,
        baseline,
        margin=rules.margin,
        groups=groups if grouped else None,
        level=rules.level,
        power=rules.power,
        guaranteed=rules.guaranteed,
        believed=not rules.guaranteed,
    )


def adjusted_difference(pairs: Sequence[Pair], shrinkage: exact.Shrinkage, *, n: int) -> float | None:
    """The difference of the adjusted scores, formed once for each side and criterion, with n the paired samples.

    Formed for each run, the pull towards the prior would hide a drop of twenty points.
    """
    if not pairs or n == 0:
        return None
    totals: dict[Stratum, tuple[list[int | Fraction], list[int | Fraction], list[int]]] = {}
    for pair in pairs:
        stratum = pair.known.stratum
        width = len(stratum.criteria)
        ours, theirs, counts = totals.setdefault(stratum, ([0] * width, [0] * width, [0, 0]))
        counts[0] += 1
        counts[1] += pair.candidate is not None and pair.baseline is not None
        for index in range(width):
            # a side that was scored by other criteria has none of these: it counts as if it were missing
            ours[index] += pair.candidate.norms[index] if pair.candidate is not None and pair.candidate.stratum == stratum else 0
            theirs[index] += pair.baseline.norms[index] if pair.baseline is not None and pair.baseline.stratum == stratum else NORM_ONE
    difference = Fraction(0)
    for stratum, (ours, theirs, (count, paired)) in totals.items():
        weight_sum = sum(stratum.weights)
        for weight, our, their in zip(stratum.weights, ours, theirs, strict=True):
            one, other = (exact.shrink(_rounded(Fraction(total, count)), paired, shrinkage) for total in (our, their))
            difference += Fraction(weight * (one - other) * count, weight_sum * len(pairs))
    return float(difference * 100 / NORM_ONE)


def _rounded(value: Fraction) -> int:
    return exact.quantise(value.numerator, value.denominator, 0)


def _gate_failures(pairs: Sequence[Pair], rules: ReleaseRules, *, lost: int) -> Rule:
    ours = [pair.candidate is None or bool(pair.candidate.failed) for pair in pairs] + [True] * lost
    theirs = [pair.baseline is not None and bool(pair.baseline.failed) for pair in pairs] + [False] * lost
    if not ours:
        return Rule("gate_failure_rate", None, False, "there are no samples to compare", {})
    n = len(ours)
    compared = compare_failures(ours, theirs, allowed=float(Fraction(*rules.gate_failure_increase)), level=rules.level)
    rise = Fraction(sum(ours) - sum(theirs), n)
    holds = rise <= Fraction(*rules.gate_failure_increase)
    by_gate: dict[str, list[int]] = {}
    for pair in pairs:
        for name in pair.known.gates:
            counts = by_gate.setdefault(name, [0, 0])
            counts[0] += pair.candidate is None or name in pair.candidate.failed or name not in pair.candidate.gates
            counts[1] += pair.baseline is not None and name in pair.baseline.failed
    newly = [pair.sample for pair, mine, before in zip(pairs, ours, theirs, strict=False) if mine and not before]
    evidence = {
        "candidate": {"failed": sum(ours), "rate": sum(ours) / n},
        "baseline": {"failed": sum(theirs), "rate": sum(theirs) / n},
        "n": n,
        "increase": float(rise),
        "allowed": float(Fraction(*rules.gate_failure_increase)),
        "difference": compared.difference.shown(),
        "only_candidate": compared.only_candidate,
        "only_baseline": compared.only_baseline,
        "mcnemar_p": compared.mcnemar.p,
        "gates": {name: {"candidate": mine, "baseline": before} for name, (mine, before) in sorted(by_gate.items())},
        "newly_failing": newly[:SHOWN],
        "newly_failing_count": len(newly),
    }
    said = f"{sum(ours)} of {n} samples fail a gate, {sum(theirs)} before"
    if holds:
        return Rule("gate_failure_rate", True, False, f"{said}; the rate did not rise by more than {_number(rules.gate_failure_increase)}", evidence)
    return Rule(
        "gate_failure_rate", False, True, f"{said}; the rate rose by {float(rise):.4f}, and {_number(rules.gate_failure_increase)} is allowed", evidence
    )


def _number(value: exact.Ratio) -> str:
    return f"{value.num / value.den:g}"


def _scores(comparison: Comparison, adjusted: float | None, rules: ReleaseRules) -> Rule:
    difference, claims = comparison.difference, comparison.claims
    evidence = {
        "difference": difference.shown(),
        "margin": rules.margin,
        "adjusted_difference": adjusted,
        "wins": comparison.wins,
        "losses": comparison.losses,
        "ties": comparison.ties,
    }
    if difference.low is None or difference.high is None or adjusted is None:
        return Rule("score_non_inferiority", None, False, f"the difference has no interval: {difference.reason or 'there are no pairs'}", evidence)
    ends = f"{difference.value:+.2f} points, {difference.low:+.2f} to {difference.high:+.2f}"
    if claims.inferior:
        return Rule("score_non_inferiority", False, True, f"shown to be worse by more than {rules.margin:g}: {ends}", evidence)
    if not claims.non_inferior:
        return Rule("score_non_inferiority", False, False, f"a drop of {rules.margin:g} or more cannot be excluded: {ends}", evidence)
    if adjusted <= -rules.margin:
        return Rule("score_non_inferiority", False, False, f"the adjusted difference is {adjusted:+.2f}, not above -{rules.margin:g}; {ends}", evidence)
    better = ", and better" if claims.superior else ""
    return Rule("score_non_inferiority", True, False, f"not worse by {rules.margin:g} or more{better}: {ends}; adjusted {adjusted:+.2f}", evidence)


def _floors(pairs: Sequence[Pair], rules: ReleaseRules) -> Rule:
    fresh: list[dict[str, Any]] = []
    mended = 0
    for pair in pairs:
        mine = frozenset(pair.known.missed) if pair.candidate is None else pair.candidate.missed
        before = pair.baseline.missed if pair.baseline is not None else frozenset()
        fresh += [{"sample": pair.sample, "criterion": name} for name in sorted(mine - before)]
        mended += len(before - mine)
    evidence = {"new": fresh[:SHOWN], "new_count": len(fresh), "mended_count": mended, "allowed": rules.new_floor_failures}
    if len(fresh) <= rules.new_floor_failures:
        return Rule(
            "floor_regression",
            True,
            False,
            "no sample misses a critical floor that it kept before" if not fresh else f"{len(fresh)} new misses of a critical floor, within what is allowed",
            evidence,
        )
    first = fresh[0]
    more = f" and {len(fresh) - 1} more" if len(fresh) > 1 else ""
    return Rule("floor_regression", False, True, f"{first['sample']} misses the floor of {first['criterion']}, which it kept before{more}", evidence)


def _severe(pairs: Sequence[Pair], rules: ReleaseRules) -> Rule:
    ours: list[dict[str, str]] = []
    theirs = 0
    for pair in pairs:
        mine = pair.known.gates & rules.severe_gates if pair.candidate is None else pair.candidate.failed & rules.severe_gates
        ours += [{"sample": pair.sample, "what": name} for name in sorted(mine)]
        if pair.candidate is not None:
            ours += [{"sample": pair.sample, "what": f"floor of the role {role}"} for role in sorted(pair.candidate.missed_roles & rules.severe_roles)]
        if pair.baseline is not None:
            theirs += len(pair.baseline.failed & rules.severe_gates) + len(pair.baseline.missed_roles & rules.severe_roles)
    evidence = {
        "candidate": len(ours),
        "baseline": theirs,
        "allowed_increase": rules.severe_increase,
        "items": ours[:SHOWN],
        "severe_gates": sorted(rules.severe_gates),
    }
    said = f"{len(ours)} severe failures, {theirs} before"
    if len(ours) - theirs <= rules.severe_increase:
        return Rule("severe_failures", True, False, said, evidence)
    return Rule("severe_failures", False, True, f"{said}; for example {ours[0]['what']} in {ours[0]['sample']}", evidence)


def _outcome(found: Sequence[Rule], paired: int, rules: ReleaseRules, comparison: Comparison) -> tuple[str, str]:
    violated = [rule for rule in found if rule.violated]
    if violated:
        return "reject", f"{violated[0].id}: {violated[0].reason}" + (f" (and {len(violated) - 1} more)" if len(violated) > 1 else "")
    if paired < rules.min_pairs:
        return "not_enough_evidence", f"{paired} paired samples; the policy asks for at least {rules.min_pairs}"
    open_ = [rule for rule in found if rule.holds is None]
    if open_:
        return "not_enough_evidence", f"{open_[0].id}: {open_[0].reason}"
    unmet = [rule for rule in found if not rule.holds]
    if unmet:
        return "hold", f"{unmet[0].id}: {unmet[0].reason}"
    superior = "; the candidate is better" if comparison.claims.superior else "; the two are equivalent" if comparison.claims.equivalent else ""
    return "promote", f"every rule holds{superior}"


def _would_change(found: Sequence[Rule], outcome: str, paired: int, rules: ReleaseRules, comparison: Comparison) -> list[str]:
    """What would move the outcome, in words."""
    said = []
    by_id: Mapping[str, Rule] = {rule.id: rule for rule in found}
    if outcome == "promote":
        room = comparison.difference.low
        if room is not None:
            said.append(f"The lower end of the difference is {room + rules.margin:.2f} points above the limit.")
        return said
    gates = by_id["gate_failure_rate"]
    if gates.violated:
        excess = gates.evidence["candidate"]["failed"] - gates.evidence["baseline"]["failed"]
        said.append(f"Mend {excess} of the samples that newly fail a gate: {_names(gates.evidence['newly_failing'])}.")
    if by_id["floor_regression"].violated:
        said.append(f"Bring back above their floor: {_names([item['sample'] for item in by_id['floor_regression'].evidence['new']])}.")
    if by_id["severe_failures"].violated:
        said.append(f"Mend the severe failures: {_names([item['sample'] for item in by_id['severe_failures'].evidence['items']])}.")
    scores = by_id["score_non_inferiority"]
    if scores.holds is False and comparison.difference.value is not None and comparison.difference.low is not None:
        half = comparison.difference.value - comparison.difference.low
        if comparison.difference.value > -rules.margin and half > 0:
            needed = -(-paired * half**2 // (comparison.difference.value + rules.margin) ** 2)
            said.append(f"With this difference and spread, about {int(needed):,} paired samples would show that the drop is below {rules.margin:g}.")
        else:
            said.append(f"The scores must rise by at least {-rules.margin - comparison.difference.value:.2f} points on average.")
    if paired < rules.min_pairs:
        said.append(f"{rules.min_pairs - paired} more paired samples reach the minimum of {rules.min_pairs}.")
    return said


def _names(samples: Sequence[str]) -> str:
    unique = list(dict.fromkeys(samples))
    return ", ".join(unique[:5]) + (f" and {len(unique) - 5} more" if len(unique) > 5 else "")
