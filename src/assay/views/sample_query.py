"""Which samples of an evaluation to show, in what order: filters, search, sorting, paging, counts.

Rows in, rows and counts out. A query is made of an address, so that a view can be linked to.
Every page that lists samples, or steps from one to the next, asks here.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Literal, NamedTuple
from unicodedata import normalize

from msgspec import Struct, structs

from assay.views.samples import SampleRow

ON_A_PAGE = 50
CRITERION = "criterion:"
"""What `sort` starts with for a criterion: one may be called `score`."""
MAX_VALUE = 500
MAX_GATES = 20
"""Limits of an address."""
_SINGLE = ("why", "q", "sort")
TEXTS = ("question", "answer", "expected")
Baseline = Mapping[str, SampleRow]
"""The rows to compare with, by sample."""
Change = Literal["new", "better", "worse", "same"]


def change_of(row: SampleRow, base: SampleRow | None) -> Change:
    """How a sample differs from the same one of the baseline: by its verdict, else by its score;
    `new` where the baseline lacks it. A tie in both with another letter is worse: the letter was
    capped on one side. Forgetting a grade makes nothing better: without its own a sample is worse,
    without that of the baseline it is at best the same.
    """
    if base is None:
        return "new"
    if row.grade_forgotten or base.grade_forgotten:
        return "same" if row.passed else "worse"
    now, before = (row.passed, round(row.score, 2)), (base.passed, round(base.score, 2))
    if now == before:
        if row.letter == base.letter:
            return "same"
        return "better" if row.letter and row.letter < (base.letter or "~") else "worse"
    return "better" if now > before else "worse"


def without_doubles(rows: Sequence[SampleRow], others: Sequence[SampleRow]) -> list[SampleRow]:
    """The rows of one side without nameless ones that the other side shows already: each may be a
    sample that only the other side names.
    """
    own, theirs = ({row.sample for row in side} for side in (rows, others))
    doubles = sum(row.sample not in own and not row.nameless for row in others)
    kept = []
    for row in rows:
        if doubles and row.nameless and row.sample not in theirs:
            doubles -= 1
        else:
            kept.append(row)
    return kept


def missing_samples(rows: Sequence[SampleRow], before: Sequence[SampleRow]) -> list[SampleRow]:
    """The samples of a baseline that an evaluation lacks, as the baseline has them."""
    ours = {row.sample for row in rows}
    return [row for row in without_doubles(before, rows) if row.sample not in ours]


def _changed(row: SampleRow, baseline: Baseline | None, *wanted: Change) -> bool:
    return baseline is not None and change_of(row, baseline.get(row.sample)) in wanted


SHOWN: dict[str, Callable[[SampleRow, Baseline | None], bool]] = {
    "failed": lambda row, _: not row.passed,
    "passed": lambda row, _: row.passed,
    "floor": lambda row, _: bool(row.floors),
    "flaky": lambda row, _: row.flaky,
    "ungraded": lambda row, _: any(run.grade is None for run in row.runs),
    "differs": lambda row, base: _changed(row, base, "new", "better", "worse"),
    "worse": lambda row, base: _changed(row, base, "worse"),
    "better": lambda row, base: _changed(row, base, "better"),
}
"""What `show` can be, and the samples that it shows."""
_OF_BASELINE = {"differs", "worse", "better"}
_EITHER = (("failed", "passed"), ("worse", "better"))


class SampleQuery(Struct, frozen=True, kw_only=True):
    """What an address asks for. A sample is shown where everything holds; an empty query shows all,
    the worst first.
    """

    show: tuple[str, ...] = ()
    """Names of SHOWN; an unknown one is ignored."""
    gate: tuple[str, ...] = ()
    """Gates that the sample does not pass."""
    why: str = ""
    """One of the sample's `causes`."""
    q: str = ""
    """Text that the sample's name, question, answer or expected value contains."""
    sort: str = ""
    """`sample`, `score`, `change` (against the baseline), one of TEXTS or `criterion:NAME`; a
    leading `-` turns it round.
    """
    page: int = 1

    @property
    def needs_texts(self) -> bool:
        """Whether the texts of every row are needed, not only of those on the page."""
        return bool(self.q) or self.sort.removeprefix("-") in TEXTS

    @property
    def needs_baseline(self) -> bool:
        """Whether rows can't be chosen or put in order without those of the baseline."""
        return bool(_OF_BASELINE & set(self.show)) or self.sort.removeprefix("-") == "change"

    @property
    def filters(self) -> bool:
        """Whether anything is left out."""
        return bool(self.show or self.gate or self.why or self.q)

    def pairs(self) -> dict[str, str | tuple[str, ...]]:
        """The query of an address, without what is empty; the first page has no number."""
        pairs: dict[str, Any] = structs.asdict(self) | {
            "page": str(self.page) if self.page > 1 else ""
        }
        return {name: value for name, value in pairs.items() if value}

    def toggled(self, name: str) -> SampleQuery:
        """With something more or less of `show`, on the first page; its opposite goes."""
        gone = {name, *(name_of_pair for pair in _EITHER if name in pair for name_of_pair in pair)}
        rest = tuple(name_shown for name_shown in self.show if name_shown not in gone)
        return self.but(show=rest if name in self.show else (*rest, name))

    def toggled_gate(self, name: str) -> SampleQuery:
        """With a gate more or less, on the first page."""
        rest = tuple(gate_name for gate_name in self.gate if gate_name != name)
        return self.but(gate=rest if name in self.gate else (*rest, name))

    def but(self, **changed: Any) -> SampleQuery:
        """With other values, on the first page unless one is given."""
        return structs.replace(self, **{"page": 1, **changed})


