"""The view of a summary block: how many runs passed, how they scored, and why they failed."""

from __future__ import annotations

from collections.abc import Sequence

from assay.errors import count
from assay.records.summary import SummaryBlock
from assay.views.blocks import Column, Facts, Paragraph, Part, Table, parts_of
from assay.views.pieces import number


def summary_view(block: SummaryBlock, slices: Sequence[str] = ()) -> list[Part]:
    """The reporting bundle, with a table for each kind of `slices`."""
    mean, sd = block.weighted_score.mean, block.weighted_score.sd
    rate = number(block.pass_rate.value, interval=block.pass_rate, percent=True)
    score = number(mean.value, interval=mean) + (f", sd {sd:.2f}" if sd is not None else "")
    covered = [f"{n:,} {name.replace('_', ' ')}" for name, n in block.coverage.items() if n]
    gates = [
        [name, f"{gate.failed:,}", number(gate.rate.value, interval=gate.rate, percent=True)]
        for name, gate in sorted(block.gates.items(), key=lambda pair: -pair[1].failed)
    ]
    criteria = [
        [
            name,
            number(values.mean.value, digits=3),
            *(number(values.quantiles[key], digits=3) for key in ("p5", "p50", "p95")),
            f"{values.floor_failures:,}",
            f"{values.missing:,}",
        ]
        for name, values in block.criteria.items()
    ]
    reasons = [[item.reason, f"{item.count:,}", item.example] for item in block.top_failure_reasons]
    columns = [
        Column(name, "n") for name in ("Mean", "p5", "p50", "p95", "Floor missed", "Missing")
    ]
    systems = f"{block.scoring_system} · {block.grading_system}"
    return [
        Facts(
            [
                ("runs", f"{count(block.n, 'run')}: {', '.join(covered)}"),
                ("pass rate", rate),
                ("mean score", score),
                ("interval", mean.method if mean.method != "student-t" else ""),
                ("grades", " · ".join(f"{name} {n:,}" for name, n in block.grades.items())),
            ]
        ),
        Table("Gate failures", ("Gate", Column("Failed", "n"), "Rate"), gates),
        Table("Criteria", ("Criterion", *columns), criteria),
        Table(
            "Top failure reasons",
            ("Reason", Column("Runs", "n"), "For example"),
            reasons,
            absent="No run failed.",
        ),
        *(part for kind in dict.fromkeys(slices) for part in _slices(block, kind)),
        Paragraph(f"policy {', '.join(block.policies)} · {systems}", "hint"),
    ]


def _slices(block: SummaryBlock, kind: str) -> list[Part]:
    """The slices of one kind, and how many runs are in none of them."""
    slices = block.slices[kind]
    rows = [
        [
            name,
            f"{item.n:,}",
            number(item.pass_rate.value, interval=item.pass_rate, percent=True),
            number(item.weighted_score.mean.value, interval=item.weighted_score.mean),
        ]
        for name, item in slices.items()
    ]
    columns = (kind.capitalize(), Column("Runs", "n"), "Pass rate", "Mean score")
    others = block.n - sum(item.n for item in slices.values())
    without = Paragraph(f"{count(others, 'run')} without a {kind}.", "hint")
    return parts_of(
        Table(f"By {kind}", columns, rows, absent=f"No run has a {kind}."),
        without if slices and others > 0 else None,
    )
