"""The decision as a document: `assay.decision/1`, with everything it rests on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from assay.canon import digest
from assay.release.promotion import SHOWN
from assay.release.required import (
    check_strata,
    closest,
    held_alike,
    lost_altogether,
    lost_of,
    lost_said,
    requirements,
)
from assay.release.sides import mismatches
from assay.stats.comparison import Comparison, compare_failures_unpaired, compare_unpaired
from assay.stats.rates import mcnemar

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from assay.release.policy import ReleaseRules
    from assay.release.promotion import Promotion
    from assay.release.sides import Row, Side

DECISION_SCHEMA = "assay.decision/1"
EXITS = {"promote": 0, "hold": 1, "reject": 1, "not_enough_evidence": 4}
"""What each outcome says to the caller."""


def comparison_shown(
    comparison: Comparison,
    *,
    n_candidate: int,
    n_baseline: int,
    n_paired: int,
    mcnemar_p: float | None,
    adjusted: float | None,
) -> dict[str, Any]:
    """The numbers of a comparison, on 0..100."""
    difference = comparison.difference
    shown = {
        "estimate": difference.value,
        "low": difference.low,
        "high": difference.high,
        "level": difference.level,
        "method": difference.method,
    }
    if difference.reason is not None:
        shown["reason"] = difference.reason
    return {
        "n_candidate": n_candidate,
        "n_baseline": n_baseline,
        "n_paired": n_paired,
        "difference": shown,
        "adjusted_difference": adjusted,
        "margin": comparison.margin,
        "non_inferior": comparison.claims.non_inferior,
        "superior": comparison.claims.superior,
        "equivalent": comparison.claims.equivalent,
        "p": {
            "non_inferior": comparison.p_non_inferior,
            "superior": comparison.p_superior,
            "equivalent": comparison.p_equivalent,
        },
        "mcnemar_p": mcnemar_p,
        "minimum_detectable_effect": comparison.minimum_detectable_effect,
        "wins": comparison.wins,
        "losses": comparison.losses,
        "ties": comparison.ties,
        "sd": comparison.sd,
        "clusters": comparison.clusters,
    }


def decision(
    promotion: Promotion,
    candidate: Side,
    baseline: Side,
    rules: ReleaseRules,
    *,
    plan: Mapping[str, Any],
    extra: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The document of a paired decision."""
    made = {
        "schema": DECISION_SCHEMA,
        "outcome": promotion.outcome,
        "reason": promotion.reason,
        "rules": [rule.shown() for rule in promotion.rules],
        "comparison": comparison_shown(
            promotion.comparison,
            n_candidate=len(candidate.rows),
            n_baseline=len(baseline.rows),
            n_paired=promotion.n_paired,
            mcnemar_p=_passes(promotion),
            adjusted=promotion.adjusted_difference,
        ),
        "would_change": list(promotion.would_change),
        "missing": promotion.missing,
        "worse": worse(promotion),
        "paired": True,
        **_common(candidate, baseline, rules, plan=plan),
        **(extra or {}),
    }
    return {
        **made,
        "digests": {
            **made["digests"],
            "decision": digest({key: value for key, value in made.items() if key != "digests"}),
        },
    }


def _passes(promotion: Promotion) -> float | None:
    """The exact two-sided p-value of McNemar's test on which samples pass: whether one side passes
    samples that the other fails more often than the reverse.
    """
    if not promotion.pairs:
        return None
    ours = [pair.candidate is not None and pair.candidate.passed for pair in promotion.pairs]
    theirs = [pair.baseline is None or pair.baseline.passed for pair in promotion.pairs]
    gained = sum(mine and not before for mine, before in zip(ours, theirs, strict=True))
    lost = sum(before and not mine for mine, before in zip(ours, theirs, strict=True))
    return mcnemar(gained, lost).p


