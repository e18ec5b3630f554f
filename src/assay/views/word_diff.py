"""What changed between two texts, word by word.

    difference = word_diff(before, after)
    marked(difference)  # a piece: <del> and <ins> on a page, [-old-] and {+new+} as plain text

Long texts are compared line by line, very long ones only for being equal; `note` says so. The time
this takes is bounded, whatever the texts are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import Literal, NamedTuple

from assay.errors import count
from assay.views.pieces import Piece, piece

MAX_WORDS = 3_000
"""Words of either text up to which single words are compared."""
MAX_LINES = 3_000
MAX_CHARACTERS = 400_000
"""Above this, no difference is marked."""
LITTLE = 0.25
"""A smaller share of words in common reads better as one text in place of the other."""

# A word is all up to a space or a punctuation mark, with its combining marks; a number, a date or a
# time is one word with the marks inside it; scripts that write without spaces are taken character
# by character. Each token has the space after it.
_MARKS = r"!-/:-@\[-`{-~\u00a1-\u00bf\u2010-\u2027\u2030-\u205e\u3000-\u303f\uff01-\uff0f"
_IDEOGRAPHS = r"\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
_NUMBER = r"\d+(?:[.,:/-]\d+)+"
_TOKEN = re.compile(
    rf"((?:{_NUMBER}|[{_IDEOGRAPHS}]|[^\s{_MARKS}{_IDEOGRAPHS}]+|[{_MARKS}])|^)(\s*)"
)
_LINE = re.compile(r"([^\n]+|^)(\n*)")

Kind = Literal["same", "added", "removed", "skipped"]


class TextSpan(NamedTuple):
    """A stretch of text. That of the kind `skipped` is text about what was left out."""

    kind: Kind
    text: str


class TextDifference(NamedTuple):
    """The spans of two texts in order; `note` says how they were compared where that is not word
    by word.
    """

    spans: tuple[TextSpan, ...]
    note: str = ""
    identical: bool = False
    """Whether the texts are equal."""


def word_diff(before: str, after: str, *, context: int | None = None) -> TextDifference:
    """What changed from one text to the other. With `context`, only so many words (lines, where
    lines are compared) are kept around each change.

    >>> plain(word_diff("It leaves at nine.", "It leaves at ten."))
    'It leaves at [-nine-]{+ten+}.'
    >>> word_diff("same", "same").note
    'identical'
    """
    if before == after:
        whole = _kept([TextSpan("same", before)], _TOKEN, context)
        return TextDifference(whole, "identical", identical=True)
    longest = max(len(before), len(after))
    if longest > MAX_CHARACTERS:
        return TextDifference((), f"too long to compare: {count(longest, 'character')}")
    if min(len(before), len(after)) == 0 or longest <= MAX_WORDS:
        token, note = _TOKEN, ""  # no more words than characters
    elif max(len(_TOKEN.findall(text)) for text in (before, after)) <= MAX_WORDS:
        token, note = _TOKEN, ""
    else:
        token, note = _LINE, "long texts, compared line by line"
    old, new = token.findall(before), token.findall(after)
    if max(len(old), len(new)) > MAX_LINES and note:
        return TextDifference((), f"too long to compare: {count(max(len(old), len(new)), 'line')}")
    spans = _joined(_compared(old, new, before, after))
    if not any(span.kind != "same" for span in spans):
        return TextDifference(_kept(spans, token, context), "the same but for spaces")
    return TextDifference(_kept(spans, token, context), note)


def _compared(
    old: Sequence[tuple[str, str]], new: Sequence[tuple[str, str]], before: str, after: str
) -> Iterator[TextSpan]:
    codes = SequenceMatcher(None, [a for a, _ in old], [b for b, _ in new]).get_opcodes()
    shared = sum(end - start for kind, start, end, _, _ in codes if kind == "equal")
    if shared < LITTLE * max(len(old), len(new)):
        yield TextSpan("removed", before)
        yield TextSpan("added", after)
        return
    spaces = ("", "")  # of the last equal word, where they differ: each goes with its side
    for kind, a, b, c, d in codes:
        if kind == "equal":
            spaces = (old[b - 1][1], new[d - 1][1])
            spaces = ("", "") if spaces[0] == spaces[1] or d == len(new) == b else spaces
            text = _text(new[c:d])
            yield TextSpan("same", text.removesuffix(spaces[1]) if any(spaces) else text)
        else:
            yield TextSpan("removed", spaces[0] + _text(old[a:b]) if b > a else "")
            yield TextSpan("added", spaces[1] + _text(new[c:d]))
            spaces = ("", "")


def _text(tokens: Sequence[tuple[str, str]]) -> str:
    return "".join(word + space for word, space in tokens)


def _joined(spans: Iterator[TextSpan]) -> list[TextSpan]:
    """Neighbours of a kind as one; a lone short word between two changes goes with them."""
    made: list[TextSpan] = []
    for span in (span for span in spans if span.text):
        if (
            len(made) > 2
            and made[-1].kind == "same"
            and len(made[-1].text) < 4
            and span.kind == "removed"
            and (made[-3].kind, made[-2].kind) == ("removed", "added")
        ):
            between = made.pop().text
            made[-2:] = [
                TextSpan("removed", made[-2].text + between + span.text),
                TextSpan("added", made[-1].text + between),
            ]
        elif made and made[-1].kind == span.kind:
            made[-1] = TextSpan(span.kind, made[-1].text + span.text)
        else:
            made.append(span)
    return made


def _kept(
    spans: Sequence[TextSpan], token: re.Pattern[str], context: int | None
) -> tuple[TextSpan, ...]:
    """The spans with the middle of long unchanged stretches left out."""
    if context is None:
        return tuple(spans)
    made: list[TextSpan] = []
    last = len(spans) - 1
    noun = "line" if token is _LINE else "word"
    for place, span in enumerate(spans):
        words = token.findall(span.text) if span.kind == "same" else []
        head, tail = context * (place > 0 or last == 0), context * (place < last)
        if len(words) <= head + tail + 1:
            made.append(span)
            continue
        left_out = count(len(words) - head - tail, noun)
        made += [
            TextSpan("same", _text(words[:head])),
            TextSpan("skipped", f"… {left_out} unchanged … "),
            TextSpan("same", _text(words[len(words) - tail :])),
        ]
    return tuple(span for span in made if span.text)


def shortened(difference: TextDifference, most: int) -> TextDifference:
    """A difference with no more than so many characters; a last span says how many were cut."""
    made: list[TextSpan] = []
    room = most
    for span in difference.spans:
        if len(span.text) > room:
            left = sum(len(span.text) for span in difference.spans) - most
            made.append(TextSpan(span.kind, span.text[:room]))
            made.append(TextSpan("skipped", f" … {left:,} more characters"))
            break
        made.append(span)
        room -= len(span.text)
    return TextDifference(tuple(span for span in made if span.text), difference.note)


def plain(difference: TextDifference) -> str:
    """A difference as plain text, in the notation of wdiff."""
    ways = {"removed": "[-{}-]", "added": "{{+{}+}}"}
    return "".join(ways.get(kind, "{}").format(text) for kind, text in difference.spans)


def marked(difference: TextDifference) -> Piece:
    """A difference as a piece: its spans, and the note where there is one."""
    text = plain(difference)
    noted = f"{text} ({difference.note})".strip() if difference.note else text
    return piece("marked", noted, difference.spans, difference.note)
