"""The view of a release decision: every number and sentence that people see of it.

`decision_summary` is what a terminal and a pull request show; `decision_sections` has the rest of a
page. The decision contains all of it except the texts of its samples and the scores of every pair;
callers that have them pass them in.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

from msgspec import UNSET, UnsetType

from assay.errors import count, few
from assay.records.decision import (
    SIDES,
    ComparisonRecord,
    Counted,
    Decision,
    OperationDifference,
    PolicyOverride,
    RuleResult,
    SidesCounted,
    SliceComparison,
    SuspectRecord,
)
from assay.records.samples import NO_TEXTS, SampleAnswer, SampleTexts, Texts
from assay.records.summary import SummaryBlock, ValueInterval
from assay.views.blocks import (
    Column,
    Decided,
    Details,
    Entries,
    Facts,
    Figure,
    Heading,
    ListEntry,
    Note,
    Paragraph,
    Part,
    Section,
    Sentences,
    Table,
    contents,
    figure,
    parts_of,
    section,
    stated,
)
from assay.views.charts import Chart, summaries
from assay.views.charts import decisions as charts
from assay.views.charts.decisions import claims_of
from assay.views.charts.decisions import rule_word as rule_word
from assay.views.pieces import (
    Piece,
    absent,
    clip,
    code,
    letter,
    line,
    link,
    listed,
    number,
    phrase,
    piece,
    points,
    sentence,
    short_digest,
    shown,
    signed,
    small,
    strong,
    verdict,
    words,
)
from assay.views.word_diff import marked, word_diff

MAX_ROWS = 200
NAMED = 50
"""Samples of which a page shows question and answers."""
OPENED = 5
"""Samples of which a page shows them unfolded."""
LISTED = 3
"""Samples of which a terminal and a comment show them."""
TEXT = 400
"""Characters of a question or an answer in a comment or on a page."""
SHORT = 160
"""The same on a terminal."""
CONTEXT = 15
"""Unchanged words that are shown around a difference."""
LOST = {
    "candidate": "failed",
    "baseline": "passed",
}
"""What a sample counts as on the side that lacks it."""
_HASH = re.compile(r"(sha256:)?[0-9a-f]{12,}")

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


# --- samples


def title_in(decision: Decision, sample: str) -> str:
    """The title of a sample; empty if it has none."""
    return "" if decision.titles is UNSET else decision.titles.get(sample, "")


def sample_label(decision: Decision, sample: str) -> str:
    """What people call a sample: its title, with its id unless that is a hash."""
    title = title_in(decision, sample)
    if not title:
        return sample
    return title if _HASH.fullmatch(sample.rpartition("/")[2]) else f"{title} ({sample})"


def check_text(check: str) -> str:
    """What a suspect fails, in words."""
    kind, _, name = check.partition(" ")
    return {"gate": f"gate {name}", "floor": f"floor of {name}"}.get(kind, "passing as a whole")


# --- what newly fails


class NewFailure(NamedTuple):
    """A sample that newly fails, or seems to."""

    sample: str
    suspects: tuple[SuspectRecord, ...]
    """The checks that it newly fails; none where it only fails severely more often."""
    severe: bool
    shown: bool
    """Whether the failure is shown, and not only suspected."""

    @property
    def accepted(self) -> str:
        """Why it was accepted; empty if it was not."""
        reasons = [suspect.accepted for suspect in self.suspects]
        return "" if None in reasons or self.severe else next(filter(None, reasons), "")

    @property
    def verdict(self) -> Piece:
        """What is known of it, in a word or a few."""
        if self.accepted:
            return verdict("open", "accepted")
        if self.shown:
            return verdict("fail", "fails severely" if self.severe else "newly fails")
        return verdict("open", "failed severely, may be chance" if self.severe else "may be noise")

    @property
    def checks(self) -> str:
        """What it fails, in words."""
        return _checks_text(self.suspects) or "a severe gate or floor"

    @property
    def counts(self) -> str:
        """How many runs passed, before and now."""
        if not self.suspects:
            return ""
        one = max(
            self.suspects, key=lambda item: (item.verdict == "confirmed", item.check == "pass")
        )
        fresh = "" if one.fresh is None else f"; of fresh runs {_sides_text(one.fresh)}"
        return f"passed {_sides_text(one.first)}{fresh}"


def _sides_text(counted: SidesCounted) -> str:
    return f"{_of(counted.baseline)} before and {_of(counted.candidate)} now"


def _of(counted: Counted) -> str:
    return f"{counted.passed} of {counted.runs}"


def new_failures(decision: Decision) -> list[NewFailure]:
    """What newly fails, what is shown first: severe failures, failures that fresh runs confirmed,
    and those that may be noise. Failures that fresh runs cleared are not among them.
    """
    rules = {rule.id: rule for rule in decision.rules}
    severe_rule, fails_rule = rules.get("severe_failures"), rules.get("new_failures")
    severe: list[str] = []
    if severe_rule is not None and severe_rule.holds is not True:
        named = severe_rule.evidence.get("samples")
        severe = [str(name) for name in named] if isinstance(named, list) else []
    together = fails_rule is not None and fails_rule.violated
    by_sample: dict[str, list[SuspectRecord]] = {}
    for suspect in decision.confirmation.suspects:
        if suspect.verdict in ("confirmed", "open"):
            by_sample.setdefault(suspect.sample, []).append(suspect)
    confirmed = {
        suspect.sample
        for suspect in decision.confirmation.suspects
        if suspect.verdict == "confirmed"
    }
    # where some are confirmed, the others are still open
    alike = together and not confirmed
    found = [
        NewFailure(
            sample,
            tuple(by_sample.get(sample, ())),
            sample in severe,
            (sample in severe and severe_rule is not None and severe_rule.violated)
            or sample in confirmed
            or (alike and sample in by_sample),
        )
        for sample in dict.fromkeys((*severe, *by_sample))
    ]
    fell = {item.sample: place for place, item in enumerate(decision.worse)}
    return sorted(
        found,
        key=lambda item: (
            bool(item.accepted),
            not item.shown,
            not item.severe,
            fell.get(item.sample, len(fell)),
        ),
    )


def cleared(decision: Decision) -> list[SuspectRecord]:
    """The suspects that fresh runs cleared."""
    return [
        suspect
        for suspect in decision.confirmation.suspects
        if suspect.verdict in ("flaky", "baseline_fails_too")
    ]


def samples_to_show(decision: Decision) -> list[str]:
    """The samples whose question and answers are shown: what newly fails, then what got worse."""
    named = [item.sample for item in new_failures(decision)[:NAMED]]
    return list(dict.fromkeys((*named, *(item.sample for item in decision.worse))))


def failure_facts(
    item: NewFailure | None, texts: SampleTexts | None, *, most: int = SHORT, diff: bool = False
) -> Facts:
    """Question, expected value and both answers of a sample, and what it fails. With `diff` the
    answer now is marked against the one before.
    """
    facts: list[tuple[str, str]] = []
    if item is not None:
        facts += stated(("fails", item.checks), ("runs", item.counts), ("accepted", item.accepted))
    if texts is not None:
        facts += stated(
            ("question", clip(texts.question, most) if texts.question else ""),
            ("expected", clip(texts.expected, most) if texts.expected else ""),
        )
        before, now = texts.baseline, texts.candidate
        if before is not None:
            facts.append(("before", clip(before.text, most, absent_as="no answer")))
        if now is not None:
            facts.append(("now", _now(before, now, most, diff=diff)))
            # what it newly fails is said above
            why = ": ".join(filter(None, (now.why, now.reason))) if item is None else now.reason
            facts += stated(("why", clip(why, most) if why else ""))
    return Facts(facts, "small")


def _now(before: SampleAnswer | None, now: SampleAnswer, most: int, *, diff: bool) -> str:
    if before is not None and before.text == now.text:
        return phrase(small("the same answer"))
    if diff and before is not None:
        return marked(word_diff(before.text[:most], now.text[:most], context=CONTEXT))
    return clip(now.text, most, absent_as="no answer")


def failure_entries(
    decision: Decision,
    texts: Texts,
    failures: Sequence[NewFailure],
    *,
    most: int = SHORT,
    diff: bool = False,
    links: RunLinks | None = None,
) -> Entries:
    """Samples that newly fail, with what they were asked and answered."""
    return Entries(
        [
            ListEntry(
                phrase(item.verdict, " ", _titled(decision, item.sample, links)),
                [failure_facts(item, texts.get(item.sample), most=most, diff=diff)],
                kind="bad" if item.shown and not item.accepted else "open",
            )
            for item in failures
        ],
        "Samples that newly fail",
    )


def _titled(decision: Decision, sample: str, links: RunLinks | None) -> str:
    name = strong(sample_label(decision, sample))
    return name if links is None else links.to(sample, "candidate", name)


def failure_title(failures: Sequence[NewFailure]) -> str:
    """How many samples newly fail, and how many may."""
    accepted = sum(bool(item.accepted) for item in failures)
    shown = sum(item.shown and not item.accepted for item in failures)
    parts = [
        text
        for n, text in (
            (shown, f"{count(shown, 'sample')} newly {'fails' if shown == 1 else 'fail'}"),
            (len(failures) - shown - accepted, ""),
            (accepted, f"{count(accepted, 'failure')} accepted"),
        )
        if n and text
    ]
    unsure = len(failures) - shown - accepted
    if unsure:
        more = " more" if shown else ""
        noun = "sample" if unsure == 1 else "samples"
        parts.insert(bool(shown), f"{unsure:,}{more} {noun} may newly fail, or this may be noise")
    return "; ".join(parts)


def short_failures(decision: Decision, texts: Texts, *, most: int = SHORT) -> list[Part]:
    """What newly fails, for a terminal or a comment."""
    failures = new_failures(decision)
    if not failures:
        return []
    rest = [sample_label(decision, item.sample) for item in failures[LISTED:]]
    more = f"and {few(rest, 5)}" if rest else ""
    return [
        Heading(failure_title(failures)),
        failure_entries(decision, texts, failures[:LISTED], most=most),
        Paragraph(more) if rest else Paragraph(""),
    ]


def failures_section(
    decision: Decision, texts: Texts, links: RunLinks, *, level: int = 2
) -> Section | None:
    """What newly fails, for a page: the first samples open, the others folded."""
    failures = new_failures(decision)
    if not failures:
        return None

    def entries(some: Sequence[NewFailure]) -> Part:
        return failure_entries(decision, texts, some, most=TEXT, diff=True, links=links)

    rest = failures[OPENED:NAMED]
    left = len(failures) - NAMED
    return section(
        "What newly fails",
        entries(failures[:OPENED]),
        Details(f"{len(rest):,} more", [entries(rest)]) if rest else None,
        Paragraph(f"and {count(left, 'more sample')}; the record lists them", "absent")
        if left > 0
        else None,
        id="newly-failing",
        hint=f"{failure_title(failures)}.",
        level=level,
    )


# --- confirmation

_VERDICTS = {
    "confirmed": ("fail", "confirmed"),
    "flaky": ("pass", "flaky: it passes again"),
    "baseline_fails_too": ("pass", "the baseline fails too"),
    "open": ("open", "open"),
}


def suspect_verdict(suspect: SuspectRecord) -> Piece:
    """What fresh runs say of a suspect."""
    if suspect.accepted is not None and suspect.verdict == "confirmed":
        return verdict("open", "confirmed, accepted")
    return verdict(*_VERDICTS[suspect.verdict])


class _Line(NamedTuple):
    """Checks of one sample of which the same runs passed, with the same verdict."""

    sample: str
    first: SidesCounted
    fresh: SidesCounted | None
    verdict: str
    accepted: str | None


def confirmation_lines(suspects: Sequence[SuspectRecord]) -> list[list[SuspectRecord]]:
    """Suspects by sample; checks of a sample that fared alike are together."""
    lines: dict[_Line, list[SuspectRecord]] = {}
    for one in suspects:
        key = _Line(one.sample, one.first, one.fresh, one.verdict, one.accepted)
        lines.setdefault(key, []).append(one)
    return list(lines.values())


def _checks_text(suspects: Sequence[SuspectRecord]) -> str:
    names = [suspect.check for suspect in suspects]
    parts = [name for name in names if name != "pass"] or names
    return few([check_text(name) for name in parts], 4)


def confirmation_table(
    decision: Decision, lines: Sequence[Sequence[SuspectRecord]], links: RunLinks | None = None
) -> Table:
    """What seems to fail newly, with its first and its fresh runs."""
    rows = []
    for suspects in lines:
        one = suspects[0]
        name = sample_label(decision, one.sample)
        rows.append(
            [
                name if links is None else links.to(one.sample, "candidate", name),
                _checks_text(suspects),
                _passes(one.first),
                absent("none yet") if one.fresh is None else _passes(one.fresh),
                suspect_verdict(one),
            ]
        )
    columns = ("Sample", "Check", "First runs", "Fresh runs", "Verdict")
    return Table("Runs that passed, before → now", columns, rows, kind="stack")


def _passes(counted: SidesCounted) -> str:
    return f"{_of(counted.baseline)} → {_of(counted.candidate)}"


def cleared_line(decision: Decision) -> str:
    """The suspects that fresh runs cleared, in a line; empty if there are none."""
    failing = {item.sample for item in new_failures(decision)}
    gone = dict.fromkeys(suspect.sample for suspect in cleared(decision))
    samples = [sample for sample in gone if sample not in failing]
    if not samples:
        return ""
    names = few([sample_label(decision, sample) for sample in samples], 3)
    return f"{count(len(samples), 'sample')} cleared by fresh runs: {names}"


def confirmation_hint(decision: Decision) -> str:
    """How many fresh runs confirm a failure, and how often chance would."""
    made = decision.confirmation
    if not made.repeats:
        return "The policy calls the system deterministic: one new failure is a regression."
    ours, theirs = made.runs.get("candidate", 0), made.runs.get("baseline", 0)
    fresh = (
        f" Made: {count(ours, 'fresh run')} of the candidate and {theirs:,} of the baseline."
        if ours or theirs
        else ""
    )
    return (
        f"A failure is confirmed once the candidate fails {made.repeats} fresh runs that the"
        " baseline passes. A run that the candidate passes, or that the baseline fails, clears it."
        f" Noise alone would confirm something in at most {_share(made.false_alarm_at_most)} of"
        f" cases.{fresh}"
    )


def _share(share: float) -> str:
    return f"{100 * share:.2g}%"


def confirmation_section(decision: Decision, links: RunLinks, *, level: int = 2) -> Section | None:
    """The confirmation, for a page: what is cleared is folded."""
    if not decision.confirmation.suspects:
        return None
    kept, gone = split_suspects(decision)
    table = confirmation_table(decision, kept[:MAX_ROWS], links)
    more = (
        Paragraph(f"and {len(kept) - MAX_ROWS:,} more", "absent") if len(kept) > MAX_ROWS else None
    )
    folded = confirmation_table(decision, gone[:MAX_ROWS], links)
    has_runs = is_confirming(decision)
    return section(
        "Confirmation",
        *(() if not kept else (table, more) if has_runs else (Details("Suspects", [table]),)),
        Details(cleared_line(decision) or "Cleared by fresh runs", [folded]) if gone else None,
        id="confirmation",
        hint=confirmation_hint(decision) if has_runs else "Not needed: the runs at hand decide.",
    )


def is_confirming(decision: Decision) -> bool:
    """Whether fresh runs are needed, or were made."""
    made = decision.confirmation
    return (made.needed and decision.outcome != "reject") or any(made.runs.values())


def split_suspects(
    decision: Decision,
) -> tuple[list[list[SuspectRecord]], list[list[SuspectRecord]]]:
    """The suspects that are confirmed or open, and those that fresh runs cleared."""
    gone = cleared(decision)
    kept = [suspect for suspect in decision.confirmation.suspects if suspect not in gone]
    return confirmation_lines(kept), confirmation_lines(gone)


# --- pairs


class RunLinks(NamedTuple):
    """The address of each sample's run on either side."""

    candidate: Mapping[str, str]
    baseline: Mapping[str, str]

    def to(self, name: str, side: str, text: str = "") -> str:
        """A link to the run of a sample; plain text where its address is not known."""
        known: Mapping[str, str] = getattr(self, side)
        return link(text or name, known[name]) if name in known else text or name