def read_query(values: Callable[[str], Sequence[str]]) -> SampleQuery:
    """The query of an address; `values` gives all values of a name. What can't be read, or is too
    long to mean anything, is ignored.

    >>> read_query({"show": ["failed"], "page": ["x"]}.get)
    SampleQuery(show=('failed',), gate=(), why='', q='', sort='', page=1)
    """
    single = {name: (values(name) or [""])[0].strip()[:MAX_VALUE] for name in _SINGLE}
    page = (values("page") or [""])[0]
    return SampleQuery(
        show=tuple(dict.fromkeys(value for value in values("show") or () if value in SHOWN)),
        gate=tuple(dict.fromkeys(value[:MAX_VALUE] for value in values("gate") or ()))[:MAX_GATES],
        page=int(page) if page.isascii() and page.isdigit() and 0 < len(page) < 7 else 1,
        **single,
    )


class SampleCounts(NamedTuple):
    """How many samples each filter would show."""

    n: int
    show: Mapping[str, int]
    gates: Mapping[str, int]
    """The most frequent first, as in `reasons`."""
    reasons: Mapping[str, int]
    compared: bool = False
    """Whether a baseline was at hand; without one, nothing is counted as different."""
    missing: int = 0
    """Samples of the baseline that the evaluation lacks; no filter shows them."""
    forgotten: int = 0
    """Runs whose grade was forgotten."""


def count_samples(
    rows: Sequence[SampleRow], baseline: Baseline | None = None, *, missing: int = 0
) -> SampleCounts:
    """The counts of all rows given; `missing` are the samples that only the baseline has."""
    shown: Counter[str] = Counter()
    gates: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    plain = [(name, fits) for name, fits in SHOWN.items() if name not in _OF_BASELINE]
    for row in rows:
        for name, fits in plain:
            if fits(row, None):
                shown[name] += 1
        if baseline is not None:
            change = change_of(row, baseline.get(row.sample))
            if change != "same":
                shown["differs"] += 1
            if change in SHOWN:
                shown[change] += 1
        if not row.passed:
            for gate in row.gates:
                gates[gate] += 1
            for reason in row.causes:
                reasons[reason] += 1
    return SampleCounts(
        len(rows),
        shown,
        dict(gates.most_common()),
        dict(reasons.most_common()),
        baseline is not None,
        missing,
        sum(run.forgotten for row in rows for run in row.runs),
    )


