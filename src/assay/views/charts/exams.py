"""Charts of a graded exam: the axes of each item, the axes across the items, and the
patterns in them.

An axis has a number, a colour and a place in the bar, so that it is recognisable without its
colour. For a long exam, only the items that lost points are drawn, and the sentence says so; the
table and the document have the others.
"""

from __future__ import annotations

from typing import Any

from assay.errors import count
from assay.records.exam import AxisNumbers, ExamResult, ItemResult, PatternSeen
from assay.views.charts import marks
from assay.views.charts.chart import (
    BLACK,
    BLUE,
    GREEN,
    GREY,
    MAX_ROWS,
    ORANGE,
    PINK,
    QUIET,
    RED,
    SKY,
    TRACK,
    WHITE,
    Chart,
    clean,
    cut,
    label,
    labels,
    over,
    percent,
    shown,
    view,
)
from assay.views.exam import exam_view

COLOURS = [BLUE, ORANGE, SKY, GREEN, PINK, GREY]
"""By axis; from the seventh on they begin again, and the number tells two axes apart."""
MAX_COLUMNS = 300
"""Items that the heatmap has room for."""


def _names_of(exam: ExamResult) -> list[str]:
    """The axes, each with its number."""
    return [f"{place} {label(axis)}" for place, axis in enumerate(exam.axis_names, 1)]


def _kinds(exam: ExamResult, item: ItemResult) -> list[str]:
    """The patterns that name an item."""
    return list(dict.fromkeys(pattern.kind for pattern in exam.patterns if _names(pattern, item)))


def _names(pattern: PatternSeen, item: ItemResult) -> bool:
    evidence = pattern.evidence
    if "zero_items" in evidence:
        return evidence["axis"] in item.lost
    items = evidence.get("items")  # of some patterns their number
    return item.item == evidence.get("item") or (isinstance(items, list) and item.item in items)


# --- the axes of each item


def axes(exam: ExamResult, *, weighted: bool = True) -> Chart:
    """A stacked bar of the axes for each item: weighted, so that a bar is as long as its score, or
    raw, with the same length for each axis (C-016, X-94).
    """
    name, title = (
        ("axes", "Items by axis, weighted")
        if weighted
        else ("axes-raw", "Items by axis, each with the same length")
    )
    items = exam.items
    if len(items) > MAX_ROWS:
        lost = sorted((item for item in items if item.lost), key=lambda item: item.score)
        items = lost[:MAX_ROWS]
    segments: list[dict[str, Any]] = []
    sums: list[dict[str, Any]] = []
    names, axis_names = _names_of(exam), exam.axis_names
    whole = 1.0 if weighted else float(len(names))
    for item, text in zip(items, labels(item.item for item in items), strict=True):
        at = 0.0
        parts = _parts(item, weighted)
        for axis, place in zip(axis_names, names, strict=True):
            part = float(parts[axis])
            if part > 0:
                segments.append(
                    {
                        "name": text,
                        "from": at,
                        "to": at + part,
                        "middle": at + part / 2,
                        "axis": place,
                        "sign": place.partition(" ")[0],
                    }
                )
            at += part
        sums.append({"name": text, "to": at, "end": whole, "note": _bar_note(exam, item)})
    sentence = (
        f"{count(exam.n, 'item')} by rubric {clean(exam.rubric)}, exam score {shown(exam.score)}; "
        + _axes_lost(exam)
    )
    if len(items) < exam.n:
        sentence += (
            f" Only the {len(items)} that lost most are drawn."
            if items
            else " No item lost anything, so none is drawn."
        )
    return Chart(
        name,
        title,
        sentence,
        _stacked(segments, sums, whole, names) if sums else None,
        ("Item", "Score", *map(clean, axis_names), "Lost", "Pattern"),
        _item_rows(exam, weighted),
    )


def _parts(item: ItemResult, weighted: bool) -> AxisNumbers:
    return item.weighted if weighted else item.breakdown


def _bar_note(exam: ExamResult, item: ItemResult) -> str:
    """The text next to a bar: the score, what was lost, and the patterns of the item."""
    lost = [place for place, axis in enumerate(exam.axis_names, 1) if axis in item.lost]
    text = shown(item.score) + (f", lost {', '.join(map(str, lost))}" if lost else "")
    if item.item in exam.missing:
        text += ", no answer"
    return " · ".join([text, *(label(kind) for kind in _kinds(exam, item) if kind != "axis_zero")])


def _axes_lost(exam: ExamResult) -> str:
    zero = {axis: sum(axis in item.lost for item in exam.items) for axis in exam.axis_names}
    parts = [f"{clean(axis)} on {count(n, 'item')}" for axis, n in zero.items() if n]
    sentence = f"marks lost for {', '.join(parts)}." if parts else "no mark was lost."
    kinds = list(dict.fromkeys(clean(pattern.kind) for pattern in exam.patterns))
    return sentence + (f" Patterns found: {', '.join(kinds)}." if kinds else " No pattern found.")


def _item_rows(exam: ExamResult, weighted: bool) -> tuple[tuple[str, ...], ...]:
    names = exam.axis_names
    rows = [
        (
            clean(item.item),
            shown(item.score),
            *(shown(_parts(item, weighted)[axis]) for axis in names),
            ", ".join(clean(axis) for axis in names if axis in item.lost) or "nothing",
            ", ".join(map(clean, _kinds(exam, item))) or "none",
        )
        for item in sorted(exam.items, key=lambda item: item.score)
    ]
    return cut(rows, 4 + len(names))