NO_LINKS = RunLinks({}, {})


def pair_parts(pairs: Sequence[Any], links: RunLinks) -> list[Part]:
    """Every pair, the largest loss first, each leading to both runs."""

    def fall(pair: Any) -> float:
        # what the candidate lost counts as 0, what the baseline lacks as 100
        ours, theirs = pair.candidate, pair.baseline
        return float((0 if ours is None else ours) - (100 if theirs is None else theirs))

    rows = [
        [
            links.to(pair.sample, "candidate", pair.title or pair.sample),
            *(
                links.to(pair.sample, side, points(getattr(pair, side), "missing"))
                for side in ("baseline", "candidate")
            ),
            signed(pair.candidate - pair.baseline)
            if None not in (pair.candidate, pair.baseline)
            else absent("not paired"),
        ]
        for pair in sorted(pairs, key=fall)[:MAX_ROWS]
    ]
    if not rows or not (links.candidate or links.baseline):
        return []  # the table of the chart has the same numbers
    numbers = (Column(name, "n") for name in ("Baseline", "Candidate", "Difference"))
    table = Table("Pairs, the largest loss first", ("Sample", *numbers), rows, kind="stack")
    shown = f"{len(rows):,} of {len(pairs):,} pairs" if len(pairs) > len(rows) else "Every pair"
    return [Details(f"{shown}, with links to both runs", [table])]


