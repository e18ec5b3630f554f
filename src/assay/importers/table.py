"""Any table of results, one sample in each row: CSV, JSON Lines, JSON or Parquet, by a mapping of
its columns. What nobody maps, the names of the columns suggest; the account shows it.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from itertools import chain, islice
from typing import Any, NamedTuple

from assay.errors import InputError, NotEnoughEvidence, count
from assay.files.tables import MAX_COLUMNS, line_of, table_rows
from assay.importers.column_map import (
    ERROR,
    SCORE,
    NamedScale,
    ScoreColumn,
    check_foreign,
    check_guess,
    check_map,
    column_of,
    columns_of,
    completed,
    guess,
)
from assay.importers.head import Head
from assay.importers.importer import Importer, NameVersion, Wanted
from assay.importers.metric_names import may_be_less, plain_name
from assay.importers.samples import (
    ENDED,
    NOTHING,
    UNVERSIONED,
    YES,
    ResultOrigin,
    file_id,
    head_of,
    reports_failure,
    sample_run,
    short_id,
    status_of,
)
from assay.importers.tally import ImportTally
from assay.registry import near_miss

_TRUE = ("true", "yes", "y", "1", "pass", "passed")
_FALSE = ("false", "no", "n", "0", "fail", "failed")
_DIGITS = 60


def takes(head: Head, mapping: Mapping[str, str]) -> bool:
    """Whether a file is a table with these columns, or with columns whose names say enough."""
    columns = head.columns
    if mapping:
        return bool(columns) and columns.issuperset(columns_of(mapping))
    guessed = guess(sorted(columns))
    return bool(guessed.refused) or any(
        key == "passed" or key.startswith(SCORE) for key in guessed.mapping
    )


class _Row(NamedTuple):
    """A row and where it is."""

    cells: Mapping[str, Any]
    where: str
    line: int | None = None

    def fault(self, column: str, message: str, *, fix: str = "") -> InputError:
        return InputError("SCO-011", f"the column {column!r} {message}", where=self.where, fix=fix)

    def text(self, column: str | None) -> Any:
        """A cell; None if it is empty."""
        if column is None:
            return None
        value = self.cells.get(column)
        return None if isinstance(value, str) and not value.strip() else value

    def number(self, column: str | None) -> Decimal | int | None:
        if column is None:
            return None
        value = self.cells.get(column)
        if isinstance(value, Decimal) or type(value) is int:
            return value
        if value is None or (isinstance(value, str) and value.strip().lower() in NOTHING):
            return None
        if isinstance(value, bool):
            return int(value)
        try:
            number = Decimal(str(value).strip())
        except InvalidOperation:
            number = Decimal("NaN")
        if not number.is_finite() or len(str(value)) > _DIGITS or "_" in str(value):
            raise self.fault(
                str(column),
                f"has {str(value)[:60]!r}, which is not a number.",
                fix="Correct the value, or leave the cell empty, which counts as missing.",
            )
        return number

    def milliseconds(self, column: str | None, in_seconds: str | None) -> Decimal | int | None:
        seconds = self.number(in_seconds)
        return self.number(column) if seconds is None else seconds * 1000

    def verdict(self, column: str | None) -> bool | None:
        value = self.text(column)
        word = str(value).strip().lower()
        if value is None or word in NOTHING:
            return None
        if word not in (*_TRUE, *_FALSE):
            raise self.fault(
                str(column),
                f"has {str(value)[:60]!r}, which isn't a verdict. A verdict is one of"
                f" {', '.join((*_TRUE, *_FALSE))}.",
                fix="Correct it, or leave the column out with `--map passed=`.",
            )
        return word in _TRUE

    def error(self, columns: Mapping[str, str]) -> tuple[str, str]:
        """The key of the first column that says why the sample has no result, and why; both empty
        if it has one.

        `columns` are the columns that report errors, by their keys in the mapping.
        """
        for key, column in columns.items():
            value = self.text(column)
            if reports_failure(column, value, named=key == "error"):
                return key, str(value) if key == "error" else f"{column}: {value}"
        return "", ""

    def status(self, column: str | None) -> str:
        """How the sample ended. An empty cell doesn't say that it ended well."""
        if column is None:
            return "success"
        word = str(self.text(column) or "").strip().lower()
        status = "error" if word in NOTHING else status_of(word)
        if status is None:
            raise self.fault(
                column,
                f"has {word[:60]!r}, which Assay doesn't know as a status.",
                fix="Use success, failed, error, timeout or cancelled. If the column is something"
                " else, leave it out with `--map status=`.",
            )
        return status

    def score(self, column: ScoreColumn) -> Decimal | int | None:
        """A number on its scale; without a scale, a verdict in words is 1 or 0."""
        word = str(self.cells.get(column.name)).strip().lower()
        if column.scale is None and word in (*_TRUE, *_FALSE):
            return int(word in _TRUE)
        value = self.number(column.name)
        if value is None or column.scale is None:
            return value
        low, high = column.scale
        if not min(low, high) <= value <= max(low, high):
            raise self.fault(
                column.name,
                f"has {value}, outside the scale {low}..{high}.",
                fix=f"Correct the value, or widen the scale of {column.name!r} in the mapping.",
            )
        return value