def worse(promotion: Promotion, *, most: int = 20) -> list[dict[str, Any]]:
    """The samples that lost most, worst first."""
    both = [
        (float(pair.candidate.score - pair.baseline.score) / 100, pair)
        for pair in promotion.pairs
        if pair.candidate and pair.baseline
    ]
    fallen = sorted(
        (item for item in both if item[0] < 0), key=lambda item: (item[0], item[1].sample)
    )[:most]
    return [
        {
            "sample": pair.sample,
            "difference": round(difference, 4),
            "candidate": float(pair.candidate.score) / 100 if pair.candidate else None,
            "baseline": float(pair.baseline.score) / 100 if pair.baseline else None,
            "newly_failed_gates": (
                sorted(pair.candidate.failed - pair.baseline.failed)
                if pair.candidate and pair.baseline
                else []
            ),
        }
        for difference, pair in fallen
    ]


def systems(side: Side, rules: ReleaseRules) -> dict[str, str]:
    """The systems that a decision on this side is made under: those of its grades, and a release
    policy that is a system of its own.
    """
    scoring, grading = (
        ", ".join(side.fingerprint[name]) for name in ("scoringSystem", "gradingSystem")
    )
    return {"scoringSystem": scoring, "gradingSystem": rules.grading_system(grading)}


def _common(
    candidate: Side, baseline: Side, rules: ReleaseRules, *, plan: Mapping[str, Any]
) -> dict[str, Any]:
    return {
        "candidate": {"name": candidate.name, **candidate.summary},
        "baseline": {"name": baseline.name, **baseline.summary},
        "fingerprint": {
            "digest": candidate.fingerprint_digest,
            "fields": dict(candidate.fingerprint),
        },
        "plan": dict(plan),
        "policy": rules.policy,
        **systems(candidate, rules),
        "digests": {
            "policy": rules.digest,
            "candidate": candidate.digests["evidence"],
            "baseline": baseline.digests["evidence"],
        },
    }


def unpaired_decision(
    candidate: Side,
    baseline: Side,
    rules: ReleaseRules,
    *,
    plan: Mapping[str, Any],
    extra: Mapping[str, Any] | None = None,
    without_gates: bool = False,
) -> dict[str, Any]:
    """A decision on sets that share no samples, which somebody asked for by name. Nothing is
    compared item by item, so floors are compared by their rate.
    """
    rows = list(candidate.rows.values()), list(baseline.rows.values())
    strata = {row.stratum for row in rows[1]}
    like = {row.sample: closest(row.stratum, strata) for row in rows[0]}
    check_strata((row.sample, row.stratum, like[row.sample]) for row in rows[0])
    lost, required = lost_altogether(*rows), requirements(*rows)
    ours, theirs = (
        [held_alike(row, required, like=like.get(row.sample)) for row in rows[0]],
        [held_alike(row, required) for row in rows[1]],
    )
    ours[0] = ours[0]._replace(lost=tuple(sorted({*ours[0].lost, *lost})))
    comparison = compare_unpaired(
        [float(row.score) / 100 for row in ours],
        [float(row.score) / 100 for row in theirs],
        margin=rules.margin,
        level=rules.level,
        power=rules.power,
    )
    n = min(len(ours), len(theirs))
    found = [
        _rate_rule("gate_failure_rate", ours, theirs, lambda row: bool(row.failed), rules),
        _unpaired_scores(comparison, rules),
        _rate_rule("floor_regression", ours, theirs, lambda row: bool(row.missed), rules),
        _rate_rule("severe_failures", ours, theirs, lambda row: _severe(row, rules), rules),
    ]
    for place, kinds in enumerate((("gate",), ("criterion",), ("role", "floor"))):
        gone = lost_of(ours, *kinds)
        if gone:
            evidence = {**found[place]["evidence"], "lost": gone[:SHOWN], "lost_count": len(gone)}
            found[place] |= {
                "holds": False,
                "violated": True,
                "reason": lost_said(gone),
                "evidence": evidence,
            }
    ungated = sum(not row.gates for row in ours)
    if ungated and found[0]["holds"] and not without_gates:
        found[0] |= {
            "holds": None,
            "reason": f"{ungated} of {len(ours)} samples have no hard gate on either side",
        }
    violated = [rule for rule in found if rule["violated"]]
    if violated:
        outcome, reason = "reject", f"{violated[0]['id']}: {violated[0]['reason']}"
    elif n < rules.min_pairs:
        outcome, reason = (
            "not_enough_evidence",
            f"{n} samples on the smaller side; the policy asks for at least {rules.min_pairs}",
        )
    elif any(rule["holds"] is None for rule in found):
        outcome, reason = (
            "not_enough_evidence",
            next(f"{rule['id']}: {rule['reason']}" for rule in found if rule["holds"] is None),
        )
    elif not all(rule["holds"] for rule in found):
        outcome, reason = (
            "hold",
            next(f"{rule['id']}: {rule['reason']}" for rule in found if not rule["holds"]),
        )
    else:
        outcome, reason = "promote", "every rule holds, on sets that share no samples"
    made = {
        "schema": DECISION_SCHEMA,
        "outcome": outcome,
        "reason": reason,
        "rules": found,
        "comparison": comparison_shown(
            comparison,
            n_candidate=len(ours),
            n_baseline=len(theirs),
            n_paired=0,
            mcnemar_p=None,
            adjusted=None,
        ),
        "would_change": [
            "Compare on the same samples: a paired comparison sees far smaller differences."
        ],
        "missing": {"candidate": [], "baseline": [], "quarantined": []},
        "worse": [],
        "paired": False,
        "mismatches": [mismatch.sentence() for mismatch in mismatches(candidate, baseline)],
        **_common(candidate, baseline, rules, plan=plan),
        **(extra or {}),
    }
    return {
        **made,
        "digests": {
            **made["digests"],
            "decision": digest({key: value for key, value in made.items() if key != "digests"}),
        },
    }