def worse_section(decision: Decision, links: RunLinks, texts: Texts = NO_TEXTS) -> Section:
    """The samples that lost most, and those that a side does not have at all. Question and answers
    are shown of those that don't newly fail: the others have theirs above.
    """
    above = {item.sample for item in new_failures(decision)[:NAMED]}
    rows = [
        [
            links.to(item.sample, "candidate", sample_label(decision, item.sample)),
            links.to(item.sample, "baseline", points(item.baseline, "missing")),
            links.to(item.sample, "candidate", points(item.candidate, "missing")),
            strong(signed(item.difference)),
            listed(map(code, item.newly_failed_gates), " ") or absent("none"),
        ]
        for item in decision.worse
    ]
    columns = (
        "Sample",
        Column("Baseline", "n"),
        Column("Candidate", "n"),
        Column("Difference", "n"),
        "Gates that newly fail",
    )
    others = [
        item.sample for item in decision.worse if item.sample in texts and item.sample not in above
    ]
    lost = decision.comparison.losses or 0
    return section(
        "Samples that got worse",
        Table(
            "Samples that got worse, the worst first",
            columns,
            rows,
            absent="No sample got worse.",
            kind="stack",
        ),
        Details("Their questions and answers", [sample_entries(decision, others, texts, links)])
        if others
        else None,
        *_gone(decision, links),
        id="worse",
        hint=(
            f"The {len(rows)} that fell most of {lost:,} that got worse."
            if lost > len(rows)
            else ""
        ),
    )


