"""May the candidate replace the baseline? Four rules on paired samples, and the one outcome that
follows from them.

The sample set is the plan's, else the union of both sides. A sample that the candidate lost counts
as score 0 with every gate failed and every floor missed; one that the baseline lost counts as 100
with every gate passed: so forgetting evidence never helps. An outlier that is lost can still make
an interval of Student's narrower; so where anything is missing, the score rule holds only if it
would hold whatever the lost runs came to. Outcomes, in this order: `reject` where a rule is shown
to be violated, whatever n; `not_enough_evidence` where there are too few pairs, or a rule could not
be judged; `hold` where the interval straddles minus the margin; else `promote`.

These are two guards against a regression: the scores together (non-inferiority), and each sample by
itself (gates, floors, severe failures), so that neither a slow decline of all nor the loss of one
hides behind the other. Nothing here reads files or grades.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple

from assay import exact
from assay.exact import NORM_ONE
from assay.release.pairs import Pair, groups_of
from assay.release.required import lost_of, lost_said
from assay.release.sides import Stratum
from assay.stats.comparison import Comparison, compare_failures, compare_paired

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from assay.release.policy import ReleaseRules

SHOWN = 50
"""Items that a rule's evidence lists; all are counted."""
SCORE_RULE = "score_non_inferiority"
MAX_MISSING = 24
"""Samples with lost runs up to which it is worked out what they could have come to; with more of
them the score rule does not hold.
"""


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
        return {
            "id": self.id,
            "holds": self.holds,
            "violated": self.violated,
            "reason": self.reason,
            "evidence": self.evidence,
        }


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


def promote(
    pairs: Sequence[Pair],
    rules: ReleaseRules,
    *,
    shrinkage: exact.Shrinkage,
    quarantined: Sequence[str] = (),
    without_gates: bool = False,
) -> Promotion:
    """Decide. `quarantined` samples, each named by somebody, take no part and are listed.
    `without_gates` says whether a sample may have no gate at all.
    """
    out = frozenset(quarantined)
    used = [pair for pair in pairs if pair.sample not in out]
    both = sum(1 for pair in used if pair.candidate is not None and pair.baseline is not None)
    missing = {
        "candidate": [
            pair.sample for pair in used if pair.candidate is None or pair.candidate.unknown
        ],
        "baseline": [
            pair.sample for pair in used if pair.baseline is None or pair.baseline.unknown
        ],
        "quarantined": sorted(out & {pair.sample for pair in pairs}),
    }
    comparison = _compare(used, rules)
    adjusted = adjusted_difference(used, shrinkage) if both else None
    score_rule = _scores(
        used,
        comparison,
        adjusted,
        rules,
        lost=lost_could(used, rules) if comparison.claims.non_inferior else None,
    )
    if len(of_baseline(used)) < len(used):
        score_rule = _worse_rule(
            score_rule, _scores_of_baseline(of_baseline(used), rules, shrinkage)
        )
    found = (
        _gate_failures(used, rules, without_gates=without_gates),
        score_rule,
        _floors(used, rules),
        _severe(used, rules),
    )
    return _decided(
        Promotion("", "", found, comparison, adjusted, missing, tuple(used), both, ()), rules
    )


def of_baseline(pairs: Sequence[Pair]) -> list[Pair]:
    """The samples that are not the candidate's alone. Those count as 100 for the baseline, so many
    good ones would thin out a drop in the others.
    """
    return [pair for pair in pairs if pair.baseline is not None or pair.candidate is None]


def _scores_of_baseline(pairs: list[Pair], rules: ReleaseRules, shrinkage: exact.Shrinkage) -> Rule:
    comparison = _compare(pairs, rules)
    lost = lost_could(pairs, rules) if comparison.claims.non_inferior else None
    rule = _scores(pairs, comparison, adjusted_difference(pairs, shrinkage), rules, lost=lost)
    return rule._replace(reason=f"on the baseline's samples alone: {rule.reason}")


def _worse_rule(one: Rule, other: Rule) -> Rule:
    """Of two readings of one rule the worse: violated, not to be judged, not shown, holds."""
    order = [(rule.violated, rule.holds is None, rule.holds is False) for rule in (one, other)]
    return other if order[1] > order[0] else one


