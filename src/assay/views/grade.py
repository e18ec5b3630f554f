"""The view of a grade: the verdict, then gates, points, floors, what would change it, and why.

The grade is an entry of `results[]` in `assay.grades/1`. It contains its sentences (see
`grading.explain`); nothing here words a reason again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import structs

from assay.records.grade_line import NO_REASON
from assay.views.blocks import (
    Column,
    Details,
    Facts,
    Figure,
    Paragraph,
    Section,
    Sentences,
    Table,
    figure,
    section,
)
from assay.views.charts import Chart, grades, steps
from assay.views.grade_line import change_text, explained, floor_state
from assay.views.pieces import (
    absent,
    clip,
    code,
    coded,
    letter,
    phrase,
    points,
    shown,
    small,
    strong,
    verdict,
)

Result = Mapping[str, Any]
MAX_ROWS = 100
"""Rows of one table; the record itself has them all."""
ORDER = ("fail", "undetermined", "pass")
LAYERS = {
    "1": "Objective (layer 1)",
    "2": "Rubric or judge (layer 2)",
    "3": "Operations (layer 3)",
    "none": "Without a layer",
}
ORIGINS = {
    "role": "required by its role",
    "criterion": "the criterion's own",
    "override": "an override",
}


def grade_charts(result: Result) -> list[Chart]:
    """The charts of a grade that there is something to draw for."""
    made = (
        grades.contributions(result),
        *([grades.floors(result)] if result.get("floor_failures") else []),
        steps.timeline(result),
    )
    return [chart for chart in made if chart.spec is not None]


def grade_sections(result: Result, *, url: str = "", ids: bool = True) -> list[Section]:
    """Everything behind the verdict, within a section of a page. `url` is where the charts are
    served; without `ids` the sections cannot be linked to, because several grades share a page.
    """
    closed = bool(result.get("hard_gate_failures"))
    made = [
        _gates(result),
        _points(result, figure(grades.contributions(result), url)),
        _floors(result, figure(grades.floors(result), url)),
        section(
            "What would change the grade",
            change_facts(result),
            Sentences([change_text(result)] if closed and result.get("explanation") else []),
            id="change",
        ),
        _why(result),
    ]
    return [structs.replace(part, level=3, id=part.id if ids else "") for part in made]


GATE_COLUMNS = ("Gate", "Verdict", Column("Reason", "wide"))


def gate_rows(gates: Mapping[str, Any]) -> list[list[str]]:
    """Each gate with its verdict and reason; what does not pass comes first."""
    pairs = sorted(
        gates.items(),
        key=lambda pair: ORDER.index(pair[1]["status"]) if pair[1].get("status") in ORDER else 0,
    )
    return [
        [
            code(clip(name, 100)),
            verdict(gate.get("status")),
            coded(clip(gate.get("reason"), 600, absent_as=NO_REASON)),
        ]
        for name, gate in pairs
    ]


def _gates(result: Result) -> Section:
    gates: Mapping[str, Any] = result.get("hard_gates") or {}
    closed = len(result.get("hard_gate_failures") or ())
    hint = (
        f"{closed} of {len(gates)} did not pass. No score makes up for a failed gate; an"
        " undetermined gate counts as failed."
        if closed
        else f"All {len(gates)} passed."
    )
    return section(
        "Gates",
        Table(
            "Hard gates",
            GATE_COLUMNS,
            gate_rows(gates)[:MAX_ROWS],
            absent="No hard gate was required of this run.",
            kind="stack gates",
        ),
        id="gates",
        hint=hint if gates else "",
    )


def criterion_name(item: Result) -> str:
    """A criterion by its label, and its name where that is another."""
    name, label = item.get("name"), item.get("label")
    title = strong(shown(label or name))
    return phrase(title, " ", small(code(name))) if label and label != name else title


def _points(result: Result, chart: Figure) -> Section:
    """Where the points came from, against the bands; then each criterion in numbers."""
    rows = []
    for item in (result.get("criteria") or ())[:MAX_ROWS]:
        earned = strong(points(item.get("contribution")))
        rows.append(
            [
                criterion_name(item),
                phrase(earned, " of ", points(item.get("maximum"))),
                raw_score(item, 1000),
                phrase(
                    code(item.get("formula_id")),
                    *([" ", small(shown(item["params"]))] if item.get("params") else []),
                ),
                shown(item.get("norm")),
                shown(item.get("adjusted_norm")),
                shown(item.get("weight")),
                shown(item.get("n")),
                shown(item.get("role"), "none"),
                shown(item.get("layer"), "none"),
                floor_of(item),
            ]
        )
    columns = (
        "Criterion",
        Column("Points", "n"),
        "Raw score",
        "Formula",
        Column("Norm", "n"),
        Column("Adjusted norm", "n"),
        Column("Weight", "n"),
        Column("Samples", "n"),
        "Role",
        "Layer",
        "Floor",
    )
    layers = [
        (LAYERS.get(layer, layer), points(value, "no criterion"))
        for layer, value in (result.get("layers") or {}).items()
    ]
    return section(
        "Points",
        chart,
        Facts(layers),
        Details(
            "All numbers of the criteria",
            [Table("Criteria", columns, rows, absent="No criterion was scored.")],
        ),
        id="points",
    )


def raw_score(item: Result, most: int, why: str = "") -> str:
    """The score of a criterion on its own scale, with the judge that gave it and its reason, or why
    there is none.
    """
    if item.get("raw_score") is not None:
        source = item.get("source") or {}
        judge = f" by {clip(source.get('name'), 100)}" if source.get("kind") == "llm" else ""
        reason = f": {clip(why, most)}" if judge and why else ""
        return phrase(shown(item["raw_score"]), judge, reason)
    return phrase(
        "none, counts as 0: ", coded(clip(item.get("missing"), most, absent_as=NO_REASON))
    )


def lost_points(item: Result) -> float:
    """The points that a criterion did not earn."""
    return float(item.get("maximum") or 0) - float(item.get("contribution") or 0)


def floor_of(item: Result) -> str:
    """Whether a criterion meets its floor, the floor, and where it comes from."""
    floor = item.get("critical_floor")
    if not floor:
        return absent("none")
    raw = f" (raw {shown(floor['raw'])})" if floor.get("raw") is not None else ""
    origin = ORIGINS.get(str(floor.get("from")), "of unknown origin")
    return phrase(floor_state(item), f" {shown(floor.get('norm'))}{raw}, {origin}")


def _floors(result: Result, chart: Figure) -> Section:
    """Each floor with its margin."""
    floored = any(item.get("critical_floor") for item in result.get("criteria") or ())
    nothing = Paragraph("No criterion of this run has a floor.", "absent")
    return section("Floors", chart if floored else nothing, id="floors")


def change_facts(result: Result) -> Facts:
    """The smallest changes that would move the letter, as facts."""
    placement: Mapping[str, Any] = result.get("placement") or {}
    opened = ", once every gate passes" if result.get("hard_gate_failures") else ""
    moves = [
        (
            f"To gain a letter{opened}",
            _move(placement.get("smallest_gain"), result, "raise"),
        ),
        (
            f"To lose a letter{opened}",
            _move(placement.get("smallest_loss"), result, "lower"),
        ),
        (
            "Points to the next band up",
            points(placement.get("margin_to_next_grade"), "already in the highest band"),
        ),
        (
            "Points to the next band down",
            points(placement.get("to_lose_grade"), "already in the lowest band"),
        ),
    ]
    return Facts(moves, "pairs")


def _move(move: Result | None, result: Result, verb: str) -> str:
    if not move:
        return absent(f"No single criterion can {verb} the grade.")
    raw = f" (raw {shown(move['needed_raw'])})" if move.get("needed_raw") is not None else ""
    return phrase(
        strong(shown(move.get("criterion"))),
        f" from {shown(move.get('norm'))} to {shown(move.get('needed_norm'))}{raw} gives ",
        letter(move.get("grade"), result.get("policy")),
    )


def _why(result: Result) -> Section:
    """The explanation in sentences, the notes, and the rules that fired."""
    fired = [
        phrase(code(finding.get("rule")), " ", shown(finding.get("text")))
        for finding in result.get("findings") or ()
        if finding.get("fired")
    ]
    # with a gate closed, the last sentence is under "What would change the grade"
    sentences = explained(result)[1 : -1 if result.get("hard_gate_failures") else None]
    placement: Mapping[str, Any] = result.get("placement") or {}
    return section(
        "Why, in sentences",
        Sentences(_clipped(sentences), absent="No further explanation.", most=MAX_ROWS),
        Sentences(_clipped(placement.get("notes") or ()), "Placement", most=MAX_ROWS),
        Sentences(fired, "Rules that fired", most=MAX_ROWS),
        Sentences(_clipped(result.get("notes") or ()), "Notes", most=MAX_ROWS),
        id="why",
    )


def _clipped(sentences: Iterable[Any]) -> list[str]:
    return [clip(sentence, 600) for sentence in sentences]