def sample_entries(
    decision: Decision, samples: Iterable[str], texts: Texts, links: RunLinks | None
) -> Entries:
    """Samples with what they were asked and answered on both sides."""
    return Entries(
        [
            ListEntry(
                _titled(decision, name, links),
                [failure_facts(None, texts.get(name), most=TEXT, diff=True)],
            )
            for name in samples
        ],
        "Questions and answers",
    )


def _gone(decision: Decision, links: RunLinks) -> list[Section]:
    """The samples that a side lacks, and those that were left out."""
    titles = {
        "candidate": f"Missing in the candidate, each counted as {LOST['candidate']}",
        "baseline": f"Missing in the baseline, each counted as {LOST['baseline']}",
        "quarantined": "Left out by name",
        "only_candidate": "Only in the candidate, so not compared",
    }
    gone = []
    for side, title in titles.items():
        names = getattr(decision.missing, side)
        if names:
            n = decision.missing.total(side) if side in LOST else len(names)
            listed_here = min(len(names), MAX_ROWS)
            more = f" and {n - listed_here:,} more" if n > listed_here else ""
            side_of_run = "baseline" if side == "candidate" else "candidate"
            linked = (
                links.to(name, side_of_run, sample_label(decision, name))
                for name in names[:MAX_ROWS]
            )
            text = phrase(listed(linked), more)
            gone.append(section(f"{title} ({n:,})", Paragraph(text), level=3))
    return gone


