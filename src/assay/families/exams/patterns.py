"""The patterns of a rubric across the items of an exam, each with its evidence, as a person would
see them in stacked bars.

An axis without marks across the items: something systematic, a broken formatter. A verb or topic
whose items are all wrong: it is mis-learned. Conciseness alone falling: the tutor has become
verbose, or its prompt has changed. One item alone without its mark: look at the normalisation
first. Items without an answer show no pattern of the tutor; they are left out here and listed
elsewhere. A pattern explains a result and never decides it. The patterns themselves are data: see
`pattern_rules`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any
from unicodedata import combining, normalize

from assay.families.exams.marking import Marked, MarkedExam
from assay.families.exams.pattern_rules import PatternRule
from assay.families.exams.policy import ExamRules, fraction, shown
from assay.families.exams.records import PatternSeen
from assay.families.exams.rules import TextRule
from assay.grouping import grouped
from assay.scoring.checks import STEPS, holds


class _Search:
    """The items that have an answer, and the limits of rubric and policy."""

    def __init__(self, graded: MarkedExam, rules: ExamRules) -> None:
        self.marking = graded.marking
        self.answered = graded.answered
        self._policy = rules.policy.patterns

    def limit(self, pattern: PatternRule, name: str) -> Any:
        """A limit of a pattern: its own, else the policy's."""
        own = getattr(pattern, name)
        return own if own is not None else getattr(self._policy.of(pattern.kind), name)

    def share(self, pattern: PatternRule, name: str) -> Fraction:
        """The same, exact."""
        return fraction(self.limit(pattern, name))

    def marks(self, rows: list[Marked], axis: str) -> int:
        """How many of these items have the mark."""
        bit = self.marking.bit[axis]
        return sum(1 for row in rows if row.bits & bit)


def find_patterns(graded: MarkedExam, rules: ExamRules) -> list[PatternSeen]:
    """Every pattern in the items that have an answer, in the rubric's order."""
    search = _Search(graded, rules)
    patterns: list[PatternSeen] = []
    systematic: set[str] = set()
    for pattern in graded.marking.rubric.pattern_rules:
        # what fails throughout fails in every part: one finding says so
        if pattern.kind in ("tag_zero", "trend") and pattern.axis in systematic:
            continue
        seen = list(FINDERS[pattern.kind](search, pattern))
        if pattern.kind == "axis_zero":
            systematic |= {pattern.evidence["axis"] for pattern in seen}
        patterns += seen
    return patterns


def _axis_zero(search: _Search, pattern: PatternRule) -> Iterator[PatternSeen]:
    answered = search.answered
    n = len(answered)
    if n < max(1, search.limit(pattern, "min_items")):
        return
    for axis in pattern.axes or ([pattern.axis] if pattern.axis else search.marking.axes):
        zero = n - search.marks(answered, axis)
        if zero and Fraction(zero, n) >= search.share(pattern, "min_share"):
            share = shown(Fraction(zero, n))
            yield PatternSeen(
                kind=pattern.id,
                evidence={"axis": axis, "zero_items": zero, "items": n, "share": share},
                hint=pattern.advice(f"almost no item has the mark for {axis}", axis=axis),
            )


def _tag_zero(search: _Search, pattern: PatternRule) -> Iterator[PatternSeen]:
    tag, axis = pattern.tag or "", pattern.axis or ""
    groups = grouped(
        (one.item.labels[tag], one) for one in search.answered if tag in one.item.labels
    )
    for value, rows in groups.items():
        lost = len(rows) - search.marks(rows, axis)
        share = fraction(1 if pattern.min_share is None else pattern.min_share)
        if (
            len(rows) >= max(1, search.limit(pattern, "min_items"))
            and Fraction(lost, len(rows)) >= share
        ):
            evidence = {
                tag: value,
                "axis": axis,
                "items": [item.item.id for item in rows],
                "got": [shortened(search.marking.got(item, axis)) for item in rows],
            }
            default = f"{lost} of {len(rows)} items with {tag} '{value}' have no mark for {axis}"
            yield PatternSeen(
                kind=pattern.id,
                evidence=evidence,
                hint=pattern.advice(default, axis=axis, tag=tag, value=value),
            )


