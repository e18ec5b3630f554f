"""The versions of the two systems for tool schemas. They count apart from those of other families, and apart from each other.

`scoringSystem` moves when the score for the same input changes; `gradingSystem` when the grade for the same scores changes.
"""

from __future__ import annotations

import re
from typing import NamedTuple

SCORING_SYSTEM = "scoringSystem/1.0.0"
GRADING_SYSTEM = "gradingSystem/1.0.0"
GRADING_SPEC = "gradingSpec/2.0.1"
SCORING_PROTOCOL = "v1"

_VERSION = re.compile(r"(scoringSystem|gradingSystem)/\d+\.\d+\.\d+")


class Systems(NamedTuple):
    """The two versions that an artefact is made under."""

    scoring: str = SCORING_SYSTEM
    grading: str = GRADING_SYSTEM


CURRENT = Systems()


def is_version(text: object, system: str) -> bool:
    """Whether a text is a version of that system.

    >>> is_version("scoringSystem/1.0.0", "scoringSystem"), is_version("scoringSystem/1.0", "scoringSystem")
    (True, False)
    """
    return isinstance(text, str) and _VERSION.fullmatch(text) is not None and text.startswith(f"{system}/")
