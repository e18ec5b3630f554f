"""Words, numbers, negations and quotations in a text, as far as they can be told without a model.

Texts are compared after Unicode compatibility folding, case folding and with one kind of quotation mark and dash. Nothing here understands: a paraphrase shares
no words, and a denial is a word from a list (English).
"""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_MARKS = str.maketrans({"’": "'", "‘": "'", "ʼ": "'", "‐": "-", "‑": "-", "–": "-", "—": "-", "−": "-", "\u00ad": None, "\u200b": None, "\u2060": None, "\ufeff": None})
_NUMBER = r"\d+(?:[.,]\d+)*"
# Scripts written without spaces are compared sign by sign.
_TOKEN = re.compile(rf"{_NUMBER}|[぀-ヿ㐀-䶿一-鿿]|[^\W\d_぀-ヿ㐀-䶿一-鿿]+(?:'[^\W\d_]+)*")
_SIGNED = re.compile(rf"(?:(?<![\w.,)])-)?{_NUMBER}")
_THOUSANDS = re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?")
_SENTENCE = re.compile(r"(?<=[.!?。！？])\s+|\n{2,}|(?<=[。！？])")
_QUOTED = re.compile(r'"([^"]*)"|“([^“”]*)”|„([^„“”]*)[“”]|«([^«»]*)»')
_ELLIPSIS = re.compile(r"\[?(?:\.\.\.|…)\]?")
_NEGATIONS = frozenset(("no", "not", "never", "none", "nobody", "nothing", "nowhere", "neither", "nor", "without", "cannot"))
_EMPTY_WORDS = frozenset(
    "a an the of to in on at by for from with and or as is are was were be been being it its this that these those he she they them his her their we you i".split()
)


def folded(text: str) -> str:
    """A text as it is compared.

    >>> folded("Ｃａｆｅ\\u0301 — “L’ÉTÉ”") == folded("café - “l'été”")
    True
    """
    return unicodedata.normalize("NFKC", text).translate(_MARKS).casefold()


def tokens(text: str) -> list[str]:
    """The words and numbers of a text, in order.

    >>> tokens("It costs 1,000.50 euros; it isn't free.")
    ['it', 'costs', '1000.5', 'euros', 'it', "isn't", 'free']
    """
    return [number(found) if found[0].isdecimal() else found for found in _TOKEN.findall(folded(text))]


def number(written: str) -> str:
    """A number in one way of writing: no thousands commas, no zeros that say nothing. A single comma before other than three digits is a decimal point.

    >>> [number(text) for text in ("1,000", "007", "3.50", "3,5", "-0", "1.2.3")]
    ['1000', '7', '3.5', '3.5', '0', '1.2.3']
    """
    sign, digits = ("-", written[1:]) if written[:1] == "-" else ("", written)
    if not digits.isascii():
        digits = "".join(str(unicodedata.digit(one)) if one.isdecimal() else one for one in digits)
    if _THOUSANDS.fullmatch(digits):
        digits = digits.replace(",", "")
    elif digits.count(",") == 1 and "." not in digits:
        digits = digits.replace(",", ".")
    if digits.count(".") > 1 or "," in digits:
        return sign + digits  # a version, a date or a list: no single number
    whole, _, part = digits.partition(".")
    whole, part = whole.lstrip("0") or "0", part.rstrip("0")
    made = f"{whole}.{part}" if part else whole
    return made if made == "0" else sign + made


def numbers(text: str) -> frozenset[str]:
    """The numbers of a text; a minus counts where it stands for itself, not in a range or a name.

    >>> sorted(numbers("From 1990-1995 it fell to -4 or 1,200 (COVID-19)."))
    ['-4', '1200', '19', '1990', '1995']
    """
    return frozenset(map(number, _SIGNED.findall(folded(text))))


def words(text: str) -> frozenset[str]:
    """The words that carry something: no numbers, articles, pronouns or negations.

    >>> sorted(words("The 3 gates are not open"))
    ['gates', 'open']
    """
    return frozenset(one for one in tokens(text) if not one[0].isdecimal() and one not in _EMPTY_WORDS and not is_negation(one))


def is_negation(word: str) -> bool:
    """Whether a folded word denies."""
    return word in _NEGATIONS or word.endswith("n't")


def negates(text: str) -> bool:
    """Whether a text holds a denial. Two of them are still one: nothing here knows what they deny.

    >>> negates("It isn't open."), negates("It is open.")
    (True, False)
    """
    return any(map(is_negation, tokens(text)))


def sentences(text: str) -> list[str]:
    """The sentences of a text, roughly."""
    return [part for part in _SENTENCE.split(text) if part and part.strip()]


def quotations(text: str) -> list[str]:
    """What stands in quotation marks and holds a word. Single marks are not read: an apostrophe looks the same.

    >>> quotations('He said "yes, it is" and „nein“, «oui»; "!".')
    ['yes, it is', 'nein', 'oui']
    """
    found = ("".join(groups) for groups in _QUOTED.findall(text))
    return [quote for quote in found if tokens(quote)]


def occurs(quote: str, passage: Sequence[str]) -> bool:
    """Whether a quotation stands word for word in a passage, given as its tokens; parts around an ellipsis in their order.

    >>> occurs("the gate [...] closed", tokens("Then the gate, at last, closed.")), occurs("art", tokens("part"))
    (True, False)
    """
    text = f" {' '.join(passage)} "
    at = 0
    for part in _ELLIPSIS.split(folded(quote)):
        wanted = tokens(part)
        if wanted:
            at = text.find(f" {' '.join(wanted)} ", at)
            if at < 0:
                return False
            at += len(" ".join(wanted)) + 1
    return True


class Support(NamedTuple):
    """Whether passages bear a claim out by their words: the share of its words that they hold, and why it is not supported, or nothing."""

    shared: int
    total: int
    fault: str

    @property
    def is_supported(self) -> bool:
        """Whether nothing speaks against it."""
        return not self.fault


def support(claim: str, passages: Iterable[str], *, threshold_num: int, threshold_den: int) -> Support:
    """Whether passages hold enough words of a claim, every number of it, and deny where it denies.

    The denial is looked for in the sentence that shares the most words with the claim.

    >>> support("The gate is 7 m wide.", ["The gate is 8 m wide."], threshold_num=3, threshold_den=5).fault
    'no cited passage has the number 7'
    >>> support("The gate is not open.", ["The gate is open."], threshold_num=3, threshold_den=5).fault
    'it denies what the nearest sentence says'
    """
    listed = list(passages)
    wanted, own_numbers = words(claim), numbers(claim)
    if not wanted and not own_numbers:
        return Support(0, 0, "it holds no word to look for")
    shared = len(wanted & frozenset().union(*map(words, listed)))
    total = len(wanted)
    absent = own_numbers - frozenset().union(*map(numbers, listed))
    if absent:
        return Support(shared, total, f"no cited passage has the number {min(absent)}")
    if shared * threshold_den < threshold_num * total:
        return Support(shared, total, f"the cited passages hold {shared} of its {total} words")
    nearest, most = "", -1
    for passage in listed:
        for sentence in sentences(passage):
            common = len(wanted & words(sentence)) + len(own_numbers & numbers(sentence))
            if common > most:
                nearest, most = sentence, common
    if negates(claim) != negates(nearest):
        return Support(shared, total, "it denies what the nearest sentence says" if negates(claim) else "the nearest sentence denies what it says")
    return Support(shared, total, "")
