"""The gates of exams: which of them block, and which only warn.

Four checks with four names, never merged. The hard gate on the capstone exam and the drop on the
regression set block. The production target and the soft gates are signals. A rise that is larger
than a drop may be is checked for a fault of the rubric. Every comparison is of exact quotients. Two
results are compared only if they answer the same questions under the same rubric.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any, NamedTuple

from assay.errors import InputError
from assay.exams.document import ExamDocument, Outcome, check_whole
from assay.exams.exam import CAPSTONE, REGRESSION
from assay.exams.policy import ExamRules, fraction, shown, text
from assay.exams.rubric import AXES
from assay.exams.selftest import SelfTestResult, self_test
from assay.exams.versions import Systems

GATE_SCHEMA = "assay.exam-gate/1"


class Soft(NamedTuple):
    """A soft gate. `warn` is None where there was nothing to judge."""

    id: str
    warn: bool | None
    value: Any
    limit: Any
    reason: str = ""


class Drop(NamedTuple):
    """How a candidate compares with the stored baseline on the regression set."""

    holds: bool
    drop: Fraction
    baseline: Fraction
    candidate: Fraction


class Verification(NamedTuple):
    """A rise that is checked for a fault of the rubric."""

    rise: Fraction
    self_test: SelfTestResult


class Verdict(NamedTuple):
    """What the gate says. It is not `judged` where the regression set came without its baseline;
    then it has not passed either.
    """

    passed: bool
    judged: bool
    score: Fraction
    hard_gate: bool
    target: bool
    regression: Drop | None
    soft: tuple[Soft, ...]
    verify_rubric: Verification | None
    changes: dict[str, Fraction]
    """How the mean of each axis moved against the baseline; empty without one."""
    reasons: tuple[str, ...]
    notes: tuple[str, ...]


def opens(score: Fraction, rules: ExamRules) -> bool:
    """Whether a score opens the hard gate: the limit itself does."""
    return score >= rules.hard_gate


def reaches(score: Fraction, rules: ExamRules) -> bool:
    """Whether a score reaches the production target: the target itself does."""
    return score >= rules.production_target


def drop_holds(baseline: Fraction, candidate: Fraction, max_drop: Fraction) -> bool:
    """Whether a candidate falls by no more than the limit, absolute and inclusive.

    >>> drop_holds(fraction(0.97), fraction(0.95), fraction(0.02)), 0.97 - 0.95 <= 0.02
    (True, False)
    """
    return baseline - candidate <= max_drop


def soft_latency(p50_ms: Any, rules: ExamRules, *, unmeasured: int = 0) -> Soft:
    """The median latency against its budget. Answers whose latency nobody measured may be the slow
    ones, so they warn too.
    """
    limit = rules.policy.soft.p50_latency_ms
    if p50_ms is None:
        return Soft("p50_latency_ms", True, None, limit, "no latency was measured")
    slow = fraction(p50_ms) > rules.soft_latency_ms
    if unmeasured > 0 and not slow:
        return Soft(
            "p50_latency_ms",
            True,
            p50_ms,
            limit,
            f"{p50_ms} against {limit}, and {unmeasured} answers have no latency",
        )
    return Soft("p50_latency_ms", slow, p50_ms, limit)


def soft_schema(failures: int | None, rules: ExamRules) -> Soft:
    """The answers of the regression set that break their schema."""
    limit = rules.policy.soft.schema_failures
    if failures is None:
        return Soft("schema_failures", None, None, limit, "no regression set was given")
    return Soft("schema_failures", failures > limit, failures, limit)


def soft_score(score: Fraction | None, rules: ExamRules) -> Soft:
    """The score on the regression set. It warns; the gate that blocks there is the drop."""
    limit = rules.policy.soft.regression_score
    if score is None:
        return Soft("regression_score", None, None, limit, "no regression set was given")
    return Soft("regression_score", score < rules.soft_score, shown(score), limit)


def comparable(candidate: Outcome, baseline: Outcome) -> None:
    """Refuse two results that do not answer the same questions under the same rubric and scoring
    system.
    """
    check_whole(baseline)
    ours, theirs = candidate.document, baseline.document
    reason = ""
    if theirs.set != REGRESSION:
        reason, fix = (
            f"it is of the set '{theirs.set}', not of the regression set",
            "Grade the production tutor on the regression set.",
        )
    elif ours.rubric != theirs.rubric or ours.digests.rubric != theirs.digests.rubric:
        reason = f"it was graded with {theirs.rubric}, the candidate with {ours.rubric}"
        fix = (
            f"Recalibrate it first: assay exam recalibrate --history {baseline.where} --rubric"
            f" {ours.rubric} --write DIR"
        )
    elif ours.scoring_system != theirs.scoring_system:
        reason = (
            f"it was made under {theirs.scoring_system}, the candidate under {ours.scoring_system}"
        )
        fix = "Grade its answers again."
    elif ours.digests.exam != theirs.digests.exam:
        lost, added = (
            len(baseline.bits.keys() - candidate.bits.keys()),
            len(candidate.bits.keys() - baseline.bits.keys()),
        )
        reason = (
            f"it is of another exam ({lost} of its items are gone, {added} are new, or their"
            " expectations changed)"
        )
        fix = "Grade the production tutor on this exam and store that as the baseline."
    elif other := _shown_otherwise(ours, theirs):
        # The digests are what each result says of itself; what it shows beside them is what its
        # marks were held against.
        reason, fix = (
            f"the candidate shows another prompt or another expectation for {', '.join(other[:5])}",
            "Grade the candidate's answers again.",
        )
    if reason:
        raise InputError(
            "EXM-012", f"the baseline cannot be compared: {reason}.", where=baseline.where, fix=fix
        )


def _shown_otherwise(ours: ExamDocument, theirs: ExamDocument) -> list[str]:
    """The items that two results of one exam do not show alike."""
    shown_as = {one.item: (one.prompt, one.expected) for one in theirs.items}
    return [one.item for one in ours.items if shown_as.get(one.item) != (one.prompt, one.expected)]


def decide(
    capstone: Outcome,
    rules: ExamRules,
    *,
    regression: Outcome | None = None,
    baseline: Outcome | None = None,
) -> Verdict:
    """The verdict on a capstone result, with the regression set and its baseline where they are
    given.
    """
    if capstone.document.set != CAPSTONE:
        raise InputError(
            "EXM-013",
            f"is of the set '{capstone.document.set}'; the hard gate is on the capstone exam.",
            where=capstone.where,
            fix="Give it with --regression.",
        )
    if regression is not None and regression.document.set != REGRESSION:
        raise InputError(
            "EXM-013",
            f"is of the set '{regression.document.set}'; the drop is on the regression set.",
            where=regression.where,
            fix="Grade the regression set, and give that.",
        )
    notes = _notes(capstone, regression, baseline)
    drop, verify, changes = None, None, {}
    if regression is not None and baseline is not None:
        comparable(regression, baseline)
        drop = Drop(
            drop_holds(baseline.score, regression.score, rules.max_drop),
            baseline.score - regression.score,
            baseline.score,
            regression.score,
        )
        changes = {axis: regression.axis_mean(axis) - baseline.axis_mean(axis) for axis in AXES}
        if -drop.drop > rules.verify_rise_above:
            verify = Verification(-drop.drop, self_test(regression.marking))
        if changes["conciseness"] < 0 and all(
            change >= 0 for axis, change in changes.items() if axis != "conciseness"
        ):
            notes.append(
                f"conciseness alone fell, by {text(-changes['conciseness'])}: the prompt template"
                " may have changed"
            )
    score, hard = capstone.score, opens(capstone.score, rules)
    reasons = [
        (
            f"the capstone score {text(score)} {'reaches' if hard else 'is below'} the hard gate of"
            f" {text(rules.hard_gate)}"
        )
    ]
    if drop is not None:
        moved = (
            f"fell by {text(drop.drop)}"
            if drop.drop > 0
            else f"rose by {text(-drop.drop)}"
            if drop.drop < 0
            else "did not move"
        )
        verdict = "at most" if drop.holds else "more than"
        reasons.append(
            f"the regression score {moved} from {text(drop.baseline)} to {text(drop.candidate)}:"
            f" {verdict} the {text(rules.max_drop)} it may fall"
        )
    sound = True
    if verify is not None:
        sound = verify.self_test.passed
        # a score that the rubric itself cannot vouch for is no evidence, however high
        said = (
            "the rubric passes its own test"
            if sound
            else (
                f"the rubric fails {len(verify.self_test.failures)} of its own"
                f" {verify.self_test.cases} cases"
            )
        )
        reasons.append(
            f"verify_rubric: a rise of {text(verify.rise)} is more than"
            f" {text(rules.verify_rise_above)}; {said}"
        )
    soft = (
        soft_latency(capstone.p50_ms, rules, unmeasured=capstone.unmeasured),
        soft_schema(regression.zero("schema") if regression is not None else None, rules),
        soft_score(regression.score if regression is not None else None, rules),
    )
    judged = regression is None or drop is not None
    if not judged:
        reasons.append(
            "the regression set was not judged: without its baseline nobody knows whether it fell"
        )
    passed = hard and (drop is None or drop.holds) and sound and judged
    return Verdict(
        passed,
        judged,
        score,
        hard,
        reaches(score, rules),
        drop,
        soft,
        verify,
        changes,
        tuple(reasons),
        tuple(notes),
    )


def _notes(capstone: Outcome, regression: Outcome | None, baseline: Outcome | None) -> list[str]:
    notes = []
    for outcome in (capstone, regression, baseline):
        if outcome is not None and outcome.document.faults:
            notes.append(
                f"{outcome.where}: graded although {len(outcome.document.faults)} answers were at"
                " fault"
            )
        if outcome is not None and outcome.document.missing:
            notes.append(
                f"{outcome.where}: {len(outcome.document.missing)} of {len(outcome.bits)} items"
                " have no answer"
            )
        if outcome is not None and outcome.removed:
            named = ", ".join(outcome.removed[:5])
            notes.append(
                f"{outcome.where}: {len(outcome.removed)} items of its exam are not in it and count"
                f" as missing: {named}"
            )
    if (
        regression is not None
        and baseline is not None
        and regression.document.items == baseline.document.items
    ):
        notes.append(
            f"{regression.where}: the regression result and its baseline are the same, so nothing"
            " was compared"
        )
    return notes


def gate_document(verdict: Verdict, rules: ExamRules, capstone: Outcome) -> dict[str, Any]:
    """The verdict as JSON."""
    drop, verify = verdict.regression, verdict.verify_rubric
    return {
        "schema": GATE_SCHEMA,
        "passed": verdict.passed,
        "capstone": {
            "holds": verdict.hard_gate,
            "score": shown(verdict.score),
            "limit": rules.policy.hard_gate,
            "n": len(capstone.bits),
        },
        "target": {
            "holds": verdict.target,
            "score": shown(verdict.score),
            "limit": rules.policy.production_target,
        },
        "regression": (
            None
            if drop is None
            else {
                "holds": drop.holds,
                "drop": shown(drop.drop),
                "limit": rules.policy.max_drop,
                "baseline": shown(drop.baseline),
                "candidate": shown(drop.candidate),
                "axes": {axis: shown(change) for axis, change in verdict.changes.items()},
            }
        ),
        "soft": [{**one._asdict(), "blocks": False} for one in verdict.soft],
        "verify_rubric": (
            None
            if verify is None
            else {
                "rise": shown(verify.rise),
                "limit": rules.policy.verify_rise_above,
                "self_test": verify.self_test.document(),
            }
        ),
        "reasons": list(verdict.reasons),
        "notes": list(verdict.notes),
        "rubric": capstone.marking.id,
        "policy": rules.id,
        "digests": {
            "rubric": capstone.marking.digest,
            "policy": rules.digest,
            "exam": capstone.document.digests.exam,
        },
        **Systems(capstone.marking.scoring_system, rules.grading_system).document(),
    }