def with_comparison(
    promotion: Promotion,
    comparison: Comparison,
    rules: ReleaseRules,
    *,
    of_baseline: Comparison | None = None,
) -> Promotion:
    """The same decision with the scores compared otherwise: the score rule and the outcome are made
    again. `of_baseline`: on its samples alone.
    """
    rule = _scores(promotion.pairs, comparison, promotion.adjusted_difference, rules, lost=None)
    if of_baseline is not None:
        alone = _scores(
            promotion.pairs, of_baseline, promotion.adjusted_difference, rules, lost=None
        )
        rule = _worse_rule(
            rule, alone._replace(reason=f"on the baseline's samples alone: {alone.reason}")
        )
    return _with_score_rule(promotion._replace(comparison=comparison), rule, rules)


def with_finding(
    promotion: Promotion,
    reason: str,
    evidence: Mapping[str, Any],
    rules: ReleaseRules,
    *,
    violated: bool,
) -> Promotion:
    """The same decision with a score rule that is violated, or does not hold, for something that
    the overall interval does not show.
    """
    rule = next(rule for rule in promotion.rules if rule.id == SCORE_RULE)
    if not violated and not rule.holds:
        return promotion
    shown = rule._replace(
        holds=False, violated=violated, reason=reason, evidence={**rule.evidence, **evidence}
    )
    return _with_score_rule(promotion, shown, rules)


def _with_score_rule(promotion: Promotion, rule: Rule, rules: ReleaseRules) -> Promotion:
    return _decided(
        promotion._replace(
            rules=tuple(rule if one.id == SCORE_RULE else one for one in promotion.rules)
        ),
        rules,
    )


def _decided(promotion: Promotion, rules: ReleaseRules) -> Promotion:
    """The outcome that follows from the rules."""
    outcome, reason = _outcome(promotion.rules, promotion.n_paired, rules, promotion.comparison)
    said = _would_change(promotion.rules, outcome, promotion.n_paired, rules, promotion.comparison)
    return promotion._replace(outcome=outcome, reason=reason, would_change=tuple(said))


def _compare(
    pairs: Sequence[Pair], rules: ReleaseRules, *, raised: frozenset[str] = frozenset()
) -> Comparison:
    """The scores of both sides. For the samples that are `raised`, what was lost counts as the best
    for the candidate, not as the worst.
    """
    candidate, baseline = [pair.ours for pair in pairs], [pair.theirs for pair in pairs]
    for place, pair in enumerate(pairs):
        if raised and pair.sample in raised:
            candidate[place] += pair.unknown[0]
            baseline[place] -= pair.unknown[1]
    return compare_paired(
        candidate,
        baseline,
        margin=rules.margin,
        groups=groups_of(pairs),
        level=rules.level,
        power=rules.power,
        guaranteed=rules.guaranteed,
        believed=not rules.guaranteed,
    )


class LostRuns(NamedTuple):
    """What lost runs could have done to the lower end of the difference."""

    samples: int
    low: float | None
    """The lowest that the lower end could have been; None where there are too many to work it
    out.
    """


def lost_could(pairs: Sequence[Pair], rules: ReleaseRules) -> LostRuns | None:
    """How low the lower end could have been, whatever the lost runs came to; None where nothing is
    missing, or the interval cannot gain by it.

    The end is lowest where each lost run is at one end of its range; those that would be the
    furthest above the others come first. The interval that assumes nothing, and one that holds at
    every look, only fall when a value falls.
    """
    lost = [pair for pair in pairs if not pair.is_whole]
    if not lost or rules.guaranteed:
        return None
    if len(lost) > MAX_MISSING:
        return LostRuns(len(lost), None)
    ordered = sorted(
        lost,
        key=lambda pair: (pair.theirs - pair.unknown[1] - pair.ours - pair.unknown[0], pair.sample),
    )
    ends = [
        _compare(
            pairs, rules, raised=frozenset(pair.sample for pair in ordered[:count])
        ).difference.low
        for count in range(len(ordered) + 1)
    ]
    return LostRuns(
        len(lost), None if None in ends else min(end for end in ends if end is not None)
    )


