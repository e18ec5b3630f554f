"""The samples of a release decision: what got worse, what a side lacks, and every pair."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from assay.records.decision import Decision
from assay.views.blocks import Column, Details, Paragraph, Part, Section, Table, section
from assay.views.decision import LOST
from assay.views.pieces import absent, code, link, listed, phrase, points, signed, strong

MAX_ROWS = 200


class RunLinks(NamedTuple):
    """The address of each sample's run on either side."""

    candidate: Mapping[str, str]
    baseline: Mapping[str, str]

    def to(self, name: str, side: str, text: str = "") -> str:
        """A link to the run of a sample; plain text where its address is not known."""
        known: Mapping[str, str] = getattr(self, side)
        return link(text or name, known[name]) if name in known else text or name


def pair_parts(pairs: Sequence[Any], links: RunLinks) -> list[Part]:
    """Every pair, the largest loss first, each leading to both runs."""

    def fall(pair: Any) -> float:
        # what the candidate lost counts as 0, what the baseline lacks as 100
        ours, theirs = pair.candidate, pair.baseline
        return float((0 if ours is None else ours) - (100 if theirs is None else theirs))

    rows = [
        [
            links.to(pair.sample, "candidate"),
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


def worse_section(decision: Decision, links: RunLinks) -> Section:
    """The samples that lost most, and those that a side does not have at all."""
    rows = [
        [
            links.to(item.sample, "candidate"),
            links.to(item.sample, "candidate", points(item.candidate, "missing")),
            links.to(item.sample, "baseline", points(item.baseline, "missing")),
            strong(signed(item.difference)),
            listed(map(code, item.newly_failed_gates), " ") or absent("none"),
        ]
        for item in decision.worse
    ]
    columns = (
        "Sample",
        Column("Candidate", "n"),
        Column("Baseline", "n"),
        Column("Difference", "n"),
        "Gates that newly fail",
    )
    lost = decision.comparison.losses or 0
    titles = {
        "candidate": f"Missing in the candidate, each counted as {LOST['candidate']}",
        "baseline": f"Missing in the baseline, each counted as {LOST['baseline']}",
        "quarantined": "Left out by name",
    }
    gone = []
    for side, title in titles.items():
        names = getattr(decision.missing, side)
        if names:
            n, listed_here = decision.missing.total(side), min(len(names), MAX_ROWS)
            more = f" and {n - listed_here:,} more" if n > listed_here else ""
            side_of_run = "baseline" if side == "candidate" else "candidate"
            linked = (links.to(name, side_of_run) for name in names[:MAX_ROWS])
            text = phrase(listed(linked), more)
            gone.append(section(f"{title} ({n:,})", Paragraph(text), level=3))
    return section(
        "Samples that got worse",
        Table(
            "Samples that got worse, the worst first",
            columns,
            rows,
            absent="No sample got worse.",
            kind="stack",
        ),
        *gone,
        id="worse",
        hint=(
            f"The {len(rows)} that fell most of {lost:,} that got worse."
            if lost > len(rows)
            else ""
        ),
    )
