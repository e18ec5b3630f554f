"""Markup: text becomes HTML here and nowhere else, escaped by construction; and the blocks that
every page of ours is made of.

Whatever is in a document is hostile. `tag` escapes it; only `Html` goes through as it is, and text
made from `Html` is text again. A value that is missing is said in words, because an empty cell
reads like a zero.
"""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assay import exact
from assay.canon import number_text
from assay.records.grade import LETTERS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"

_CSS = Path(__file__).parent / "templates" / "report.css"
# Signs that no reader sees: controls, half a surrogate pair, and the marks that make text run
# backwards, so that one run could pose as another.
_UNSEEN = dict.fromkeys(
    [
        *range(9),
        *range(11, 32),
        *range(127, 160),
        *range(0x202A, 0x202F),
        *range(0x2066, 0x206A),
        *range(0xD800, 0xE000),
    ],
    0xFFFD,
)
_SIGNS = {
    "pass": "✓",
    "passed": "✓",
    "success": "✓",
    "holds": "✓",
    "undetermined": "?",
    "skipped": "–",
}
_NUMERIC = frozenset(
    {
        "line",
        "score",
        "steps",
        "succeeded",
        "failed",
        "skipped",
        "success_rate",
        "duration_ms",
        "retries",
        "tokens",
        "cost_usd",
        "n",
        "candidate",
        "baseline",
    }
)

Document = dict[str, Any]


class Html(str):
    """Text that is markup already. Any other string is hostile, and is escaped on its way into a
    tag. Text made from markup is text again.
    """

    def __html__(self) -> str:
        """The markup in a template."""
        return self


def tag(name: str, *children: Any, **attributes: str) -> Html:
    """An element. Attribute values are escaped, and so are children unless they are `Html`; an
    empty attribute is left out.

    >>> tag("p", "<b>", tag("i", "x"), class_="a & b")
    '<p class="a &amp; b">&lt;b&gt;<i>x</i></p>'
    """
    shown = "".join(
        [
            f' {key.rstrip("_").replace("_", "-")}="{_safe(str(value))}"'
            for key, value in attributes.items()
            if value
        ]
    )
    return Html(f"<{name}{shown}>{join(children)}</{name}>")


def join(parts: Iterable[Any]) -> Html:
    """Parts one after the other, each escaped unless it is `Html`."""
    return Html("".join([_safe(part) for part in parts]))


def _safe(text: Any) -> str:
    if hasattr(text, "__html__"):
        made: str = text.__html__()
        return made
    return escape(text.translate(_UNSEEN))


def say(value: Any, absent: str = "not stated") -> str:
    """A value of a result as a person reads it.

    >>> (
    ...     say(0.70),
    ...     say({"passed": 98, "total": 100}),
    ...     say({"slo_good": 8}),
    ...     say([True, "x"]),
    ...     say(None),
    ... )
    ('0.7', '98 of 100', 'slo_good 8', 'yes, x', '<span class="absent">not stated</span>')
    """
    if value in (None, "", [], (), {}):
        return tag("span", absent, class_="absent")
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict) and value.keys() == {"passed", "total"}:
        return join([say(value["passed"]), " of ", say(value["total"])])
    if isinstance(value, dict):
        value = [join([f"{key} ", say(item)]) for key, item in value.items()]
    if isinstance(value, list | tuple):
        return join(
            part for index, item in enumerate(value) for part in (", " if index else "", say(item))
        )
    return number_text(value) if exact.is_number(value) else "no finite number"


def points(value: Any, absent: str = "no score") -> str:
    """A score on 0..100 with 2 decimals, half-up as everywhere.

    >>> points(90), points(12.345), points(None)
    ('90.00', '12.35', 'no score')
    """
    return f"{exact.shown(exact.scaled(value, 2), 2):.2f}" if exact.is_number(value) else absent


def share(value: Any, whole: int = 1) -> float:
    """Where a value lies between 0 and the whole, in percent. For drawing only."""
    return (
        min(100.0, max(0.0, 100 * float(value) / whole))
        if exact.is_number(value) and whole > 0
        else 0.0
    )


def percent(value: float) -> str:
    """A place in a drawing."""
    return f"{value:.3f}%"


def anchor(at: float) -> str:
    """Which end of a text stands at a place, so that it stays inside."""
    return "start" if at < 6 else "end" if at > 94 else "middle"


