"""Charts of many runs: the mix of letters, the spread of scores, the pass rate over time, and each
criterion's distribution.

Counts and intervals come in as numbers; nothing here estimates anything.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from assay.views.charts import marks
from assay.views.charts.chart import (
    BLUE,
    GREY,
    INK,
    LETTER_COLOURS,
    MAX_NAME,
    MAX_ROWS,
    QUIET,
    RED,
    SKY,
    WIDTH,
    Chart,
    Spec,
    clean,
    count,
    cut,
    interval,
    label,
    labels,
    mapped,
    nothing,
    number,
    over,
    percent,
    points,
    shown,
    view,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

BIN = 5
"""Points that one bar of the histogram spans."""


def _whole(value: object) -> int | None:
    """A count, or None where it is none."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


# --- letters


def grade_mix(counts: Mapping[str, Any], policy: str) -> Chart:
    """How many runs have each letter. A letter that nobody has is drawn too, where the counts name
    it.
    """
    name, title = "grade-mix", "Grades"
    found = {letter: n for letter, value in counts.items() if (n := _whole(value)) is not None}
    total = sum(found.values())
    by = f"under {clean(policy)}" if policy else "under a policy that is not stated"
    if not total:
        return nothing(name, title, f"No run was graded {by}, so there is no grade to show.")
    drawn: list[dict[str, Any]] = [
        {
            "name": text,
            "runs": n,
            "said": f"{n:,}, {percent(n / total)}",
            "colour": letter if letter in LETTER_COLOURS else "other",
        }
        for (letter, n), text in zip(found.items(), labels(found), strict=True)
    ]
    y = marks.rows_axis(drawn)
    hue = {
        "field": "colour",
        "type": "nominal",
        "scale": {"domain": [*LETTER_COLOURS, "other"], "range": [*LETTER_COLOURS.values(), QUIET]},
        "legend": None,
    }
    x = {
        "type": "quantitative",
        "scale": {"domain": [0, max(found.values())], "nice": False},
        "axis": None,
    }
    layers = [
        {"mark": {"type": "bar"}, "encoding": {"y": y, "x": {"field": "runs", **x}, "color": hue}},
        marks.aside(y, "said"),
    ]
    each = ", ".join(f"{label(letter, MAX_NAME)} {n:,}" for letter, n in found.items())
    said = f"{count(total, 'run')} {by}: {each}."
    rows = [(clean(letter), f"{n:,}", percent(n / total)) for letter, n in found.items()]
    return Chart(name, title, said, view(drawn, *layers), ("Grade", "Runs", "Share"), cut(rows, 3))


# --- scores


