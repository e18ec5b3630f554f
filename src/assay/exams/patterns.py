"""Four patterns across the items of an exam, each with its evidence, as a person would see them in
stacked bars.

An axis without marks across the items: something systematic, a broken formatter. A verb whose items
are all wrong: it is mis-learned. Conciseness alone falling: the tutor has become verbose, or its
prompt has changed. One item alone without its mark: look at the normalisation first. Items without
an answer show no pattern of the tutor; they are left out here and listed elsewhere. A pattern
explains and never decides.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING
from unicodedata import combining, normalize

from assay.exams.normal import holds_all
from assay.exams.policy import ExamRules, fraction, shown
from assay.exams.rubric import BIT
from assay.records.exam import AXES, PatternSeen

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from assay.exams.marking import Marked, MarkedExam

MATCHED = ("correctness", "spanish_gloss")
_SYSTEMATIC = {
    "correctness": "the tutor, or what it is compared with, is wrong throughout",
    "spanish_gloss": "no Spanish comes back, or it is in another field",
    "schema": "the JSON formatter is broken, or the answer schema has changed",
    "conciseness": "the explanations are missing or too long throughout",
}


def find_patterns(graded: MarkedExam, rules: ExamRules) -> list[PatternSeen]:
    """Every pattern in the items that have an answer."""
    answered = graded.answered
    zero = list(_axis_zero(answered, rules))
    systematic = {pattern.evidence["axis"] for pattern in zero}
    verbs = [] if "correctness" in systematic else list(_verb_zero(answered, rules))
    trend = [] if "conciseness" in systematic else list(_trend(answered, rules))
    return [*zero, *verbs, *trend, *_outlier(graded, answered, rules)]


def _axis_zero(answered: list[Marked], rules: ExamRules) -> Iterator[PatternSeen]:
    n = len(answered)
    if n < max(1, rules.policy.patterns.axis_zero.min_items):
        return
    for axis in AXES:
        zero = sum(not one.bits & BIT[axis] for one in answered)
        if zero and Fraction(zero, n) >= rules.zero_share:
            share = shown(Fraction(zero, n))
            yield PatternSeen(
                kind="axis_zero",
                evidence={"axis": axis, "zero_items": zero, "items": n, "share": share},
                hint=_SYSTEMATIC[axis],
            )


def _verb_zero(answered: list[Marked], rules: ExamRules) -> Iterator[PatternSeen]:
    verbs: dict[str, list[Marked]] = {}
    for one in answered:
        if one.item.verb is not None:
            verbs.setdefault(one.item.verb, []).append(one)
    for verb, rows in verbs.items():
        if len(rows) >= max(1, rules.policy.patterns.verb_zero.min_items) and not any(
            one.bits & BIT["correctness"] for one in rows
        ):
            evidence = {
                "verb": verb,
                "axis": "correctness",
                "items": [one.item.id for one in rows],
                "got": [shortened(one.got) for one in rows],
            }
            yield PatternSeen(
                kind="verb_zero",
                evidence=evidence,
                hint=f"every item of '{verb}' is wrong: look for the verb in the training corpus",
            )


def _trend(answered: list[Marked], rules: ExamRules) -> Iterator[PatternSeen]:
    rule = rules.policy.patterns.conciseness_trend
    n = len(answered)
    if n < max(2, rule.min_items):
        return
    half = n // 2
    first, second = answered[:half], answered[n - half :]
    drops = {axis: Fraction(_marks(first, axis) - _marks(second, axis), half) for axis in AXES}
    drop = drops["conciseness"]
    alone = all(
        value <= fraction(rule.max_other_drop)
        for axis, value in drops.items()
        if axis != "conciseness"
    )
    if not alone or drop < fraction(rule.min_drop) or drop <= 0:
        return
    chi = chi_square(_marks(first, "conciseness"), _marks(second, "conciseness"), half)
    if chi >= fraction(rule.min_chi_square):
        evidence = {
            "axis": "conciseness",
            "first_half": shown(Fraction(_marks(first, "conciseness"), half)),
            "second_half": shown(Fraction(_marks(second, "conciseness"), half)),
            "other_axes": {
                axis: shown(-value) for axis, value in drops.items() if axis != "conciseness"
            },
            "chi_square": shown(chi),
        }
        yield PatternSeen(
            kind="conciseness_trend",
            evidence=evidence,
            hint="only the explanations grow: the prompt template may have changed",
        )


def _marks(rows: list[Marked], axis: str) -> int:
    bit = BIT[axis]
    return sum(1 for one in rows if one.bits & bit)


def chi_square(first: int, second: int, n: int) -> Fraction:
    """Pearson's statistic for two counts of n each, exact; 0 where all or none have the mark.

    >>> chi_square(10, 5, 10), chi_square(4, 4, 4)
    (Fraction(20, 3), Fraction(0, 1))
    """
    with_mark, without = first + second, 2 * n - first - second
    if not with_mark or not without:
        return Fraction(0)
    return Fraction(
        2 * n * (first * (n - second) - second * (n - first)) ** 2, n * n * with_mark * without
    )


def _outlier(graded: MarkedExam, answered: list[Marked], rules: ExamRules) -> Iterator[PatternSeen]:
    if len(answered) < max(2, rules.policy.patterns.outlier_item.min_items):
        return
    for axis in MATCHED:
        lost = [one for one in answered if not one.bits & BIT[axis]]
        if len(lost) != 1:
            continue
        one = lost[0]
        expected, got = one.on(axis)
        near = (
            []
            if got is None
            else near_matches(
                got, expected, one.item.match or graded.marking.rubric.match, graded.marking.normal
            )
        )
        evidence = {
            "item": one.item.id,
            "axis": axis,
            "expected": expected,
            "got": shortened(got),
            "items": len(answered),
            "would_match_without": near,
        }
        advice = (
            f"it is right but for {', '.join(near)}: look at the normalisation"
            if near
            else "look at the normalisation first, then at the item"
        )
        hint = f"{one.item.id} alone has no mark for {axis}; {advice}"
        yield PatternSeen(kind="outlier_item", evidence=evidence, hint=hint)


def _no_accents(text: str) -> str:
    return "".join(char for char in normalize("NFD", text) if not combining(char))


def _no_punctuation(text: str) -> str:
    return "".join(char for char in text if char.isalnum() or char.isspace())


_LOOSER: dict[str, Callable[[str], str]] = {
    "accents": _no_accents,
    "punctuation": _no_punctuation,
    "spacing": lambda text: " ".join(text.split()),
    "look-alikes": lambda text: normalize("NFKC", text),
}


def near_matches(
    got: str, expected: list[str], match: str, normal: Callable[[str], str]
) -> list[str]:
    """What, if it did not count, would make the answer right: a sign that the text was compared too
    strictly.

    >>> near_matches("she  ate", ["she ate"], "word", str.lower)
    ['spacing']
    """
    text = got[:10_000]
    return [
        name
        for name, looser in _LOOSER.items()
        if holds_all(looser(normal(text)), [looser(normal(entry)) for entry in expected], match)
    ]


def shortened(text: str | None) -> str | None:
    """An answer, short enough to be shown as evidence."""
    return (
        text if text is None or len(text) <= 200 else f"{text[:200]}... ({len(text):,} characters)"
    )
