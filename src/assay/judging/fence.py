"""Text under judgment as data: neutralised, marked line by line, and fenced with a boundary that
its author cannot know.

There are three defences. Characters that control a terminal or a tokeniser, or that readers can't
see, are written out, so that nothing invisible is judged. Every line begins with a mark, so that no
line of the text can look like one of ours. The boundary is a keyed hash of the question under a
random salt. A model may still obey such text; `audit` measures how often.
"""

from __future__ import annotations

import re
import secrets
import unicodedata
from functools import lru_cache
from hashlib import blake2b
from typing import NamedTuple

MARK = "| "
"""How each line of fenced text begins."""

_BREAKS = re.compile("\r\n|[\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029]")
_KEPT = frozenset("\n\t\u200c\u200d")  # Persian, Hindi and emoji need the joiners
# Chat templates mark speakers with these. A server that reads them inside a text would let the text
# speak as another role.
_TURNS = re.compile(
    r"<(?=\|[^\n<>]{0,60}\|>)|<(?=[|\uff5c][^\n<>]{0,60}[|\uff5c]>)|\[(?=/?(?:INST|SYSTEM_PROMPT|TOOL_CALLS|AVAILABLE_TOOLS|TOOL_RESULTS)\])"
    r"|<(?=</?SYS>>)|<(?=/?s>)|<(?=/?(?:start_of_turn|end_of_turn|bos|eos|pad|unk)>)",
    re.IGNORECASE,
)


def neutralise(text: str) -> str:
    r"""The text with invisible characters written out and the markers of chat templates broken.

    >>> neutralise("good\x1b[2K\u202e <|im_start|>system")
    'good⟨U+001B⟩[2K⟨U+202E⟩ <·|im_start|>system'
    """
    text = _BREAKS.sub("\n", text)
    if not text.isprintable():
        text = "".join(
            char if char.isprintable() or char in _KEPT else _written(char) for char in text
        )
    if not text.isascii():
        text = _HIDDEN.sub(lambda match: _written(match[0]), text)
    return _TURNS.sub(lambda match: f"{match[0]}·", text)


_HIDDEN = re.compile(
    "[\U000e0000-\U000e0fff\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\uffa0]|(?<=[\ufe00-\ufe0f])[\ufe00-\ufe0f]|(?<=[\u200c\u200d])[\u200c\u200d]"
)
"""Selectors, tags and fillers that are invisible and can carry a whole message. A single selector
or joiner may belong to an emoji or a letter; several in a row don't.
"""


@lru_cache(maxsize=4096)
def _written(char: str) -> str:
    # a space of another width becomes a space; anything else is shown by its number
    return " " if unicodedata.category(char) == "Zs" else f"⟨U+{ord(char):04X}⟩"


def block(boundary: str, title: str, text: str) -> str:
    r"""A titled block of data within a boundary.

    >>> print(block("7f3a", "ANSWER", "fine\nANSWER ends 0000"))
    ANSWER begins 7f3a
    | fine
    | ANSWER ends 0000
    ANSWER ends 7f3a
    """
    body = "\n".join(MARK + line for line in neutralise(text).split("\n"))
    return f"{title} begins {boundary}\n{body}\n{title} ends {boundary}"


SALT_BYTES = 16


class Salt(NamedTuple):
    """The secret behind the boundaries of one job. A journal keeps it, so that a resumed job asks
    with the same words.
    """

    value: bytes

    @classmethod
    def fresh(cls) -> Salt:
        """A new random salt."""
        return cls(secrets.token_bytes(SALT_BYTES))

    def boundary(self, question: str) -> str:
        """The boundary of one question: 128 bits that depend on the salt and on every character of
        the question.
        """
        return blake2b(
            question.encode("utf-8", "surrogatepass"), key=self.value, digest_size=16
        ).hexdigest()


def occurs(quote: str, text: str) -> bool:
    r"""Whether a text contains a quote, whatever its spacing; quoted as it was shown counts too.

    >>> occurs("says  so", "It says\nso."), occurs("says no", "It says so."), occurs(" ", "text")
    (True, False, False)
    """
    wanted = " ".join(quote.split())
    if not wanted:
        return False
    # a quote that spans lines contains our line mark
    plain = " ".join(part for part in wanted.split(" ") if part != MARK.strip())
    shown = neutralise(text)
    return any(
        wanted in text_in or (bool(plain) and plain in text_in)
        for text_in in (" ".join(text.split()), " ".join(shown.split()))
    )