def score_bins(scores: Iterable[object]) -> list[dict[str, Any]]:
    """Scores on 0 to 100 counted by steps of 5; the last step has 100 in it. What is no number is
    not counted here.

    >>> [row for row in score_bins([0, 4.99, 5, 100, None]) if row["count"]]
    [{'low': 0, 'high': 5, 'count': 2}, {'low': 5, 'high': 10, 'count': 1}, {'low': 95, 'high': 100, 'count': 1}]
    """  # noqa: E501
    found = [0] * (100 // BIN)
    for place in map(bin_of, scores):
        if place is not None:
            found[place] += 1
    return [
        {"low": place * BIN, "high": (place + 1) * BIN, "count": n} for place, n in enumerate(found)
    ]


def bin_of(score: object) -> int | None:
    """The bar of a score, from 0 on; None where it is no number."""
    value = number(score)
    return None if value is None else min(100 // BIN - 1, max(0, int(value // BIN)))


def score_histogram(
    bins: Sequence[Mapping[str, Any]],
    *,
    bands: Sequence[Mapping[str, Any]] = (),
    threshold: object = None,
    policy: str = "",
) -> Chart:
    """How many runs have which score, against the bands and the threshold. Letters are only drawn
    with the policy they belong to.
    """
    name, title = "score-histogram", "Scores"
    drawn: list[dict[str, Any]] = []
    for row in bins:
        low, high, n = number(row.get("low")), number(row.get("high")), _whole(row.get("count"))
        if low is not None and high is not None and n is not None:
            drawn.append({"low": low, "high": high, "runs": n})
    total = sum(row["runs"] for row in drawn)
    if not total:
        return nothing(name, title, "No run has a score, so there is nothing to draw.")
    x = marks.scored()
    y = {
        "field": "runs",
        "type": "quantitative",
        "axis": {"title": "runs", "grid": True, "tickMinStep": 1, "tickCount": 4, "format": ",d"},
    }
    bars = {
        "mark": {"type": "bar", "color": BLUE, "binSpacing": 1},
        "encoding": {
            "x": {"field": "low", **x},
            "x2": {"field": "high"},
            "y": y,
            "y2": {"datum": 0},
        },
    }
    layers = [bars, *marks.band_layers(bands if policy else (), threshold)]
    top = max(drawn, key=lambda row: row["runs"])
    said = (
        f"Scores of {count(total, 'run')}; most, {top['runs']:,}, lie from {top['low']:g} to"
        f" {top['high']:g}."
    )
    said += f" The letters are those of {clean(policy)}." if policy and bands else ""
    said += (
        f" The dashed line is the threshold, {points(threshold)}."
        if number(threshold) is not None
        else ""
    )
    rows = [
        (f"{row['low']:g} to {row['high']:g}", f"{row['runs']:,}", percent(row["runs"] / total))
        for row in drawn
    ]
    return Chart(
        name,
        title,
        said,
        view(drawn, *layers, height=150),
        ("Score", "Runs", "Share"),
        cut(rows, 3),
    )


# --- gates


def gate_failures(gates: Mapping[str, Any], n: int) -> Chart:
    """How many of n runs each gate fails, the most first. Takes counts by gate, or `gates` of the
    summary block, whose rates have intervals.
    """
    name, title = "gate-failures", "Gates that fail"
    found = []
    for gate, value in gates.items():
        failed = _whole(mapped(value).get("failed")) if isinstance(value, dict) else _whole(value)
        if failed is not None:
            found.append((gate, failed, mapped(mapped(value).get("rate"))))
    found.sort(key=lambda row: -row[1])
    if not found or not n:
        return nothing(name, title, "No gate was asked of any run, so none can fail.")
    drawn: list[dict[str, Any]] = [
        {"name": text, "runs": failed, "said": f"{failed:,} of {n:,}, {percent(failed / n)}"}
        for (_, failed, _), text in zip(found, labels(gate for gate, _, _ in found), strict=True)
    ][:MAX_ROWS]
    y = marks.rows_axis(drawn)
    x = {
        "field": "runs",
        "type": "quantitative",
        "scale": {"domain": [0, max(1, found[0][1])], "nice": False},
        "axis": None,
    }
    spec = view(
        drawn,
        {"mark": {"type": "bar", "color": RED}, "encoding": {"y": y, "x": x}},
        marks.aside(y, "said"),
    )
    said = (
        f"{label(found[0][0], MAX_NAME)} fails most, in {found[0][1]:,} of {count(n, 'run')}."
        if found[0][1]
        else f"No gate fails in {count(n, 'run')}."
    )
    rows = [
        (
            clean(gate),
            f"{failed:,}",
            percent(failed / n),
            interval(rate, form=percent) if rate else "not stated",
        )
        for gate, failed, rate in found
    ]
    return Chart(name, title, said, spec, ("Gate", "Failed", "Rate", "Interval"), cut(rows, 4))


# --- over time


def pass_rate_over_time(points_: Sequence[Mapping[str, Any]]) -> Chart:
    """The pass rate at each point with its interval. A point holds `at` (a moment as ISO text),
    `value`, `low`, `high`, `level` and `n`.
    """
    return over_time(
        points_,
        name="pass-rate",
        title="Pass rate over time",
        what="pass rate",
        form=percent,
        absent="No run was graded yet, so there is no pass rate to show.",
    )


def moment(text: object) -> datetime | None:
    """A moment, or None where the text is none. One without a time zone is read as UTC."""
    try:
        found = datetime.fromisoformat(str(text).replace("Z", "+00:00"))
    except ValueError:
        return None
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)


def time_axis() -> Spec:
    """The horizontal axis of time, in UTC on every machine."""
    axis = {
        "title": None,
        "labelOverlap": "greedy",
        "labelSeparation": 14,
        "tickCount": 5,
        "format": "%-d %b %Y",
        "grid": False,
    }
    return {
        "field": "at",
        "type": "temporal",
        "scale": {"type": "utc", "padding": 12, "nice": False},
        "axis": axis,
    }


def over_time(
    points_: Sequence[Mapping[str, Any]],
    *,
    name: str,
    title: str,
    what: str,
    form: Any,
    absent: str,
    domain: tuple[float, float] | None = (0, 1),
    share: bool = True,
) -> Chart:
    """A number over time with its interval. Points without a moment or a value are in the table and
    not in the picture, and are counted in the sentence.
    """
    drawn: list[dict[str, Any]] = []
    rows: list[tuple[str, ...]] = []
    lost = 0
    for one in points_:
        at, value = moment(one.get("at")), number(one.get("value"))
        low, high = number(one.get("low")), number(one.get("high"))
        rows.append(
            (
                clean(one.get("at") or "no moment"),
                form(one.get("value")),
                interval(dict(one), form=form),
                shown(one.get("n")),
            )
        )
        if at is None or value is None:
            lost += 1
            continue
        ends = {"low": low, "high": high} if low is not None and high is not None else {}
        drawn.append({"at": at.strftime("%Y-%m-%dT%H:%M:%SZ"), "value": value, **ends})
    columns = ("At", what.capitalize(), "Interval", "n")
    if not drawn:
        if not rows:
            return nothing(name, title, absent)
        return Chart(
            name,
            title,
            f"{count(lost, 'point')} without a moment or a value: nothing can be drawn.",
            None,
            columns,
            cut(rows, 4),
        )
    drawn.sort(key=lambda row: str(row["at"]))
    x = time_axis()
    reach = [
        value
        for row in drawn
        for key in ("value", "low", "high")
        if (value := row.get(key)) is not None
    ]
    room = 0.1 * (max(reach) - min(reach)) or 0.1
    scale = {
        "domain": list(domain) if domain else [min(reach) - room, max(reach) + room],
        "nice": False,
        "zero": False,
    }
    axis = {"title": what, "grid": True, "tickCount": 5, **({"format": ".0%"} if share else {})}
    y = {"field": "value", "type": "quantitative", "scale": scale, "axis": axis}
    ended = [row for row in drawn if "low" in row]
    layers: list[dict[str, Any]] = [
        over(
            ended,
            {
                "mark": {"type": "rule", "color": SKY, "strokeWidth": 3},
                "encoding": {"x": x, "y": {**y, "field": "low"}, "y2": {"field": "high"}},
            },
        ),
        {"mark": {"type": "line", "color": BLUE}, "encoding": {"x": x, "y": y}},
        {"mark": {"type": "point", "color": BLUE, "opacity": 1}, "encoding": {"x": x, "y": y}},
    ]
    last = max(
        (one for one in points_ if moment(one.get("at")) and number(one.get("value")) is not None),
        key=lambda one: str(moment(one["at"])),
    )
    said = (
        f"{count(len(drawn), 'point')}; at {clean(last['at'])} the {what} was"
        f" {form(last['value'])}, {interval(dict(last), form=form)}"
    )
    said += f", n {shown(last.get('n'))}." + (
        f" {count(lost, 'point has', 'points have')} no moment or no value and"
        f" {'is' if lost == 1 else 'are'} not drawn."
        if lost
        else ""
    )
    return Chart(
        name,
        title,
        said,
        view(drawn, *layers, height=170, width=WIDTH + 120),
        columns,
        cut(rows, 4),
    )


# --- criteria


def criterion_distribution(criteria: Mapping[str, Any]) -> Chart:
    """Each criterion's norms: the middle half as a box, 90% of them as a line, the median as a tick
    and the mean as a diamond with its interval.

    Takes `criteria` of the summary block.
    """
    name, title = "criterion-distribution", "Criteria"
    found = {key: mapped(value) for key, value in mapped(criteria).items()}
    drawn: list[dict[str, Any]] = []
    rows: list[tuple[str, ...]] = []
    for (key, one), text in zip(found.items(), labels(found), strict=True):
        spread, mean = mapped(one.get("quantiles")), mapped(one.get("mean"))
        row: dict[str, Any] = {
            "name": text,
            **{part: number(spread.get(part)) for part in ("p5", "p25", "p50", "p75", "p95")},
        }
        row.update(
            mean=number(mean.get("value")),
            low=number(mean.get("low")),
            high=number(mean.get("high")),
        )
        floors = (
            f", floor missed {one['floor_failures']:,}" if _whole(one.get("floor_failures")) else ""
        )
        row["said"] = (
            f"mean {number(mean.get('value')):.3f}, n {shown(one.get('n'))}{floors}"
            if row["mean"] is not None
            else "no mean is stated"
        )
        if all(row[part] is not None for part in ("p5", "p25", "p50", "p75", "p95", "mean")):
            drawn.append(row)
        numbers = (shown(spread.get(part)) for part in ("p5", "p50", "p95"))
        rows.append(
            (
                clean(key),
                shown(one.get("n")),
                shown(mean.get("value")),
                interval(mean),
                *numbers,
                shown(one.get("floor_failures")),
                shown(one.get("missing")),
            )
        )
    columns = (
        "Criterion",
        "n",
        "Mean",
        "Interval of the mean",
        "5%",
        "Median",
        "95%",
        "Floor missed",
        "Missing",
    )
    if not rows:
        return nothing(name, title, "No criterion was scored, so there is nothing to draw.")
    if not drawn:
        return Chart(
            name,
            title,
            "The quantiles of the criteria are not stated, so nothing can be drawn.",
            None,
            columns,
            cut(rows, 9),
        )
    kept = drawn[:MAX_ROWS]
    x = marks.scored(
        domain=(min(0.0, *(row["p5"] for row in kept)), max(1.0, *(row["p95"] for row in kept))),
        title="norm",
        grid=True,
    )
    y = marks.rows_axis(kept)
    left, right = x["scale"]["domain"]
    ended = [
        {**row, "low": max(left, row["low"]), "high": min(right, row["high"])}
        for row in kept
        if row["low"] is not None and row["high"] is not None
    ]
    layers: list[dict[str, Any]] = [
        {
            "mark": {"type": "rule", "color": GREY},
            "encoding": {"y": y, "x": {"field": "p5", **x}, "x2": {"field": "p95"}},
        },
        {
            "mark": {"type": "bar", "color": SKY, "height": {"band": 0.75}},
            "encoding": {"y": y, "x": {"field": "p25", **x}, "x2": {"field": "p75"}},
        },
        {
            "mark": {"type": "tick", "color": BLUE, "thickness": 3, "size": 16, "opacity": 1},
            "encoding": {"y": y, "x": {"field": "p50", **x}},
        },
        over(
            ended,
            {
                "mark": {"type": "rule", "color": INK, "strokeWidth": 1.5},
                "encoding": {"y": y, "x": {"field": "low", **x}, "x2": {"field": "high"}},
            },
        ),
        {
            "mark": {"type": "point", "shape": "diamond", "color": INK, "size": 50, "opacity": 1},
            "encoding": {"y": y, "x": {"field": "mean", **x}},
        },
        marks.aside(y, "said"),
    ]
    lowest = min(kept, key=lambda row: row["mean"])
    said = (
        f"{count(len(rows), 'criterion', 'criteria')}; {lowest['name']} has the lowest mean,"
        f" {lowest['mean']:.3f}. "
    )
    said += (
        "A box is the middle half of the runs, the line 90% of them, the tick the median; the"
        " diamond is the mean with its interval."
    )
    said += (
        " An interval that leaves the picture is cut at its edge."
        if any(row["low"] < left or row["high"] > right for row in kept if row["low"] is not None)
        else ""
    )
    return Chart(name, title, said, view(kept, *layers), columns, cut(rows, 9))
