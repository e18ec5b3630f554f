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
    OperationDifference,
    PolicyOverride,
    RuleResult,
    SliceComparison,
)
from assay.records.samples import NO_TEXTS, Texts
from assay.records.summary import SummaryBlock, ValueInterval
from assay.views.blocks import (
    Column,
    Decided,
    Facts,
    Heading,
    Note,
    Paragraph,
    Part,
    Sentences,
    Table,
    stated,
)
from assay.views.charts.decisions import rule_word as rule_word
from assay.views.decision_samples import (
    LOST,
    SHORT,
    cleared_line,
    confirmation_table,
    is_confirming,
    sample_label,
    short_failures,
    split_suspects,
)
from assay.views.pieces import (
    Piece,
    number,
    piece,
    points,
    sentence,
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
        "The candidate may not replace the baseline yet: a rule is still open.",
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
ERRORS = {
    "confirmed": "a new failure that fresh runs confirm",
    "exchange": "more failing runs over all samples",
    "gates": "more gate failures",
    "score": "a lower mean score",
    "criteria": "lower criteria, missed floors and slices",
    "severe_exchange": "more severe failures over all samples",
    "severe_confirmed": "a severe failure that fresh runs confirm",
    "operations": "higher cost or latency",
}
"""What may reject a version that is the same, as a page calls it."""
CERTAIN = ("complete", "pass_rate")
"""The rules whose violation doesn't compare two sides, so that chance makes none."""
SHOWN = 10
"""Suspects, and criteria, that a terminal and a comment show."""


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
    names = list(dict.fromkeys(sample_label(decision, item.sample) for item in flaky))
    sometimes = (
        "sometimes passes and sometimes fails"
        if len(names) == 1
        else ("sometimes pass and sometimes fail")
    )
    return f"{count(len(names), 'sample')} {sometimes}: {few(names, 3)}"


def slice_sentence(item: SliceComparison) -> str:
    """The difference in one slice, in words."""
    ends = _between(item.difference.low, item.difference.high, item.difference.reason)
    worse = ", shown to be worse" if item.worse else ""
    return f"{item.slice}: {signed(item.difference.value)} {ends}, {count(item.n, 'sample')}{worse}"


def _between(low: float | None, high: float | None, reason: str | UnsetType) -> str:
    if low is None or high is None:
        return f"(no interval: {reason or 'not stated'})"
    return f"[{low:+.2f}, {high:+.2f}]"


def confidence(decision: Decision) -> str:
    """How sure the outcome is, in a sentence; empty where chance plays no part in it."""
    compared = decision.comparison
    if decision.outcome == "promote":
        level = f"{compared.difference.level:.0%}"
        if compared.non_inferior:
            return (
                f"With at least {level} confidence, the mean score did not fall by"
                f" {compared.margin:g} points or more."
            )
        seen = unseen_loss(decision)
        return f"Nothing is shown to be worse. {seen}".strip()
    if decision.outcome == "reject":
        if all(rule.id in CERTAIN for rule in decision.rules if rule.violated):
            return ""
        return same_rejected(decision)
    if decision.confirmation.needed:
        return "This may be noise; fresh runs will tell. Nothing is shown to be worse so far."
    return "Nothing is shown to be worse, and nothing shows that the candidate is as good."


def same_rejected(decision: Decision) -> str:
    """How often these rules reject a version that is the same as its baseline."""
    most = f"{100 * decision.errors.reject_at_most:.3g}%"
    return f"A version that is the same as the baseline is rejected in at most {most} of cases."


def unseen_loss(decision: Decision) -> str:
    """The loss of the mean score that these samples would not show; empty if it is not known."""
    expected = decision.expectation
    least = expected.smallest_loss
    if least is None:
        return ""
    if expected.assumed and not expected.sd:
        return (
            "How far two runs of one sample differ is not known: the baseline has one run of each,"
            " all with the same score."
        )
    if least > SCALE:
        return "These samples would show no loss of the mean score, however large."
    assumed = (
        " That is assumed from one run of each sample; repeats of the baseline would tell."
        if expected.assumed
        else ""
    )
    if not least:
        return f"Any loss of the mean score would show.{assumed}"
    return (
        f"A loss of less than {points(least)} points of the mean score may go unnoticed.{assumed}"
    )


def could_not_see(decision: Decision) -> list[str]:
    """What a decision could not see, and what it left out, in sentences."""
    missing, compared = decision.missing, decision.comparison
    found = [unseen_loss(decision)]
    if decision.outcome != "reject":
        found.append(same_rejected(decision))
    for side, worth in LOST.items():
        if names := getattr(missing, side):
            n = missing.total(side)
            labels = few([sample_label(decision, name) for name in names], total=n)
            counted = f"counted as {worth}" if n == 1 else f"each counted as {worth}"
            found.append(f"The {side} lacks runs of {count(n, 'sample')}, {counted}: {labels}.")
    if missing.only_candidate:
        n = len(missing.only_candidate)
        found.append(
            f"Only the candidate has {count(n, 'sample')}, which no rule looks at:"
            f" {few(missing.only_candidate)}."
        )
    if (changed := decision.contracts) is not UNSET:
        parts = ", ".join(changed.parts)
        own = (
            ""
            if changed.own_outcome is UNSET
            else " Under what the candidate was asked, the outcome is"
            f" {OUTCOMES[changed.own_outcome][0]}."
        )
        found.append(
            f"The two sides were asked different things in {count(changed.samples, 'sample')}"
            f" ({parts}), such as {few(changed.examples, 2)}. Both were scored under what the"
            f" baseline was asked.{own}"
        )
    partly = [
        f"{name} ({item.n:,})"
        for name, item in decision.criteria.items()
        if item.n < compared.n_paired
    ]
    if partly:
        found.append(
            f"Not all {compared.n_paired:,} pairs have a score on both sides for {few(partly)}."
        )
    unknown = [text for name, text in USED.items() if name not in decision.operations]
    if unknown:
        found.append(f"Not known on both sides: {' and '.join(unknown)}.")
    return [sentence for sentence in found if sentence]


# --- criteria and operations

USED = {"cost_usd": "cost", "latency_ms": "latency", "tokens": "tokens"}
"""What a run used, in words."""


def used_text(name: str, value: float) -> str:
    """A cost, a latency or a number of tokens, in units that people know.

    >>> used_text("cost_usd", 0.00123), used_text("latency_ms", 1530.0), used_text("tokens", 812.4)
    ('$0.0012', '1.53 s', '812 tokens')
    >>> used_text("latency_ms", 0.5), used_text("cost_usd", 12.5)
    ('0.5 ms', '$12.50')
    """
    if name == "cost_usd":
        return f"${value:,.2f}" if value >= 1 else f"${value:.2g}"
    if name == "latency_ms":
        return f"{value:.3g} ms" if value < 100 else f"{value / 1000:,.2f} s"
    return f"{value:,.0f} tokens"


def times_text(ratio: float) -> str:
    """How many times as much the candidate uses, in words.

    >>> times_text(2.4), times_text(1.004), times_text(1.1), times_text(0.5), times_text(120.0)
    ('more than doubled, 2.4 times as much', 'the same', '10% more', 'halved', '120 times as much')
    """
    if ratio >= 10:
        return f"{ratio:,.0f} times as much"
    if ratio >= 2.05:
        return f"more than doubled, {ratio:.1f} times as much"
    if ratio >= 1.95:
        return "doubled"
    if 0.45 <= ratio <= 0.55:
        return "halved"
    change = round(100 * (ratio - 1))
    if not change:
        return "the same"
    return f"{abs(change)}% {'more' if change > 0 else 'less'}"


def operation_text(name: str, item: OperationDifference) -> str:
    """What a run used before and now: the means, and how a typical sample changed."""
    before, now = (used_text(name, value) for value in (item.baseline, item.candidate))
    return (
        f"{before} for a run before, {now} now, on average; {times_text(item.ratio)} in a typical"
        " sample"
    )


def doubled(decision: Decision) -> list[str]:
    """A sentence on each cost, latency or number of tokens that doubled."""
    return [
        f"{USED[name].capitalize()}: {operation_text(name, item)}."
        for name, item in decision.operations.items()
        if item.ratio >= 1.95 and name in USED
    ]


def criteria_table(decision: Decision, *, most: int | None = None) -> Table | None:
    """Each criterion on both sides, the largest loss first; with `most` only those that moved."""
    known = sorted(decision.criteria.items(), key=lambda item: item[1].difference.value or 0.0)
    if most is not None:
        known = [item for item in known if abs(item[1].difference.value or 0.0) >= 0.005][:most]
    if not known:
        return None
    rows = [
        [
            f"{name} (guarded)" if item.guardrail else name,
            points(item.baseline),
            points(item.candidate),
            number(item.difference.value, interval=item.difference, n=item.n, sign=True),
        ]
        for name, item in known
    ]
    columns = (
        "Criterion",
        Column("Baseline", "n"),
        Column("Candidate", "n"),
        "Difference (points)",
    )
    return Table("Criteria, the largest loss first", columns, rows, kind="stack")


def operations_table(decision: Decision) -> Table | None:
    """Cost, latency and tokens of a run on both sides."""
    rows = [
        [
            USED.get(name, words(name)).capitalize(),
            used_text(name, item.baseline),
            used_text(name, item.candidate),
            verdict("hold", times_text(item.ratio))
            if item.ratio >= 1.95
            else times_text(item.ratio),
            f"{item.n:,}",
        ]
        for name, item in decision.operations.items()
    ]
    if not rows:
        return None
    columns = (
        "Mean for a run",
        Column("Baseline", "n"),
        Column("Candidate", "n"),
        "In a typical sample",
        Column("Pairs", "n"),
    )
    return Table("Cost, latency and tokens", columns, rows, kind="stack")


# --- the short form


def decision_facts(decision: Decision) -> list[tuple[str, str]]:
    """What the decision rests on, each fact with its label."""
    compared, missing = decision.comparison, decision.missing
    difference = compared.difference
    ends, method = _between(difference.low, difference.high, difference.reason), difference.method
    paired = f"{compared.n_paired:,} paired"
    changed = "; ".join(decision.plan.get("changed") or ())
    unplanned = decision.unplanned or []
    slices = [] if decision.slices is UNSET else decision.slices
    fell = [
        f"{sample_label(decision, item.sample)} {item.difference:+.2f}" for item in decision.worse
    ]
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
            *((side, _side_sentence(getattr(decision, side))) for side in SIDES),
            *bar_facts(decision),
            ("graded by", few(list(filter(None, decision.fingerprint.fields.get("profile", ()))))),
            *(
                (USED[name], operation_text(name, item))
                for name, item in decision.operations.items()
                if name in USED
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
            *(("note", text) for text in quiet_notes(decision)),
            ("fell most", few(fell, total=compared.losses) if fell else ""),
        ),
    ]


