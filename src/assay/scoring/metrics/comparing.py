"""Normalise two texts by named steps, and compare them: as equal, as a substring, or as whole
words.

Steps have names, so that a rubric can list how texts are normalised before they are compared; they
run in that order. The measures that use this are in `text`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache

from assay.errors import InputError
from assay.registry import near_miss


def _drop_period(text: str) -> str:
    return text[:-1] if text.endswith(".") and not text.endswith("..") else text


def _strip_punctuation(text: str) -> str:
    return "".join(x for x in text if not unicodedata.category(x).startswith("P"))


STEPS: dict[str, Callable[[str], str]] = {
    "nfc": lambda text: unicodedata.normalize("NFC", text),
    "strip": str.strip,
    "lower": str.lower,
    "casefold": str.casefold,
    "drop_period": _drop_period,
    "collapse_whitespace": lambda text: " ".join(text.split()),
    "strip_punctuation": _strip_punctuation,
}
"""Every step by its name. `drop_period` drops one full stop at the end, but not an ellipsis."""


def normalised(text: str, steps: Iterable[str]) -> str:
    """The text after the steps, in order. Raises for an unknown step: without it, the comparison
    would be a different one.

    >>> normalised("  Yes. ", ["strip", "drop_period", "casefold"])
    'yes'
    """
    for name in steps:
        step = STEPS.get(name) if isinstance(name, str) else None
        if step is None:
            raise InputError(
                "SCO-035",
                f"no normalisation step is named '{name}'.{near_miss(str(name), STEPS)}",
                fix=f"Supported: {', '.join(STEPS)}.",
            )
        text = step(text)
    return text


def is_exact(actual: str, expected: str, *, steps: Sequence[str] = ()) -> bool:
    """Whether both are the same text after the steps.

    >>> is_exact("Paris.", "paris", steps=["drop_period", "lower"])
    True
    """
    return normalised(actual, steps) == normalised(expected, steps)


def has_substring(actual: str, expected: str, *, steps: Sequence[str] = ()) -> bool:
    """Whether the actual text contains the expected one. Raises for an empty expectation, which
    every text contains.

    >>> has_substring("He went home", "went")
    True
    """
    return wanted_text(expected, steps) in normalised(actual, steps)


def has_word(actual: str, expected: str, *, steps: Sequence[str] = ()) -> bool:
    """Whether the actual text contains the expected one as whole words.

    >>> has_word("He went home", "we"), has_word("He went home", "went home")
    (False, True)
    """
    return as_words(wanted_text(expected, steps)).search(normalised(actual, steps)) is not None


@lru_cache(maxsize=1024)
def as_words(wanted: str) -> re.Pattern[str]:
    """What finds the text with no letter or digit directly before or after it. A number at its edge
    is a whole number, with its sign: 8 is not in 1.8, in 8,000 or in -8.

    >>> [bool(as_words("8").search(text)) for text in ("8, or 9", "1.8", "8,000", "-8", "7-8")]
    [True, False, False, False, True]
    """
    before = r"(?<!\d[.,])(?<!(?<!\w)[-−])" if wanted[:1].isdigit() else ""
    after = r"(?![.,]\d)" if wanted[-1:].isdigit() else ""
    # no repetition in it: it reads any text once
    return re.compile(rf"(?<!\w){before}{re.escape(wanted)}{after}(?!\w)")


def wanted_text(expected: str, steps: Sequence[str]) -> str:
    """The expected text after the steps. Raises if it is empty."""
    wanted = normalised(expected, steps)
    if not wanted:
        raise InputError(
            "SCO-035",
            "the expected text is empty, and every text contains it.",
            fix="Say what must be there.",
        )
    return wanted


COMPARE: dict[str, Callable[..., bool]] = {
    "substring": has_substring,
    "word": has_word,
    "exact": is_exact,
}
"""The comparisons by the value of `match`."""