# --- the whole page


LABELS = {
    "n": "Samples",
    "mcnemar_p": "McNemar p-value",
    "mended_count": "Fixed",
    "new": "Newly missed",
    "new_count": "Number newly missed",
    "newly_failing_count": "Number newly failing",
    "only_candidate": "Fails in the candidate only",
    "only_baseline": "Fails in the baseline only",
    "items": "Severe failures",
}
"""What a page calls keys of a rule's evidence whose names alone say too little."""


def decision_charts(decision: Decision, pairs: Sequence[Any] | None = None) -> list[Chart]:
    """Every chart of a decision. `pairs` are the scores of every sample; without them the samples
    that got worse are drawn.
    """
    made = [charts.rules(decision), charts.difference(decision)]
    known = decision.worse if pairs is None else pairs
    made.append(charts.paired_scatter(known, n_paired=decision.comparison.n_paired))
    for side in SIDES:
        block: SummaryBlock = getattr(decision, side)
        mix = summaries.grade_mix(block.grades, ", ".join(block.policies))
        made.append(mix._replace(name=f"{mix.name}-{side}", title=f"Grades of the {side}"))
    return made


def decision_view(
    decision: Decision,
    *,
    pairs: Sequence[Any] | None = None,
    url: str = "",
    runs: Mapping[str, str] | None = None,
    before: Mapping[str, str] | None = None,
    texts: Texts = NO_TEXTS,
    broken: Sequence[str] = (),
) -> list[Part]:
    """The whole of a decision, the outcome first. `url` is where its charts are served, `runs` the
    address of each sample's run of the candidate, `before` of the baseline. `texts` are those of
    the samples that it names, and `broken` are samples that failed before, too.
    """
    figures = {chart.name: figure(chart, url) for chart in decision_charts(decision, pairs)}
    links = RunLinks(runs or {}, before or {})
    known = [name for name in broken if name in texts]
    sections = parts_of(
        failures_section(decision, texts, links),
        _next(decision),
        _rules(decision, figures["rules"]),
        confirmation_section(decision, links),
        section("Difference", figures["difference"], id="difference"),
        _criteria(decision),
        _operations(decision),
        _unseen(decision),
        worse_section(decision, links, texts),
        section(
            "What failed before, too",
            sample_entries(decision, known, texts, links),
            id="failed-before",
        )
        if known
        else None,
        _flaky(decision),
        section(
            "Pairs",
            figures.get("paired-scatter")
            or Paragraph("The two sides share no samples, so nothing can be paired.", "absent"),
            *pair_parts(pairs or (), links),
            id="pairs",
        ),
        _sides(decision, [figures[f"grade-mix-{side}"] for side in SIDES]),
        _origin(decision),
    )
    return [
        decision_head(decision),
        *(Note(sentence(note), "bad") for note in decision.loud or ()),
        *map(Note, doubled(decision)),
        _figures(decision),
        contents(sections),
        *sections,
    ]