def _severe(row: Row, rules: ReleaseRules) -> bool:
    return bool(row.failed & rules.severe_gates or row.missed_roles & rules.severe_roles)


def _rate_rule(
    name: str,
    rows: Sequence[Row],
    baseline: Sequence[Row],
    is_bad: Callable[[Row], bool],
    rules: ReleaseRules,
) -> dict[str, Any]:
    """A rule on the rate of something bad. It may not rise at all, as it stands."""
    ours, n, theirs, before = (
        sum(map(is_bad, rows)),
        len(rows),
        sum(map(is_bad, baseline)),
        len(baseline),
    )
    difference = (
        compare_failures_unpaired(ours, n, theirs, before, level=rules.level)
        if n and before
        else None
    )
    evidence = {
        "candidate": {"failed": ours, "n": n},
        "baseline": {"failed": theirs, "n": before},
        "difference": None if difference is None else difference.shown(),
    }
    if difference is None:
        return {
            "id": name,
            "holds": None,
            "violated": False,
            "reason": "a side has no samples",
            "evidence": evidence,
        }
    holds = ours * before <= theirs * n
    said = f"{ours} of {n}, {theirs} of {before} before"
    return {"id": name, "holds": holds, "violated": not holds, "reason": said, "evidence": evidence}


def _unpaired_scores(comparison: Comparison, rules: ReleaseRules) -> dict[str, Any]:
    difference, claims = comparison.difference, comparison.claims
    evidence = {"difference": difference.shown(), "margin": rules.margin}
    if difference.low is None or difference.high is None:
        return {
            "id": "score_non_inferiority",
            "holds": None,
            "violated": False,
            "reason": f"no interval: {difference.reason}",
            "evidence": evidence,
        }
    said = (
        f"{difference.value:+.2f} points, {difference.low:+.2f} to {difference.high:+.2f}, margin"
        f" {rules.margin:g}"
    )
    return {
        "id": "score_non_inferiority",
        "holds": bool(claims.non_inferior),
        "violated": bool(claims.inferior),
        "reason": said,
        "evidence": evidence,
    }


def exit_code(document: Mapping[str, Any]) -> int:
    """The exit code of a decision; what is unknown does not open a gate."""
    return EXITS.get(str(document.get("outcome")), 1)


def mismatch_sentences(found: Sequence[Any]) -> str:
    """Every field in which two sides differ, in words."""
    return "; ".join(mismatch.sentence() for mismatch in found)
