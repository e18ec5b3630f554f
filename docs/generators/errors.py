"""Every error code, with its cause and its fix."""

from __future__ import annotations

from itertools import groupby

from assay.errors.codes import CODES as CODES
from assay.errors.codes import SYSTEMS
from generators.markdown import code, page, table


def pages() -> dict[str, str]:
    """The page of error codes: a section for each system."""
    intro = (
        "An error names where, what and what to do, and ends with its code. The code's prefix is"
        ' the part of Assay that raised it. With `--json` an error is `{"error": {"code",'
        ' "message", "where", "fix"}}` on standard error. The [exit'
        " code](commands.md#exit-codes) follows from the kind of error: 2 for the command line, 3"
        " for malformed input, 4 for too little evidence, 5 for an internal error."
    )
    parts = [intro]
    ordered = sorted(CODES, key=lambda name: (list(SYSTEMS).index(_system(name)), name))
    for system, names in groupby(ordered, key=_system):
        rows = [(code(name), CODES[name].cause, CODES[name].fix) for name in names]
        parts += [f"## {system}: {SYSTEMS[system]}", table(("code", "cause", "fix"), rows)]
    return {"errors.md": page("Errors", *parts)}


def _system(name: str) -> str:
    return name.split("-")[0]