def _stacked(
    segments: list[dict[str, Any]], sums: list[dict[str, Any]], whole: float, names: list[str]
) -> dict[str, Any]:
    colours = [COLOURS[place % len(COLOURS)] for place in range(len(names))]
    y = marks.rows_axis(sums)
    x = marks.scored(domain=(0, whole), title="score" if whole == 1 else "marks")
    x["axis"]["tickCount"] = 5
    hue = {
        "field": "axis",
        "type": "nominal",
        "scale": {"domain": names, "range": colours},
        "legend": {"title": None, "columns": 4, "symbolType": "square"},
    }
    ink = {
        "field": "axis",
        "type": "nominal",
        "scale": {
            "domain": names,
            "range": [WHITE if colour == BLUE else BLACK for colour in colours],
        },
        "legend": None,
    }
    spec = view(
        [],
        over(
            sums,
            {
                "mark": {"type": "bar", "color": TRACK},
                "encoding": {"y": y, "x": {"field": "to", **x}, "x2": {"field": "end"}},
            },
        ),
        over(
            segments,
            {
                "mark": {"type": "bar"},
                "encoding": {
                    "y": y,
                    "x": {"field": "from", **x},
                    "x2": {"field": "to"},
                    "color": hue,
                },
            },
        ),
        over(
            segments,
            {
                "mark": {"type": "text", "fontSize": 11},
                "encoding": {
                    "y": y,
                    "x": {"field": "middle", **x},
                    "text": {"field": "sign"},
                    "color": ink,
                },
            },
        ),
        over(sums, marks.aside(y, "note")),
        resolve={"scale": {"color": "independent"}},
    )
    spec["height"] = {"step": 22}
    return spec


# --- axis by item


def heatmap(exam: ExamResult) -> Chart:
    """Every axis across the items in their order: a full cell is a lost mark. A systematic loss
    shows as a line, a decline shows on the right (C-017).
    """
    kept = [item for item in exam.items if len(exam.items) <= MAX_COLUMNS or item.lost]
    kept = kept[:MAX_COLUMNS]
    cells: list[dict[str, Any]] = [
        {
            "name": text,
            "from": column,
            "to": column + 1,
            "mark": "lost" if axis in item.lost else "kept",
        }
        for column, item in enumerate(kept)
        for axis, text in zip(exam.axis_names, _names_of(exam), strict=True)
    ]
    sides: list[dict[str, Any]] = []
    rows: list[tuple[str, ...]] = []
    for axis, text in zip(exam.axis_names, _names_of(exam), strict=True):
        zero = sum(axis in item.lost for item in exam.items)
        kinds = list(
            dict.fromkeys(
                clean(pattern.kind)
                for pattern in exam.patterns
                if pattern.evidence.get("axis") == axis
            )
        )
        sides.append({"name": text, "note": " · ".join([f"{zero} of {exam.n} lost", *kinds])})
        rows.append(
            (
                clean(axis),
                str(zero),
                str(exam.n),
                percent(zero / exam.n),
                ", ".join(kinds) or "none",
            )
        )
    sentence = f"{count(exam.n, 'item')} in the order of the exam; " + _axes_lost(exam)
    if len(kept) < exam.n:
        sentence += f" Only {len(kept)} items that lost points are drawn."
    return Chart(
        "heatmap",
        "Lost marks, axis by item",
        sentence,
        _cells(cells, sides, len(kept)) if kept else None,
        ("Axis", "Items that lost it", "Items", "Share", "Pattern"),
        tuple(rows),
    )


def _cells(
    cells: list[dict[str, Any]], sides: list[dict[str, Any]], columns: int
) -> dict[str, Any]:
    y = {
        **marks.rows_axis(sides),
        "scale": {"domain": [row["name"] for row in sides], "paddingInner": 0.15},
    }
    axis = {
        "title": "items, in their order",
        "ticks": False,
        "tickCount": min(6, columns),
        "format": "d",
        "tickMinStep": 1,
        "grid": False,
    }
    x = {"type": "quantitative", "scale": {"domain": [0, columns], "nice": False}, "axis": axis}
    hue = {
        "field": "mark",
        "type": "nominal",
        "scale": {"domain": ["kept", "lost"], "range": [TRACK, RED]},
        "legend": {"title": None, "symbolType": "square"},
    }
    stroke = {"stroke": QUIET, "strokeWidth": 0.3} if columns <= 120 else {}
    cell = {
        "mark": {"type": "rect", **stroke},
        "encoding": {"y": y, "x": {"field": "from", **x}, "x2": {"field": "to"}, "color": hue},
    }
    return view([], over(cells, cell), over(sides, marks.aside(y, "note")))


def patterns(exam: ExamResult) -> Chart:
    """The patterns by name: which of them are seen, and what was seen (C-017)."""
    view = exam_view(exam)
    names = labels(row.kind for row in view.patterns)
    drawn = [
        {
            "lamp": marks.OPEN if row.seen else marks.ASIDE,
            "word": "FOUND" if row.seen else "not found",
            "why": label(f"{row.where}: {row.meaning}", 72) if row.seen else row.meaning,
            "name": name,
        }
        for row, name in zip(view.patterns, names, strict=True)
    ]
    rows = [
        (
            clean(row.kind),
            "found" if row.seen else "not found",
            clean(row.where),
            clean(row.meaning),
        )
        for row in view.patterns
    ]
    return Chart(
        "patterns",
        "Patterns",
        clean(view.patterns_sentence),
        marks.lamps(drawn[:MAX_ROWS]),
        ("Pattern", "Found", "Where", "What it means"),
        cut(rows, 4),
    )
