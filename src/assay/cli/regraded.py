"""Whether a command grades a stored evaluation by something else than when it was stored, in words.

The first stored grade of the evaluation names what graded it; the same run is graded here by what
the command grades by.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from assay.cli import options as opt
from assay.cli.parsing import Options
from assay.errors import AssayError
from assay.files.json_files import StoredInput, stream_documents
from assay.pipeline.choice import Choice
from assay.pipeline.grading import Grader
from assay.pipeline.regraded import regraded
from assay.views.documents import plain


def warn_of_regrading(options: Options, choice: Choice) -> None:
    """Print once on standard error which evaluations were graded by other rules when they were
    stored; `regraded` of the options has the sentences. Evaluations that can't be graded at all are
    refused by the command itself.
    """
    word = "decision" if "quarantine" in options else "command"
    graded = [one for one in options.stored if one.graded is not None]
    options.stored, options.regraded = [], []
    try:
        grader = choice.grader()
        options.regraded = [text for one in graded if (text := _sentence(one, grader, word))]
    except AssayError:
        return
    for sentence in options.regraded:
        opt.warn(sentence)


def _sentence(stored: StoredInput, grader: Grader, word: str) -> str:
    """How an evaluation was graded and how it is graded now; empty if that is the same."""
    before: Mapping[str, Any] = stored.graded
    for document in stream_documents(stored):
        tree = getattr(document, "tree", None)
        if isinstance(tree, dict) and tree.get("run_id") == before["run_id"]:
            now = plain(grader.grade(document).payload())  # type: ignore[arg-type]
            return regraded(str(stored), before, now, word)
    return ""
