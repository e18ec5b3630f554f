"""The view of a release decision: every number and sentence that people see of it.

`decision_summary` is what a terminal and a pull request show; `decision_sections` has the rest of a
page.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import UNSET, UnsetType

from assay.errors import count, few
from assay.records.decision import (
    SIDES,
    Decision,
    PolicyOverride,
    RuleResult,
    SliceComparison,
)
from assay.records.summary import SummaryBlock, ValueInterval
from assay.views.blocks import (
    Column,
    Decided,
    Facts,
    Paragraph,
    Part,
    Table,
    stated,
)
from assay.views.charts.decisions import rule_word as rule_word
from assay.views.pieces import (
    Piece,
    number,
    piece,
    signed,
    verdict,
    words,
)

SCALE = 100.0
"""The largest difference that two scores can have."""
OUTCOMES = {
    "promote": ("promote", "The candidate may replace the baseline."),
    "hold": (
        "hold",
        "The candidate may not replace the baseline yet: it has not been shown to be as good.",
    ),
    "reject": (
        "reject",
        "The candidate may not replace the baseline: it violates a rule.",
    ),
    "not_enough_evidence": (
        "not enough evidence",
        "There is not enough evidence to decide, so the gate stays closed.",
    ),
}
"""Each outcome in words, and what it means."""
RULES = {
    "complete": "Nothing is missing",
    "new_failures": "No sample newly fails",
    "gate_failure_rate": "No more gate failures",
    "score_non_inferiority": "Score not worse",
    "criterion_regression": "No criterion worse",
    "floor_regression": "No criterion below its floor",
    "slices": "No slice worse",
    "severe_failures": "No new severe failures",
    "operations": "Cost and latency within limits",
    "pass_rate": "Enough samples pass",
}
"""Each promotion rule as a page calls it."""
LOST = {
    "candidate": "failed",
    "baseline": "passed",
}
"""What a sample counts as on the side that lacks it."""


def outcome_word(decision: Decision) -> str:
    """The outcome in words."""
    return OUTCOMES[decision.outcome][0]


def decided(outcome: object, passed: object) -> Piece:
    """The outcome of a stored decision, from its columns: a gate of an exam or of tool schemas has
    no outcome, it passed or failed. One that states neither counts as failed.

    >>> decided("not_enough_evidence", None), decided(None, False)
    ('? not enough evidence', '✗ failed')
    """
    known = OUTCOMES.get(str(outcome))
    return (
        verdict(outcome, known[0]) if known else verdict("passed" if passed is True else "failed")
    )


def rule_order(rules: Sequence[RuleResult]) -> list[RuleResult]:
    """The rules, those that do not hold first."""
    return sorted(rules, key=lambda rule: (rule.holds is True, not rule.violated))


def flaky_line(decision: Decision) -> str:
    """The samples whose repeats disagree, in a line; empty if there are none."""
    flaky = decision.flaky or []
    if not flaky:
        return ""
    names = list(dict.fromkeys(item.sample for item in flaky))
    return f"{count(len(names), 'sample')} sometimes pass and sometimes fail: {few(names, 3)}"


def slice_sentence(item: SliceComparison) -> str:
    """The difference in one slice, in words."""
    ends = _between(item.difference.low, item.difference.high, item.difference.reason)
    worse = ", shown to be worse" if item.worse else ""
    return f"{item.slice}: {signed(item.difference.value)} {ends}, {count(item.n, 'sample')}{worse}"


def _between(low: float | None, high: float | None, reason: str | UnsetType) -> str:
    if low is None or high is None:
        return f"(no interval: {reason or 'not stated'})"
    return f"[{low:+.2f}, {high:+.2f}]"


def detectable(points: float) -> str:
    """The smallest difference that these samples detect."""
    if points > SCALE:
        return "none; scores that vary this much need more samples"
    return f"differences of {points:.2f} points or more, at the policy's power"


# --- the short form


def decision_facts(decision: Decision) -> list[tuple[str, str]]:
    """What the decision rests on, each fact with its label."""
    compared, missing = decision.comparison, decision.missing
    difference = compared.difference
    ends, method = _between(difference.low, difference.high, difference.reason), difference.method
    paired = f"{compared.n_paired:,} paired"
    detects = compared.minimum_detectable_effect
    changed = "; ".join(decision.plan.get("changed") or ())
    unplanned = decision.unplanned or []
    slices = [] if decision.slices is UNSET else decision.slices
    fell = [f"{item.sample} {item.difference:+.2f}" for item in decision.worse]
    label = "headroom" if decision.outcome == "promote" else "to change"
    return [
        (
            "difference",
            f"{signed(difference.estimate)} points {ends}, margin {compared.margin:g}, {method}",
        ),
        ("", interval_line(decision)),
        *stated(
            (
                "samples",
                f"{compared.n_candidate:,} candidate, {compared.n_baseline:,} baseline, {paired}",
            ),
            ("detects", "" if detects is None else detectable(detects)),
            *((side, _side_sentence(getattr(decision, side))) for side in SIDES),
            *bar_facts(decision),
            ("graded by", few(list(filter(None, decision.fingerprint.fields.get("profile", ()))))),
            *(
                (
                    "missing",
                    (
                        f"{count(missing.total(side), 'sample')} of the {side}, counted as"
                        f" {worth}: {few(names, total=missing.total(side))}"
                    ),
                )
                for side, worth in LOST.items()
                if (names := getattr(missing, side))
            ),
            *terms_facts(decision),
            (
                "left out",
                f"{few(missing.quarantined)}, as requested" if missing.quarantined else "",
            ),
            ("plan", f"CHANGED since it was declared: {changed}" if changed else ""),
            (
                "unplanned",
                f"{count(len(unplanned), 'sample')} not in the plan, left out: {few(unplanned)}"
                if unplanned
                else "",
            ),
            *(
                ("slice", slice_sentence(item))
                for item in sorted(slices, key=lambda item: (not item.worse, item.difference.value))
            ),
            ("flaky", flaky_line(decision)),
            *(("note", text) for text in (*(decision.regraded or ()), *(decision.notes or ()))),
            *((label, text) for text in decision.would_change),
            ("fell most", few(fell, total=compared.losses) if fell else ""),
        ),
    ]


def bar_facts(decision: Decision) -> list[tuple[str, str]]:
    """A fact that no minimum pass rate is set, if that is so: any number of samples may fail, as
    long as no more fail than before.
    """
    if any(rule.id == "pass_rate" for rule in decision.rules):
        return []
    if decision.candidate.pass_rate.value == 0:
        return [("pass rate", "no sample passed, and no minimum is set (--min-pass-rate)")]
    return [("pass rate", "no minimum is set")]


def terms_facts(decision: Decision) -> list[tuple[str, str]]:
    """What was compared on other terms than the policy's alone, each fact with its label."""
    return overlap_facts(decision) + [
        ("EASED" if item.eases else "changed", override_sentence(item))
        for item in decision.overrides or ()
    ]


