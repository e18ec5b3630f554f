"""The chart of a rehearsal: what became of the same version and of each planted regression."""

from __future__ import annotations

from typing import Any

from assay.errors import count
from assay.records.rehearsal import Outcomes, Rehearsal
from assay.views.charts import marks
from assay.views.charts.chart import (
    BLUE,
    GREY,
    ORANGE,
    RED,
    Chart,
    clean,
    cut,
    labels,
    percent,
    view,
)

OUTCOMES = {
    "promote": ("promoted", BLUE, "█"),
    "hold": ("held", ORANGE, "▒"),
    "not_enough_evidence": ("not enough evidence", GREY, "·"),
    "reject": ("rejected", RED, "░"),
}
"""Each outcome: its word, its colour, and its mark in a bar of text."""
STEPS = 20
"""Marks of a bar of text."""


def rehearsed(made: Rehearsal) -> list[tuple[str, Outcomes]]:
    """The name and the outcomes of everything that was simulated."""
    rows = [("the same version", made.same_version)]
    if made.other_version:
        rows.append((f"{made.other.name if made.other else 'the other'}", made.other_version))
    return [*rows, *((planted.title, planted.outcomes) for planted in made.power)]


def share_of(outcomes: Outcomes, name: str) -> float:
    """The share of releases with this outcome."""
    value: float | None = getattr(outcomes, name).value
    return value or 0.0


def text_bar(outcomes: Outcomes) -> str:
    """The shares as a bar of text, with the marks of `OUTCOMES`.

    An outcome that came at all has a mark.
    """
    shares = {name: share_of(outcomes, name) for name in OUTCOMES}
    steps = {name: max(1, round(STEPS * share)) if share else 0 for name, share in shares.items()}
    most = max(steps, key=lambda name: steps[name])
    steps[most] += STEPS - sum(steps.values())
    return "".join(OUTCOMES[name][2] * many for name, many in steps.items())


def power(made: Rehearsal) -> Chart:
    """A bar for the same version and for each planted regression: the shares of their outcomes."""
    name, title = "rehearsal-power", "What the policy made of each version"
    rows = rehearsed(made)
    drawn: list[dict[str, Any]] = []
    for text, (_, outcomes) in zip(labels((row for row, _ in rows), 46), rows, strict=True):
        start = 0.0
        for outcome, (word, _, _) in OUTCOMES.items():
            share = share_of(outcomes, outcome)
            drawn.append(
                {
                    "name": text,
                    "outcome": word,
                    "from": 100 * start,
                    "to": 100 * (start + share),
                    "note": f"{word} {percent(share)}",
                }
            )
            start += share
    same = made.same_version
    missed = max((share_of(planted.outcomes, "promote") for planted in made.power), default=None)
    sentence = (
        f"Of {count(same.releases, 'release')} of the same version,"
        f" {percent(share_of(same, 'promote'))} were promoted and"
        f" {percent(share_of(same, 'reject'))} rejected under {clean(made.policy)}."
    )
    if missed is not None:
        sentence += f" Of any planted regression, at most {percent(missed)} were promoted."
    x = marks.scored(title="% of releases", grid=True)
    spec = view(
        drawn,
        {
            "mark": {"type": "bar"},
            "encoding": {
                "y": marks.rows_axis(
                    [{"name": row} for row in dict.fromkeys(d["name"] for d in drawn)]
                ),
                "x": {"field": "from", **x},
                "x2": {"field": "to"},
                "color": {
                    "field": "outcome",
                    "type": "nominal",
                    "scale": {
                        "domain": [word for word, _, _ in OUTCOMES.values()],
                        "range": [colour for _, colour, _ in OUTCOMES.values()],
                    },
                    "legend": {"title": None},
                },
            },
        },
    )
    table = [
        (clean(row), *(percent(share_of(outcomes, outcome)) for outcome in OUTCOMES))
        for row, outcomes in rows
    ]
    columns = ("Version", *(word.capitalize() for word, _, _ in OUTCOMES.values()))
    return Chart(name, title, sentence, spec, columns, cut(table, len(columns)))
