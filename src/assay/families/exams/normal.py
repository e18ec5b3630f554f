r"""Normalisation and matching: compares texts without regard to the form they were typed in.

A step is a value with a name; a rubric lists the steps it takes, in order, and `without` takes one
out, which is how `assay exam break` shows what a missing step costs. Both sides go through the same
steps. Accents are never dropped: `comio` is not `comió`. Lowering is `str.lower`; for English and
Spanish it gives what `str.casefold` gives.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from typing import NamedTuple
from unicodedata import normalize

from assay.registry import near_miss
from assay.scoring.metrics.comparing import as_words


class NormalStep(NamedTuple):
    """One step of a normalisation."""

    name: str
    title: str
    apply: Callable[[str], str]


def _nfc(text: str) -> str:
    return text if text.isascii() else normalize("NFC", text)


def _drop_period(text: str) -> str:
    return text[:-1] if text.endswith(".") else text


STEPS: dict[str, NormalStep] = {
    step.name: step
    for step in (
        NormalStep("nfc", "compose accents (Unicode NFC)", _nfc),
        NormalStep("strip", "strip whitespace at both ends", str.strip),
        NormalStep("case-fold", "lowercase", str.lower),
        NormalStep("trailing-period", "drop one trailing period", _drop_period),
    )
}
ALIASES = {
    "lower": "case-fold",
    "lowercase": "case-fold",
    "casefold": "case-fold",
    "period": "trailing-period",
    "drop-period": "trailing-period",
}


def step_name(name: str) -> str | None:
    """The step that a name means, or None.

    >>> step_name("lower"), step_name("nfc"), step_name("stem")
    ('case-fold', 'nfc', None)
    """
    name = ALIASES.get(name, name)
    return name if name in STEPS else None


def unknown_step(name: str) -> str:
    """The message for a name that no step has."""
    return (
        f"there is no step '{name}'.{near_miss(name, (*STEPS, *ALIASES))} The steps are"
        f" {', '.join(f'{step.name} ({step.title})' for step in STEPS.values())}."
    )


class Normaliser:
    """Steps, taken one after another.

    >>> plain = Normaliser(["nfc", "strip", "case-fold", "trailing-period"])
    >>> plain("  Ate. "), plain("ate.."), plain.without("case-fold")("Ate.")
    ('ate', 'ate.', 'Ate')
    """

    def __init__(self, names: Iterable[str]) -> None:
        self.names = tuple(names)
        self._steps = tuple(STEPS[name].apply for name in self.names)

    def __call__(self, text: str) -> str:
        """The text after every step."""
        for step in self._steps:
            text = step(text)
        return text

    def without(self, name: str) -> Normaliser:
        """The same steps but one."""
        return Normaliser(step for step in self.names if step != name)


MATCHES: dict[str, Callable[[str, str], bool]] = {
    "substring": operator.contains,
    "word": lambda text, entry: as_words(entry).search(text) is not None,
    "exact": operator.eq,
}
"""How an expected entry is looked for. `substring` is the letter of the rubric: 'ate' is then found
in 'eaten', which `assay exam lint` points out.
"""


def holds_all(text: str, entries: Iterable[str], match: str) -> bool:
    """Whether every entry is found in the text; both are normalised.

    >>> (
    ...     holds_all("she eaten", ["has", "eaten"], "substring"),
    ...     holds_all("eaten", ["ate"], "substring"),
    ...     holds_all("eaten", ["ate"], "word"),
    ... )
    (False, True, False)
    """
    match_one = MATCHES[match]
    return all(match_one(text, entry) for entry in entries)
