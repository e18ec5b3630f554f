"""Whether a command grades a stored evaluation by something else than when it was stored, in words.

The first stored grade of the evaluation names what graded it; the same run is graded here by what
the command grades by.
"""

from __future__ import annotations

from assay.cli import options as opt
from assay.cli.parsing import Options
from assay.errors import AssayError
from assay.files.json_files import stream_documents
from assay.services.choice import Choice
from assay.services.regraded import regraded_in


def warn_of_regrading(options: Options, choice: Choice) -> None:
    """Print once on standard error which evaluations were graded by other rules when they were
    stored; `regraded` of the options has the sentences. Evaluations that can't be graded at all are
    refused by the command itself.
    """
    word = "decision" if "quarantine" in options else "command"
    graded = [stored_input for stored_input in options.stored if stored_input.graded is not None]
    options.stored, options.regraded = [], []
    try:
        grader = choice.grader()
        notes = (
            regraded_in(
                str(stored_input), stored_input.graded, stream_documents(stored_input), grader, word
            )
            for stored_input in graded
        )
        options.regraded = list(filter(None, notes))
    except AssayError:
        return
    for sentence in options.regraded:
        opt.warn(sentence)
