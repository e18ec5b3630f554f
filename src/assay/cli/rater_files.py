"""Read the verdicts of raters and judges: ratings by column, from JSON lines or CSV, and verdicts
on pairs.

A rating is a number, a text or, at nominal level, true or false; null, an absent key and an empty
CSV cell mean that the rater did not rate. CSV has no types: where every rating reads as a number,
they are numbers, so that 1 and 1.0 are one category. JSON has them, and a category written in two
ways (1 and "1") is refused, because it would count as a disagreement on every item. All faults of a
file are reported at once, the first 20 with their lines.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from typing import Annotated, Any, Literal, NamedTuple

from msgspec import Meta, Struct

from assay.errors import Fault, FaultList, InputError, NotEnoughEvidence
from assay.files.json_files import Unread, stream_documents
from assay.files.tables import csv_rows, line_of
from assay.judging.labels import LARGEST
from assay.records.reading import read_record
from assay.registry import near_miss
from assay.stats.pairwise import JudgedPair

Rating = str | int | float | None
Winner = Literal["a", "b", "tie"]
_SHOWN = 60
_NUMBER = re.compile(r"[-+]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]{1,6})?")
_NO_NUMBER = re.compile(r"[-+]?(?:nan|inf|infinity)", re.IGNORECASE)
_MANY_DIGITS = 400
"""A number with more digits is too large for a float, and slow to read."""


class Ratings(NamedTuple):
    """The ratings of a file: one list for each rater, in the order of the items."""

    columns: dict[str, list[Rating]]
    numeric: bool
    """Whether every rating is a number."""
    n: int


class _RaterRow(NamedTuple):
    """An item as the file has it."""

    cells: dict[str, Any]
    line: int | None
    at: str = ""


# --- ratings


def read_ratings(path: str, raters: Sequence[str], *, level: str) -> Ratings:
    """The columns of the raters. At ordinal and interval level every rating must be a number."""
    faults = FaultList(path, code="SCO-036")
    typed = not path.lower().endswith(".csv")
    rows = list(_json_rows(path, faults) if typed else _csv_rows(path))
    if rows:
        _need_columns(path, raters, {key: None for row in rows for key in row.cells})
    read = _read_with(_json_rating) if typed else _read_with(_csv_rating)
    columns: dict[str, list[Rating]] = {rater: [] for rater in raters}
    for cells, line, at in rows:
        for rater, column in columns.items():
            value = cells.get(rater)
            if value is not None:
                value, wrong = read(value)
                if wrong:
                    faults.add(
                        f"rater '{rater}': {wrong}",
                        line=line,
                        path=at,
                        fix="Write null, or leave the cell empty, where there is no rating.",
                    )
            column.append(value)
    if not typed:
        _number(columns, all_or_none=level == "nominal")
    kinds = {type(value) for column in columns.values() for value in column}
    numeric = not kinds & {str, bool}
    if not numeric and level != "nominal":
        _name_texts(rows, columns, level, faults)
    elif not numeric and typed:
        _settle(rows, columns, faults)
    faults.raise_if_any()
    if not rows:
        raise NotEnoughEvidence("SCO-036", "there are no items in the file.", where=path)
    return Ratings(columns, numeric, len(rows))


def _need_columns(path: str, raters: Sequence[str], names: dict[str, None]) -> None:
    missing = [rater for rater in raters if rater not in names]
    if missing:
        shown = ", ".join(list(names)[:_SHOWN])
        fix = f"The columns are {shown}."
        faults = [
            Fault(
                f"no column is named '{name}'.{near_miss(name, names)}",
                code="SCO-036",
                file=path,
                fix=fix,
            )
            for name in missing
        ]
        raise InputError("SCO-036", faults[0].message, where=path, fix=fix, faults=faults)


def _json_rows(path: str, faults: FaultList) -> Iterator[_RaterRow]:
    for document in stream_documents(path):
        if isinstance(document, Unread):
            faults.take(document.fault)
        elif not isinstance(document.tree, dict):
            faults.add(
                "must be an object with one key for each rater.",
                line=document.line,
                path=document.at,
            )
        else:
            yield _RaterRow(document.tree, document.line, document.at)


def _csv_rows(path: str) -> Iterator[_RaterRow]:
    for row, place in csv_rows(path):
        cells = {name.strip(): cell.strip() or None for name, cell in row.items()}
        if len(cells) < len(row):
            message = "two columns have the same name, apart from spaces."
            raise InputError("FIL-006", message, where=path, fix="Rename one, or remove it.")
        yield _RaterRow(cells, line_of(place))


def _read_with(read: Callable[[Any], Rating]) -> Callable[[Any], tuple[Rating, str]]:
    """Read a rating, or say what is wrong with it; the same text or number is read once."""
    known: dict[tuple[type, Any], tuple[Rating, str]] = {}

    def found(value: Any) -> tuple[Rating, str]:
        if isinstance(value, list | dict):
            return None, f"{'a list' if isinstance(value, list) else 'an object'} is not a rating."
        key = (type(value), value)
        if key not in known:
            try:
                known[key] = (read(value), "")
            except ValueError as error:
                known[key] = (None, str(error))
        return known[key]

    return found


def _json_rating(value: Any) -> Rating:
    if isinstance(value, int | Decimal) and not isinstance(value, bool):
        return _finite(value)
    if isinstance(value, str) and not value.strip():
        raise ValueError("an empty text is not a rating.")
    return value  # type: ignore[no-any-return]


def _csv_rating(text: str) -> Rating:
    if _NO_NUMBER.fullmatch(text):
        raise ValueError(f"'{text}' is not a number.")
    if _NUMBER.fullmatch(text):
        _as_number(text)
    return text


def _as_number(text: str) -> int | float:
    if len(text) > _MANY_DIGITS:
        raise ValueError(f"the number '{text[:_SHOWN]}...' has more than {_MANY_DIGITS} digits.")
    return _finite(int(text) if text.lstrip("+-").isdigit() else Decimal(text))


def _number(columns: dict[str, list[Rating]], *, all_or_none: bool) -> None:
    """Turn the texts of a CSV file into numbers: all or none, or those that are numbers."""
    texts = {value for column in columns.values() for value in column if isinstance(value, str)}
    numbers: dict[Rating, Rating] = {
        text: _as_number(text) for text in texts if _NUMBER.fullmatch(text)
    }
    if all_or_none and len(numbers) < len(texts):
        return
    for column in columns.values():
        column[:] = [numbers.get(value, value) for value in column]


def _finite(number: int | Decimal) -> int | float:
    """A number as the arithmetic takes it: a whole number as it is, since ids may be long; anything
    else as a float. Squares of larger ones would overflow.
    """
    if not -LARGEST <= number <= LARGEST:
        raise ValueError(f"the number is beyond {LARGEST:g}.")
    return number if isinstance(number, int) else float(number)


def _name_texts(
    rows: Sequence[_RaterRow], columns: dict[str, list[Rating]], level: str, faults: FaultList
) -> None:
    for at, row in enumerate(rows):
        for rater, column in columns.items():
            value = column[at]
            if isinstance(value, str | bool):
                shown = f"'{value[:_SHOWN]}'" if isinstance(value, str) else str(value).lower()
                faults.add(
                    f"rater '{rater}': {shown} is not a number, and the level is {level}.",
                    line=row.line,
                    path=row.at,
                    fix="Texts are compared with --level nominal.",
                )


def _settle(rows: Sequence[_RaterRow], columns: dict[str, list[Rating]], faults: FaultList) -> None:
    """Refuse a category that is written in two ways, and make texts of truth values: true equals 1
    in Python, and is not 1 here.
    """
    texts: dict[str, int] = {}
    numbers: set[float] = set()
    truths: set[str] = set()
    for column in columns.values():
        for at, value in enumerate(column):
            if isinstance(value, bool):
                truths.add(str(value).lower())
            elif isinstance(value, str):
                texts.setdefault(value, at)
            elif value is not None:
                numbers.add(value)
    for text, at in texts.items():
        bare = text.strip().lower()
        if bare in truths or (_NUMBER.fullmatch(bare) and float(bare) in numbers):
            message = (
                f"the category {bare[:_SHOWN]} is written in two ways, as the text"
                f' "{text[:_SHOWN]}" and without quotes.'
            )
            faults.add(
                message, line=rows[at].line, path=rows[at].at, fix="Write all of them one way."
            )
    if numbers and truths:
        faults.add(
            "some ratings are true or false and some are numbers.",
            fix="Write all of them one way: true is not 1 here.",
        )
    for column in columns.values():
        column[:] = [str(value).lower() if isinstance(value, bool) else value for value in column]


# --- verdicts


class _Verdict(Struct, frozen=True):
    """One verdict on a pair, in one order; other keys are not looked at."""

    id: Annotated[str, Meta(min_length=1)] | int
    order: Literal["ab", "ba"]
    winner: Winner | None
    """None where no verdict could be read."""
    label: Winner | None = None


def read_pairs(path: str) -> list[JudgedPair]:
    """Pairs from lines `{"id", "order", "winner", "label"}`, one for each order.

    A second verdict on the same pair in the same order is a fault, and so are two labels that
    contradict each other.
    """
    faults = FaultList(path, code="SCO-036")
    pairs: dict[str, JudgedPair] = {}
    for document in stream_documents(path):
        if isinstance(document, Unread):
            faults.take(document.fault)
            continue
        try:
            _take(read_record(document, _Verdict, "SCO-036"), pairs)
        except InputError as error:
            for fault in error.listed(path):
                fault.line = fault.line or document.line
                faults.take(fault)
    faults.raise_if_any()
    if not pairs:
        raise NotEnoughEvidence("SCO-036", "there are no verdicts in the file.", where=path)
    return list(pairs.values())


def _take(verdict: _Verdict, pairs: dict[str, JudgedPair]) -> None:
    name = str(verdict.id)
    pair = pairs.setdefault(name, JudgedPair(name, {}, None))
    if verdict.order in pair.verdicts:
        raise InputError(
            "FIL-007",
            f"pair '{name}' was judged in the order {verdict.order} before.",
            fix="Keep one verdict for each order.",
        )
    if None not in (pair.label, verdict.label) and pair.label != verdict.label:
        raise InputError(
            "SCO-036",
            f"pair '{name}': its label was {pair.label} before, and is {verdict.label} here.",
            fix="Keep one of them.",
        )
    pair.verdicts[verdict.order] = verdict.winner
    pairs[name] = pair._replace(label=pair.label or verdict.label)
