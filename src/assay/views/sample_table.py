"""The samples of an evaluation as a table: texts, score, each criterion, and why it failed. A page
shows some of them at a time, with links; a report has one line each, in few bytes, so that ten
thousand fit.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from math import fsum
from typing import NamedTuple
from unicodedata import combining, normalize

from msgspec import structs

from assay.errors import count
from assay.grouping import grouped
from assay.records.grade import LETTERS
from assay.records.samples import CRITERION, Baseline, SamplePage, SampleQuery, SampleRow, change_of
from assay.views.blocks import Block, Column, Control, Part, Table
from assay.views.pieces import (
    Piece,
    absent,
    address,
    badge,
    breakable,
    clip,
    letter,
    line,
    link,
    meter,
    phrase,
    piece,
    points,
    signed,
    small,
    verdict,
    words,
)

MAX_CRITERIA = 6
"""Columns of criteria at a time."""
HEAD_LETTERS = 60
"""Letters of the longest words in the heads of criteria that fit next to the texts."""
_NAME = 60


class Search(Control, frozen=True):
    """A field to search in; `kept` is the rest of the address."""

    action: str
    label: str
    value: str
    kept: Sequence[tuple[str, str]]
    clear: str


class NumberedPager(Control, frozen=True):
    """The way through pages with numbers; a way that is not there is left out."""

    summary: str
    first: str = ""
    previous: str = ""
    following: str = ""
    last: str = ""


def numbered_pager(page: SamplePage, to: Callable[[int], str]) -> NumberedPager:
    """The way through the pages of samples; `to` gives the address of one."""

    def way(number: int) -> str:
        return to(number) if 1 <= number <= page.pages else ""

    last = page.first + len(page.rows) - 1
    return NumberedPager(
        f"{page.first:,} to {last:,} of {count(page.total, 'sample')}" if page.rows else "",
        first=way(1) if page.number > 2 else "",
        previous=way(page.number - 1),
        following=way(page.number + 1),
        last=way(page.pages) if page.number < page.pages - 1 else "",
    )


class SampleLinks(NamedTuple):
    """The addresses of an evaluation's page and samples; `criteria` is which of them are shown."""

    evaluation: str
    criteria: int = 1

    def to(self, query: SampleQuery, *, criteria: int | None = None) -> str:
        """The page, with another query."""
        shown = self.criteria if criteria is None else criteria
        return address(
            "evaluations",
            self.evaluation,
            **query.pairs(),
            criteria=str(shown) if shown > 1 else None,
        )

    def sample(self, row: SampleRow, query: SampleQuery) -> str:
        """The page of a sample, from which the next one follows by the same query."""
        run = row.worst.digest or row.worst.run_id
        return address("runs", run, in_=self.evaluation, **query.pairs())


class CriterionColumn(NamedTuple):
    """A criterion of an evaluation."""

    name: str
    weight: float
    mean: float
    """Over all runs; a missing score counts as 0."""


def criterion_columns(rows: Iterable[SampleRow]) -> list[CriterionColumn]:
    """The criteria in the order in which they first appear; where there are more than fit, those
    with the most weight and then with the lowest scores come first.
    """
    found = grouped(
        (one.name, one)
        for row in rows
        for run in row.runs
        for one in (run.grade.criteria if run.grade else ())
    )
    columns = [
        CriterionColumn(
            name,
            max(criterion.weight or 0.0 for criterion in all_),
            fsum(criterion.norm or 0.0 for criterion in all_) / len(all_),
        )
        for name, all_ in found.items()
    ]
    if len(columns) > MAX_CRITERIA:
        columns.sort(key=lambda column: (-column.weight, column.mean))
    return columns


def sample_table(
    page: SamplePage,
    query: SampleQuery,
    links: SampleLinks,
    criteria: Sequence[CriterionColumn],
    baseline: Baseline | None,
    *,
    absent_as: str,
) -> Table:
    """A row for each sample of a page."""
    expected = any(row.expected for row in page.rows)
    heads = [
        _head("Sample", "sample", query, links),
        _head("Question", "question", query, links, "text"),
        _head("Answer", "answer", query, links, "text"),
        *([_head("Expected", "expected", query, links, "text")] if expected else ()),
        _head("Score", "score", query, links, "tight"),
        *(
            _head(_titled(criterion.name), CRITERION + criterion.name, query, links, "criterion")
            for criterion in criteria
        ),
        Column("Why it failed", "text"),
    ]
    rows = []
    for row in page.rows:
        cells = [
            _sample(row, links.sample(row, query)),
            _text(row, row.question, query.q, "no question"),
            _text(row, row.answer, query.q, "no answer"),
            *([_text(row, row.expected, query.q, "none")] if expected else ()),
            _score(row, baseline),
            *(_criterion(row, criterion.name) for criterion in criteria),
            _why(row),
        ]
        rows.append(cells)
    # Heads are never cut within a word: where their words need more room than a desktop has,
    # the table scrolls.
    longest = sum(max(map(len, words(criterion.name).split())) for criterion in criteria)
    kind = "stack sheet samples" + (" scrolls" if longest > HEAD_LETTERS else "")
    return Table("Samples", heads, rows, absent=absent_as, kind=kind)


def _titled(criterion: str) -> str:
    """The head of a criterion's column; one that is named like the whole score says what it is."""
    title = clip(words(criterion), 40)
    return f"{title} (criterion)" if title == "Score" else title


def _head(title: str, key: str, query: SampleQuery, links: SampleLinks, kind: str = "") -> Column:
    up, down = query.sort == key, query.sort == f"-{key}"
    href = links.to(query.but(sort=f"-{key}" if up else key))
    return Column(title, kind, href, "ascending" if up else "descending" if down else "")


