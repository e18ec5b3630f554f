"""The view of a release decision in full: every section of its page.

The decision contains all of it except the scores of every pair; callers that have them pass them
in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from assay.errors import count
from assay.records.decision import SIDES, ComparisonRecord, Decision
from assay.records.samples import NO_TEXTS, Texts
from assay.records.summary import SummaryBlock
from assay.views.blocks import (
    Column,
    Details,
    Facts,
    Figure,
    Heading,
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
)
from assay.views.charts import Chart, summaries
from assay.views.charts import decisions as charts
from assay.views.charts.decisions import claims_of
from assay.views.decision import (
    ERRORS,
    SCALE,
    bar_facts,
    could_not_see,
    criteria_table,
    decision_head,
    doubled,
    flaky_line,
    mean_of,
    operations_table,
    quiet_notes,
    rate_of,
    rule_name,
    rule_order,
    rules_table,
    terms_facts,
)
from assay.views.decision_samples import (
    RunLinks,
    confirmation_section,
    failures_section,
    pair_parts,
    sample_entries,
    sample_label,
    worse_section,
)
from assay.views.pieces import (
    absent,
    clip,
    code,
    letter,
    line,
    listed,
    number,
    phrase,
    points,
    sentence,
    short_digest,
    shown,
    small,
    strong,
    verdict,
    words,
)

MAX_ROWS = 200
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
