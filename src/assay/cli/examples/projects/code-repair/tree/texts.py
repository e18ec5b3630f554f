"""Texts."""


def shorten(text, width):
    """The text, cut to a width, with an ellipsis if something was cut off."""
    return text[:width] + "…"