def adjusted_difference(pairs: Sequence[Pair], shrinkage: exact.Shrinkage) -> float | None:
    """The difference of the adjusted scores, formed once for each side and criterion, with n the
    samples that are paired.

    Formed for each run, the pull towards the prior would hide a drop of twenty points. A lost
    sample stays in n: were n smaller for it, the pull would be stronger, and a loss would make a
    drop look smaller. A sample that nobody has is a drop of 100 points.
    """
    if not pairs:
        return None
    totals: dict[Stratum, tuple[list[int | Fraction], list[int | Fraction], list[int]]] = {}
    nobody = 0
    for pair in pairs:
        if pair.known is None:
            nobody += 1
            continue
        stratum = pair.known.stratum
        width = len(stratum.criteria)
        ours, theirs, counts = totals.setdefault(stratum, ([0] * width, [0] * width, [0]))
        counts[0] += 1
        for index in range(width):
            # a side that was scored by other criteria has none of these: it counts as if it were
            # missing
            ours[index] += (
                pair.candidate.norms[index]
                if pair.candidate is not None and pair.candidate.stratum == stratum
                else 0
            )
            theirs[index] += (
                pair.baseline.norms[index]
                if pair.baseline is not None and pair.baseline.stratum == stratum
                else NORM_ONE
            )
    difference = Fraction(-nobody * NORM_ONE, len(pairs))
    for stratum, (ours, theirs, (count,)) in totals.items():
        weight_sum = sum(stratum.weights)
        for weight, our, their in zip(stratum.weights, ours, theirs, strict=True):
            one, other = (
                exact.shrink(_rounded(Fraction(total, count)), count, shrinkage)
                for total in (our, their)
            )
            difference += Fraction(weight * (one - other) * count, weight_sum * len(pairs))
    return float(difference * 100 / NORM_ONE)


def _rounded(value: Fraction) -> int:
    return exact.quantise(value.numerator, value.denominator, 0)


def _gate_failures(pairs: Sequence[Pair], rules: ReleaseRules, *, without_gates: bool) -> Rule:
    ours = [pair.candidate is None or bool(pair.candidate.failed) for pair in pairs]
    theirs = [pair.baseline is not None and bool(pair.baseline.failed) for pair in pairs]
    if not ours:
        return Rule("gate_failure_rate", None, False, "there are no samples to compare", {})
    n = len(ours)
    compared = compare_failures(
        ours, theirs, allowed=float(Fraction(*rules.gate_failure_increase)), level=rules.level
    )
    rise = Fraction(sum(ours) - sum(theirs), n)
    holds = rise <= Fraction(*rules.gate_failure_increase)
    by_gate: dict[str, list[int]] = {}
    for pair in pairs:
        for name in pair.known.gates if pair.known is not None else ():
            counts = by_gate.setdefault(name, [0, 0])
            counts[0] += (
                pair.candidate is None
                or name in pair.candidate.failed
                or name not in pair.candidate.gates
            )
            counts[1] += pair.baseline is not None and name in pair.baseline.failed
    newly = [
        pair.sample
        for pair, mine, before in zip(pairs, ours, theirs, strict=True)
        if mine and not before
    ]
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
        "gates": {
            name: {"candidate": mine, "baseline": before}
            for name, (mine, before) in sorted(by_gate.items())
        },
        "newly_failing": newly[:SHOWN],
        "newly_failing_count": len(newly),
    }
    said = f"{sum(ours)} of {n} samples fail a gate, {sum(theirs)} before"
    lost = lost_of((pair.candidate for pair in pairs), "gate", "declaration")
    if lost:
        evidence |= {"lost": lost[:SHOWN], "lost_count": len(lost)}
        return Rule("gate_failure_rate", False, True, f"{lost_said(lost)}; {said}", evidence)
    ungated = [pair.sample for pair in pairs if pair.known is not None and not pair.known.gates]
    if ungated and holds and not without_gates:
        evidence["without_gates"] = ungated[:SHOWN]
        return Rule(
            "gate_failure_rate",
            None,
            False,
            f"{len(ungated)} of {n} samples have no hard gate on either side, for example"
            f" {ungated[0]}",
            evidence,
        )
    if holds:
        return Rule(
            "gate_failure_rate",
            True,
            False,
            f"{said}; the rate did not rise by more than {_number(rules.gate_failure_increase)}",
            evidence,
        )
    return Rule(
        "gate_failure_rate",
        False,
        True,
        f"{said}; the rate rose by {float(rise):.4f}, and {_number(rules.gate_failure_increase)} is"
        " allowed",
        evidence,
    )


def _number(value: exact.Ratio) -> str:
    return f"{value.num / value.den:g}"


