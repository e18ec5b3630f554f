"""`assay measure agreement` and `assay measure pairwise`: compare verdicts of raters
and judges, without any model.

`stats` computes the numbers. This module decides which of them make sense for a file, and gives the
reason where one is null.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise as successive
from math import fsum, sqrt
from typing import Any, Literal

from assay.cli.frame import Options, arg
from assay.cli.measuring import Measured, measure
from assay.cli.memory import uncollected
from assay.cli.rater_files import Ratings, read_pairs, read_ratings
from assay.errors import UsageError, count
from assay.stats import agreement as many
from assay.stats import correlation, kappa, pairwise
from assay.stats.intervals import Interval, student

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


# --- agreement


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
    pairs = kappa.count_pairs(first, second) if not several else kappa.RatingPairs([], {}, 0)
    order = several or words
    weighted: dict[str, Any] = {
        weights: shown(
            f"weighted_kappa.{weights}", order, partial(kappa.weighted_kappa, pairs, weights)
        )
        for weights in _WEIGHTS
    }
    if level == "interval" and not order and _uneven(pairs.categories):
        weighted["by_value"] = {
            weights: shown(
                f"weighted_kappa.by_value.{weights}",
                "",
                partial(kappa.weighted_kappa, pairs, weights, by_value=True),
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
        "cohen_kappa": shown("cohen_kappa", several, lambda: kappa.cohen_kappa(pairs)),
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


def _confusion(pairs: kappa.RatingPairs, raters: Sequence[str]) -> dict[str, Any]:
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


def _classification(pairs: kappa.RatingPairs, raters: Sequence[str]) -> dict[str, Any]:
    classified = kappa.classify(pairs)
    numbers = classified._asdict() if classified else dict.fromkeys(kappa.Classification._fields)
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


# --- lines for people


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
    for name in ("agreement", "cohen_kappa", *weighted, *_SHOWN):
        shown = document["weighted_kappa"][weighted[name]] if name in weighted else document[name]
        lines.append(_line(name.replace(".", " "), shown, reasons.get(name, "")))
    return [*lines, *(f"note: {note}" for note in document["notes"])]


_SHOWN = ("krippendorff_alpha", "fleiss_kappa", "spearman", "kendall_tau_b", "pearson", "item_mean")


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
