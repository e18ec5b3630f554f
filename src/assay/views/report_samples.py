"""The table of samples in a report: one row each, in few bytes, so that ten thousand fit a page.

A row is a `SampleRow` with its texts cut to the room that so many rows leave.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import NamedTuple

from msgspec import structs

from assay.errors import count
from assay.records.grade import LETTERS
from assay.records.samples import SampleRow
from assay.views.blocks import Block
from assay.views.pieces import points

ROOM = 3_400_000
"""Bytes of all rows."""
CRITERIA = 6
FEWER_CRITERIA = 3
MANY = 2_000
"""Rows from which fewer criteria are shown."""
LONGEST = 1_200
"""Bytes of text in a row, where there is room."""
MARKUP = 110
"""Bytes of a row without its texts, and those of each bar."""
BAR = 22
SHARES = (("question", 0.36), ("answer", 0.36), ("expected", 0.14))
PART = 100
"""Rows of a table. A browser lays out the tables of a long list as they come into view."""


class SampleBar(NamedTuple):
    """What a criterion came to, from 0.00 to 1.00 and in twentieths; a dash without a score."""

    text: str
    twentieths: int
    low: bool


class SampleLine(NamedTuple):
    """A row as the page shows it."""

    name: str
    place: int
    """The number of its evidence; 0 where the page has none."""
    n: int
    workflow: str
    question: str
    answer: str
    expected: str
    letter: str
    known: str
    score: str
    passed: bool
    bars: Sequence[SampleBar]
    why: str


class SampleTable(Block, frozen=True):
    """The rows, in parts that a browser can lay out one by one."""

    parts: Sequence[Sequence[SampleLine]]
    criteria: Sequence[tuple[str, str]]
    """Their labels, short and in full."""
    has_texts: bool
    has_workflows: bool
    n: int
    printed: int = 5
    """Parts that standalone.css prints: a browser takes many minutes for thousands of rows."""


class Layout(NamedTuple):
    """Which criteria rows show, and how many bytes of text each may take."""

    criteria: Sequence[str]
    text: int

    @classmethod
    def of(cls, n: int, lost: Mapping[str, float]) -> Layout:
        """The layout of so many rows. The criteria are those that lose most points."""
        most = CRITERIA if n <= MANY else FEWER_CRITERIA
        chosen = sorted(lost, key=lambda name: -lost[name])[:most]
        criteria = [name for name in lost if name in chosen]
        free = ROOM // max(1, n) - MARKUP - BAR * len(criteria)
        return cls(criteria, max(60, min(LONGEST, free)))


def merged(rows: Sequence[SampleRow]) -> SampleRow:
    """The repeats of one sample as one row; the worst comes first."""
    return structs.replace(rows[0], runs=tuple(run for row in rows for run in row.runs))


def sample_line(row: SampleRow, layout: Layout, *, place: int, n: int, workflow: str) -> SampleLine:
    """A row with its texts cut."""
    texts = {name: cut(getattr(row, name), int(share * layout.text)) for name, share in SHARES}
    low = set(row.floors)
    return SampleLine(
        cut(row.name, 80),
        place,
        n,
        cut(workflow, 60),
        **texts,
        letter=cut(row.letter or "–", 12),
        known=row.letter if row.letter in LETTERS else "other",
        score=points(row.score) if row.worst.grade is not None else "none",
        passed=row.passed,
        bars=[_bar(row.norm(name), name in low) for name in layout.criteria],
        why=cut(row.why, max(40, int(0.14 * layout.text))),
    )


def _bar(norm: float | None, low: bool) -> SampleBar:
    if norm is None:
        return SampleBar("–", 0, low)
    share = min(1.0, max(0.0, norm))
    return SampleBar(f"{share:.2f}", int(20 * share), low)


def cut(text: str, most: int) -> str:
    """A text on one line, of so many bytes in HTML at most.

    >>> cut("two  words", 99), cut("abcdefghij", 6), cut("<<<<", 8)
    ('two words', 'abc…', '<…')
    """
    line = " ".join(text[: 4 * most].split())
    if _size(line) <= most and len(text) <= 4 * most:
        return line
    kept = line[:most]
    while kept and _size(kept) > most - 3:
        kept = kept[: min(len(kept) - 1, len(kept) * most // _size(kept))]
    return f"{kept.rstrip()}…"


def _size(text: str) -> int:
    return len(escape(text).encode("utf-8", "replace"))


def in_parts(lines: Iterable[SampleLine]) -> list[list[SampleLine]]:
    """One part where there are few rows, else parts of the same size."""
    every = list(lines)
    if len(every) <= 5 * PART:
        return [every]
    return [every[at : at + PART] for at in range(0, len(every), PART)]


def table_hint(n: int, failed: int, shown: int, *, criteria: tuple[int, int]) -> str:
    """What the table shows, and what it leaves out. `criteria` are those shown and all."""
    words = f"{count(n, 'sample')}; {failed:,} did not pass. The worst comes first."
    if shown < n:
        words += f" The table has {shown:,} of them; -o grades.jsonl writes every one."
    if criteria[0] < criteria[1]:
        words += (
            f" It shows the {criteria[0]} of {criteria[1]:,} criteria that lost the most points."
        )
    return f"{words} Long texts are cut; `assay view` shows them whole."
