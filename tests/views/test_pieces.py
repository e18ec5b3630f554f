"""Pieces of text with a look."""

from __future__ import annotations

from assay.views.pieces import link


def test_the_attributes_of_a_link_are_written_as_html_has_them() -> None:
    assert str(link("v1", "/v1", aria_current="true", rel="").__html__()) == (
        '<a href="/v1" aria-current="true">v1</a>'
    )