def _scores(
    pairs: Sequence[Pair],
    comparison: Comparison,
    adjusted: float | None,
    rules: ReleaseRules,
    *,
    lost: LostRuns | None,
) -> Rule:
    difference, claims = comparison.difference, comparison.claims
    evidence: dict[str, Any] = {
        "difference": difference.shown(),
        "margin": rules.margin,
        "adjusted_difference": adjusted,
        "wins": comparison.wins,
        "losses": comparison.losses,
        "ties": comparison.ties,
    }
    criteria = lost_of((pair.candidate for pair in pairs), "criterion")
    if criteria:
        evidence |= {"lost": criteria[:SHOWN], "lost_count": len(criteria)}
        return Rule(
            SCORE_RULE,
            False,
            True,
            f"{lost_said(criteria)}, so its scores leave out what the baseline's count",
            evidence,
        )
    if difference.low is None or difference.high is None or adjusted is None:
        return Rule(
            SCORE_RULE,
            None,
            False,
            f"the difference has no interval: {difference.reason or 'there are no pairs'}",
            evidence,
        )
    ends = f"{difference.value:+.2f} points, {difference.low:+.2f} to {difference.high:+.2f}"
    if claims.inferior:
        return Rule(
            SCORE_RULE,
            False,
            True,
            f"shown to be worse by more than {rules.margin:g}: {ends}",
            evidence,
        )
    if not claims.non_inferior:
        return Rule(
            SCORE_RULE,
            False,
            False,
            f"a drop of {rules.margin:g} or more cannot be excluded: {ends}",
            evidence,
        )
    if adjusted <= -rules.margin:
        return Rule(
            SCORE_RULE,
            False,
            False,
            f"the adjusted difference is {adjusted:+.2f}, not above -{rules.margin:g}; {ends}",
            evidence,
        )
    if lost is not None:
        evidence["lost_runs"] = {"samples": lost.samples, "low": lost.low}
        if lost.low is None or lost.low <= -rules.margin:
            low = (
                "no bound on it is known"
                if lost.low is None
                else f"the lower end could have been {lost.low:+.2f}"
            )
            return Rule(
                SCORE_RULE,
                False,
                False,
                f"runs of {lost.samples} samples are missing, and with what they held {low}; as"
                f" counted {ends}",
                evidence,
            )
    better = ", and better" if claims.superior else ""
    said = f"not worse by {rules.margin:g} or more{better}: {ends}; adjusted {adjusted:+.2f}"
    if difference.low == difference.high:
        # the interval has no width because no difference was seen, which is not the same as that
        # there is none
        unseen = 1 - ((1 - rules.level) / 2) ** (1 / (comparison.clusters or comparison.n_paired))
        evidence["unseen_loss_rate"] = unseen
        said += (
            f"; all differences are equal, and a total loss in up to {100 * unseen:.1f}% of samples"
            " could have gone unseen"
        )
    return Rule(SCORE_RULE, True, False, said, evidence)


def _floors(pairs: Sequence[Pair], rules: ReleaseRules) -> Rule:
    fresh: list[dict[str, Any]] = []
    mended = 0
    for pair in pairs:
        if pair.known is None:
            continue
        mine = frozenset(pair.known.floors) if pair.candidate is None else pair.candidate.missed
        before = pair.baseline.missed if pair.baseline is not None else frozenset()
        fresh += [{"sample": pair.sample, "criterion": name} for name in sorted(mine - before)]
        mended += len(before - mine)
    evidence = {
        "new": fresh[:SHOWN],
        "new_count": len(fresh),
        "mended_count": mended,
        "allowed": rules.new_floor_failures,
    }
    lost = lost_of((pair.candidate for pair in pairs), "role", "floor")
    if lost:
        evidence |= {"lost": lost[:SHOWN], "lost_count": len(lost)}
        return Rule("floor_regression", False, True, lost_said(lost), evidence)
    if len(fresh) <= rules.new_floor_failures:
        return Rule(
            "floor_regression",
            True,
            False,
            (
                "no sample misses a critical floor that it kept before"
                if not fresh
                else f"{len(fresh)} new misses of a critical floor, within what is allowed"
            ),
            evidence,
        )
    first = fresh[0]
    more = f" and {len(fresh) - 1} more" if len(fresh) > 1 else ""
    return Rule(
        "floor_regression",
        False,
        True,
        f"{first['sample']} misses the floor of {first['criterion']}, which it kept before{more}",
        evidence,
    )