def _trend(search: _Search, pattern: PatternRule) -> Iterator[PatternSeen]:
    answered, axis = search.answered, pattern.axis or ""
    n = len(answered)
    if n < max(2, search.limit(pattern, "min_items")):
        return
    half = n // 2
    first, second = answered[:half], answered[n - half :]
    drops = {
        axis_name: Fraction(search.marks(first, axis_name) - search.marks(second, axis_name), half)
        for axis_name in search.marking.axes
    }
    drop = drops.pop(axis)
    alone = all(value <= search.share(pattern, "max_other_drop") for value in drops.values())
    if not alone or drop < search.share(pattern, "min_drop") or drop <= 0:
        return
    before, after = search.marks(first, axis), search.marks(second, axis)
    chi = chi_square(before, after, half)
    if chi >= search.share(pattern, "min_chi_square"):
        evidence = {
            "axis": axis,
            "first_half": shown(Fraction(before, half)),
            "second_half": shown(Fraction(after, half)),
            "other_axes": {axis_name: shown(-value) for axis_name, value in drops.items()},
            "chi_square": shown(chi),
        }
        default = f"{axis} alone falls from the first half of the items to the second"
        hint = pattern.advice(default, axis=axis)
        yield PatternSeen(kind=pattern.id, evidence=evidence, hint=hint)


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


def _outlier(search: _Search, pattern: PatternRule) -> Iterator[PatternSeen]:
    answered, marking = search.answered, search.marking
    if len(answered) < max(2, search.limit(pattern, "min_items")):
        return
    wanting = [axis for axis in marking.axes if marking.rules[axis].wants]
    for axis in pattern.axes or ([pattern.axis] if pattern.axis else wanting):
        lost = [item for item in answered if not item.bits & marking.bit[axis]]
        if len(lost) != 1:
            continue
        outlier = lost[0]
        expected, got = marking.expected(outlier.item, axis), marking.got(outlier, axis)
        rule = marking.rules[axis]
        near = []
        if got is not None and isinstance(rule, TextRule):
            match = rule.match_of(outlier.item, marking.rubric.matching)
            near = near_matches(got, expected, match, marking.normal)
        evidence = {
            "item": outlier.item.id,
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
            if isinstance(rule, TextRule)
            else "look at the item first"
        )
        default = f"{outlier.item.id} alone has no mark for {axis}; {advice}"
        yield PatternSeen(
            kind=pattern.id, evidence=evidence, hint=pattern.advice(default, axis=axis)
        )


FINDERS: dict[str, Callable[[_Search, PatternRule], Iterator[PatternSeen]]] = {
    "axis_zero": _axis_zero,
    "tag_zero": _tag_zero,
    "trend": _trend,
    "outlier": _outlier,
}
"""What finds each kind of pattern."""


_LOOSER: dict[str, Callable[[str], str]] = {
    "accents": lambda text: "".join(char for char in normalize("NFD", text) if not combining(char)),
    "punctuation": STEPS["strip-punctuation"].apply,
    "spacing": STEPS["collapse-whitespace"].apply,
    "look-alikes": lambda text: normalize("NFKC", text),
}


def near_matches(
    got: str, expected: list[str], match: str, normal: Callable[[str], str]
) -> list[str]:
    """What, if it did not count, would make the answer right: a hint that the text was compared too
    strictly.

    >>> near_matches("she  ate", ["she ate"], "word", str.lower)
    ['spacing']
    """
    text = got[:10_000]
    return [
        name
        for name, looser in _LOOSER.items()
        if holds(looser(normal(text)), [looser(normal(entry)) for entry in expected], match)
    ]


def shortened(text: str | None) -> str | None:
    """An answer, short enough to be shown as evidence."""
    return (
        text if text is None or len(text) <= 200 else f"{text[:200]}... ({len(text):,} characters)"
    )
