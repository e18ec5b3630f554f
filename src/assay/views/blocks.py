"""Blocks: what a view is made of. Each is a record; a template draws it by the macro of its name.

    view = [section("Rules", Table("Rules", ("Rule", "Verdict"), rows), id="rules")]

A view of a subject is a list of blocks with every number and every sentence in it. Renderers add no
words: a page, a report, Markdown and the terminal show the same blocks. A page has a macro for each
of them; the other renderers draw a few, and `drawn` gives them what every other block is in these.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Struct

from assay.views.pieces import clip

if TYPE_CHECKING:
    from assay.views.charts.chart import Chart


class Block(Struct, frozen=True):
    """A part of a view."""

    def __html__(self) -> str:
        """The block in a template."""
        # Jinja2 loads with the first page, so that a terminal does not pay for it.
        from assay.views.render import macro

        return macro(type(self).__name__.lower())(self)

    def simpler(self) -> Sequence[Part]:
        """The same in simpler blocks, for a renderer without a way to draw this one."""
        raise NotImplementedError(f"no renderer besides HTML can draw the block {type(self)}")


Part = Block | str
"""A block, or text: a string, or a piece."""
T = TypeVar("T")


def drawn(parts: Iterable[Part], ways: Mapping[type, Callable[[Any], T]]) -> Iterator[T]:
    """What a renderer makes of each block, by its type; text is a `str`. Of a block that it has no
    way to draw it draws the simpler ones, so that none is left out in silence.
    """
    for part in parts:
        kind = str if isinstance(part, str) else type(part)
        if kind in ways:
            yield ways[kind](part)
        elif not isinstance(part, str):
            yield from drawn(part.simpler(), ways)


class Control(Block, frozen=True):
    """What a reader clicks or fills in. Only a page has it."""

    def simpler(self) -> Sequence[Part]:
        """Nothing."""
        return ()


class Section(Block, frozen=True):
    """Blocks under a title, which can be linked to by its id."""

    title: str
    parts: Sequence[Part]
    id: str = ""
    hint: str = ""
    kind: str = ""
    level: int = 2

    def simpler(self) -> Sequence[Part]:
        """Its blocks under a heading."""
        hint = [Paragraph(self.hint, "hint")] if self.hint else []
        return [Heading(self.title), *hint, *self.parts]


def parts_of(*parts: Part | None) -> list[Part]:
    """The parts of a view that there are: None is one that has nothing to show."""
    return [part for part in parts if part is not None]


def section(
    title: str,
    *parts: Part | None,
    id: str = "",
    hint: str = "",
    kind: str = "",
    level: int = 2,
) -> Section:
    """Blocks under a title."""
    return Section(title, parts_of(*parts), id, hint, kind, level)


class Group(Block, frozen=True):
    """Blocks that belong together."""

    parts: Sequence[Part]
    kind: str = ""

    def simpler(self) -> Sequence[Part]:
        """Its blocks."""
        return self.parts


class Details(Block, frozen=True):
    """Blocks that are folded away. A link may lead to its id."""

    summary: str
    parts: Sequence[Part]
    opened: bool = False
    id: str = ""
    kind: str = ""

    def simpler(self) -> Sequence[Part]:
        """Its blocks under a heading."""
        return [Heading(self.summary), *self.parts]


class Paragraph(Block, frozen=True):
    """A sentence or a few. The kind is how it looks: `verdict`, `hint`, `absent`."""

    text: str
    kind: str = ""


class Sentences(Block, frozen=True):
    """A list of sentences, under a small heading where it has one."""

    sentences: Sequence[str]
    title: str = ""
    absent: str = ""
    most: int = 200


class Note(Block, frozen=True):
    """A line that stands out: `good`, `bad` or `open`."""

    text: str
    kind: str = "open"


class Empty(Block, frozen=True):
    """Nothing is here yet, and the command that changes it."""

    sentence: str
    command: str = ""
    more: str = ""

    def simpler(self) -> Sequence[Part]:
        """Its sentences, and the command between them."""
        command = [Verbatim(self.command)] if self.command else []
        return [Paragraph(self.sentence), *command, Paragraph(self.more)]


class Verbatim(Block, frozen=True):
    """Text as it is."""

    text: str
    label: str = ""


class Decided(Block, frozen=True):
    """The outcome of a gate: its verdict, the policy, the reason, what it means, and how sure it
    is.
    """

    outcome: str
    policy: str
    reason: str
    meaning: str = ""
    confidence: str = ""


class Facts(Block, frozen=True):
    """Names and values. The kind `figures` makes them large, `small` small and one below the
    other.
    """

    pairs: Sequence[tuple[str, str]]
    kind: str = ""


def stated(*facts: tuple[str, str]) -> list[tuple[str, str]]:
    """The facts that have a text: what is not known of something is left out.

    >>> stated(("margin", "1 point"), ("left out", ""))
    [('margin', '1 point')]
    """
    return [fact for fact in facts if fact[1]]


class Contents(Control, frozen=True):
    """Links to the sections of a long page."""

    sections: Sequence[tuple[str, str]]
    """Ids and names."""


def contents(parts: Iterable[Part]) -> Contents:
    """Links to every section with an id."""
    return Contents(
        [(part.id, part.title) for part in parts if isinstance(part, Section) and part.id]
    )


class Column(Struct, frozen=True):
    """A column of a table. `kind` is "" for words, "n" for numbers, "wide" for sentences, "text"
    for a text that is cut after three lines, "tight" for symbols. With `href` its head is a link
    that sorts by it; `order` is "ascending" or "descending" where the rows are sorted by it.
    """

    title: str
    kind: str = ""
    href: str = ""
    order: str = ""


class Table(Block, frozen=True):
    """A table that scrolls in its own box; the first cell of a row is its header. Where there are
    no rows, `absent` says so.

    With the kind `stack` it folds into cards on a phone; with `sheet` it is as wide as the page and
    its head stays in view. With `keep` it is there without rows, for
    a script to fill.
    """

    caption: str
    columns: Sequence[str | Column]
    rows: Sequence[Sequence[str]]
    absent: str = "none"
    kind: str = ""
    keep: bool = False

    @property
    def heads(self) -> list[Column]:
        """The columns with their kinds."""
        return [Column(head) if isinstance(head, str) else head for head in self.columns]


def can_draw() -> bool:
    """Whether charts become pictures here."""
    from assay.views import drawing  # an optional extra, and slow to start

    return drawing.available()


class Figure(Block, frozen=True):
    """A chart: its picture, its sentence, its table, and download links.

    `url` is its address without an ending, which serves it as .svg and .png; without one the
    picture is within the page. Where there is nothing to draw, or nothing to draw with, the table
    is open and a line says why.
    """

    chart: Chart
    url: str = ""
    draw: bool = True

    @property
    def source(self) -> str:
        """Where the picture is; empty if there is none."""
        if self.chart.spec is None or not self.draw or not can_draw():
            return ""
        if self.url:
            return f"{self.url}.svg"
        from base64 import b64encode

        from assay.views import drawing

        return f"data:image/svg+xml;base64,{b64encode(drawing.svg(self.chart)).decode()}"

    @property
    def room(self) -> int:
        """The height in pixels to keep free for the picture until it arrives: never more than it
        takes.
        """
        spec = self.chart.spec or {}
        height = spec.get("height")
        if isinstance(height, int):
            return height
        values = spec.get("data", {}).get("values") or self.chart.rows
        return 24 * min(40, len(self.chart.rows), len(values))

    @property
    def hint(self) -> str:
        """Why there is no picture, where there could be one."""
        if self.chart.spec is None or not self.draw or can_draw():
            return ""
        from assay.views import drawing

        return drawing.MISSING

    @property
    def table(self) -> Table:
        """The table behind the chart."""
        chart = self.chart
        columns = [
            Column(name, "n" if _is_numeric(chart.rows, place) else "")
            for place, name in enumerate(chart.columns)
        ]
        rows = [[clip(cell) for cell in row] for row in chart.rows]
        return Table(f"{chart.title}, as a table", columns, rows, absent="The chart has no rows.")

    def simpler(self) -> Sequence[Part]:
        """Its sentence and its table."""
        return [Heading(self.chart.title), Paragraph(self.chart.sentence), self.table]


def figure(chart: Chart, url: str = "") -> Figure:
    """A chart of a page that serves its charts below `url`; without one, within the page."""
    return Figure(chart, f"{url}/{chart.name}" if url else "")


def _is_numeric(rows: Sequence[Sequence[str]], place: int) -> bool:
    """Whether most cells of a column read as numbers; the first column names the row."""
    starts = [row[place][:1] for row in rows]
    return place > 0 and 2 * sum(start.isdigit() or start in "+-−" for start in starts) > len(
        starts
    )


class Field(Struct, frozen=True):
    """A thing to filter by. `choices` of a `select` are all there are; of a text they are
    offered. A `hidden` one keeps what else the address asks for.
    """

    name: str
    label: str
    kind: str = "text"
    choices: Sequence[str | tuple[str, str]] = ()
    hint: str = ""

    def options(self, value: str) -> list[tuple[str, str]]:
        """Values and texts to choose from, with the one that was chosen."""
        pairs = [(item, item) if isinstance(item, str) else item for item in self.choices]
        known = self.kind != "select" or not value or value in [key for key, _ in pairs]
        return pairs if known else [*pairs, (value, value)]


class Filters(Control, frozen=True):
    """A form whose state is the address: it works without a script, and the back button
    undoes it.
    """

    action: str
    fields: Sequence[Field]
    values: Mapping[str, str | None]
    title: str = "Filter"
    button: str = "Filter"
    kind: str = ""

    @property
    def summary(self) -> str:
        """What the list is filtered by."""
        used = [
            field.label.lower()
            for field in self.fields
            if field.kind != "hidden" and self.values.get(field.name)
        ]
        return f"{self.title}: {', '.join(used)}" if used else self.title


class Chip(Struct, frozen=True):
    """A way to narrow a list down by one click, with the number of rows it leaves."""

    text: str
    href: str
    n: int | None = None
    chosen: bool = False
    key: str = ""
    """Its name in the page: the focus stays on it while a region is replaced."""


class Chips(Control, frozen=True):
    """Filters as links; clicking the chosen one removes it."""

    label: str
    chips: Sequence[Chip]


class Region(Block, frozen=True):
    """Blocks that links and forms within it replace in place, where they lead to the same page with
    another query. Without a script they are links like any other.
    """

    id: str
    parts: Sequence[Part]

    def simpler(self) -> Sequence[Part]:
        """Its blocks."""
        return self.parts


class Pager(Control, frozen=True):
    """Links through a list without page numbers; a missing direction is left out."""

    newest: str = ""
    newer: str = ""
    older: str = ""
    summary: str = ""
    look_further: bool = False
    words: tuple[str, str, str] = ("Newest", "← Newer", "Older →")


class Polled(Block, frozen=True):
    """Blocks that are asked for again every few seconds at `url`, whose page has them under the
    same id. Without a script they stay as they are.
    """

    id: str
    url: str
    parts: Sequence[Part]
    seconds: int = 3

    def simpler(self) -> Sequence[Part]:
        """Its blocks."""
        return self.parts


class Heading(Block, frozen=True):
    """A small heading within a section."""

    text: str


class Button(Control, frozen=True):
    """A form of one button, which posts."""

    label: str
    action: str
    hidden: Mapping[str, str]


class ListEntry(Struct, frozen=True):
    """One entry of a list. Its kind is how it looks: `bad` and `open` stand out."""

    head: str
    parts: Sequence[Part] = ()
    foot: str = ""
    id: str = ""
    kind: str = ""


class Entries(Block, frozen=True):
    """Entries one below the other, each with a head, a body and links to others: claims,
    passages, tool calls, steps, versions.
    """

    entries: Sequence[ListEntry]
    label: str
    kind: str = ""