def _severe(pairs: Sequence[Pair], rules: ReleaseRules) -> Rule:
    ours: list[dict[str, str]] = []
    theirs = 0
    for pair in pairs:
        if pair.known is None:
            continue
        gates, roles = (
            (pair.known.gates, pair.known.floor_roles)
            if pair.candidate is None
            else (pair.candidate.failed, pair.candidate.missed_roles)
        )
        ours += [
            {"sample": pair.sample, "what": name} for name in sorted(gates & rules.severe_gates)
        ]
        ours += [
            {"sample": pair.sample, "what": f"floor of the role {role}"}
            for role in sorted(roles & rules.severe_roles)
        ]
        if pair.baseline is not None:
            theirs += len(pair.baseline.failed & rules.severe_gates) + len(
                pair.baseline.missed_roles & rules.severe_roles
            )
    evidence = {
        "candidate": len(ours),
        "baseline": theirs,
        "allowed_increase": rules.severe_increase,
        "items": ours[:SHOWN],
        "severe_gates": sorted(rules.severe_gates),
    }
    said = f"{len(ours)} severe failure{'' if len(ours) == 1 else 's'}, {theirs} before"
    if len(ours) - theirs <= rules.severe_increase:
        return Rule("severe_failures", True, False, said, evidence)
    return Rule(
        "severe_failures",
        False,
        True,
        f"{said}; for example {ours[0]['what']} in {ours[0]['sample']}",
        evidence,
    )


def _outcome(
    found: Sequence[Rule], paired: int, rules: ReleaseRules, comparison: Comparison
) -> tuple[str, str]:
    violated = [rule for rule in found if rule.violated]
    if violated:
        return "reject", f"{violated[0].id}: {violated[0].reason}" + (
            f" (and {len(violated) - 1} more)" if len(violated) > 1 else ""
        )
    if paired < rules.min_pairs:
        return (
            "not_enough_evidence",
            f"{paired} paired samples; the policy asks for at least {rules.min_pairs}",
        )
    open_ = [rule for rule in found if rule.holds is None]
    if open_:
        return "not_enough_evidence", f"{open_[0].id}: {open_[0].reason}"
    unmet = [rule for rule in found if not rule.holds]
    if unmet:
        return "hold", f"{unmet[0].id}: {unmet[0].reason}"
    superior = (
        "; the candidate is better"
        if comparison.claims.superior
        else "; the two are equivalent"
        if comparison.claims.equivalent
        else ""
    )
    return "promote", f"every rule holds{superior}"


def _would_change(
    found: Sequence[Rule], outcome: str, paired: int, rules: ReleaseRules, comparison: Comparison
) -> list[str]:
    """What would move the outcome, in words."""
    said = []
    by_id: Mapping[str, Rule] = {rule.id: rule for rule in found}
    if outcome == "promote":
        room = comparison.difference.low
        if room is not None:
            said.append(
                f"The lower end of the difference is {room + rules.margin:.2f} points above the"
                " limit."
            )
        return said
    gates = by_id["gate_failure_rate"]
    for rule in found:
        if "lost" in rule.evidence:
            said.append(
                "Bring back what the baseline has:"
                f" {_names([one['what'] for one in rule.evidence['lost']])}."
            )
    if gates.violated and "lost" not in gates.evidence:
        excess = gates.evidence["candidate"]["failed"] - gates.evidence["baseline"]["failed"]
        said.append(
            f"Fix {excess} of the samples that newly fail a gate:"
            f" {_names(gates.evidence['newly_failing'])}."
        )
    if by_id["floor_regression"].evidence["new"] and by_id["floor_regression"].violated:
        said.append(
            "Bring back above their floor:"
            f" {_names([item['sample'] for item in by_id['floor_regression'].evidence['new']])}."
        )
    if by_id["severe_failures"].violated:
        said.append(
            "Fix severe failures:"
            f" {_names([item['sample'] for item in by_id['severe_failures'].evidence['items']])}."
        )
    scores = by_id[SCORE_RULE]
    if (
        scores.holds is False
        and comparison.difference.value is not None
        and comparison.difference.low is not None
    ):
        half = comparison.difference.value - comparison.difference.low
        if comparison.claims.non_inferior:
            if "lost_runs" in scores.evidence:
                said.append(
                    "Bring the missing runs: the scores must be shown not to fall whatever these"
                    " came to."
                )
        elif comparison.difference.value > -rules.margin and half > 0:
            needed = -(-paired * half**2 // (comparison.difference.value + rules.margin) ** 2)
            said.append(
                f"With this difference and spread, about {int(needed):,} paired samples would show"
                f" that the drop is below {rules.margin:g}."
            )
        else:
            said.append(
                "The scores must rise by at least"
                f" {-rules.margin - comparison.difference.value:.2f} points on average."
            )
    if paired < rules.min_pairs:
        said.append(
            f"{rules.min_pairs - paired} more paired samples reach the minimum of"
            f" {rules.min_pairs}."
        )
    return said


def _names(samples: Sequence[str]) -> str:
    unique = list(dict.fromkeys(samples))
    return ", ".join(unique[:5]) + (f" and {len(unique) - 5} more" if len(unique) > 5 else "")