def overlap_facts(decision: Decision) -> list[tuple[str, str]]:
    """What two versions of the dataset share, each fact with its label."""
    overlap = decision.overlap
    if overlap is UNSET:
        return []
    ours, theirs = ", ".join(overlap.candidate_dataset), ", ".join(overlap.baseline_dataset)
    shared = (
        f"1 sample is equal in {ours} and {theirs}; that one is compared"
        if overlap.equal == 1
        else f"{overlap.equal:,} samples are equal in {ours} and {theirs}; those are compared"
    )
    failing = f"; {len(overlap.new_failing)} of them fail a gate" if overlap.new_failing else ""
    new = f"{count(len(overlap.new), 'sample')}, not compared{failing}: {few(overlap.new)}"
    worth = (
        "left out, as the policy's overlap allows"
        if overlap.changed_set_aside
        else "counted as lost by the candidate"
    )
    changed = f"{count(len(overlap.changed), 'sample')}, {worth}: {few(overlap.changed)}"
    return stated(
        ("dataset", shared),
        ("new", new if overlap.new else ""),
        ("different", changed if overlap.changed else ""),
    )


def override_sentence(item: PolicyOverride) -> str:
    """A sentence on a number that differs from the policy's."""
    usual = "no value" if item.policy is None else f"{item.policy:g}"
    harder = "easier" if item.eases else "harder"
    return (
        f"{item.field} is {item.used:g} for this decision, which is {harder} to pass; the policy"
        f" sets {usual}"
    )


def interval_line(decision: Decision) -> str:
    """The interval as a line of text: `|` marks a difference of 0, `!` minus the margin, `o` the
    estimate. Empty if there is no interval.
    """
    compared = decision.comparison
    low, high, estimate = (
        compared.difference.low,
        compared.difference.high,
        compared.difference.estimate,
    )
    if low is None or high is None or estimate is None:
        return ""
    width = 51  # so that the line fits into 80 columns
    reach = max(abs(low), abs(high), 2 * compared.margin, 0.5) * 1.05

    def at(value: float) -> int:
        return round((value + reach) / (2 * reach) * (width - 1))

    drawn = ["-" if at(low) <= place <= at(high) else " " for place in range(width)]
    for value, mark in ((0.0, "|"), (-compared.margin, "!"), (estimate, "o")):
        drawn[at(value)] = mark
    return f"{-reach:+.1f} {''.join(drawn)} {reach:+.1f}"


def _side_sentence(side: SummaryBlock) -> str:
    letters = " ".join(f"{name} {n:,}" for name, n in side.grades.items())
    by = f" ({', '.join(side.policies)})" if side.policies else ""
    return (
        f"{rate_of(side.pass_rate, side.n)} passed, mean score {mean_of(side.weighted_score.mean)},"
        f" grades {letters}{by}"
    )


def rate_of(interval: ValueInterval, n: int) -> str:
    """A pass rate with its interval and n."""
    return number(interval.value, interval=interval, n=n, percent=True, absent_as="not known")


def mean_of(interval: ValueInterval) -> str:
    """A mean score with its interval."""
    return number(interval.value, interval=interval, absent_as="no score")


def decision_head(decision: Decision) -> Decided:
    """The outcome, its reason, and what it means."""
    word, meaning = OUTCOMES[decision.outcome]
    outcome = verdict(decision.outcome, word.capitalize())
    return Decided(outcome, decision.policy, decision.reason, meaning)


def rule_name(id: str) -> Piece:
    """A rule by its id; on a page by its name in words, with the id after it."""
    return piece("rule", id, RULES.get(id, words(id)), id)


def rules_table(decision: Decision) -> Table:
    """Each rule with its verdict and reason; what does not hold comes first."""
    rows = [
        [
            rule_name(rule.id),
            verdict(
                "hold" if not rule.violated and not rule.holds else rule_word(rule), rule_word(rule)
            ),
            rule.reason,
        ]
        for rule in rule_order(decision.rules)
    ]
    return Table(
        "Promotion rules",
        ("Rule", "Verdict", Column("Why", "wide")),
        rows,
        absent="The decision names no rule, so none holds.",
        kind="stack rules",
    )


def decision_summary(decision: Decision) -> list[Part]:
    """Outcome, rules, and what the decision rests on, in words."""
    systems = f"{decision.scoring_system} · {decision.grading_system}"
    return [
        decision_head(decision),
        rules_table(decision),
        Facts(decision_facts(decision), kind="small"),
        Paragraph(f"policy {decision.policy} · {systems}", kind="hint"),
    ]