def _figures(decision: Decision) -> Facts:
    compared = decision.comparison
    counts = [
        count(number_of, *words)
        for number_of, *words in (
            (compared.wins, "win"),
            (compared.losses, "loss", "losses"),
            (compared.ties, "tie"),
        )
        if number_of is not None
    ]
    return Facts(
        [
            (
                "Difference (points)",
                number(
                    compared.difference.estimate,
                    interval=compared.difference,
                    n=compared.n_paired,
                    sign=True,  # as the rule's reason writes it: -2.625 is -2.62 in both
                    absent_as="not known",
                ),
            ),
            ("Margin", points(compared.margin)),
            (
                "Paired samples",
                f"{compared.n_paired:,}",
            ),
            ("By sample", ", ".join(counts) or "not known"),
            (
                "The candidate has been shown to be",
                ", ".join(claims_of(decision)) or _unproven(compared),
            ),
            (
                "May go unnoticed",
                absent("not known")
                if (least := decision.expectation.smallest_loss) is None
                or (decision.expectation.assumed and not least)
                else "any loss"
                if least > SCALE
                else phrase(
                    f"a loss below {points(least)}",
                    small(" assumed") if decision.expectation.assumed else "",
                ),
            ),
            *((label.capitalize(), small(text)) for label, text in bar_facts(decision)),
            *((label.capitalize(), text) for label, text in terms_facts(decision)),
        ],
        "figures",
    )


def _unproven(compared: ComparisonRecord) -> str:
    """What is shown of a candidate that is not shown to be as good."""
    high = compared.difference.high
    if high is not None and high < 0:
        than = "by more than the margin" if high < -compared.margin else ""
        return verdict("failed", f"worse {than}".strip())
    return absent("neither better, nor equivalent, nor as good")


def _rules(decision: Decision, chart: Figure) -> Section:
    evidence: list[Part] = []
    for rule in rule_order(decision.rules):
        if rule.evidence:
            facts = [
                (LABELS.get(key, words(key)), _value(value)) for key, value in rule.evidence.items()
            ]
            evidence += [Heading(rule_name(rule.id)), Facts(facts, "small")]
    return section(
        "Promotion rules",
        rules_table(decision),
        *([Details("Evidence for each rule", evidence)] if evidence else ()),
        Details("As a chart", [chart]),
        id="rules",
        hint=_held(decision),
    )


def _held(decision: Decision) -> str:
    rules = decision.rules
    held = sum(rule.holds is True for rule in rules)
    counted = f"{held} of {count(len(rules), 'rule')} hold{'s' * (held == 1)}."
    return f"{counted} An open rule is neither shown to hold nor shown to be violated."


def _value(value: Any) -> str:
    """A value of the evidence; one with an interval is shown with it, a list of things one below
    the other.
    """
    if isinstance(value, dict) and {"low", "high"} <= value.keys():
        return number(value.get("value"), interval=value, digits=4, absent_as="not known")
    if isinstance(value, dict) and value and all(isinstance(each, dict) for each in value.values()):
        return phrase(
            *[
                line(f"{key}: ", shown(_rounded(each)))
                for key, each in list(value.items())[:MAX_ROWS]
            ]
        )
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return phrase(*[line(shown(each)) for each in value[:MAX_ROWS]])
    if isinstance(value, list) and value and isinstance(value[0], str):
        return listed(_value(each or "none") for each in value[:MAX_ROWS])
    if isinstance(value, str) and value.startswith("sha256:"):
        return short_digest(value)
    return shown(_rounded(value), "none")


