"""Words, numbers, negations and quotations in a text, found without a model.

Texts are compared after Unicode compatibility folding and case folding, with one kind of quotation
mark and dash. Nothing here understands meaning: a paraphrase shares no words, and a denial is a
word from an English list.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import NamedTuple

from assay.exact import Ratio

_MARKS = str.maketrans(
    "’‘ʼ‐‑–—−", "'''-----", "\u00ad\u200b\u2060\ufeff"
)  # curly marks and dashes; signs that cannot be seen
# Patterns are compiled on first use: most commands read no claims, and compiling all of them takes
# as long as starting.
_NUMBER = r"\d+(?:[.,]\d+)*"
# Scripts written without spaces are compared character by character.
_UNSPACED = r"\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
_TOKEN = rf"{_NUMBER}|[{_UNSPACED}]|[^\W\d_{_UNSPACED}]+(?:'[^\W\d_]+)*"
_SIGNED = rf"(?:(?<![\w.,)])-)?{_NUMBER}"
_THOUSANDS = r"\d{1,3}(?:,\d{3})+(?:\.\d+)?"
_SENTENCE = r"(?<=[.!?。！？])\s+|\n{2,}|(?<=[。！？])"
_QUOTED = r'"([^"]*)"|“([^“”]*)”|„([^„“”]*)[“”]|«([^«»]*)»'
_ELLIPSIS = r"\[?(?:\.\.\.|…)\]?"
_NEGATIONS = frozenset(
    (
        "no",
        "not",
        "never",
        "none",
        "nobody",
        "nothing",
        "nowhere",
        "neither",
        "nor",
        "without",
        "cannot",
    )
)
_EMPTY_WORDS = frozenset(
    (
        "a",
        "an",
        "the",
        "of",
        "to",
        "in",
        "on",
        "at",
        "by",
        "for",
        "from",
        "with",
        "and",
        "or",
        "as",
        "is",
        "are",
        "was",
        "were",
        "be",
        "been",
        "being",
        "it",
        "its",
        "this",
        "that",
        "these",
        "those",
        "he",
        "she",
        "they",
        "them",
        "his",
        "her",
        "their",
        "we",
        "you",
        "i",
    )
)
_RAISED = {
    ord(sign): f" {digit}" for digit, sign in enumerate("⁰¹²³⁴⁵⁶⁷⁸⁹")
}  # else 10⁵ would be 105


def folded(text: str) -> str:
    r"""A text in the form in which it is compared.

    >>> folded("Ｃａｆｅ\u0301 — “L’ÉTÉ”") == folded("café - “l'été”")
    True
    """
    return unicodedata.normalize("NFKC", text.translate(_RAISED)).translate(_MARKS).casefold()


def tokens(text: str) -> list[str]:
    """The words and numbers of a text, in order.

    >>> tokens("It costs 1,000.50 euros; it isn't free.")
    ['it', 'costs', '1000.5', 'euros', 'it', "isn't", 'free']
    """
    return [
        number(token) if token[0].isdecimal() else token
        for token in re.findall(_TOKEN, folded(text))
    ]


def number(written: str) -> str:
    """A number in one spelling: no thousands commas, no redundant zeros. A single comma that isn't
    before three digits is a decimal point.

    >>> [number(text) for text in ("1,000", "007", "3.50", "3,5", "-0", "1.2.3")]
    ['1000', '7', '3.5', '3.5', '0', '1.2.3']
    """
    sign, digits = ("-", written[1:]) if written[:1] == "-" else ("", written)
    if not digits.isascii():
        digits = "".join(
            str(unicodedata.digit(digit)) if digit.isdecimal() else digit for digit in digits
        )
    if re.fullmatch(_THOUSANDS, digits):
        digits = digits.replace(",", "")
    elif digits.count(",") == 1 and "." not in digits:
        digits = digits.replace(",", ".")
    if digits.count(".") > 1 or "," in digits:
        return sign + digits  # a version, a date or a list, not a single number
    whole, _, part = digits.partition(".")
    whole, part = whole.lstrip("0") or "0", part.rstrip("0")
    spelled = f"{whole}.{part}" if part else whole
    return spelled if spelled == "0" else sign + spelled


def numbers(text: str) -> frozenset[str]:
    """The numbers of a text; a minus counts only outside ranges and names.

    >>> sorted(numbers("From 1990-1995 it fell to -4 or 1,200 (COVID-19)."))
    ['-4', '1200', '19', '1990', '1995']
    """
    return frozenset(map(number, re.findall(_SIGNED, folded(text))))


def words(text: str) -> frozenset[str]:
    """The content words: no numbers, articles, pronouns or negations.

    >>> sorted(words("The 3 gates are not open"))
    ['gates', 'open']
    """
    return frozenset(
        word
        for word in tokens(text)
        if not word[0].isdecimal() and word not in _EMPTY_WORDS and not is_negation(word)
    )


def is_negation(word: str) -> bool:
    """Whether a folded word is a negation."""
    return word in _NEGATIONS or word.endswith("n't")


def negates(text: str) -> bool:
    """Whether a text contains a negation. Two don't cancel out: nothing here knows their scope.

    >>> negates("It isn't open."), negates("It is open.")
    (True, False)
    """
    return any(map(is_negation, tokens(text)))


def sentences(text: str) -> list[str]:
    """The sentences of a text, approximately."""
    return [part for part in re.split(_SENTENCE, text) if part and part.strip()]


def quotations(text: str) -> list[str]:
    """The texts in quotation marks that contain a word. Single marks are ignored: an apostrophe
    looks the same.

    >>> quotations('He said "yes, it is" and „nein“, «oui»; "!".')
    ['yes, it is', 'nein', 'oui']
    """
    quotes = ("".join(groups) for groups in re.findall(_QUOTED, text))
    return [quote for quote in quotes if tokens(quote)]


class Sentence(NamedTuple):
    """The parts of a sentence that are compared."""

    words: frozenset[str]
    numbers: frozenset[str]
    negates: bool


class ReadPassage(NamedTuple):
    """The parts of a passage that are compared, read once."""

    text: str
    """Its words and numbers, with a space around each."""
    words: frozenset[str]
    numbers: frozenset[str]
    sentences: list[Sentence]


def read_passage(text: str) -> ReadPassage:
    """A passage, ready to be compared with many claims."""
    return ReadPassage(
        f" {' '.join(tokens(text))} ",
        words(text),
        numbers(text),
        [Sentence(words(part), numbers(part), negates(part)) for part in sentences(text)],
    )


def occurs(quote: str, passage: ReadPassage) -> bool:
    """Whether a passage contains a quotation word for word, with the parts around an ellipsis in
    order.

    >>> (
    ...     occurs("the gate [...] closed", read_passage("Then the gate, at last, closed.")),
    ...     occurs("art", read_passage("part")),
    ... )
    (True, False)
    """
    at = 0
    for part in re.split(_ELLIPSIS, folded(quote)):
        wanted = " ".join(tokens(part))
        if wanted:
            at = passage.text.find(f" {wanted} ", at)
            if at < 0:
                return False
            at += len(wanted) + 1
    return True


class Support(NamedTuple):
    """Whether passages support a claim by their words: how many of its words they contain, and what
    speaks against it, or an empty text.
    """

    shared: int
    total: int
    fault: str
    is_contradicted: bool = False
    """Whether the fault is a number or a denial that the passages lack, not a lack of words."""

    @property
    def is_supported(self) -> bool:
        """Whether nothing speaks against it."""
        return not self.fault


def support(claim: str, passages: Sequence[ReadPassage], *, threshold: Ratio) -> Support:
    """Whether passages contain enough words of a claim and all its numbers, and agree on denial.

    Denials are compared with the sentence that shares the most words with the claim, the first of
    several.

    >>> support(
    ...     "The gate is 7 m wide.", [read_passage("The gate is 8 m wide.")], threshold=Ratio(3, 5)
    ... ).fault
    'no cited passage has the number 7'
    >>> support(
    ...     "The gate is not open.", [read_passage("The gate is open.")], threshold=Ratio(3, 5)
    ... ).fault
    'it denies what the nearest sentence says'
    """
    wanted, own_numbers, denies = words(claim), numbers(claim), negates(claim)
    total = len(wanted)
    if not passages:
        return Support(0, total, "it cites no retrieved passage")
    if not wanted and not own_numbers:
        return Support(0, 0, "it contains no word to look for")
    shared = len(wanted.intersection(frozenset().union(*(passage.words for passage in passages))))
    absent = own_numbers.difference(*(passage.numbers for passage in passages))
    if absent:
        return Support(shared, total, f"no cited passage has the number {min(absent)}", True)
    if shared * threshold.den < threshold.num * total:
        return Support(shared, total, f"the cited passages contain {shared} of its {total} words")
    nearest, most = False, -1
    for passage in passages:
        for sentence in passage.sentences:
            common = len(wanted & sentence.words) + len(own_numbers & sentence.numbers)
            if common > most:
                nearest, most = sentence.negates, common
    if denies != nearest:
        return Support(
            shared,
            total,
            (
                "it denies what the nearest sentence says"
                if denies
                else "the nearest sentence denies what it says"
            ),
            True,
        )
    return Support(shared, total, "")