def rate(found: Mapping[str, Any], absent: str = "not known") -> str:
    """A share of one in percent with its interval.

    >>> rate({"value": 0.5, "low": 0.25, "high": 0.75, "level": 0.95}), rate({})
    ('50.0%, 95% interval 25.0% to 75.0%', 'not known')
    """
    value, low, high, level = (found.get(key) for key in ("value", "low", "high", "level"))
    if not exact.is_number(value):
        return absent
    if not exact.is_number(low) or not exact.is_number(high):
        return f"{100 * float(value):.1f}%, no interval"  # type: ignore[arg-type]
    name = f"{100 * float(level):g}% interval" if exact.is_number(level) else "interval"  # type: ignore[arg-type]
    return f"{100 * float(value):.1f}%, {name} {100 * float(low):.1f}% to {100 * float(high):.1f}%"  # type: ignore[arg-type]


def signed(verdict: Any) -> Html:
    """A verdict as a sign and a word, never as a colour alone. One that is unknown or missing looks
    bad, not good.
    """
    word = str(verdict or "not stated")
    sign = _SIGNS.get(word, "✗")
    return tag(
        "span",
        tag("span", sign, aria_hidden="true", class_="sign"),
        f" {word}",
        class_={"✓": "good", "✗": "bad"}.get(sign, "open"),
    )


def badge(letter: Any, *more: str) -> Html:
    """A letter on its colour."""
    return tag(
        "span",
        tag("b", say(letter, "no grade")),
        *more,
        class_=f"badge grade-{letter if letter in LETTERS else 'other'}",
    )


def passed(run: Document) -> Html:
    """Whether a run passed; one that does not say so did not."""
    return signed("passed" if run.get("passed") is True else "not passed")


# --- blocks


def table(
    caption: str, columns: Mapping[str, str], rows: Iterable[Sequence[str]], *, kind: str
) -> Html:
    """A table whose rows begin with their header. A `stack` folds into cards on a phone, which
    loses the roles unless they are said; a `wide` one scrolls.
    """
    kinds = ["n" if key in _NUMERIC else "" for key in columns]
    names = list(columns.values())
    heads = [
        tag("th", name, scope="col", role="columnheader", class_=of)
        for name, of in zip(names, kinds, strict=True)
    ]
    lines = []
    for row in rows:
        cells = [
            tag("td", cell, role="cell", class_=of, data_label=name)
            for cell, name, of in zip(row[1:], names[1:], kinds[1:], strict=True)
        ]
        lines.append(
            tag("tr", tag("th", row[0], scope="row", role="rowheader"), *cells, role="row")
        )
    head = tag("thead", tag("tr", *heads, role="row"), role="rowgroup")
    table = tag(
        "table",
        tag("caption", caption),
        head,
        tag("tbody", *lines, role="rowgroup"),
        role="table",
        class_=kind,
    )
    return (
        tag("div", table, role="region", aria_label=caption, tabindex="0", class_="scroll")
        if kind == "wide"
        else table
    )


def facts(pairs: Iterable[tuple[str, str]], *, kind: str = "facts") -> Html:
    """Names and values."""
    return tag(
        "dl", *(tag("div", tag("dt", name), tag("dd", value)) for name, value in pairs), class_=kind
    )


def fields(
    record: Mapping[str, Any], labels: Mapping[str, str], absent: str = "not stated"
) -> list[tuple[str, str]]:
    """The labelled values of a record."""
    return [(label, say(record.get(key), absent)) for key, label in labels.items()]


def bullets(title: str, sentences: Sequence[Any]) -> Html:
    """Sentences under a small heading."""
    return join(
        [
            tag("h4", title),
            (
                tag("ul", *(tag("li", say(sentence)) for sentence in sentences))
                if sentences
                else tag("p", say(None, "none"))
            ),
        ]
    )


def block(title: str, *parts: str) -> Html:
    """A part of a section under its heading."""
    return tag("section", tag("h3", title), *parts)


def page(title: str, body: Html, *, styles: str = "") -> str:
    """A page that stands alone; `styles` are added to the style sheet and are ours."""
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<meta'
        f' http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n<meta'
        ' name="color-scheme" content="light dark">\n'
        f"{tag('title', title)}\n<style>\n{_CSS.read_text('utf-8')}{styles}</style>\n</head>\n<body>\n{tag('main', body)}\n</body>\n</html>\n"  # noqa: E501
    )
