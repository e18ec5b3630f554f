"""How similar two texts are: edit distance, shared tokens, and advisory overlaps (BLEU, ROUGE-L).

Distances use bit-parallel algorithms (Myers 1999, Hyyrö 2004) in plain Python, with a limit on
length. BLEU and ROUGE-L show how many words two texts share, not whether either is right: no gate
or floor may depend on them (`ADVISORY`).
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Hashable, Sequence

from assay.exact import Ratio

MAX_LENGTH = 20_000
"""The longest text or list that is compared: the time grows with the product of both lengths."""
ADVISORY = frozenset({"bleu", "rouge_l"})
"""Measures that never decide anything: a profile that puts a floor on one is refused."""


def _check_length(*items: Sequence[Hashable]) -> None:
    for item in items:
        if len(item) > MAX_LENGTH:
            raise ValueError(
                f"a text of {len(item):,} characters is too long to compare; the limit is"
                f" {MAX_LENGTH:,}"
            )


def _masks(items: Sequence[Hashable]) -> dict[Hashable, int]:
    masks: dict[Hashable, int] = {}
    bit = 1
    for item in items:
        masks[item] = masks.get(item, 0) | bit
        bit <<= 1
    return masks


def edit_distance(first: Sequence[Hashable], second: Sequence[Hashable]) -> int:
    """The least number of insertions, deletions and replacements that turn one into the other
    (Levenshtein).

    >>> edit_distance("kitten", "sitting")
    3
    """
    _check_length(first, second)
    if len(first) < len(second):
        first, second = second, first  # the longer one goes into the bits of one integer
    if not second:
        return len(first)
    masks, size = _masks(first), len(first)
    last, full = 1 << (size - 1), (1 << size) - 1
    up, down, score = full, 0, size
    for item in second:
        match = masks.get(item, 0)
        level = (((match & up) + up) ^ up) | match | down
        rise = (down | ~(level | up)) & full
        fall = level & up
        score += (rise & last != 0) - (fall & last != 0)
        rise = (rise << 1 | 1) & full
        up = ((fall << 1) | ~(level | rise)) & full
        down = rise & level
    return score


def common_length(first: Sequence[Hashable], second: Sequence[Hashable]) -> int:
    """The length of the longest common subsequence.

    >>> common_length("abcde", "xbxdx")
    2
    """
    _check_length(first, second)
    masks, full = _masks(first), (1 << len(first)) - 1
    row = full
    for item in second:
        match = row & masks.get(item, 0)
        row = ((row + match) | (row - match)) & full
    return len(first) - row.bit_count()


def edit_similarity(first: str, second: str) -> Ratio:
    """1 minus the edit distance over the longer length, from 0 (nothing in common) to 1 (equal).
    Two empty texts are equal.

    >>> edit_similarity("kitten", "sitting")
    Ratio(num=4, den=7)
    """
    longest = max(len(first), len(second))
    return Ratio(longest - edit_distance(first, second), longest) if longest else Ratio(1, 1)


def tokens(text: str) -> list[str]:
    """Words and numbers, case-folded.

    >>> tokens("It's 3 o'clock.")
    ['it', 's', '3', 'o', 'clock']
    """
    return re.findall(r"\w+", text.casefold())


def token_recall(actual: str, expected: str) -> Ratio | None:
    """The share of the expected tokens that the actual text has; None if none are expected.

    >>> token_recall("the cat sat", "The cat sat on the mat.")
    Ratio(num=3, den=6)

    Source: Rajpurkar et al., SQuAD, 2016 (its scores also drop articles; this one does not).
    """
    wanted = Counter(tokens(expected))
    shared = (Counter(tokens(actual)) & wanted).total()
    return Ratio(shared, wanted.total()) if wanted else None


def rouge_l(actual: str, expected: str) -> Ratio | None:
    """ROUGE-L F1: twice the longest common subsequence of tokens over the tokens of both; None if
    neither has any. Advice only.

    >>> rouge_l("the cat sat", "the fat cat sat")
    Ratio(num=6, den=7)

    Source: Lin, ROUGE: A Package for Automatic Evaluation of Summaries, 2004.
    """
    first, second = tokens(actual), tokens(expected)
    if not first and not second:
        return None
    return Ratio(2 * common_length(first, second), len(first) + len(second))


def bleu(actual: str, expected: str, *, order: int = 4) -> float | None:
    """Sentence BLEU on tokens, 0 to 1, zero counts smoothed by halving (sacrebleu's `exp`); None if
    either side has no tokens. Advice only.

    >>> round(bleu("the cat sat on the mat", "the cat sat on a mat"), 4)
    0.5373

    Source: Papineni et al., BLEU, 2002; Post, A Call for Clarity in Reporting BLEU Scores, 2018.
    """
    first, second = tokens(actual), tokens(expected)
    if not first or not second:
        return None
    logs = []
    smooth = 1
    for size in range(1, order + 1):
        total = len(first) - size + 1
        if total <= 0:
            break
        grams, wanted = (
            Counter(tuple(words[at : at + size]) for at in range(len(words) - size + 1))
            for words in (first, second)
        )
        shared = (grams & wanted).total()
        if shared == 0:
            if size == 1:
                return 0.0
            smooth *= 2
        logs.append(math.log(shared / total if shared else 1 / (smooth * total)))
    penalty = min(0.0, 1 - len(second) / len(first))
    return math.exp(penalty + math.fsum(logs) / len(logs))
