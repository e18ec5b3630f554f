"""Labels for the shelves."""

from __future__ import annotations


def csv_line(fields: list[str]) -> str:
    """A line of the label printer's file."""
    return ",".join(fields)


def shelf_mark(name: str, number: int) -> str:
    """The first three letters of a tool and its number."""
    return f"{name[:3].upper()}-{number:03d}"
