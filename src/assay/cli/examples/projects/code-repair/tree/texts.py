"""Texts."""


def shorten(text, width):
    """The text, cut to a width, with an ellipsis where something is missing."""
    return text[:width] + "…"
