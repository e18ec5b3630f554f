"""Markdown, for a pull-request comment or a job summary: any view, and grades with the verdict
first, then what failed and why, then a count of the rest.

Only our own words are Markdown. Every text from evidence, a policy or a file name is in a code
span, where no renderer sees markup, a link, an issue number or an @mention. A page is bounded:
beyond its rows it counts the others.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from textwrap import indent
from typing import IO, Any

import msgspec

from assay.errors import count, printable
from assay.records.grade import Payload
from assay.records.grade_line import NAMED
from assay.views.blocks import (
    Decided,
    Entries,
    Facts,
    Heading,
    Note,
    Paragraph,
    Part,
    Sentences,
    Table,
    Verbatim,
    drawn,
)
from assay.views.evaluation import WorstSample, keep_sample, worst_sample
from assay.views.exporters import Exporter, Format, ReportTitle, ResultSource
from assay.views.grade_line import bar_sentence, causes, is_passed, passed_text
from assay.views.pieces import Piece, bar, points

ROWS = 50
"""Most rows of a table; code hosts limit the length of a comment."""
MAX_TEXT = 200
_TICKS = re.compile("`+")


def code(text: object, *, most: int = MAX_TEXT) -> str:
    r"""Any text as a code span outside a table. Characters that would break the line or reverse the
    text are escaped.

    >>> code("a|b"), code("@all <b>\n")
    ('`a|b`', '`@all <b>\\n`')
    >>> code("`x`")
    '`` `x` ``'
    """
    shown = printable(str(text))
    if len(shown) > most:
        shown = f"{shown[:most]}…"
    if not shown.strip():
        return "(empty)"
    fence = "`" * (1 + max((len(ticks) for ticks in _TICKS.findall(shown)), default=0))
    # one blank on each side is taken off again by the renderer, and keeps a backtick at the edge
    # apart from the fence
    pad = " " if shown[0] in "` " or shown[-1] in "` " else ""
    return f"{fence}{pad}{shown}{pad}{fence}"


def cell_code(text: object) -> str:
    r"""The same in a cell of a table, where a pipe ends the cell unless it is escaped; elsewhere a
    reader would see the backslash.

    >>> cell_code("a|b")
    '`a\\|b`'
    """
    return code(text).replace("|", "\\|")


# --- views


_OURS = ("verdict", "number", "absent")
ENTRY_TEXT = 400
"""Characters of a text of an entry."""
SENTENCE = 600
"""Characters of a sentence in a list."""


def inert(text: str, *, most: int = MAX_TEXT) -> str:
    """A piece of our own words as it is; anything else in a code span."""
    if isinstance(text, Piece):
        if text.kind in _OURS:
            return str(text)
        if text.kind == "phrase":
            return "".join(part if not part.strip() else inert(part) for part in text.values[0])
    return code(text, most=most)


def view(title: str, parts: Sequence[Part]) -> str:
    """A view as a page; the title is in our own words."""
    return "\n".join(filter(None, [f"## Assay: {title}\n", *drawn(parts, _WAYS)]))


def _decided(block: Decided) -> str:
    sure = f"{block.confidence}\n\n" if block.confidence else ""
    return f"**{block.meaning}**\n\n{sure}{code(block.reason, most=ENTRY_TEXT)}\n"


def _entries(block: Entries) -> str:
    return "".join(
        f"- {inert(entry.head)}\n{''.join(drawn(entry.parts, _WITHIN))}"
        for entry in block.entries[:ROWS]
    )


def _facts(block: Facts) -> str:
    bars = [value for label, value in block.pairs if not label and value]
    lines = [f"- {label}: {inert(value)}\n" for label, value in block.pairs if label]
    more = f"- … and {len(lines) - ROWS:,} more\n" if len(lines) > ROWS else ""
    fence = "\n```text\n" + "\n".join(bars) + "\n```\n" if bars else ""
    return "".join(lines[:ROWS]) + more + fence


def _facts_within(block: Facts) -> str:
    """The facts of an entry, as a list in a list."""
    return "".join(
        f"  - {label}: {inert(value, most=ENTRY_TEXT)}\n" for label, value in block.pairs
    )


def _sentences(block: Sentences) -> str:
    return "".join(f"- {inert(text, most=SENTENCE)}\n" for text in block.sentences[:ROWS])


def _table(block: Table) -> str:
    heads = "| " + " | ".join(head.title for head in block.heads) + " |\n"
    rule = "|" + "|".join("---:" if head.kind == "n" else "---" for head in block.heads) + "|\n"
    rows = ["| " + " | ".join(map(cell_code, row)) + " |\n" for row in block.rows]
    return heads + rule + "".join(rows[:ROWS])


_WAYS: dict[type, Callable[[Any], str]] = {
    Decided: _decided,
    Entries: _entries,
    Facts: _facts,
    Heading: lambda block: f"### {block.text}\n",
    Note: lambda block: f"{code(block.text)}\n",
    Paragraph: lambda block: f"{inert(block.text)}\n" if block.text else "",
    Sentences: _sentences,
    Table: _table,
    Verbatim: lambda block: f"{code(block.text, most=ENTRY_TEXT)}\n",
    str: lambda text: f"{inert(text)}\n" if text else "",
}


def _within(way: Callable[[Any], str]) -> Callable[[Any], str]:
    """How a block is drawn in an entry of a list."""
    return lambda block: indent(f"\n{way(block)}", "  ")


_WITHIN = {**{kind: _within(way) for kind, way in _WAYS.items()}, Facts: _facts_within}


# --- grades


MAX_FAULTS = 10
MAX_PAGE = 60_000
"""Characters of a page: GitHub refuses a comment of more than 65,536."""
_GRADED_BY = ("policy", "scoringSystem", "gradingSystem")


# --- grades


class Markdown(Format):
    """Grades as a page. It keeps at most `rows` runs that did not pass, so that a stream of any
    length needs no memory; all is written at the end.
    """

    def __init__(self, rows: int = ROWS) -> None:
        self.rows = rows
        self.failed: list[bytes] = []
        self.worst: list[WorstSample] = []
        self.notes: Sequence[str] = ()

    def about(self, title: ReportTitle) -> None:
        """Learn what was noted about the runs."""
        self.notes = title.notes

    def piece_of(self, result: Payload, source: ResultSource) -> bytes:
        """One row, and behind it what the comment shows of the sample."""
        if result["passed"] is True or source.run is None:
            return self.piece(result)
        return self.piece(result) + msgspec.json.encode(worst_sample(result, source.run))

    def piece(self, result: Payload) -> bytes:
        """One row; none for a run that passed."""
        if result["passed"] is True:
            return b""
        cells = (
            f"{cell_code(result['run_id'])} | {result['grade']} |"
            f" {points(result['weighted_score'])} | {_causes(result)}"
        )
        return f"| {cells} |\n".encode()

    def onto(self, stream: IO[bytes]) -> Markdown:
        """Rows wait here until the verdict is known."""
        return self

    def write(self, data: bytes) -> None:
        """Keep a row, as long as there is room for one, and the worst samples."""
        row, end, sample = data.partition(b"\n")
        if row and len(self.failed) < self.rows:
            self.failed.append(row + end)
        if sample:
            keep_sample(self.worst, _read_sample(sample))

    def foot(self, faults: Sequence[dict[str, Any]], counts: dict[str, Any]) -> bytes:
        """The whole page, with as many rows as fit."""
        rows = self.rows
        page = self._page(faults, counts, rows)
        while len(page) > MAX_PAGE and rows > 1:
            rows //= 2
            page = self._page(faults, counts, rows)
        return page.encode()

    def _page(self, faults: Sequence[dict[str, Any]], counts: dict[str, Any], most: int) -> str:
        rows = self.failed[:most]
        noted = "".join(f"- {code(note)}\n" for note in self.notes)
        parts = (
            _verdict(counts),
            noted,
            worst_samples(self.worst),
            "| run | grade | score | why |\n|---|---|---:|---|\n"
            + b"".join(rows).decode()
            + _more(counts["failed"] - len(rows))
            if rows
            else "",
            _fault_list(faults, counts["faults"]),
            _bars(counts) if counts["graded"] else "",
            f"Policy {' · '.join(code(counts[key]) for key in _GRADED_BY)}\n",
        )
        return "\n".join(filter(None, parts))


_read_sample = msgspec.json.Decoder(WorstSample).decode


def _verdict(counts: Mapping[str, Any]) -> str:
    graded, failed, faults = counts["graded"], counts["failed"], counts["faults"]
    broken = [f"{count(faults, 'fault')} in the input"] if faults else []
    if not graded:
        return f"## Assay: nothing was graded\n\n{': '.join(['The gate is closed', *broken])}.\n"
    ran = [passed_text(graded, failed)] if failed or not faults else []
    bar = f" {bar_sentence(counts)}".rstrip()
    head, end = ("passed", "") if is_passed(counts) else ("not passed", " The gate is closed.")
    return f"## Assay: {head}\n\n**{' and '.join([*ran, *broken])}.**{bar}{end}\n"


def _causes(result: Payload) -> str:
    reasons = causes(result)
    more = len(reasons) - NAMED
    return "; ".join(map(cell_code, reasons[:NAMED])) + (f"; and {more} more" if more > 0 else "")


def _more(failed: int) -> str:
    return f"\n… and {failed:,} more that did not pass.\n" if failed > 0 else ""


def _fault_list(faults: Sequence[Mapping[str, Any]], total: int) -> str:
    lines = []
    for fault in faults[:MAX_FAULTS]:
        line = "" if fault["line"] is None else f" line {fault['line']}"
        lines.append(
            f"- {code(fault['file'])}{line}:"
            f" {code(' '.join(filter(None, (fault.get('path'), fault['message']))))}\n"
        )
    if total > len(lines):
        lines.append(f"- … and {count(total - len(lines), 'more fault')}\n")
    return "".join(lines)


def _bars(counts: Mapping[str, Any]) -> str:
    graded = counts["graded"]
    rows = [(name, counts[name]) for name in ("passed", "failed")]
    rows += counts.get("grades", {}).items()
    lines = [f"{name:<6}  {bar(n, graded)}  {n:,} of {graded:,}\n" for name, n in rows]
    return f"```text\n{''.join(lines)}```\n"


EXPORTER = Exporter("markdown", "Markdown: a page for a pull request", (".md",), Markdown)


TEXT = 400
"""Characters of a question, an answer or an expected value in a comment."""


def worst_samples(worst: Sequence[WorstSample]) -> str:
    """The samples as a part of a comment; empty if there are none."""
    lines = ["### Worst samples\n\n"] if worst else []
    for case in worst:
        lines.append(
            f"- {code(case.sample)}: {code(case.letter)} {points(case.score)}, {code(case.why)}\n"
        )
        texts = {"question": case.question, "answer": case.answer, "expected": case.expected}
        lines += [
            f"  - {name}: {code(text, most=ENTRY_TEXT)}\n" for name, text in texts.items() if text
        ]
    return "".join(lines)