def _rounded(value: Any) -> Any:
    """A value with its fractions cut to four digits; the record has all of them."""
    if isinstance(value, dict):
        return {key: _rounded(each) for key, each in value.items()}
    return round(value, 4) if isinstance(value, float | Decimal) else value


def _next(decision: Decision) -> Section | None:
    """What would settle or change the outcome, and what else a reader should know."""
    notes = quiet_notes(decision)
    if not decision.would_change and not notes:
        return None
    return section(
        "What to do next",
        Sentences(decision.would_change),
        Sentences([sentence(note) for note in notes], "Notes"),
        id="next",
    )


def _criteria(decision: Decision) -> Section | None:
    table = criteria_table(decision)
    hint = "The mean of each criterion in points of 100, over the pairs that have it on both sides."
    return None if table is None else section("Criteria", table, id="criteria", hint=hint)


def _operations(decision: Decision) -> Section | None:
    table = operations_table(decision)
    if table is None:
        return None
    limited = any(rule.id == "operations" for rule in decision.rules)
    hint = "" if limited else "The policy sets no limit on them; they are shown for information."
    return section("Cost, latency and tokens", table, id="operations", hint=hint)


def _unseen(decision: Decision) -> Section:
    """What the decision could not see: the power of its samples, and the errors it allows."""
    expected, n = decision.expectation, decision.comparison.n_paired
    repeats = {
        "each": "of each sample on both sides",
        "candidate": "of each sample of the candidate",
    }
    needed = [
        f"{count(times, 'run')} {repeats[side]}"
        for side, times in expected.repeats_for.items()
        if side in repeats and times is not None
    ]
    unknown = expected.assumed and not expected.sd  # no spread was seen, and none is known
    power = (
        []
        if unknown
        else [
            ("Paired samples", f"{n:,}"),
            (
                "Spread of the paired differences",
                absent("not known")
                if expected.sd is None
                else phrase(f"{points(expected.sd)} points ", small(expected.source)),
            ),
            (
                "A version compared with itself is promoted in",
                absent("not known")
                if expected.same_version_promoted is None
                else f"about {expected.same_version_promoted:.0%} of cases",
            ),
            ("For 80% of cases it takes", " or ".join(needed) or "more samples"),
        ]
    )
    errors = [
        [f"by {ERRORS.get(name, words(name))}", f"{100 * level:.3g}%"]
        for name, level in decision.errors.by_rule.items()
    ]
    errors.append([strong("by all rules together"), f"{100 * decision.errors.reject_at_most:.3g}%"])
    limit = "At most, at each look" if decision.looks > 1 else "At most"
    columns = ("Rejects a version that is the same", Column(limit, "n"))
    looks = (
        f"The policy announces {decision.looks} looks: a decision, and others on more runs after a"
        " hold."
        if decision.looks > 1
        else ""
    )
    return section(
        "What it could not see",
        Sentences(could_not_see(decision)),
        Facts([fact for fact in power if fact[1]], "small"),
        Details(
            "How often these rules err",
            [Table("Error budget", columns, errors), Paragraph(looks, "hint") if looks else ""],
        ),
        id="unseen",
    )


def _flaky(decision: Decision) -> Section | None:
    flaky = decision.flaky or []
    if not flaky:
        return None
    rows = [
        [
            sample_label(decision, item.sample),
            item.side,
            number(item.rate.value, interval=item.rate, percent=True),
            f"{item.passed} of {item.repeats}",
        ]
        for item in flaky
    ]
    columns = ("Sample", "Side", "Passes in", Column("Repeats", "n"))
    title = "Samples whose repeats disagree"
    return section(
        title,
        Details(flaky_line(decision), [Table(title, columns, rows[:MAX_ROWS])]),
        id="flaky",
    )


# --- both sides


