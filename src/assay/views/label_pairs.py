"""Which version people prefer, by the labels of a set of pairs."""

from __future__ import annotations

from collections import Counter

from assay.records.label import LabelSet
from assay.records.summary import ValueInterval
from assay.views.blocks import Column, Paragraph, Part, Table, parts_of
from assay.views.pieces import number, phrase


def pairs_won(
    made: LabelSet, chosen: Counter[str], won: ValueInterval | None, n: int
) -> list[Part]:
    """How often each version was preferred, over all labels that count; and by pair, with an
    interval: the labels of one pair are not independent.
    """
    rows = []
    other = made.other.name if made.other else ""
    for key, text in (("a", made.evaluation.name), ("tie", "tie"), ("b", other)):
        share = f"{chosen[key] / chosen.total():.1%}"
        rows.append([text, f"{chosen[key]:,}", share])
    columns = ("Preferred", Column("Labels", "n"), Column("Share", "n"))
    known = won is not None and won.value is not None
    return parts_of(
        Paragraph(_preferred(made, won, n)) if won and known else None,
        Table("Preferred answers", columns, rows),
    )


def _preferred(made: LabelSet, share: ValueInterval, n: int) -> str:
    """Which version people prefer, as far as the pairs show."""
    low, high = share.low or 0.0, 1.0 if share.high is None else share.high
    other = made.other.name if made.other else ""
    clear = made.evaluation.name if low > 0.5 else other if high < 0.5 else ""
    preference = (
        f"People prefer {clear}." if clear else "The labels don't show which one people prefer."
    )
    return phrase(
        f"{preference} {made.evaluation.name} wins ",
        number(share.value, interval=share, n=n, percent=True),
        " of the pairs; a tie counts half.",
    )
