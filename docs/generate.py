"""Writes docs/reference/ from the code. `make docs` runs it; a test compares the files with it. The
pages are made in `generators`, one module per subject.
"""

from __future__ import annotations

import sys
from pathlib import Path

from generators import commands, documents, errors, events, http_api, python_api, sheets, shelf

REFERENCE = Path(__file__).resolve().parent / "reference"
BY_HAND = {"peers.md"}
"""Pages in that folder that are written by other means."""


def pages() -> dict[str, str]:
    """Every page by its file name under docs/reference."""
    made: dict[str, str] = {}
    for subject in (commands, documents, errors, events, http_api, python_api, sheets, shelf):
        made.update(subject.pages())
    return made


def write(folder: Path = REFERENCE) -> list[str]:
    """Write every page, and remove those that are no longer made. Returns their names."""
    made = pages()
    for name, text in made.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    for path in folder.rglob("*.md"):
        if str(path.relative_to(folder)) not in {*made, *BY_HAND}:
            path.unlink()
    return sorted(made)


if __name__ == "__main__":
    sys.stdout.write(f"wrote {len(write())} pages to {REFERENCE}\n")
