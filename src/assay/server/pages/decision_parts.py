"""The way to the parts of a long page, until every page is a view."""

from __future__ import annotations

from collections.abc import Sequence

from assay.views.blocks import Contents
from assay.views.markup import Html


def contents(parts: Sequence[tuple[str, str]]) -> Html:
    """The way to the parts of a long page."""
    return Html(Contents(parts).__html__())
