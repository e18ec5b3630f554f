"""`assay measure agreement` and `assay measure pairwise`: compare verdicts of raters
and judges, without any model.

`stats` computes the numbers. This module decides which of them make sense for a file, and gives the
reason where one is null.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from functools import partial
from itertools import pairwise as successive
from math import fsum, sqrt
from typing import Annotated, Any, Literal, NamedTuple

from msgspec import Meta, Struct

from assay.cli.frame import Options, arg
from assay.cli.measure import Measured, measure
from assay.cli.memory import uncollected
from assay.errors import Fault, FaultList, InputError, NotEnoughEvidence, UsageError, count
from assay.families.judges.label_rows import LARGEST
from assay.files.json_files import Unread, stream_documents
from assay.files.tables import csv_rows, line_of
from assay.records.reading import read_record
from assay.registry import near_miss
from assay.stats import agreement, correlation, pairwise
from assay.stats import agreement as many
from assay.stats.intervals import Interval, student
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


MAX_TABLE = 100
"""Categories of which the whole confusion table is printed; of more, the commonest cells."""
MAX_CELLS = 1000
_WEIGHTS: tuple[Literal["linear", "quadratic"], ...] = ("linear", "quadratic")
_MISSING_WORDS = frozenset({"null", "none", "na", "n/a", "nil", "missing", "-"})


def _agreement(options: Options) -> Measured:
    raters = [name.strip() for name in options.raters.split(",")]
    if len(raters) < 2 or not all(raters):
        raise UsageError(
            "CLI-001",
            f"--raters {options.raters!r} names fewer than two columns.",
            fix="Write --raters human,judge.",
        )
    if len(set(raters)) < len(raters):
        raise UsageError(
            "CLI-001",
            f"--raters {options.raters!r} names a column twice.",
            fix="A rater always agrees with itself.",
        )
    with uncollected():
        document = describe_ratings(
            read_ratings(options.file, raters, level=options.level),
            options.level,
        )
    return Measured(document, _agreement_lines(document))


def _pairwise(options: Options) -> Measured:
    with uncollected():
        document = pairwise.measure(read_pairs(options.file))
    return Measured(document, _pairwise_lines(document))


def describe_ratings(ratings: Ratings, level: many.Level) -> dict[str, Any]:
    """The JSON form of `assay measure agreement`: every number that the ratings allow, and for each
    null the reason under `reasons`.
    """
    raters, columns = list(ratings.columns), list(ratings.columns.values())
    items = list(zip(*columns, strict=True))
    several = f"it compares two raters, and there are {len(raters)}" if len(raters) > 2 else ""
    words = (
        "" if ratings.numeric else "it needs numbers, and some ratings are texts or truth values"
    )
    reasons: dict[str, str] = {}

    def shown(name: str, why_not: str, find: Callable[[], Interval]) -> dict[str, Any] | None:
        if why_not:
            reasons[name] = why_not
            return None
        interval = find()
        if interval.value is None and interval.reason:
            reasons[name] = interval.reason
        return interval.shown()

    first, second = columns[0], columns[1]
    numbers: tuple[Any, Any] = (first, second)
    pairs = (
        agreement.count_pairs(first, second) if not several else agreement.RatingPairs([], {}, 0)
    )
    order = several or words
    weighted: dict[str, Any] = {
        weights: shown(
            f"weighted_kappa.{weights}", order, partial(agreement.weighted_kappa, pairs, weights)
        )
        for weights in _WEIGHTS
    }
    if level == "interval" and not order and _uneven(pairs.categories):
        weighted["by_value"] = {
            weights: shown(
                f"weighted_kappa.by_value.{weights}",
                "",
                partial(agreement.weighted_kappa, pairs, weights, by_value=True),
            )
            for weights in _WEIGHTS
        }
    paired = sum(sum(rating is not None for rating in item) > 1 for item in items)
    complete = sum(None not in item for item in items)
    if several:
        reasons["confusion"] = reasons["classification"] = several
    return {
        "n": ratings.n,
        "n_paired": paired,
        "n_complete": complete,
        "raters": {
            name: {"rated": sum(rating is not None for rating in column)}
            for name, column in ratings.columns.items()
        },
        "level": level,
        "cohen_kappa": shown("cohen_kappa", several, lambda: agreement.cohen_kappa(pairs)),
        "weighted_kappa": weighted,
        "krippendorff_alpha": shown(
            "krippendorff_alpha", "", lambda: many.krippendorff_alpha(items, level=level)
        ),
        "fleiss_kappa": shown("fleiss_kappa", "", lambda: many.fleiss_kappa(items)),
        "spearman": shown("spearman", order, lambda: correlation.spearman(*numbers)),
        "kendall_tau_b": shown("kendall_tau_b", order, lambda: correlation.kendall_tau_b(*numbers)),
        "pearson": shown("pearson", order, lambda: correlation.pearson(*numbers)),
        "agreement": shown("agreement", "", lambda: many.agreement(items)),
        "confusion": _confusion(pairs, raters) if not several else None,
        "classification": _classification(pairs, raters) if not several else None,
        "item_mean": shown("item_mean", words, lambda: _item_mean(items)),
        "reasons": reasons,
        "notes": _notes(ratings, paired, complete),
    }


def _uneven(categories: Sequence[float]) -> bool:
    return len({later - earlier for earlier, later in successive(categories)}) > 1


def _confusion(pairs: agreement.RatingPairs, raters: Sequence[str]) -> dict[str, Any]:
    """How often the first rater (rows) gave one category and the second (columns) another."""
    size = len(pairs.categories)
    compared = {"rows": raters[0], "columns": raters[1]}
    if size <= MAX_TABLE:
        table = [[pairs.cells.get((i, j), 0) for j in range(size)] for i in range(size)]
        return {**compared, "labels": pairs.categories, "matrix": table}
    most = sorted(pairs.cells.items(), key=lambda cell: (-cell[1], cell[0]))[:MAX_CELLS]
    return {
        **compared,
        "labels": None,
        "matrix": None,
        "cells": [
            {"row": pairs.categories[i], "column": pairs.categories[j], "count": times}
            for (i, j), times in most
        ],
        "reason": (
            f"{size:,} categories; the {len(most):,} commonest of {len(pairs.cells):,} cells are"
            " shown"
        ),
    }


def _classification(pairs: agreement.RatingPairs, raters: Sequence[str]) -> dict[str, Any]:
    classified = agreement.classify(pairs)
    numbers = (
        classified._asdict() if classified else dict.fromkeys(agreement.Classification._fields)
    )
    return {"reference": raters[0], "predicted": raters[1], **numbers}


def _item_mean(items: Sequence[tuple[Any, ...]]) -> Interval:
    """The mean over items of the mean rating of each: several ratings of one item are one
    sample.
    """
    rated = ([float(rating) for rating in item if rating is not None] for item in items)
    means = [sum(ratings) / len(ratings) for ratings in rated if ratings]
    n = len(means)
    middle = fsum(means) / n if n else None
    spread = (
        sqrt(fsum((mean - middle) ** 2 for mean in means) / (n - 1))
        if middle is not None and n > 1
        else 0.0
    )
    return student(middle, spread, n)


def _notes(ratings: Ratings, paired: int, complete: int) -> list[str]:
    notes = []
    if complete < ratings.n:
        notes.append(
            f"items that lack a rating: {ratings.n - complete:,} of {ratings.n:,}; alpha is over"
            f" the {paired:,} with two or more, kappas over the {complete:,} complete ones"
        )
    if not ratings.numeric:
        texts = {
            value
            for column in ratings.columns.values()
            for value in column
            if isinstance(value, str)
        }
        words = sorted(text for text in texts if text.strip().lower() in _MISSING_WORDS)
        if words:
            notes.append(
                f"'{words[0]}' is a category here like any other; null, or an empty cell,"
                " means not rated"
            )
    return notes


def _line(name: str, shown: dict[str, Any] | None, reason: str = "") -> str:
    if shown is None or shown["value"] is None:
        return f"{name:<24} none     {reason or (shown or {}).get('reason', '')}".rstrip()
    if shown["low"] is None:
        return f"{name:<24} {shown['value']:7.4f}  no interval: {shown.get('reason', '')}"
    return (
        f"{name:<24} {shown['value']:7.4f}  {shown['level']:.0%} interval {shown['low']:.4f} to"
        f" {shown['high']:.4f}"
    )


def _agreement_lines(document: dict[str, Any]) -> list[str]:
    reasons = document["reasons"]
    weighted = {f"weighted_kappa.{weights}": weights for weights in _WEIGHTS}
    lines = [
        (
            f"{count(document['n'], 'item')}, {document['n_complete']:,} rated by all of"
            f" {', '.join(document['raters'])}; level {document['level']}"
        )
    ]
    for name in ("agreement", "cohen_kappa", *weighted, *_SHOWN_RATERS):
        shown = document["weighted_kappa"][weighted[name]] if name in weighted else document[name]
        lines.append(_line(name.replace(".", " "), shown, reasons.get(name, "")))
    return [*lines, *(f"note: {note}" for note in document["notes"])]


_SHOWN_RATERS = (
    "krippendorff_alpha",
    "fleiss_kappa",
    "spearman",
    "kendall_tau_b",
    "pearson",
    "item_mean",
)


def _pairwise_lines(document: dict[str, Any]) -> list[str]:
    bias = document["position_bias"]
    counts = f"{document['consistent']:,} consistent, {document['inconsistent']:,} inconsistent"
    scores = (
        f"{document['wins']:,} won, {document['losses']:,} lost, {document['ties']:,} tied,"
        f" {document['unparsable']:,} unreadable"
    )
    pairs = count(document["pairs"], "pair")
    lines = [
        f"{pairs}, {document['both_orders']:,} judged in both orders: {counts}",
        _line("inconsistency_rate", document["inconsistency_rate"]),
        f"{_line('win_rate', document['win_rate'])}  ({scores})",
    ]
    if document["accuracy"]["labelled"]:
        lines += [
            _line(f"accuracy {name}", document["accuracy"][name])
            for name in ("ab", "ba", "average", "both")
        ]
    lines += [
        _line("position_bias", bias),
        (
            f"first position picked {count(bias['first_position_picks'], 'time')}, second"
            f" {bias['second_position_picks']:,}"
        ),
    ]
    return [*lines, *(f"note: {note}" for note in document["notes"])]


COMMANDS = {
    "measure agreement": measure(
        "agreement",
        _agreement,
        "Measure the agreement of two or more raters, each number with its interval: kappas, alpha,"
        " correlations.",
        "assay measure agreement labels.jsonl --raters human,judge --level ordinal",
        arg(
            "file",
            metavar="FILE",
            help=(
                ".jsonl or .csv with one column for each rater; null or an empty cell where there"
                " is no rating"
            ),
        ),
        arg(
            "--raters",
            kind="text",
            trust="freely",
            metavar="A,B,...",
            required=True,
            help=(
                "the columns to compare; with two, the first is the reference of the classification"
            ),
        ),
        arg(
            "--level",
            choices=many.LEVELS,
            default="nominal",
            help="what the ratings are: categories, ranks or distances (default: nominal)",
        ),
    ),
    "measure pairwise": measure(
        "pairwise",
        _pairwise,
        "Summarise verdicts on pairs in both orders: consistency, win rate, accuracy, preference"
        " for a position.",
        "assay measure pairwise verdicts.jsonl",
        arg(
            "file",
            metavar="FILE",
            help=(
                '.jsonl of {"id", "order": "ab" or "ba", "winner": "a", "b", "tie" or null,'
                ' "label": the same}; winner names the candidate'
            ),
        ),
    ),
}