def _sample(row: SampleRow, href: str) -> str:
    name = link(clip(row.title or row.sample, _NAME), href)
    if row.title:
        name = phrase(name, line(small(clip(row.sample, _NAME))))
    if len(row.runs) == 1:
        return name
    scores = [run.score for run in row.runs]
    passed = sum(run.passed for run in row.runs)
    low, high = points(min(scores)), points(max(scores))
    spread = f"each {low}" if low == high else f"{low} to {high}"
    return phrase(
        name,
        line(small(f"{passed} of {count(len(row.runs), 'repeat')} passed, {spread}")),
        *([" ", badge("flaky", "open")] if row.flaky else ()),
    )


def _text(row: SampleRow, text: str, find: str, absent_as: str) -> str:
    return absent("forgotten") if row.forgotten else excerpt(text, find=find, absent_as=absent_as)


def _score(row: SampleRow, baseline: Baseline | None) -> str:
    change = [] if baseline is None else _change(row, baseline.get(row.sample))
    grade = row.worst.grade
    if grade is None:
        return phrase(verdict("failed", "not graded"), *change)
    return phrase(
        verdict("passed" if row.passed else "failed"),
        " ",
        letter(grade.grade, grade.policy),
        line(meter(row.score, whole=100, floor=grade.pass_threshold)),
        *change,
    )


def _criterion(row: SampleRow, name: str) -> str:
    criteria = [
        criterion
        for run in row.runs
        for criterion in (run.grade.criteria if run.grade else ())
        if criterion.name == name
    ]
    norm = row.norm(name)
    if norm is None:
        return absent("no score")
    floor = next(
        (criterion.critical_floor for criterion in criteria if criterion.critical_floor), None
    )
    edge = floor.norm if floor else None
    drawn = meter(norm, floor=edge)
    missed = any(criterion.floor_failed for criterion in criteria)
    # Over repeats the mean may keep a floor that one of them misses.
    hidden = missed and (edge is None or norm >= edge)
    return phrase(drawn, " ", badge("below floor", "bad")) if hidden else drawn


def _why(row: SampleRow) -> str:
    if row.passed:
        return ""
    reason = excerpt("; ".join(row.causes).replace("`", ""), most=160)
    return breakable(reason) if reason.kind == "excerpt" else absent("no reason given")


def _change(row: SampleRow, base: SampleRow | None) -> list[str]:
    """What differs from the baseline; nothing if nothing does."""
    change = change_of(row, base)
    if base is None:
        return [line(badge("not in the baseline", "open"))]
    if base.grade_forgotten:
        return [line(badge("baseline grade forgotten", "open"))]
    if change == "same":
        return []
    by = round(row.score - base.score, 2)
    changes = [signed(by)] if by else []
    if row.passed != base.passed:
        changes.append(f"{'passed' if base.passed else 'failed'} before")
    elif not changes:
        changes.append(f"{base.letter or 'no grade'} before")
    return [line(badge(", ".join(changes), "good" if change == "better" else "bad"))]


# --- excerpts


LENGTH = 240
_BEFORE = 60
"""Characters that are shown before the first match."""
_MARKS_KEPT = 8
_LOOKED_AT = 20_000


class Stretch(NamedTuple):
    """A part of an excerpt."""

    text: str
    found: bool = False


def excerpt(text: str, *, find: str = "", most: int = LENGTH, absent_as: str = "none") -> Piece:
    """The beginning of a text, or the place around the first match of `find`.

    >>> excerpt("a long answer", most=6), excerpt("")
    ('a long…', 'none')
    >>> excerpt("one two three", find="TWO").values[0]
    [Stretch(text='one ', found=False), Stretch(text='two', found=True), Stretch(text=' three', found=False)]
    """  # noqa: E501
    flat = " ".join(normalize("NFC", text[:_LOOKED_AT]).split())
    if not flat:
        return absent(absent_as)
    wanted = " ".join(normalize("NFC", find).split())
    pattern = re.compile(re.escape(wanted), re.IGNORECASE) if wanted else None
    first = pattern.search(flat) if pattern else None
    start = max(0, first.start() - _BEFORE) if first and first.end() > most else 0
    end = _end(flat, start + most)
    shown = f"{'…' if start else ''}{flat[start:end]}{'…' if end < len(flat) else ''}"
    return piece("excerpt", shown, _stretches(shown, pattern))


def _end(text: str, end: int) -> int:
    """A place to cut that leaves no letter without its marks."""
    for _ in range(_MARKS_KEPT):
        if end >= len(text) or not combining(text[end]):
            break
        end += 1
    return end


def _stretches(text: str, pattern: re.Pattern[str] | None) -> list[Stretch]:
    stretches: list[Stretch] = []
    place = 0
    for match in pattern.finditer(text) if pattern else ():
        stretches += [Stretch(text[place : match.start()]), Stretch(match[0], True)]
        place = match.end()
    stretches.append(Stretch(text[place:]))
    return [stretch for stretch in stretches if stretch.text]


# --- in a report


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

    def simpler(self) -> Sequence[Part]:
        """The same as any other table."""
        texts = [Column(title, "text") for title in ("Question", "Answer", "Expected")]
        columns = [
            "Sample",
            *(["Workflow"] if self.has_workflows else ()),
            *(texts if self.has_texts else ()),
            Column("Score", "n"),
            *(Column(name, "n") for name, _ in self.criteria),
            Column("Why it did not pass", "text"),
        ]
        rows = [
            [
                row.name,
                *([row.workflow] if self.has_workflows else ()),
                *((row.question, row.answer, row.expected) if self.has_texts else ()),
                f"{row.letter} {row.score}",
                *(bar.text for bar in row.bars),
                "" if row.passed else row.why,
            ]
            for part in self.parts
            for row in part
        ]
        return [Table("Samples", columns, rows)]


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