def select_samples(
    rows: Iterable[SampleRow], query: SampleQuery, baseline: Baseline | None = None
) -> list[SampleRow]:
    """The rows that a query shows, in its order. Equal ones stay in the order of the evaluation."""
    tests = [SHOWN[name] for name in query.show if name in SHOWN]
    wanted = _plain(query.q)
    selected = [
        row
        for row in rows
        if all(fits(row, baseline) for fits in tests)
        and (not query.gate or set(query.gate) <= set(row.gates))
        and (not query.why or query.why in row.causes)
        and (not wanted or _contains(row, wanted))
    ]
    name = query.sort.removeprefix("-")
    selected.sort(key=_key(name, baseline or {}), reverse=query.sort.startswith("-") and bool(name))
    return selected


def _contains(row: SampleRow, wanted: str) -> bool:
    texts = (row.sample, row.title, row.question, row.answer, row.expected)
    return any(wanted in _plain(text) for text in texts)


def _plain(text: str) -> str:
    """Text as search sees it: neither case nor the way a letter is composed matters."""
    return normalize("NFC", text).casefold()


def _key(name: str, baseline: Baseline) -> Callable[[SampleRow], Any]:
    if name == "change":
        return partial(_change, baseline=baseline)
    if name.startswith(CRITERION):
        return partial(_norm, criterion=name.removeprefix(CRITERION))
    return _KEYS.get(name, lambda row: (row.passed, row.score))


def _norm(row: SampleRow, *, criterion: str) -> float:
    """A missing score is worse than 0."""
    norm = row.norm(criterion)
    return -1.0 if norm is None else norm


def _change(row: SampleRow, *, baseline: Baseline) -> tuple[int, float]:
    """Verdicts that changed come first, then scores; what the baseline lacks is last."""
    base = baseline.get(row.sample)
    if base is None:
        return 2, 0.0
    return row.passed - base.passed, row.score - base.score


_NUMBERS = re.compile(r"([0-9]{1,18})")


def _natural(text: str) -> list[tuple[int, str]]:
    """A key that puts q-9 before q-10."""
    parts = _NUMBERS.split(text)
    return [(int(part) if place % 2 else 0, part) for place, part in enumerate(parts)]


_KEYS: dict[str, Callable[[SampleRow], Any]] = {
    "sample": lambda row: _natural(row.sample),
    "score": lambda row: row.score,
    "question": lambda row: _plain(row.question),
    "answer": lambda row: _plain(row.answer),
    "expected": lambda row: _plain(row.expected),
}


class SamplePage(NamedTuple):
    """One page of the rows."""

    rows: Sequence[SampleRow]
    number: int
    pages: int
    total: int
    first: int
    """The place of the first row among all, from 1; 0 if there are none."""


def page_of(rows: Sequence[SampleRow], number: int, *, on_a_page: int = ON_A_PAGE) -> SamplePage:
    """A page of rows by its number; one past either end is the nearest there is."""
    pages = max(1, -(-len(rows) // on_a_page))
    number = min(max(1, number), pages)
    start = (number - 1) * on_a_page
    part = rows[start : start + on_a_page]
    return SamplePage(part, number, pages, len(rows), start + 1 if part else 0)


class Neighbours(NamedTuple):
    """The rows before and after one, in the order of a query."""

    previous: SampleRow | None
    following: SampleRow | None
    place: int
    """From 1; 0 where the query does not show the row."""
    total: int


def neighbours(rows: Sequence[SampleRow], run: str) -> Neighbours:
    """The way from a row to the next, by the digest or id of any of its runs."""
    for place, row in enumerate(rows):
        if any(run in (sample_run.digest, sample_run.run_id) for sample_run in row.runs):
            return Neighbours(
                rows[place - 1] if place else None,
                rows[place + 1] if place + 1 < len(rows) else None,
                place + 1,
                len(rows),
            )
    return Neighbours(None, None, 0, len(rows))