class _TableReader:
    """Reads the rows of one file by its mapping."""

    def __init__(
        self, path: str, wanted: Wanted, tally: ImportTally, mapping: Mapping[str, str]
    ) -> None:
        self._wanted, self._tally, self._map = wanted, tally, mapping
        self._scores = {
            key.removeprefix(SCORE): column_of(text)
            for key, text in mapping.items()
            if key.startswith(SCORE)
        }
        for name, column in self._scores.items():
            if column.scale is not None:
                tally.scales[name] = NamedScale(name, column.scale)
            elif may_be_less(column.name) and not may_be_less(name):
                tally.doubts[name] = (
                    f"the name of the column {column.name!r} suggests that lower is better"
                )
        self._errors = {
            key: column
            for key, column in mapping.items()
            if key == "error" or key.startswith(ERROR)
        }
        table = os.path.basename(path).partition(".")[0] or "results"
        self._origin = ResultOrigin(
            "table",
            NameVersion(table, UNVERSIONED),
            NameVersion("table", UNVERSIONED),
            file_id(path),
            answers="answer" in mapping,
            verdicts="passed" in mapping,
        )
        self._seen: Counter[str] = Counter()
        self.repeats = 0
        """Rows with the same input as an earlier one, in a table without ids."""
        self._used = frozenset(columns_of(mapping))

    def run(self, row: _Row, index: int) -> dict[str, Any]:
        named = self._map.get
        question = row.text(named("input"))
        status, (key, error) = row.status(named("status")), row.error(self._errors)
        if error and status in ENDED:
            status = "error"
        ended = status in ENDED
        if not ended and not error:
            key = "status"
            error = f"{named('status')}: {row.text(named('status')) or 'empty'}"
        self._tally.error_key = self._tally.error_key or key
        inputs = {} if named("input") is None else {"input": question}
        own = row.text(named("id"))
        sample_id = short_id(question if own is None else own, index)
        attempt = row.number(named("attempt"))
        if attempt is None:
            # rows without an id that ask the same are repeats; an id that appears twice is a fault
            self._seen[sample_id] += named("id") is None
            attempt = max(1, self._seen[sample_id])
            self.repeats += attempt > 1
        verdict = None if not ended else row.verdict(named("passed"))
        scores = {
            label: row.score(label_of_score) if ended else None
            for label, label_of_score in self._scores.items()
        }
        if not scores and "passed" in self._map:
            scores = {"passed": verdict}
        expected = row.text(named("expected"))
        return sample_run(
            self._origin,
            self._wanted,
            self._tally,
            sample_id=sample_id,
            status=status,
            reason=error,
            scores=scores,
            verdict=verdict,
            inputs=inputs,
            outputs={"answer": row.text(named("answer"))} if "answer" in self._map else None,
            expected=None if expected is None else {"answer": expected},
            attempt=_whole(attempt, row, named("attempt")),
            latency_ms=row.milliseconds(named("latency_ms"), named("latency_s")),
            cost_usd=row.number(named("cost_usd")),
            tokens=_count(row, named("tokens")),
            group=None if (group := row.text(named("group"))) is None else str(group),
            line=row.line,
            unused={key: cell for key, cell in row.cells.items() if key not in self._used},
        )


def _whole(value: Decimal | int, row: _Row, column: str | None) -> int:
    if value != int(value) or not 1 <= value <= 1_000_000:
        raise row.fault(
            str(column),
            f"has {value}; an attempt is a whole number from 1.",
            fix="Number the repeats from 1, or leave the column out with `--map attempt=`.",
        )
    return int(value)


