"""What every page is made of: the frame around it, and the parts that show a table, a number, a
letter, a chart, an absence.

    return page(request, "Runs", section("Newest", table("Runs", columns, rows)), nav="/runs")

Markup is made by `tag` of `reports.markup` and nowhere else, so that whatever is stored is shown as
text. A number comes with its interval and n (`number`), a letter with its policy (`letter`), a
missing value in words (`say`), a chart with its sentence and its table (`chart`). Addresses are
made by `address`, which quotes every part: an id may hold any sign. No page has a style or a script
of its own: they are files in `server/static`.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from hashlib import sha256
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote, urlencode

from starlette.responses import HTMLResponse

from assay import __version__, exact
from assay.records.grade import LETTERS
from assay.views import drawing
from assay.views.blocks import Column as Column
from assay.views.blocks import Group, Paragraph, can_draw
from assay.views.markup import Html, join, points, say, tag
from assay.views.pieces import code, phrase, strong
from assay.views.pieces import link as piece_link
from assay.views.render import TEMPLATES, html

if TYPE_CHECKING:
    from starlette.requests import Request

    from assay.server.problems import Problem
    from assay.views.blocks import Part
    from assay.views.charts import Chart

FILES = {
    path.name: path
    for folder in (Path(__file__).parent.parent / "static", TEMPLATES)
    for path in folder.iterdir()
    if path.suffix in (".css", ".js", ".svg")
}
"""The files of the pages by name."""
NAV = {
    "/": "Overview",
    "/runs": "Runs",
    "/decisions": "Decisions",
    "/exams": "Exams",
    "/judges": "Judges",
    "/schemas": "Tool schemas",
    "/library": "Library",
}
"""What stands at the top of every page; an entry whose page is not there is left out."""
SIGNS = {
    **dict.fromkeys(
        ("pass", "passed", "success", "holds", "promote", "done", "valid", "same"), "✓"
    ),
    **dict.fromkeys(("undetermined", "not_enough_evidence", "hold", "stale", "unknown"), "?"),
    **dict.fromkeys(("queued", "running", "executing", "evaluating", "cancelling"), "…"),
    **dict.fromkeys(("skipped", "cancelled", "none"), "–"),
}
"""The sign of a verdict. One that is not here is bad: an unknown word must not look good."""
_KIND_OF = {"✓": "good", "?": "open", "…": "busy", "–": "off"}


# --- addresses


def address(*parts: str, **query: str | None) -> str:
    """An address on this server; every part is quoted, and a query without a value is left out.

    >>> address("runs", "a/b ?"), address("runs", grade="F", tag=None), address()
    ('/runs/a%2Fb%20%3F', '/runs?grade=F', '/')
    """
    asked = urlencode({name.rstrip("_"): _utf8(value) for name, value in query.items() if value})
    return (
        "/"
        + "/".join([quote(_utf8(part), safe=":@") for part in parts])
        + (f"?{asked}" if asked else "")
    )


def _utf8(text: str) -> bytes:
    """Bytes also of half a surrogate pair, which leads nowhere but breaks nothing."""
    return text.encode("utf-8", "replace")


def link(text: str, href: str, **attributes: str) -> Html:
    """A link. `text` may be markup."""
    return tag("a", text, href=href, **attributes)


@lru_cache(maxsize=16)
def static(name: str) -> str:
    """The address of a file of ours, new whenever its content is."""
    return f"/static/{name}?v={sha256(FILES[name].read_bytes()).hexdigest()[:12]}"


def void(element: str, /, **attributes: str) -> Html:
    """An element without content. An attribute that is empty is kept: an image with an empty `alt`
    is a decoration, one without is a riddle.

    >>> void("img", src="/a.svg", alt="")
    '<img src="/a.svg" alt="">'
    """
    made = tag(
        element, **{f"{key.rstrip('_')}_": value or _EMPTY for key, value in attributes.items()}
    )
    return Html(str(made).removesuffix(f"</{element}>").replace(f'"{_EMPTY}"', '""'))


_EMPTY = "\ufdd0"  # a sign that no text holds


# --- the frame


def page(
    request: Request,
    title: str,
    *parts: Part,
    nav: str = "",
    status: int = 200,
    lead: str = "",
    scripts: Sequence[str] = (),
    headers: Mapping[str, str] | None = None,
    template: str = "page.html",
    **values: Any,
) -> HTMLResponse:
    """A whole page. `nav` is the entry of NAV it belongs to, `lead` the sentence under its title,
    `scripts` files of ours that make it alive; `template` extends `page.html`, and takes `values`.
    """
    available = getattr(request.app.state, "page_paths", ())
    text = html(
        template,
        title=title,
        parts=parts,
        nav=nav,
        lead=lead,
        scripts=scripts,
        static=static,
        menu={path: name for path, name in NAV.items() if path in available},
        principal=request.scope.get("assay.principal"),
        version=__version__,
        **values,
    )
    return HTMLResponse(text.encode(), status, headers=dict(headers or {}))


def problem_page(request: Request, problem: Problem) -> HTMLResponse:
    """What went wrong, where, and what to do; for a person."""
    titles = {
        401: "Log in first",
        403: "Not allowed",
        404: "Not found",
        405: "Not possible here",
        429: "Too many requests",
        500: "Internal error",
    }
    title = titles.get(problem.status, HTTPStatus(problem.status).phrase)
    fix = problem.fix or _FIXES.get(problem.status, "")
    parts: list[Part] = [Paragraph(_sentence(problem.detail), "verdict bad")]
    if fix:
        parts.append(Paragraph(phrase(strong("What to do: "), fix)))
    if problem.where:
        parts.append(Paragraph(phrase(strong("Where: "), code(problem.where))))
    parts += [
        Paragraph(f"Error {problem.code}, status {problem.status}.", "hint"),
        Paragraph(phrase(piece_link("Overview", "/"), " · ", piece_link("Runs", "/runs"))),
    ]
    return page(
        request,
        title,
        Group(parts, "problem"),
        status=problem.status,
        headers=problem.headers,
    )


_FIXES = {
    404: "Look for it in the lists; what belongs to another project is not shown here.",
    503: "Wait a moment, then load the page again.",
}


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


# --- parts


def section(title: str, *parts: Any, id: str = "", hint: str = "") -> Html:
    """A part of a page with a title, which can be linked to by its id."""
    return tag(
        "section",
        tag("h2", title),
        *([tag("p", hint, class_="hint")] if hint else []),
        *parts,
        id=id,
    )


def table(
    caption: str,
    columns: Sequence[str | Column],
    rows: Iterable[Sequence[str]],
    *,
    absent: str = "none",
    kind: str = "",
    keep: bool = False,
) -> Html:
    """A table that scrolls in its own box. Each row begins with its header; a cell is text or
    markup. Where there are no rows, `absent` says so in words.

    With the kind `stack` it folds into cards on a phone instead. With `keep` a table without rows
    is there, for a script to fill.
    """
    heads = [column if isinstance(column, Column) else Column(column) for column in columns]
    lines = []
    for row in rows:
        cells = [
            tag("td", cell, class_=head.kind, role="cell", data_label=head.title)
            for cell, head in zip(row[1:], heads[1:], strict=True)
        ]
        lines.append(
            tag(
                "tr",
                tag("th", row[0], scope="row", role="rowheader", class_=heads[0].kind),
                *cells,
                role="row",
            )
        )
    if not lines and not keep:
        return tag("p", absent, class_="absent")
    top = tag(
        "tr",
        *(
            tag("th", head.title, scope="col", role="columnheader", class_=head.kind)
            for head in heads
        ),
        role="row",
    )
    # a table that folds loses its roles in a browser unless they are said
    found = tag(
        "table",
        tag("caption", caption),
        tag("thead", top, role="rowgroup"),
        tag("tbody", *lines, role="rowgroup"),
        role="table",
        class_=kind,
    )
    return tag(
        "div",
        found,
        role="region",
        aria_label=caption,
        tabindex="0",
        class_=f"scroll {kind}".strip(),
    )


def facts(pairs: Iterable[tuple[str, str]], *, kind: str = "") -> Html:
    """Names and values. The kind `figures` makes them large, `small` small and one below the
    other.
    """
    return tag(
        "dl",
        *(tag("div", tag("dt", name), tag("dd", value)) for name, value in pairs),
        class_=f"facts {kind}".strip(),
    )


def number(
    value: Any,
    *,
    interval: Any = None,
    n: int | None = None,
    digits: int = 2,
    percent: bool = False,
    unit: str = "",
    absent: str = "not stated",
) -> Html:
    """A number with its interval and n. `interval` is a mapping or record with low, high, level
    (and a reason where it has none).

    >>> number(0.9, interval={"low": 0.8, "high": 0.95, "level": 0.95}, n=40, percent=True)
    '<span class="num"><b>90.0%</b> <small>80.0% to 95.0% (95%), n 40</small></span>'
    >>> number(None, absent="no score")
    '<span class="absent">no score</span>'
    """
    if not exact.is_number(value):
        return tag("span", absent, class_="absent")
    low, high, level, reason = (
        _member(interval, name) for name in ("low", "high", "level", "reason")
    )
    after = []
    if exact.is_number(low) and exact.is_number(high):
        shown = f" ({float(level):.0%})" if exact.is_number(level) else ""
        after.append(
            f"{_written(low, digits, percent)} to {_written(high, digits, percent)}{shown}"
        )
    elif interval is not None:
        after.append(f"no interval: {reason}" if reason else "no interval")
    if n is not None:
        after.append(f"n {n:,}")
    more = [" ", tag("small", ", ".join(after))] if after else []
    return tag(
        "span",
        tag("b", _written(value, digits, percent) + (f" {unit}" if unit else "")),
        *more,
        class_="num",
    )


def _written(value: Any, digits: int, percent: bool) -> str:
    if percent:
        return f"{100 * float(value):.1f}%"
    return points(value) if digits == 2 else f"{float(value):,.{digits}f}"


def _member(found: Any, name: str) -> Any:
    return found.get(name) if isinstance(found, Mapping) else getattr(found, name, None)


def letter(grade: Any, policy: Any, *, large: bool = False) -> Html:
    """A letter with the policy it was given by; never one without the other.

    >>> letter("B", "workflow@1")
    '<span class="letter"><b class="grade-B">B</b> <small>workflow@1</small></span>'
    """
    if not grade:
        return tag("span", "no grade", class_="absent")
    known = grade if grade in LETTERS else "other"
    return tag(
        "span",
        tag("b", say(grade), class_=f"grade-{known}"),
        " ",
        tag("small", say(policy, "policy not stated")),
        class_="letter large" if large else "letter",
    )


def verdict(word: Any, text: str = "") -> Html:
    """A verdict as a sign and words, never as a colour alone. `text` is said instead of the word.
    What is unknown or missing looks bad, not good.

    >>> verdict("pass", "passed")
    '<span class="good"><span aria-hidden="true" class="sign">✓</span> passed</span>'
    """
    known = str(word or "not stated")
    sign = SIGNS.get(known, "✗")
    shown = text or known.replace("_", " ")
    return tag(
        "span",
        tag("span", sign, aria_hidden="true", class_="sign"),
        f" {shown}",
        class_=_KIND_OF.get(sign, "bad"),
    )


def clip(value: Any, most: int = 300, *, absent: str = "not stated") -> str:
    """A value as a person reads it, cut where it is long: a page must not be as large as what is
    stored.

    >>> clip("abcdef", 3), clip(0.5)
    ('abc … (6 signs)', '0.5')
    """
    found = say(value, absent)
    if len(found) <= most or (isinstance(found, Html) and value in (None, "", [], (), {})):
        return found
    plain = str(value) if isinstance(found, Html) else found
    return found if len(plain) <= most else f"{plain[:most]} … ({len(plain):,} signs)"


def when(moment: Any, absent: str = "not stated") -> Html:
    """A moment of the ledger, to the second, in UTC.

    >>> when("2026-11-15T10:00:00.123456Z")
    '<time datetime="2026-11-15T10:00:00.123456Z">2026-11-15 10:00:00</time>'
    """
    if not isinstance(moment, str) or not moment:
        return tag("span", absent, class_="absent")
    return tag("time", moment[:19].replace("T", " "), datetime=moment)


def short(digest: Any, href: str = "") -> Html:
    """A digest by its first twelve digits; the whole of it is in its title."""
    text = say(digest)
    if isinstance(text, Html):
        return text
    found = tag(
        "code",
        f"{text.removeprefix('sha256:')[:12]}…" if text.startswith("sha256:") else text,
        title=text,
    )
    return link(found, href) if href else found


def empty(sentence: str, command: str = "", *, more: str = "") -> Html:
    """Nothing is here yet: say so, and with which command that changes."""
    said = [tag("p", sentence)]
    said += [tag("pre", tag("code", command), tabindex="0")] if command else []
    said += [tag("p", more)] if more else []
    return tag("div", *said, class_="empty")


def note(text: str, *, kind: str = "open") -> Html:
    """A line that stands out: `good`, `bad` or `open`."""
    return tag(
        "p",
        text,
        class_=f"note {kind}",
        role="status" if kind == "good" else "alert" if kind == "bad" else "",
    )


def chart(found: Chart, url: str = "") -> Html:
    """A chart: its picture, its sentence, its table, and links to take it away.

    `url` is its address without an ending, which serves it as .svg and .png (see `charts.picture`);
    without one the picture stands in the page itself. Where there is nothing to draw, or nothing to
    draw with, the table is open and a line says why.
    """
    drawn = found.spec is not None and can_draw()
    columns = [
        Column(name, "n" if _numeric(found.rows, place) else "")
        for place, name in enumerate(found.columns)
    ]
    rows = [[clip(cell) for cell in row] for row in found.rows]
    inner = [
        tag("summary", "Table"),
        table(f"{found.title}: the table", columns, rows, absent="The chart has no rows."),
    ]
    parts = [tag("figcaption", tag("b", found.title), " ", tag("span", found.sentence))]
    if drawn:
        source = (
            f"{url}.svg"
            if url
            else f"data:image/svg+xml;base64,{b64encode(drawing.svg(found)).decode()}"
        )
        parts.append(
            tag(
                "div",
                void("img", src=source, alt=found.sentence, loading="lazy"),
                tabindex="0",
                role="group",
                aria_label=found.title,
                class_="picture",
            )
        )
        ways = (
            [
                link(name, f"{url}.{name.lower()}", aria_label=f"{found.title} as {name}")
                for name in ("SVG", "PNG")
            ]
            if url
            else []
        )
        parts.append(
            tag(
                "div",
                tag("details", *inner),
                tag("span", *[part for way in ways for part in (way, " ")], class_="away"),
                class_="behind",
            )
        )
        return tag("figure", *parts, class_="chart")
    if found.spec is not None:
        parts.append(tag("p", drawing.MISSING, class_="hint"))
    if len(found.columns) > 1:
        parts.append(tag("details", *inner, open="open"))
    return tag("figure", *parts, class_="chart")


def _numeric(rows: Sequence[Sequence[str]], place: int) -> bool:
    """Whether a column of a table reads as numbers."""
    return (
        place > 0
        and bool(rows)
        and sum(row[place][:1].isdigit() or row[place][:1] in "+-−" for row in rows) * 2 > len(rows)
    )


# --- lists


class Field(NamedTuple):
    """One thing to filter by. `choices` of a `select` are all there are; of a text they are
    offered.
    """

    name: str
    label: str
    kind: str = "text"
    choices: Sequence[str | tuple[str, str]] = ()
    hint: str = ""


def filters(action: str, fields: Sequence[Field], values: Mapping[str, str | None]) -> Html:
    """A form whose state is the address: it works without a script, and the back button takes it
    back.
    """
    given = {field.name: values.get(field.name) or "" for field in fields}
    inputs = [
        tag(
            "div",
            tag("label", field.label, for_=f"f-{field.name}"),
            _input(field, given[field.name]),
            class_="field",
        )
        for field in fields
    ]
    buttons = [
        tag("button", "Filter"),
        *([" ", link("Clear", action)] if any(given.values()) else []),
    ]
    used = [field.label.lower() for field in fields if given[field.name]]
    said = f"Filter: {', '.join(used)}" if used else "Filter"
    form = tag(
        "form",
        *inputs,
        tag("div", *buttons, class_="field go"),
        method="get",
        action=action,
        role="search",
        aria_label="Filter the list",
    )
    return tag("details", tag("summary", said), form, open="open", class_="filters")


def _input(field: Field, value: str) -> Html:
    if field.kind == "select":
        pairs = [(one, one) if isinstance(one, str) else one for one in field.choices]
        if value and value not in [key for key, _ in pairs]:
            pairs.append((value, value))
        options = [
            tag("option", text, value=key, **({"selected": "selected"} if key == value else {}))
            for key, text in pairs
        ]
        return tag(
            "select",
            Html('<option value="">any</option>'),
            *options,
            name_=field.name,
            id=f"f-{field.name}",
        )
    offered = [tag("option", value=str(one)) for one in field.choices]
    listed = {"list": f"l-{field.name}"} if offered else {}
    made = void(
        "input",
        type=field.kind,
        value=value,
        placeholder=field.hint,
        autocomplete="off",
        name=field.name,
        id=f"f-{field.name}",
        **listed,
    )
    return join([made, *([tag("datalist", *offered, id=f"l-{field.name}")] if offered else [])])


def pager(
    *,
    newest: str = "",
    newer: str = "",
    older: str = "",
    said: str = "",
    look_further: bool = False,
) -> Html:
    """The way through a list that has no page numbers. A way that is not there is left out; `said`
    says what is on this page.
    """
    ways = [
        ("Newest", newest),
        ("← Newer", newer),
        ("Look further back →" if look_further else "Older →", older),
    ]
    found = [
        link(name, href, rel={"← Newer": "prev"}.get(name, "next" if href == older else ""))
        for name, href in ways
        if href
    ]
    return tag(
        "nav",
        tag("span", said),
        tag("span", *[part for one in found for part in (one, " ")], class_="ways"),
        aria_label="Pages",
        class_="pager",
    )
