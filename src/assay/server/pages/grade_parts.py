"""What a grade says, part by part: the verdict and its reason first, then gates, points, floors,
and what would change it.

Used for a stored grade and for one that is only tried out, which has no address and so no pictures.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from assay.server.pages.layout import Column, chart, clip, facts, letter, section, table, verdict
from assay.views.charts import grades
from assay.views.markup import Html, join, points, say, tag

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from assay.views.charts import Chart

Result = dict[str, Any]
MAX_ROWS = 100
"""Rows of one table on a page; the record itself has them all."""
_ORDER = ("fail", "undetermined", "pass")
_LAYERS = {
    "1": "Objective (layer 1)",
    "2": "Rubric or judge (layer 2)",
    "3": "Operations (layer 3)",
    "none": "Without a layer",
}
_ORIGINS = {
    "role": "demanded by its role",
    "criterion": "the criterion's own",
    "override": "an override",
}


def head(result: Result) -> Html:
    """The letter with its policy, the verdict, and why in one sentence."""
    sentence = next(iter(result.get("explanation") or ()), None)
    passed = verdict("passed" if result.get("passed") is True else "not passed")
    mark = letter(result.get("grade"), result.get("policy"), large=True)
    figures = [
        ("Score", points(result.get("weighted_score"))),
        ("Passes from", points(result.get("pass_threshold"), "not stated")),
        ("By score alone", letter(result.get("provisional_grade"), result.get("policy"))),
        ("Adjusted for few samples", points(result.get("weighted_score_adjusted"))),
    ]
    top = tag(
        "div",
        mark,
        tag(
            "div",
            tag("p", passed, class_="passed"),
            tag("p", clip(sentence, 1000, absent="No reason is stated."), class_="verdict"),
        ),
        class_="top",
    )
    return join([top, facts(figures, kind="figures")])


def gates(result: Result) -> Html:
    """Each gate with its verdict and reason; what does not pass comes first."""
    found: Mapping[str, Any] = result.get("hard_gates") or {}
    pairs = sorted(
        found.items(),
        key=lambda pair: (
            _ORDER.index(pair[1].get("status")) if pair[1].get("status") in _ORDER else 0
        ),
    )
    rows = [
        [
            tag("code", name),
            verdict(gate.get("status")),
            clip(gate.get("reason"), 600, absent="no reason is stated"),
        ]
        for name, gate in pairs
    ]
    listed = table(
        "Hard gates",
        ("Gate", "Verdict", Column("Reason", "wide")),
        rows[:MAX_ROWS],
        absent="No hard gate was asked of this run.",
        kind="stack gates",
    )
    closed = len(result.get("hard_gate_failures") or ())
    said = (
        f"{closed} of {len(found)} do not pass. No score opens a gate; one without evidence counts"
        " as failed."
        if closed
        else f"All {len(found)} pass."
    )
    return section("Gates", listed, id="gates", hint=said if found else "")


def _drawn(found: Chart, url: str) -> Html:
    return chart(found, f"{url}/{found.name}" if url else "")


def scores(result: Result, url: str) -> Html:
    """Where the points came from, against the bands; then each criterion in numbers."""
    rows = []
    for item in (result.get("criteria") or ())[:MAX_ROWS]:
        name, label = item.get("name"), item.get("label")
        raw = (
            say(item["raw_score"])
            if item.get("raw_score") is not None
            else join(["none, counts as 0: ", say(item.get("missing"), "no reason is stated")])
        )
        title = join(
            [
                tag("b", say(label or name)),
                *([" ", tag("small", tag("code", say(name)))] if label and label != name else []),
            ]
        )
        earned = join(
            [tag("b", points(item.get("contribution"))), " of ", points(item.get("maximum"))]
        )
        formula = join(
            [
                tag("code", say(item.get("formula_id"))),
                *([" ", tag("small", say(item["params"]))] if item.get("params") else []),
            ]
        )
        rows.append(
            [
                title,
                earned,
                raw,
                formula,
                say(item.get("norm")),
                say(item.get("weight")),
                say(item.get("n")),
                say(item.get("role"), "none"),
            ]
        )
    columns = (
        "Criterion",
        Column("Points", "n"),
        "Raw score",
        "Formula",
        Column("Norm", "n"),
        Column("Weight", "n"),
        Column("Samples", "n"),
        "Role",
    )
    layers = [
        (_LAYERS.get(layer, layer), points(value, "no criterion"))
        for layer, value in (result.get("layers") or {}).items()
    ]
    numbers = tag(
        "details",
        tag("summary", "Criteria in numbers"),
        table("Criteria", columns, rows, absent="No criterion was scored."),
    )
    return section(
        "Points", _drawn(grades.contributions(result), url), facts(layers), numbers, id="points"
    )


def floors(result: Result, url: str) -> Html:
    """Each floor with its margin."""
    floored = [item for item in result.get("criteria") or () if item.get("critical_floor")]
    if not floored:
        return section(
            "Floors",
            tag("p", "No criterion of this run has a floor.", class_="absent"),
            id="floors",
        )
    origins = [
        tag(
            "li",
            tag("b", say(item.get("label") or item.get("name"))),
            ": ",
            _ORIGINS.get(str(item["critical_floor"].get("from")), "of unknown origin"),
        )
        for item in floored[:MAX_ROWS]
    ]
    return section(
        "Floors",
        _drawn(grades.floors(result), url),
        tag("details", tag("summary", "Where the floors come from"), tag("ul", *origins)),
        id="floors",
    )


def why(result: Result) -> Html:
    """The explanation in sentences, and the smallest changes that would move the letter."""
    placement: Mapping[str, Any] = result.get("placement") or {}
    opened = ", once the gates are open" if result.get("hard_gate_failures") else ""
    moves = [
        (
            f"Smallest gain{opened}",
            _move(
                placement.get("smallest_gain"), result, "No change of one criterion gains a letter."
            ),
        ),
        (
            f"Smallest loss{opened}",
            _move(
                placement.get("smallest_loss"), result, "No change of one criterion loses a letter."
            ),
        ),
        (
            "Points to the next band",
            points(placement.get("margin_to_next_grade"), "no band is higher"),
        ),
        ("Points to lose this band", points(placement.get("to_lose_grade"), "no band is lower")),
    ]
    fired = [found for found in result.get("findings") or () if found.get("fired")]
    rules = [
        join([tag("code", say(found.get("rule"))), " ", say(found.get("text"))]) for found in fired
    ]
    sentences = list(result.get("explanation") or ())[1:]
    return join(
        [
            section(
                "What would change it",
                facts(moves, kind="pairs"),
                *_list("", [one for one in sentences if one.startswith("To get")]),
                id="change",
            ),
            section(
                "Why, in sentences",
                *_list(
                    "",
                    [one for one in sentences if not one.startswith("To get")],
                    absent="No more is stated.",
                ),
                *_list("Placement", placement.get("notes") or ()),
                *_list("Rules that fired", rules),
                *_list("Notes", result.get("notes") or ()),
                id="why",
            ),
        ]
    )


def _list(title: str, sentences: Sequence[Any], absent: str = "") -> list[Html]:
    if not sentences:
        return [tag("p", absent, class_="absent")] if absent else []
    more = (
        [tag("li", f"and {len(sentences) - MAX_ROWS} more", class_="absent")]
        if len(sentences) > MAX_ROWS
        else []
    )
    listed = tag(
        "ul", *(tag("li", clip(sentence, 600)) for sentence in sentences[:MAX_ROWS]), *more
    )
    return [*([tag("h3", title)] if title else []), listed]


def _move(move: Mapping[str, Any] | None, result: Result, absent: str) -> str:
    if not move:
        return tag("span", absent, class_="absent")
    raw = [" (raw ", say(move["needed_raw"]), ")"] if move.get("needed_raw") is not None else []
    change = [
        tag("b", say(move.get("criterion"))),
        " from ",
        say(move.get("norm")),
        " to ",
        say(move.get("needed_norm")),
        *raw,
    ]
    return join([*change, " gives ", letter(move.get("grade"), result.get("policy"))])
