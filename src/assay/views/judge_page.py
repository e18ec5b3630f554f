"""A judge's card as one self-contained page: the verdict first, then every number with its
interval.
"""

from __future__ import annotations

from assay.records.judge_card import JudgeCard
from assay.views.judge_card import judge_view
from assay.views.render import report


def judge_page(card: JudgeCard, *, draw: bool = True) -> str:
    """The card as a page, with what its admission says."""
    admissions = [] if card.admission is None else [card.admission]
    return report(f"Judge {card.model}", *judge_view(card, admissions, draw=draw))
