"""Whether a command grades a stored evaluation by something else than when it was stored, in words.

The first stored grade of the evaluation says what graded it; the same run is graded here by what
the command grades by.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from assay.errors import AssayError, printable
from assay.files.json_files import StoredInput, stream_documents
from assay.pipeline.deciding import regraded_note
from assay.views.documents import plain

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    from assay.pipeline.choice import Choice
    from assay.pipeline.grading import Grader

_BY = ("profile", "rubric", "policy")


def warn_of_regrading(options: argparse.Namespace, choice: Choice) -> None:
    """Say once on standard error which evaluations were graded by something else when they were
    stored; `regraded` of the options has the sentences. What cannot be graded at all, the command
    itself refuses.
    """
    word = "decision" if "quarantine" in options else "command"
    graded = [one for one in options.stored if one.graded is not None]
    options.stored, options.regraded = [], []
    try:
        grader = choice.grader()
        said = [sentence for one in graded if (sentence := _sentence(one, grader, word))]
    except AssayError:
        return
    for sentence in said:
        sys.stderr.write(printable(f"warning: {sentence}") + "\n")
    options.regraded = said


def _sentence(stored: StoredInput, grader: Grader, word: str) -> str:
    """How an evaluation was graded and how it is graded now; empty where that is the same."""
    before: Mapping[str, Any] = stored.graded
    for document in stream_documents(stored):
        tree = getattr(document, "tree", None)
        if isinstance(tree, dict) and tree.get("run_id") == before["run_id"]:
            now = plain(grader.grade(document).payload())  # type: ignore[arg-type]
            return _difference(str(stored), before, now, word)
    return ""


def _difference(name: str, before: Mapping[str, Any], now: Mapping[str, Any], word: str) -> str:
    other = [kind for kind in _BY if _graded_by(before, kind) != _graded_by(now, kind)]
    if not other:
        return ""
    then, today = (
        ", ".join(_words(one, kind, before, now) for kind in other) for one in (before, now)
    )
    return regraded_note(name, then, today, word)


def _graded_by(grade: Mapping[str, Any], kind: str) -> tuple[str | None, str | None]:
    if kind == "policy":
        return grade["policy"], grade["digests"].get("policy")
    chosen = grade["selection"].get(kind)
    return None if chosen is None else chosen["id"], grade["digests"].get(kind)


def _words(
    one: Mapping[str, Any], kind: str, before: Mapping[str, Any], now: Mapping[str, Any]
) -> str:
    name, digest = _graded_by(one, kind)
    label = "" if kind == "profile" else f"{kind} "
    if name is None:
        return f"no {kind}"
    if _graded_by(before, kind)[0] == _graded_by(now, kind)[0]:
        return f"{label}{name} ({(digest or 'no digest').removeprefix('sha256:')[:12]})"
    return f"{label}{name}"
