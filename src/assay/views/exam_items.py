"""The items of a graded exam: where a mark was lost, what was expected and what was given; and
every item with its answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from assay.canon import number_text
from assay.errors import count
from assay.records.exam import ItemResult, LostMark
from assay.views.blocks import (
    Chip,
    Chips,
    Column,
    Details,
    Paragraph,
    Region,
    Section,
    Table,
    parts_of,
    section,
)
from assay.views.exam import ExamView, no_answer
from assay.views.pieces import absent, clip, line, phrase, small, strong, verdict, words

MAX_ROWS = 200
MAX_TEXT = 2000
MAX_PARTS = 20
PARTS = ("correction", "gloss", "explanation")
_LOST = (
    Column("Item"),
    Column("Axis"),
    Column("Lost", "n"),
    Column("Expected", "wide"),
    Column("Given", "wide"),
)


def lost_section(
    view: ExamView, lost: Sequence[LostMark], *, here: str = "", axis: str = ""
) -> Section:
    """Every lost mark, the lowest item first. `here` is the address of the page, which an axis
    narrows down.
    """
    known = {(mark.item, mark.axis): mark for mark in lost}
    marks = [
        (row.result, each, known.get((row.result.item, each)))
        for row in view.items
        for each in row.lost
    ]
    chosen = [mark for mark in marks if axis in ("", mark[1])]
    rows = []
    for item, each, mark in chosen[:MAX_ROWS]:
        missing = item.item in view.result.missing
        rows.append(
            [
                phrase(strong(item.item), line(small(clip(item.prompt, 160)))),
                words(each),
                f"−{number_text(view.weights[each])}",
                *_words(view, item, each, mark, missing=missing),
            ]
        )
    axes = [each for _, each, _ in marks]
    more = f"The first {MAX_ROWS} of {count(len(chosen), 'lost mark')}."
    parts = parts_of(
        _chips(view, axes, here, axis) if here and len(view.weights) > 1 and marks else None,
        Table("Lost marks", _LOST, rows, absent="No mark was lost.", kind="stack lost"),
        Paragraph(more, "hint") if len(chosen) > MAX_ROWS else None,
    )
    return section("Lost marks", *([Region("lost-marks", parts)] if here else parts), id="lost")


def _words(
    view: ExamView, item: ItemResult, axis: str, mark: LostMark | None, *, missing: bool
) -> tuple[str, str]:
    """What was expected and what was given. Without the answers, the result has them only for its
    main axis.
    """
    main = axis == next(iter(view.weights))
    expected = mark.expected if mark else ", ".join(item.expected) if main else ""
    given = mark.given if mark else (item.got or "") if main else None
    if missing:
        shown: str = absent(no_answer(view.result, item.item))
    elif given is None:
        shown = absent("the answers are not stored")
    else:
        shown = clip(given, MAX_TEXT, absent_as="nothing")
    return clip(expected, MAX_TEXT, absent_as="see the rubric"), shown


def _chips(view: ExamView, axes: Sequence[str], here: str, chosen: str) -> Chips:
    chips = [Chip("All axes", f"{here}#lost", len(axes), not chosen)]
    for axis in view.weights:
        if axis in axes or axis == chosen:
            own = axis == chosen
            href = f"{here}#lost" if own else f"{here}?axis={quote(axis)}#lost"
            chips.append(Chip(words(axis), href, axes.count(axis), own))
    return Chips("Which axis", chips)


def items_section(view: ExamView, answers: Mapping[str, Any]) -> Section:
    """Every item with its marks and the parts of its answer, the lowest score first."""
    rows = []
    axes = view.result.axis_names
    for row in view.items[:MAX_ROWS]:
        item = row.result
        marks = [
            verdict("fails", "0") if axis in row.lost else verdict("holds", "1") for axis in axes
        ]
        answered = item.item not in view.result.missing
        rows.append(
            [
                strong(item.item),
                row.score,
                *marks,
                clip(item.prompt, MAX_TEXT),
                clip(", ".join(item.expected), MAX_TEXT),
                _answer(answers.get(item.item), item) if answered else row.got,
            ]
        )
    columns: tuple[str | Column, ...] = (
        "Item",
        Column("Score", "n"),
        *map(words, axes),
        Column("Prompt", "wide"),
        "Expected",
        Column("Answer", "wide"),
    )
    n = len(view.items)
    more = f"The {MAX_ROWS} lowest of {n:,}; the record has them all." if n > MAX_ROWS else ""
    table = Table("Items, the lowest score first", columns, rows, kind="stack")
    folded = Details(f"Every item with its answer ({n:,})", [table])
    return section("Items", folded, id="items", hint=more or f"{view.rest}.")


def _answer(answer: Any, item: ItemResult) -> str:
    """What was answered, part by part; of an exam without its answers what counted as English."""
    if isinstance(answer, Mapping):
        rest = [name for name in answer if name not in PARTS][:MAX_PARTS]
        known = PARTS if any(name in answer for name in PARTS) else ()
        return phrase(
            *(line(small(f"{name} "), _part(answer.get(name))) for name in (*known, *rest))
        )
    if answer is not None:
        return phrase(small("one text, no parts "), clip(answer, MAX_TEXT))
    return absent("no answer is stored") if item.got is None else clip(item.got, MAX_TEXT)


def _part(value: Any) -> str:
    if value in (None, ""):
        return absent("empty" if value == "" else "not there")
    return clip(value, MAX_TEXT)