def _sides(decision: Decision, figures: Sequence[Figure]) -> Section:
    sides = [decision.candidate, decision.baseline]
    rows = [
        ["Name", *(shown(side.name or None) for side in sides)],
        ["Runs", *(f"{side.n:,}" for side in sides)],
        ["Pass rate", *(rate_of(side.pass_rate, side.n) for side in sides)],
        ["Mean score", *(mean_of(side.weighted_score.mean) for side in sides)],
        [
            "Standard deviation of the scores",
            *(points(side.weighted_score.sd, "not known") for side in sides),
        ],
        [
            "Score quantiles",
            *(
                phrase(
                    *[
                        part
                        for name, value in side.weighted_score.quantiles.items()
                        for part in (small(f"{name} "), points(value), " ")
                    ]
                )
                for side in sides
            ),
        ],
        [
            "Coverage",
            *(
                ", ".join(f"{n} {name.replace('_', ' ')}" for name, n in side.coverage.items() if n)
                for side in sides
            ),
        ],
        ["Letters", *(_letters(side) for side in sides)],
    ]
    for name in dict.fromkeys(key for side in sides for key in side.gates):
        rows.append([phrase("Gate ", code(name)), *(_gate(side, name) for side in sides)])
    for name in dict.fromkeys(key for side in sides for key in side.criteria):
        rows.append([phrase("Criterion ", code(name)), *(_criterion(side, name) for side in sides)])
    table = Table("Both sides", ("Measure", "Candidate", "Baseline"), rows[:MAX_ROWS], kind="sides")
    return section("Both sides", table, *_reasons(sides), *figures, id="sides")


def _letters(side: SummaryBlock) -> str:
    """The letters with their policy; letters of two policies are of two kinds, and not counted
    together.
    """
    if len(side.policies) > 1:
        return (
            f"under {len(side.policies)} policies, so they are not counted together:"
            f" {', '.join(side.policies)}"
        )
    return phrase(
        *[line(f"{n:,} × ", letter(name, side.policies[0])) for name, n in side.grades.items() if n]
    )


def _gate(side: SummaryBlock, name: str) -> str:
    gate = side.gates.get(name)
    if gate is None:
        return absent("not required")
    undetermined = f" · {gate.undetermined} undetermined" if gate.undetermined else ""
    rate = number(gate.rate.value, interval=gate.rate, n=gate.n, percent=True)
    return phrase(f"{gate.failed} failed ", rate, undetermined)


def _criterion(side: SummaryBlock, name: str) -> str:
    values = side.criteria.get(name)
    if values is None:
        return absent("not scored")
    below = f" · {values.floor_failures} below its floor" if values.floor_failures else ""
    missing = f" · {values.missing} without a score" if values.missing else ""
    mean = number(values.mean.value, interval=values.mean, n=values.n, digits=3)
    return phrase(mean, below, missing)


def _reasons(sides: Sequence[SummaryBlock]) -> list[Section]:
    counted = [{item.reason: item for item in side.top_failure_reasons} for side in sides]
    ours, theirs = counted
    rows = [
        [
            clip(name),
            *(f"{side[name].count:,}" if name in side else "0" for side in counted),
            (ours.get(name) or theirs[name]).example,
        ]
        for name in dict.fromkeys([*ours, *theirs])
    ]
    columns = (
        Column("Reason", "wide"),
        Column("Candidate", "n"),
        Column("Baseline", "n"),
        "Example",
    )
    title = "Why runs did not pass"
    return [section(title, Table(title, columns, rows), level=3)] if rows else []


def _origin(decision: Decision) -> Section:
    """What the decision was made with: fingerprint, plan, versions and digests."""
    plan, fingerprint = decision.plan, decision.fingerprint
    fields = [(words(key), _value(value)) for key, value in fingerprint.fields.items()]
    planned = [
        (words(key), _value(value))
        for key, value in plan.items()
        if key not in ("declared", "changed")
    ]
    changed: list[Part] = []
    if plan.get("changed"):
        text = f"Changed since it was declared: {'; '.join(plan['changed'])}."
        changed = [Paragraph(verdict("not as declared", text))]
    versions = [
        ("Policy", decision.policy),
        ("Scoring system", decision.scoring_system),
        ("Grading system", decision.grading_system),
        ("Looks", shown(decision.looks or None)),
        *((f"Digest of the {key}", short_digest(value)) for key, value in decision.digests.items()),
    ]
    declared = "declared in advance" if plan.get("declared") else "none was declared"
    return section(
        "Provenance",
        section(
            "Fingerprint of both sides",
            Facts([("Fingerprint", short_digest(fingerprint.digest)), *fields], "small"),
            level=3,
        ),
        section(f"Plan: {declared}", *changed, Facts(planned, "small"), level=3),
        section("Versions and digests", Facts(versions, "small"), level=3),
        id="origin",
        hint="Two sides are compared only if their fingerprints match.",
    )
