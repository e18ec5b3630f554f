"""A graded exam: what its marks show, its record, and the check of a record that comes back.

A diagnosis explains the score: the axis that lost points, on how many items, and what those items
share. A pattern is what a person would see in stacked bars: an axis without marks across the items
(something systematic, a broken formatter), a verb or topic whose items are all wrong, conciseness
alone falling, one item alone without its mark. Items without an answer show no pattern of the
tutor; they are left out there and listed elsewhere. Both explain a result and never decide it.

In a record, every item has the shape of the rubric chapter: `item, prompt, expected, got, score,
breakdown, weighted`. Of a record that comes back, nothing is trusted: the weighted parts must be
the marks times the rubric's weights, the score their sum, the exam's score the mean. A result that
does not add up is refused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple
from unicodedata import combining, normalize

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from assay import exact
from assay.errors import Fault, InputError, few, raise_faults
from assay.families.exams.exam import exam_digest
from assay.families.exams.marking import MAX_FAULTS, Marked, MarkedExam, Marking, mean
from assay.families.exams.policy import ExamRules, fraction, shown, text
from assay.families.exams.records import (
    EXAM_SCHEMA,
    AxisNumbers,
    AxisResult,
    AxisResults,
    ExamDigests,
    ExamFileCount,
    ExamResult,
    ItemResult,
    LatencyResult,
    PassLine,
    PatternSeen,
    ScoreCount,
)
from assay.families.exams.rubric import PatternRule, TagGroup
from assay.families.exams.rules import TextRule
from assay.files.json_files import Document
from assay.grouping import grouped
from assay.records.reading import read_record
from assay.scoring.checks import STEPS, holds


def diagnose(graded: MarkedExam, rules: ExamRules) -> list[str]:
    """One sentence for each axis that lost, the largest loss first; then what the gap is made of,
    and how many items have no answer.

    A sentence reads `spanish_gloss lost 0.25 on 12 of 40 items; all past-simple`.
    """
    n, marking = len(graded.marked), graded.marking
    if graded.score == 1:
        return [f"nothing was lost: every item has {_all(len(marking.axes))}"]
    weights = marking.weights
    lost = {
        axis: [item for item in graded.marked if not item.bits & bit]
        for axis, bit in marking.bit.items()
    }
    order = sorted(
        (axis for axis in marking.axes if lost[axis] and weights[axis]),
        key=lambda axis: -weights[axis] * len(lost[axis]),
    )
    sentences = []
    for axis in order:
        shared = shared_by(lost[axis], rules, marking.rubric.tag_groups)
        sentences.append(
            f"{axis} lost {text(mean(weights[axis], 1))} on {len(lost[axis])} of"
            f" {n} items{f'; {shared}' if shared else ''}"
        )
    gap = text(1 - graded.score)
    if len(order) == 1:
        sentences.append(f"the gap of {gap} to 1.0 is entirely {order[0]}")
    else:
        parts = ", ".join(
            f"{axis} {text(mean(weights[axis] * len(lost[axis]), n))}" for axis in order
        )
        sentences.append(f"the gap of {gap} to 1.0 is made of {parts}")
    if graded.missing:
        sentences.append(
            f"{len(graded.missing)} of {n} items have no answer; each has no marks:"
            f" {few(list(graded.missing), 10)}"
        )
    return sentences


def _all(axes: int) -> str:
    """All marks, counted.

    >>> _all(1), _all(4), _all(12)
    ('its mark', 'all four marks', 'all 12 marks')
    """
    words = ("", "", "both", "all three", "all four", "all five", "all six")
    if axes == 1:
        return "its mark"
    return f"{words[axes] if axes < len(words) else f'all {axes}'} marks"


def shared_by(
    rows: list[Marked], rules: ExamRules, groups: Iterable[TagGroup] | None = None
) -> str:
    """What items share: a tag, such as a tense or a topic, that all or most of them have; empty if
    there is none. Without groups every tag of the items is tried.
    """
    if not rows:
        return ""
    best = ""
    share = Fraction(0)
    if groups is None:
        groups = [TagGroup(tag=tag) for row in rows for tag in row.item.labels]
    for group in {group.tag: group for group in groups}.values():
        counts = Counter(row.item.labels.get(group.tag, "") for row in rows)
        counts.pop("", None)
        if not counts:
            continue
        name, count = min(counts.items(), key=lambda pair: (-pair[1], pair[0]))
        label = group.says(name)
        if count == len(rows):
            return f"all {label}" if count > 1 else str(label)
        if count > 1 and Fraction(count, len(rows)) >= max(rules.group_share, share):
            best, share = f"{count} of them {label}", Fraction(count, len(rows))
    return best


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


class ItemNumbers(NamedTuple):
    """The numbers of one of the outcomes of an item."""

    score: float
    breakdown: AxisNumbers
    weighted: AxisNumbers


def outcomes_of(marking: Marking) -> list[ItemNumbers]:
    """The numbers of every outcome, by its bits."""
    outcomes = []
    for bits in range(marking.full + 1):
        on = marking.marks(bits)
        outcomes.append(
            ItemNumbers(
                exact.shown(marking.units[bits], exact.NORM_DIGITS),
                {axis: float(mark) for axis, mark in on.items()},
                {
                    axis: exact.shown(marking.weights[axis] * mark, exact.NORM_DIGITS)
                    for axis, mark in on.items()
                },
            )
        )
    return outcomes


def totals_of(all_bits: Iterable[int], marking: Marking) -> tuple[AxisResults, list[ScoreCount]]:
    """Every axis over all items, and how many items have which score."""
    counts = Counter(all_bits)
    n = counts.total()
    spread: Counter[int] = Counter()
    for bits, count in counts.items():
        spread[marking.units[bits]] += count
    axes = {}
    for axis, bit in marking.bit.items():
        zero = sum(counts[bits] for bits in counts if not bits & bit)
        axes[axis] = AxisResult(
            mean=shown(1 - Fraction(zero, n)),
            lost=shown(mean(marking.weights[axis] * zero, n)),
            zero_items=zero,
        )
    return axes, [
        ScoreCount(score=exact.shown(units, exact.NORM_DIGITS), items=count)
        for units, count in sorted(spread.items(), reverse=True)
    ]


def exam_result(
    graded: MarkedExam,
    rules: ExamRules,
    *,
    unknown: tuple[str, ...] = (),
    faults: tuple[Fault, ...] = (),
    notes: tuple[str, ...] = (),
) -> ExamResult:
    """The whole result."""
    marking = graded.marking
    digests = graded.exam.item_digests(marking.rubric.schema)
    axes, distribution = totals_of((item.bits for item in graded.marked), marking)
    outcomes = outcomes_of(marking)
    items = [
        ItemResult(
            item=item.item.id,
            prompt=item.item.prompt,
            expected=marking.expected(item.item),
            got=marking.got(item),
            score=outcomes[item.bits].score,
            breakdown=outcomes[item.bits].breakdown,
            weighted=outcomes[item.bits].weighted,
        )
        for item in graded.marked
    ]
    return ExamResult(
        exams=[
            ExamFileCount(exam=file.exam, version=file.version, items=len(file.items))
            for file in graded.exam.files
        ],
        set=graded.exam.set,
        rubric=marking.id,
        policy=rules.id,
        score=shown(graded.score),
        n=len(items),
        missing=list(graded.missing),
        missing_reasons={name: why for name, why in graded.missing.items() if why},
        unknown=list(unknown),
        items=items,
        axes=axes,
        distribution=distribution,
        patterns=find_patterns(graded, rules),
        diagnosis=diagnose(graded, rules),
        latency=LatencyResult(p50_ms=graded.p50_ms(), n=len(graded.latencies)),
        faults=[fault.as_dict() for fault in faults],
        notes=[*notes, *graded.notes],
        looked_for={pattern.id: pattern.means for pattern in marking.rubric.pattern_rules},
        axis_names=list(marking.axes),
        digests=ExamDigests(
            exam=exam_digest(graded.exam.set, digests),
            rubric=marking.digest,
            policy=rules.digest,
            items=digests,
        ),
        scoring_system=marking.scoring_system,
        grading_system=rules.grading_system,
    )


def pass_line(limit: Any, score: Fraction) -> PassLine | UnsetType:
    """The line on the passing score, compared exactly; none if no score is set."""
    return UNSET if limit is None else PassLine(holds=score >= fraction(limit), limit=limit)


class CheckedExam(NamedTuple):
    """The parts of a graded exam that a gate needs: the checked marks of every item."""

    where: str
    result: ExamResult
    marking: Marking
    bits: dict[str, int]
    removed: tuple[str, ...] = ()
    """Items of the exam that are not in the result: they have no marks."""

    @property
    def score(self) -> Fraction:
        """The mean, exact: made from the marks, not from the number in the document."""
        return mean(sum(self.marking.units[bits] for bits in self.bits.values()), len(self.bits))

    def zero(self, axis: str) -> int:
        """How many items have no mark on an axis."""
        return sum(not bits & self.marking.bit[axis] for bits in self.bits.values())

    def axis_mean(self, axis: str) -> Fraction:
        """The share of items with the mark."""
        return 1 - Fraction(self.zero(axis), len(self.bits))

    @property
    def pass_score(self) -> Any:
        """The lowest score that passes; 0 if neither the exam nor the command set one."""
        line = self.result.pass_line
        return 0 if line is UNSET else line.limit

    @property
    def passes(self) -> bool:
        """Whether the score reaches the pass score."""
        return self.score >= fraction(self.pass_score)

    def held_to(self, pass_score: Any) -> CheckedExam:
        """The same result with this pass score, unless its own is higher."""
        if pass_score <= self.pass_score:
            return self
        line = pass_line(pass_score, self.score)
        return self._replace(result=replace(self.result, pass_line=line))

    @property
    def unmeasured(self) -> int:
        """How many answers have no latency."""
        answered = len(self.bits) - len(self.removed) - len(self.result.missing)
        return answered - self.result.latency.n


def read_result(document: Document) -> ExamResult:
    """A result, its shape checked."""
    schema = document.tree.get("schema") if isinstance(document.tree, dict) else None
    if schema != EXAM_SCHEMA:
        raise InputError(
            "FIL-006",
            f"not a graded exam{f'; its schema is {str(schema)[:60]!r}' if schema else ''}.",
            where=document.file,
            fix="`assay exam grade ... -o result.json` writes one.",
        )
    return read_record(document, ExamResult, "EXM-010")


def check_result(result: ExamResult, marking: Marking, *, where: str) -> CheckedExam:
    """A result with every number recomputed from its marks, checked against the items of its exam.
    A result that does not add up is refused with all its faults.

    An item of the exam that is not in the result is a missing one: it has no marks, and the mean is
    over all items of the exam.
    """
    if result.rubric != marking.id or result.digests.rubric != marking.digest:
        raise InputError(
            "EXM-012",
            f"was graded with {result.rubric} ({result.digests.rubric[:19]}), not with"
            f" {marking.id} ({marking.digest[:19]}).",
            where=where,
            fix="Name the rubric with --rubric, or grade the answers again.",
        )
    faults: list[Fault] = []
    bits: dict[str, int] = {}
    exactly = [
        (
            Decimal(repr(made.score)),
            {axis: Decimal(repr(part)) for axis, part in made.weighted.items()},
        )
        for made in outcomes_of(marking)
    ]
    main = marking.rules[marking.main]

    def add(code: str, path: str, message: str) -> None:
        if len(faults) < MAX_FAULTS:
            faults.append(Fault(message, code=code, file=where, path=path))

    for index, item in enumerate(result.items):
        at = f"items[{index}]"
        if item.item in bits:
            add("EXM-002", f"{at}.item", f"the item '{item.item}' appears twice.")
        if item.item not in result.digests.items:
            add("EXM-008", f"{at}.item", f"the exam has no item '{item.item}'.")
        if not {*marking.axes} == {*item.breakdown} == {*item.weighted}:
            message = f"a mark and its weighted part for each of {', '.join(marking.axes)}."
            add("EXM-010", f"{at}.breakdown", message)
            bits[item.item] = 0
            continue
        if main.wants and not (item.expected and all(map(marking.normal, item.expected))):
            add("EXM-003", f"{at}.expected", "nothing is expected, so every answer would be right.")
        for axis, mark in item.breakdown.items():
            if not is_mark(mark):
                message = f"{axis} is {str(mark)[:40]}; a mark is 0 or 1."
                add("EXM-009", f"{at}.breakdown.{axis}", message)
        marks = marking.bits_of(item.breakdown)
        bits[item.item] = marks
        if marks & marking.bit[marking.main] and main.contradicts(
            item.got, item.expected, marking.normal
        ):
            message = (
                f"{marking.main} is 1, but {str(item.got)[:60]!r} does not contain"
                f" {', '.join(item.expected)[:60]!r}."
            )
            add("EXM-011", f"{at}.breakdown", message)
        if (item.score, item.weighted) != exactly[marks]:
            for path, message in _number_faults(item, marks, marking):
                add("EXM-011", f"{at}.{path}", message)
    checked = CheckedExam(where, result, marking, bits)
    if not faults:
        for code, path, message in _total_faults(checked):
            add(code, path, message)
    raise_faults(faults, where=where)
    removed = tuple(name for name in result.digests.items if name not in bits)
    return checked._replace(bits={**bits, **dict.fromkeys(removed, 0)}, removed=removed)


def _number_faults(item: ItemResult, bits: int, marking: Marking) -> Iterable[tuple[str, str]]:
    """The numbers of an item that its marks do not make."""
    for axis, part in item.weighted.items():
        wanted = Fraction(marking.weights[axis] if bits & marking.bit[axis] else 0, exact.NORM_ONE)
        if not _is(part, wanted):
            yield (
                "weighted",
                f"{axis} is {part}; its mark times its weight is {shown(wanted)}.",
            )
    total = mean(marking.units[bits], 1)
    if not _is(item.score, total):
        message = (
            f"the score of '{item.item}' is {item.score}; its weighted parts sum to {shown(total)}."
        )
        yield "score", message


def _total_faults(checked: CheckedExam) -> Iterable[tuple[str, str, str]]:
    """What does not fit together in a result whose items are in order."""
    result, bits = checked.result, checked.bits
    if exam_digest(result.set, result.digests.items) != result.digests.exam:
        yield (
            "EXM-011",
            "digests.exam",
            "is not the digest of this set and these items: an item or the set was changed.",
        )
    if result.axis_names != [*checked.marking.axes]:
        yield "EXM-011", "axis_names", f"are not the axes of {result.rubric}, in its order."
    if result.n != len(bits):
        yield "EXM-011", "n", f"n is {result.n}, and there are {len(bits)} items."
    if not _is(result.score, checked.score):
        message = f"is {result.score}; the mean of the items is {shown(checked.score)}."
        yield "EXM-011", "score", message
    axes, distribution = totals_of(bits.values(), checked.marking)
    given = axes if result.axes is None else result.axes
    for axis in sorted({*axes, *given}):
        if _shown_axis(given.get(axis)) != _shown_axis(axes.get(axis)):
            yield "EXM-011", f"axes.{axis}", "is not what the marks of the items make."
    if result.distribution and _spread(result.distribution) != _spread(distribution):
        yield "EXM-011", "distribution", "is not what the scores of the items make."
    p50 = result.latency.p50_ms
    if p50 is not None and not exact.is_amount(p50):
        yield "EXM-010", "latency.p50_ms", "must be a number of at least 0."
    line = result.pass_line
    if line is not UNSET and not (exact.is_amount(line.limit) and line.limit <= 1):
        yield "EXM-010", "pass_line.limit", "must be a number from 0 to 1."
    elif line is not UNSET and line.holds is not checked.passes:
        reaches = "reaches" if checked.passes else "is below"
        message = f"is {str(line.holds).lower()}, but the score {reaches} {line.limit}."
        yield "EXM-011", "pass_line.holds", message
    marked = [name for name in result.missing if bits.get(name) != 0]
    if marked:
        message = f"{', '.join(marked[:5])}: missing, and yet with marks or not among the items."
        yield "EXM-011", "missing", message


def _shown_axis(axis: AxisResult | None) -> tuple[Any, ...]:
    return () if axis is None else (*map(_exact, (axis.mean, axis.lost)), axis.zero_items)


def _spread(distribution: Iterable[ScoreCount]) -> dict[Any, int]:
    return {_exact(part.score): part.items for part in distribution}


def _exact(number: Any) -> Any:
    return fraction(number) if exact.is_number(number) else number


def is_mark(mark: object) -> bool:
    """Whether this is 0 or 1; true and false are neither.

    >>> [is_mark(x) for x in (0, 1.0, Decimal("1.00"), 0.5, True, "1")]
    [True, True, True, False, False, False]
    """
    return not isinstance(mark, bool) and isinstance(mark, int | float | Decimal) and mark in (0, 1)


def _is(number: Any, value: Fraction) -> bool:
    """Whether a number in a document is this value as documents show it."""
    return exact.is_number(number) and fraction(number) == fraction(shown(value))
