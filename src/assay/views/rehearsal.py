"""The view of a rehearsal: false alarms and power side by side, the cost in runs, what to do, and
what a rehearsal can't see.
"""

from __future__ import annotations

from collections.abc import Sequence

from assay.errors import count, few
from assay.records.rehearsal import Outcomes, Recommendation, Rehearsal
from assay.views.blocks import (
    Column,
    Facts,
    Note,
    Paragraph,
    Part,
    Sentences,
    Table,
    contents,
    figure,
    parts_of,
    section,
    stated,
)
from assay.views.charts import rehearsals as charts
from assay.views.charts.rehearsals import OUTCOMES, rehearsed, share_of, text_bar
from assay.views.decision import RULES
from assay.views.pieces import number, piece, shown

NOTICED = 0.05
"""The share of rejections of the same version that stands out."""


def rehearsal_title(made: Rehearsal) -> str:
    """What was rehearsed, in a title."""
    return f"rehearsal of {made.policy}"


def rehearsal_summary(made: Rehearsal) -> list[Part]:
    """What a terminal and a pull request show."""
    legend = ", ".join(f"{mark} {word}" for word, _, mark in OUTCOMES.values())
    return parts_of(
        Paragraph(piece("verdict", _headline(made), _headline(made), _look(made))),
        Facts(_facts(made)),
        _outcomes_table(made),
        Paragraph(f"{legend}. False alarms are the first row, power the others.", "hint"),
        _rules_table(made),
        _severe(made),
        *_recommended(made),
        *(Note(f"Note: {warning}") for warning in made.warnings),
        Paragraph("A rehearsal can't see:"),
        Sentences(made.unseen),
    )


def rehearsal_view(made: Rehearsal) -> list[Part]:
    """The whole page."""
    advice = _recommended(made)
    sections = parts_of(
        section(
            "False alarms and power",
            figure(charts.power(made)),
            _outcomes_table(made, bars=False),
            id="power",
            hint="The first row is the version against itself: what it rejects is a false alarm.",
        ),
        section(
            "By rule", _rules_table(made) or Paragraph(_QUIET, "absent"), _severe(made), id="rules"
        ),
        section("Recommendation", *advice, id="recommendation") if advice else None,
        section(
            "What makes these numbers doubtful",
            Sentences(made.warnings, absent="Nothing that was noticed."),
            id="warnings",
        ),
        section("What a rehearsal can't see", Sentences(made.unseen), id="unseen"),
    )
    return [
        Paragraph(_headline(made), "verdict"),
        Facts(_facts(made)),
        contents(sections),
        *sections,
    ]


_QUIET = "No rule was violated or open in any release of the same version."


def _headline(made: Rehearsal) -> str:
    same = made.same_version
    weak = share_of(same, "not_enough_evidence")
    short = f", lacks evidence in {weak:.0%}" if weak else ""
    return (
        f"{made.policy} promotes this version against itself in {share_of(same, 'promote'):.0%} of"
        f" the releases, holds it in {share_of(same, 'hold'):.0%}{short} and rejects it in"
        f" {share_of(same, 'reject'):.1%}"
    )


def _look(made: Rehearsal) -> str:
    same = made.same_version
    if share_of(same, "reject") > NOTICED:
        return "bad"
    return "good" if share_of(same, "promote") >= 0.8 else "open"


def _facts(made: Rehearsal) -> list[tuple[str, str]]:
    side, cost, spread = made.evaluation, made.same_version.fresh_runs, made.spread
    repeats = (
        f"{side.fewest_repeats}"
        if side.fewest_repeats == side.most_repeats
        else f"{side.fewest_repeats} to {side.most_repeats}"
    )
    between = (
        ""
        if spread.promote is None
        else f"another suite like this one would be promoted in {spread.promote[0]:.0%} to"
        f" {spread.promote[1]:.0%} (modelled from half-samples)"
    )
    return stated(
        ("evaluation", f"{side.name}: {count(side.samples, 'sample')} x {repeats} repeats"),
        ("policy", f"{made.policy}, margin {made.margin:g} points"),
        ("releases", f"{made.same_version.releases:,}, seed {made.seed}"),
        ("suites", between),
        (
            "cost",
            (
                f"{cost.mean:.1f} fresh runs on average, {cost.p95:,} at most in 95% of the"
                f" releases; {count(made.turns, 'turn')} confirm a new failure"
            ),
        ),
    )


def _outcomes_table(made: Rehearsal, *, bars: bool = True) -> Table:
    rows = [
        [
            shown(name),
            *(number(share_of(outcomes, one), percent=True) for one in OUTCOMES),
            f"{outcomes.fresh_runs.mean:.0f}",
            *([text_bar(outcomes)] if bars else []),
        ]
        for name, outcomes in rehearsed(made)
    ]
    words = [*(word.capitalize() for word, _, _ in OUTCOMES.values()), "Fresh runs"]
    heads = [Column("Version", "wide"), *(Column(word, "n") for word in words)]
    return Table("Outcomes", [*heads, *(["Shares"] if bars else [])], rows)


def _rules_table(made: Rehearsal) -> Table | None:
    """The rules that turned against the same version."""
    rows = _rule_rows(made.same_version)
    if not rows:
        return None
    heads = ("Rule", Column("Rejected by it", "n"), Column("Open", "n"))
    return Table("The same version, by rule", heads, rows)


def _rule_rows(outcomes: Outcomes) -> list[list[str]]:
    return [
        [
            RULES.get(rule, rule),
            number(share.violated, percent=True),
            number(share.open, percent=True),
        ]
        for rule, share in outcomes.rules.items()
        if share.violated or share.open
    ]


def _severe(made: Rehearsal) -> Note | None:
    if not made.severe_by_chance:
        return None
    names = few(
        [
            f"{item.check} ({count(item.samples, 'sample')}, {item.failing_runs:.1%} of the runs)"
            for item in made.severe_by_chance
        ],
        5,
    )
    return Note(
        f"Severe, and failed at random by this version: {names}. Make them ordinary gates in the"
        " release policy, or fix them.",
        "bad",
    )


def _recommended(made: Rehearsal) -> list[Part]:
    advice = made.recommendation
    if not advice:
        return []
    return [
        Sentences(advice.sentences, "Recommendation"),
        _options_table(advice),
        Sentences([f"Run `{command}`." for command in advice.commands]),
    ]


def _options_table(advice: Recommendation) -> Table:
    rows: Sequence[Sequence[str]] = [
        [
            f"{one.candidate_runs} against {one.baseline_runs}{' (banked)' if one.banked else ''}",
            f"{one.runs:,}",
            f"{one.promoted:.0%}",
            f"{one.smallest_loss:.1f}",
            "rehearsed" if one.rehearsed else "modelled",
        ]
        for one in advice.options
    ]
    heads = (
        "Runs of each sample",
        Column("To run", "n"),
        Column("Promoted", "n"),
        Column("Shows a loss of", "n"),
        "How it is known",
    )
    return Table("Runs of each sample, and what they do", heads, rows)
