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


def warn_of_regrading(options: Options, choice: Choice) -> list[str]:
    """Print on standard error which evaluations were graded by other rules when they were stored,
    and return the sentences. Evaluations that can't be graded at all are refused by the command
    itself.
    """
    word = "decision" if "quarantine" in options else "command"
    graded = [each for each in options.resolved.stored if each.graded is not None]
    try:
        grader = choice.grader()
        notes = (
            regraded_in(source.name, source.graded, stream_documents(source), grader, word)
            for source in graded
        )
        sentences = list(filter(None, notes))
    except AssayError:
        return []
    for sentence in sentences:
        opt.warn(sentence)
    return sentences