def _count(row: _Row, column: str | None) -> int | None:
    value = row.number(column)
    if value is not None and (value != int(value) or value < 0):
        raise row.fault(str(column), f"has {value}, which is not a count.")
    return None if value is None else int(value)


def _read(paths: Sequence[str], wanted: Wanted, tally: ImportTally) -> Iterator[dict[str, Any]]:
    lost = 0
    for path in paths:
        rows = table_rows(path)
        first = next(rows, None)
        if first is None:
            raise NotEnoughEvidence("FIL-005", "the table has no rows.", where=path)
        reader = _TableReader(path, wanted, tally, _mapping(path, wanted, tally))
        for index, (cells, where) in enumerate(chain([first], rows), 1):
            if not isinstance(cells, dict):
                raise InputError(
                    "FIL-006", "is not a row of named columns.", where=f"{path}:{where}"
                )
            tally.read["rows"] += 1
            run = reader.run(_Row(cells, f"{path}, {where}", line_of(where)), index)
            lost += run["status"] not in ENDED
            yield run
        if reader.repeats:
            tally.note(
                f"{count(reader.repeats, 'row')} with the same input as an earlier row, counted as"
                " repeats of its sample; map a column to id to keep them apart"
            )
    for metric in tally.metrics.values():
        if metric.n and metric.missing > lost:
            tally.note(
                f"{metric.label} has no value in {metric.missing - lost:,} of"
                f" {tally.samples - lost:,} rows{' without an error' if lost else ''}, where it"
                " counts as 0"
            )


def _columns(path: str) -> list[str]:
    """The columns of any row. In JSON, rows may have some that the first lacks: an error, say."""
    names: dict[str, None] = {}
    is_json = head_of(path).text.startswith(("{", "["))
    rows = table_rows(path)
    for cells, where in rows if is_json else islice(rows, 1):
        names.update(dict.fromkeys(cells if isinstance(cells, dict) else ()))
        if len(names) > MAX_COLUMNS:
            raise InputError("FIL-004", f"over {MAX_COLUMNS:,} columns.", where=f"{path}, {where}")
    return list(names)


def _mapping(path: str, wanted: Wanted, tally: ImportTally) -> Mapping[str, str]:
    """The mapping of a file's columns: what the user says, and for the rest what their names
    suggest.
    """
    columns = _columns(path)
    check_foreign(columns, path)
    given = wanted.mapping or {}
    check_map(given, "--map")
    for name in columns_of(given):
        if name not in columns:
            raise InputError(
                "FIL-006",
                f"there is no column {name!r}.{near_miss(name, columns)}",
                where=path,
                fix=f"It has {', '.join(map(str, columns[:20]))}.",
            )
    guessed = completed(given, columns)
    mapping = guessed.mapping
    check_guess(guessed, path)
    for text in guessed.open:
        tally.note(f"{text}; it is not used. Choose with --map")
    if not any(key == "passed" or key.startswith(SCORE) for key in mapping):
        raise NotEnoughEvidence(
            "SCO-010",
            f"no column has a score or a verdict: {', '.join(map(str, columns[:20]))}.",
            where=path,
            fix="Name one, for example with --map score:quality=COLUMN or --map passed=COLUMN.",
        )
    scored = [column_of(text).name for key, text in mapping.items() if key.startswith(SCORE)]
    if scored and (verdict := mapping.get("passed", scored[0])) not in scored:
        tally.note(
            "the verdict is a gate and adds no points; to count it in the score too, map it:"
            f" passed={verdict},score:passed={verdict}"
        )
    for key, name in mapping.items():
        guessed_error = key.startswith(ERROR) and key not in given and "passed" not in mapping
        if guessed_error and plain_name(name).endswith(YES):
            tally.note(
                f"rows with a word for a failure in {name!r} count as errors, without scores; if it"
                f" is the verdict, map it: passed={name}"
            )
    if not mapping.keys() & {"id", "input"}:
        tally.note(
            "no column is mapped to id or input, so samples are numbered by row, and a comparison"
            " pairs rows by position"
        )
    left_out = {key: text for key, text in given.items() if not text}
    tally.mapping = {**mapping, **left_out}
    unused = [str(name) for name in columns if name not in columns_of(mapping)]
    if unused:
        tally.note(
            f"columns that are not used: {', '.join(unused[:20])} (--map score:NAME=COLUMN counts"
            " one in the score)"
        )
    return mapping


# no file is a table by itself: `fitting` asks `takes` where nobody else wants it
IMPORTER = Importer("table", "a table of results, by its columns", lambda head: False, _read)
