"""Pieces of text with a look: a verdict, a letter, a number with its interval, a link, an absence.

A piece is a string, which is what a terminal and Markdown print; in a template it is drawn by the
macro of its kind. A number comes with its interval and n, a letter with its policy, and a missing
value in words, because an empty cell reads like a zero.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from assay import exact
from assay.canon import number_text, time_of
from assay.exact import points as points
from assay.records.grade import LETTERS

SIGNS = {
    **dict.fromkeys(
        ("pass", "passed", "success", "holds", "promote", "done", "valid", "same"), "✓"
    ),
    **dict.fromkeys(("operational", "stable"), "✓"),
    **dict.fromkeys(("partial", "graded"), "◐"),
    **dict.fromkeys(
        ("undetermined", "not_enough_evidence", "hold", "open", "stale", "unknown"), "?"
    ),
    **dict.fromkeys(("queued", "running", "executing", "evaluating", "cancelling", "pending"), "…"),
    **dict.fromkeys(("skipped", "cancelled", "none", "not applicable"), "–"),
}
"""The sign of a verdict. A word that is missing here looks bad: an unknown one must not look good.
"""
_KINDS = {"✓": "good", "?": "open", "◐": "open", "…": "busy", "–": "off"}
_NOTHING: tuple[Any, ...] = (None, "", [], (), {})


class Piece(str):
    """Text with a look. The string is the plain text."""

    kind: str
    values: tuple[Any, ...]

    def __html__(self) -> str:
        """The piece in a template."""
        # Jinja2 loads with the first page, so that a terminal does not pay for it.
        from assay.views.render import macro

        return macro(self.kind)(*self.values)


def piece(kind: str, text: str, *values: Any) -> Piece:
    """A piece of a kind: its plain text, and the values that its macro draws."""
    made = Piece(text)
    made.kind, made.values = kind, values or (text,)
    return made


def absent(text: str = "not stated") -> Piece:
    """What is not there, in words."""
    return piece("absent", text)


def code(text: Any, title: str = "") -> Piece:
    """A name as it is written in a file or on a command line."""
    return piece("code", str(text), text, title)


def breakable(text: str) -> Piece:
    """A text with long names in it: a line may break after an underscore."""
    return piece("breakable", text, text.split("_"))


def strong(text: str) -> Piece:
    """What the eye should find first."""
    return piece("strong", text, text)


def small(*parts: str) -> Piece:
    """An aside."""
    return piece("small", "".join(parts), parts)


def line(*parts: str) -> Piece:
    """Text on a separate line within a cell."""
    return piece("line", "".join(parts), parts)


def indented(depth: int, *parts: str) -> Piece:
    """A name in a tree, moved in by its depth."""
    return piece("indented", "".join(parts), depth, parts)


def phrase(*parts: str) -> Piece:
    """Pieces and text one after the other."""
    return piece("phrase", "".join(parts), parts)


def coded(text: str) -> Piece:
    """A sentence with names between backticks, which a page shows as code.

    >>> str(coded("Add `type`, or `enum`."))
    'Add `type`, or `enum`.'
    """
    parts = text.split("`")
    if len(parts) % 2 == 0:  # a lone backtick is a character like any other
        return phrase(text)
    return piece("phrase", text, [code(part) if at % 2 else part for at, part in enumerate(parts)])


def listed(parts: Any, between: str = ", ") -> Piece:
    """Pieces and text with something between them."""
    return phrase(*[part for item in parts for part in (between, item)][1:])


def link(text: str, href: str, **attributes: str) -> Piece:
    """A link; a terminal shows its text. An attribute such as `aria_current` is written with its
    hyphen, and left out where it is empty.
    """
    given = {name.replace("_", "-"): value for name, value in attributes.items() if value}
    return piece("link", text, text, href, given)


def address(*parts: str, **query: str | Sequence[str] | None) -> str:
    """An address on this server; every part is quoted, and a query without a value is left out. One
    with several values is repeated.

    >>> address("runs", "a/b ?"), address("runs", grade="F", tag=None), address()
    ('/runs/a%2Fb%20%3F', '/runs?grade=F', '/')
    >>> address("compare", of=("a", "b"))
    '/compare?of=a&of=b'
    """
    from urllib.parse import quote, urlencode  # only pages need it; grading starts without

    # Half a surrogate pair leads nowhere, but must not break the page.
    path = "/".join([quote(part.encode("utf-8", "replace"), safe=":@") for part in parts])
    query_text = urlencode(
        [
            (name.rstrip("_"), value.encode("utf-8", "replace"))
            for name, values in query.items()
            for value in ([values] if isinstance(values, str) else values or ())
            if value
        ]
    )
    return f"/{path}?{query_text}" if query_text else f"/{path}"


def verdict(word: Any, text: str = "") -> Piece:
    """A verdict as a sign and words, never as a colour alone; `text` replaces the word. What is
    unknown or missing looks bad, not good.

    >>> verdict("pass", "passed"), verdict("not_enough_evidence")
    ('✓ passed', '? not enough evidence')
    """
    known = str(word or "not stated")
    sign = SIGNS.get(known, "✗")
    shown_as = text or known.replace("_", " ")
    return piece("verdict", f"{sign} {shown_as}", sign, _KINDS.get(sign, "bad"), shown_as)


def letter(grade: Any, policy: Any, *, large: bool = False) -> Piece:
    """A letter with the policy it was given by; never one without the other.

    >>> letter("B", "workflow@1")
    'B (workflow@1)'
    """
    if not grade:
        return absent("no grade")
    known = grade if grade in LETTERS else "other"
    by = shown(policy, "policy not stated")
    return piece("letter", f"{grade} ({by})", grade, known, by, large)


def number(
    value: Any,
    *,
    interval: Any = None,
    n: int | None = None,
    digits: int = 2,
    percent: bool = False,
    unit: str = "",
    sign: bool = False,
    absent_as: str = "not stated",
) -> Piece:
    """A number with its interval and n. `interval` has low, high, level, and a reason where it has
    no ends. With `sign` it is a difference, as `signed` writes it.

    >>> number(0.9, interval={"low": 0.8, "high": 0.95, "level": 0.95}, n=40, percent=True)
    '90.0% [80.0% to 95.0% (95%), n 40]'
    >>> number(-2.625, interval={"low": -6.76, "high": 0.36}, sign=True)
    '-2.62 [-6.76 to +0.36]'
    >>> number(None, absent_as="no score")
    'no score'
    """
    if not exact.is_number(value):
        return absent(absent_as)

    def written(value: Any) -> str:
        return signed(value) if sign else _written(value, digits, percent)

    low, high, level, reason = (
        _member(interval, name) for name in ("low", "high", "level", "reason")
    )
    more = []
    if exact.is_number(low) and exact.is_number(high):
        at = f" ({float(level):.0%})" if exact.is_number(level) else ""
        more.append(f"{written(low)} to {written(high)}{at}")
    elif interval is not None:
        more.append(f"no interval: {reason}" if reason else "no interval")
    if n is not None:
        more.append(f"n {n:,}")
    text = written(value) + (f" {unit}" if unit else "")
    aside = ", ".join(more)
    return piece("number", f"{text} [{aside}]" if aside else text, text, aside)


def _written(value: Any, digits: int, percent: bool) -> str:
    if percent:
        return f"{100 * float(value):.1f}%"
    return points(value) if digits == 2 else f"{float(value):,.{digits}f}"


def _member(owner: Any, name: str) -> Any:
    return owner.get(name) if isinstance(owner, Mapping) else getattr(owner, name, None)


def moment(time: Any, absent_as: str = "not stated") -> Piece:
    """A time of a record, to the second, in UTC. On a page it reads as "3 min ago".

    >>> moment("2026-11-15T10:00:00.123456Z"), moment("2026-11-15T12:00:00+02:00")
    ('2026-11-15 10:00:00 UTC', '2026-11-15 10:00:00 UTC')
    >>> moment("2026-11-15T10:00:00"), moment(None)
    ('2026-11-15 10:00:00', 'not stated')
    """
    if not isinstance(time, str) or not time:
        return absent(absent_as)
    at = time_of(time)
    # a time without a zone is shown without one
    text = f"{at:%Y-%m-%d %H:%M:%S} UTC" if at is not None else time[:19].replace("T", " ")
    return piece("moment", text, text, time)


def badge(text: str, kind: str = "") -> Piece:
    """A word in a frame: `good`, `bad`, `open`, `busy`, or none of these."""
    return piece("badge", text, text, kind)


STEPS = 20
"""How many lengths a drawn bar has."""


def post(text: str, action: str, of: str) -> Piece:
    """A button that posts to an address; `of` says to a screen reader what it is about."""
    return piece("post", text, text, action, of)


def meter(
    value: Any,
    *,
    floor: Any = None,
    whole: float = 1.0,
    digits: int = 2,
    unit: str = "",
) -> Piece:
    """A number with a small bar, and a mark on it where its floor is. Something is never drawn as
    nothing, and less than all never as all.

    >>> meter(0.996, floor=0.7), meter(4, whole=5, digits=0), meter(None)
    ('1.00', '4', 'no score')
    >>> meter(0.996, floor=0.7).values[1:4], meter(0.5, floor=0.7).values[3]
    ((19, 14, 'good'), 'bad')
    """
    if not exact.is_number(value):
        return absent("no score")
    text = f"{float(value):,.{digits}f}{unit}"
    kind = "" if not exact.is_number(floor) else "bad" if value < floor else "good"
    mark = _step(floor, whole) if exact.is_number(floor) else None
    return piece("meter", text, text, _step(value, whole), mark, kind)


def _step(value: Any, whole: float) -> int:
    share = min(1.0, max(0.0, float(value) / whole)) if whole else 0.0
    if share in (0.0, 1.0):
        return round(share * STEPS)
    return min(STEPS - 1, max(1, round(share * STEPS)))


def short_digest(value: Any, href: str = "") -> Piece:
    """A digest by its first twelve digits; the whole of it is in its title."""
    if not value:
        return absent()
    text = str(value)
    short = f"{text.removeprefix('sha256:')[:12]}…" if text.startswith("sha256:") else text
    made = code(short, text)
    return link(made, href) if href else made


def shown(value: Any, absent_as: str = "not stated") -> str:
    """A value of a document as a person reads it.

    >>> shown(0.70), shown({"passed": 98, "total": 100}), shown({"slo_good": 8})
    ('0.7', '98 of 100', 'slo_good 8')
    >>> shown([True, "x"]), shown(None)
    ('yes, x', 'not stated')
    """
    if value in _NOTHING:
        return absent(absent_as)
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict) and value.keys() == {"passed", "total"}:
        return phrase(shown(value["passed"]), " of ", shown(value["total"]))
    if isinstance(value, dict):
        return listed(phrase(f"{key} ", shown(item)) for key, item in value.items())
    if isinstance(value, list | tuple):
        return listed(map(shown, value))
    return number_text(value) if exact.is_number(value) else "not a finite number"


def clip(value: Any, most: int = 300, *, absent_as: str = "not stated") -> str:
    """A value as a person reads it, cut where it is long: a page must not grow with what is
    stored.

    >>> clip("abcdef", 3), clip(0.5)
    ('abc … (6 characters)', '0.5')
    """
    text = shown(value, absent_as)
    return text if len(text) <= most else f"{text[:most]} … ({len(text):,} characters)"


def signed(value: Any, absent_as: str = "not known") -> str:
    """A difference, always with its sign.

    >>> signed(0.5), signed(-2), signed(None)
    ('+0.50', '-2.00', 'not known')
    """
    return f"{float(value):+.2f}" if exact.is_number(value) else absent_as


def bar(value: Any, whole: float, *, width: int = 20) -> str:
    """A bar of text. Something is never drawn as nothing, and less than all never as all.

    >>> bar(1, 1000, width=8), bar(999, 1000, width=8), bar(0, 3, width=8), bar(None, 1)
    ('█░░░░░░░', '███████░', '░░░░░░░░', '(no number)')
    """
    if not exact.is_number(value):
        return absent("(no number)")
    share = min(1.0, max(0.0, float(value) / float(whole))) if whole else 0.0
    full = max(1, int(share * width)) if share > 0 else 0
    full = min(width - 1, full) if share < 1 else full
    return "█" * full + "░" * (width - full)


def sentence(text: str) -> str:
    """A text with a capital and one stop.

    >>> sentence("it is missing"), sentence("Done.")
    ('It is missing.', 'Done.')
    """
    return f"{text[:1].upper()}{text[1:].rstrip('.')}."


def words(name: str) -> str:
    """A key as a person reads it.

    >>> words("newly_failing_count"), words("toolsStable")
    ('Newly failing count', 'Tools stable')
    """
    spaced = "".join(f" {letter.lower()}" if letter.isupper() else letter for letter in name)
    return spaced.replace("_", " ").strip().capitalize() or "(no name)"