def quiet_notes(decision: Decision) -> list[str]:
    """The notes that a reader may miss."""
    loud = decision.loud or []
    return [
        *(decision.regraded or ()),
        *(text for text in decision.notes or () if text not in loud),
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
    """The outcome, how sure it is, its reason, and what it means."""
    word, meaning = OUTCOMES[decision.outcome]
    outcome = verdict(decision.outcome, word.capitalize())
    return Decided(outcome, decision.policy, decision.reason, meaning, confidence(decision))


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


def next_steps(decision: Decision) -> list[Part]:
    """What would settle or change the outcome, with what it costs."""
    if not decision.would_change:
        return []
    return [Heading("What to do next"), Sentences(decision.would_change)]


def suspect_parts(decision: Decision) -> list[Part]:
    """The confirmation in short: what is open or confirmed, and a line on what was cleared."""
    if not is_confirming(decision):
        return []
    kept, _ = split_suspects(decision)
    more = f"and {len(kept) - SHOWN:,} more" if len(kept) > SHOWN else ""
    lines = [text for text in (more, cleared_line(decision)) if text]
    if not kept and not lines:
        return []
    return [
        Heading("Confirmation: runs that passed, before → now"),
        *([confirmation_table(decision, kept[:SHOWN])] if kept else []),
        *map(Paragraph, lines),
    ]


def decision_summary(
    decision: Decision, texts: Texts = NO_TEXTS, *, most: int = SHORT
) -> list[Part]:
    """The outcome and how sure it is, what newly fails, every rule, what to do next, and what the
    decision rests on. `texts` are those of the samples that it names, cut to `most` characters.
    """
    systems = f"{decision.scoring_system} · {decision.grading_system}"
    moved = criteria_table(decision, most=SHOWN)
    return [
        decision_head(decision),
        *(Note(sentence(note), "bad") for note in decision.loud or ()),
        *map(Note, doubled(decision)),
        *short_failures(decision, texts, most=most),
        rules_table(decision),
        *suspect_parts(decision),
        *next_steps(decision),
        *([] if moved is None else [Heading("Criteria that moved"), moved]),
        Facts(decision_facts(decision), kind="small"),
        Heading("What it could not see"),
        Sentences(could_not_see(decision)),
        Paragraph(f"policy {decision.policy} · {systems}", kind="hint"),
    ]
