"""Titles as parts of URLs."""

import re


def slug(title):
    """The title in lower case, its words joined by hyphens."""
    return re.sub(r"[^a-z0-9]", "-", title.lower())
