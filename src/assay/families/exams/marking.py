"""Marks answers, tests a rubric by its own cases, and says in words why a mark was lost. The gate,
a portal and the Python interface call the same function and get the same numbers.

Each axis of the rubric gives 0 or 1, by its rule. A response is an object, or a text that contains
one; any other text is read as a whole. An item without an answer has no marks. Scores are whole
billionths, the exam's mean is their exact quotient, and no float is compared with anything. Nothing
here decides whether an exam is passed: see `gate`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from decimal import Context, Decimal, Inexact
from fractions import Fraction
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import UNSET, Struct

from assay import exact
from assay.errors import Fault, InputError
from assay.families.exams.answers import Answer
from assay.families.exams.exam import Exam
from assay.families.exams.records import ExamResult, LostMark
from assay.families.exams.rubric import SCORING_SYSTEM, ExamRubric, compile_schema, rules_of
from assay.families.exams.rules import (
    Check,
    ExamItem,
    MarkingSetting,
    TextRule,
    item_faults,
    parsed,
    shown_text,
)
from assay.records.systems import Systems, is_published, system_of
from assay.scoring.checks import Normaliser

if TYPE_CHECKING:
    from assay.families.exams.policy import ExamRules
    from assay.records.contract import Contract


MAX_FAULTS = 100


class Prepared(Struct, frozen=True, gc=False):
    """An item, made ready to be marked against: one check for each axis."""

    item: ExamItem
    checks: tuple[Check, ...]


class Marked(Struct, frozen=True, gc=False):
    """The marks of one item: one bit for each axis, the score in billionths, and what the axes that
    compare read of the answer (None for nothing).
    """

    item: ExamItem
    read: tuple[Any, ...]
    bits: int
    units: int


class Marking:
    """A rubric, made ready to mark. `without` leaves one step of normalisation out, to see what
    that costs.
    """

    def __init__(self, rubric: ExamRubric, *, without: str | None = None) -> None:
        self.rubric = rubric
        self.id = rubric.id
        self.digest = rubric.digest
        self.scoring_system = system_of(
            SCORING_SYSTEM, rubric.scoring_system, self.digest, published=is_published(self.digest)
        )
        whole = Normaliser(rubric.steps)
        self.normal = whole.without(without) if without is not None else whole
        self.rules = rules_of(rubric)
        self.axes = tuple(rubric.axes)
        self.main = self.axes[0]
        """The axis that says whether an answer is right."""
        top = 1 << len(self.axes) - 1
        self.bit = {axis: top >> place for place, axis in enumerate(self.axes)}
        """The marks of an answer as one number: the first axis is its highest bit."""
        self.full = sum(self.bit.values())
        self.weights = {
            axis: exact.norm_of(exact.ratio(part.weight)) for axis, part in rubric.axes.items()
        }
        self.units = tuple(
            sum(weight for axis, weight in self.weights.items() if bits & self.bit[axis])
            for bits in range(self.full + 1)
        )
        self._contract = None if rubric.schema is None else compile_schema(rubric.schema)
        self._order = tuple(
            (self.bit[axis], rule.read, rule.wants) for axis, rule in self.rules.items()
        )
        self._nothing = (None,) * len(self.axes)

    def without(self, step: str) -> Marking:
        """The same rubric with one step of normalisation left out."""
        return Marking(self.rubric, without=step)

    @property
    def text_axes(self) -> tuple[str, ...]:
        """The axes that look for text, which normalization touches."""
        return tuple(axis for axis, rule in self.rules.items() if isinstance(rule, TextRule))

    def axis_of_kind(self, kind: str) -> str | None:
        """The first axis with a rule of that kind; None if the rubric has none."""
        return next((axis for axis, rule in self.rules.items() if rule.kind == kind), None)

    def bits_of(self, breakdown: Mapping[str, Any]) -> int:
        """The marks of the axes as one number."""
        return sum(self.bit[axis] for axis, mark in breakdown.items() if mark == 1)

    def marks(self, bits: int) -> dict[str, int]:
        """The mark of each axis."""
        return {axis: int(bool(bits & bit)) for axis, bit in self.bit.items()}

    def setting(
        self, schema: dict[str, Any] | None = None, note: Callable[[str], None] | None = None
    ) -> MarkingSetting:
        """What the checks of one file share."""
        contract: Contract | None = self._contract if schema is None else compile_schema(schema)
        form: Any = cache(self.normal)
        return MarkingSetting(
            self.normal, form, self.rubric.matching, contract, note or (lambda text: None)
        )

    def prepare(
        self,
        items: Iterable[ExamItem],
        schema: dict[str, Any] | None = None,
        note: Callable[[str], None] | None = None,
    ) -> Iterator[Prepared]:
        """Items of one file, ready to be marked against, one after another: an exam of a hundred
        thousand items is not held twice.
        """
        setting = self.setting(schema, note)
        shared: dict[str, Check] = {}
        for item in items:
            given = item.expectations
            checks = []
            for axis, rule in self.rules.items():
                check = shared.get(axis)
                if check is None:
                    check = rule.prepare(rule.wanted(axis, given), item, setting)
                    if not rule.wants:  # it asks the same of every item
                        shared[axis] = check
                checks.append(check)
            yield Prepared(item, tuple(checks))

    def mark(self, ready: Prepared, response: Any, latency_ms: Any = None) -> Marked:
        """The marks of one response. None means that there was no answer, and gets no marks."""
        if response is None:
            return Marked(ready.item, self._nothing, 0, self.units[0])
        given = parsed(response, latency_ms)
        bits = 0
        seen = []
        for (bit, read, wants), check in zip(self._order, ready.checks, strict=True):
            value = read(given)
            if check(value):
                bits |= bit
            seen.append(value if wants else None)
        return Marked(ready.item, tuple(seen), bits, self.units[bits])

    def got(self, marked: Marked, axis: str | None = None) -> str | None:
        """What an axis, by default the main one, read of the answer."""
        return shown_text(marked.read[self.axes.index(axis or self.main)])

    def expected(self, item: ExamItem, axis: str | None = None) -> list[str]:
        """What an axis, by default the main one, expects, as people read it."""
        name = axis or self.main
        want = self.rules[name].wanted(name, item.expectations)
        return [] if want is UNSET or want is None else self.rules[name].shows(want)

    def faults(self, exam: Exam) -> Iterator[Fault]:
        """The expectations of an exam that this rubric can't mark, each with its line."""
        for file, document in zip(exam.files, exam.documents, strict=True):
            setting = self.setting(file.answer_schema)
            for place, item in enumerate(file.items):
                for path, message, fix in item_faults(item, self.rules, setting):
                    yield document.fault(
                        f"{item.id}: {message}", ("items", place, *path), code="EXM-003", fix=fix
                    )


def mark_item(
    item: ExamItem,
    response: Any,
    marking: Marking,
    *,
    schema: dict[str, Any] | None = None,
    latency_ms: Any = None,
) -> Marked:
    """The marks of one answer to one item, as a portal asks for them. The same marks as in an exam:
    it is the same call.
    """
    return marking.mark(next(marking.prepare([item], schema)), response, latency_ms)


class MarkedExam(NamedTuple):
    """An exam, marked: one entry for each item, in the exam's order."""

    exam: Exam
    marking: Marking
    marked: tuple[Marked, ...]
    missing: dict[str, str]
    """Items without an answer, and why the tutor gave none; empty if it doesn't say."""
    latencies: tuple[Any, ...]
    notes: tuple[str, ...] = ()
    """Checks that could not be carried out."""

    @property
    def score(self) -> Fraction:
        """The mean of the item scores, exact."""
        return mean(sum(item.units for item in self.marked), len(self.marked))

    @property
    def answered(self) -> list[Marked]:
        """The items that have an answer."""
        return [item for item in self.marked if item.item.id not in self.missing]

    def zero(self, axis: str) -> int:
        """How many items have no mark on an axis; one without an answer has none."""
        bit = self.marking.bit[axis]
        return sum(not item.bits & bit for item in self.marked)

    def p50_ms(self) -> Decimal | None:
        """The median latency of the answers that have one, exact; None if none has."""
        return median(self.latencies)


def mean(units: int | Fraction, n: int) -> Fraction:
    """The mean of n scores whose sum is that many billionths."""
    return Fraction(units, n * exact.NORM_ONE)


_HALVING = Context(prec=3 * exact.MAX_DIGITS + exact.MAX_EXPONENT, traps=[Inexact])


def median(values: Iterable[Any]) -> Decimal | None:
    """The median of numbers, exact: the mean of the middle two where their count is even.

    >>> median([3, Decimal("1.5"), 2.5, 10]), median([])
    (Decimal('2.75'), None)
    """
    ordered = sorted(
        Decimal(repr(value)) if isinstance(value, float) else Decimal(value) for value in values
    )
    if not ordered:
        return None
    half = len(ordered) // 2
    return (
        ordered[half]
        if len(ordered) % 2
        else _HALVING.divide(_HALVING.add(ordered[half - 1], ordered[half]), Decimal(2))
    )


def made_by(marking: Marking, rules: ExamRules) -> dict[str, Any]:
    """What a document was made by, as its last keys: the rubric, the policy and their systems."""
    systems = Systems(marking.scoring_system, rules.grading_system)
    return {"rubric": marking.id, "policy": rules.id, **systems.document()}


def check_exam(exam: Exam, marking: Marking) -> None:
    """Refuse an exam whose items the rubric can't mark, with every fault."""
    faults = [fault for fault, _ in zip(marking.faults(exam), range(MAX_FAULTS), strict=False)]
    if faults:
        raise InputError(
            faults[0].code,
            faults[0].message,
            where=faults[0].file,
            fix=faults[0].fix or f"Write what {marking.id} expects.",
            faults=faults,
        )


def grade_exam(exam: Exam, answers: Mapping[str, Answer], marking: Marking) -> MarkedExam:
    """Mark every item of an exam. One without an answer has no marks and is listed."""
    check_exam(exam, marking)
    marked, missing, latencies = [], {}, []
    notes: dict[str, None] = {}
    for file in exam.files:
        for ready in marking.prepare(file.items, file.answer_schema, notes.setdefault):
            name = ready.item.id
            answer = answers.get(name)
            response = None if answer is None else answer.response
            latency = None if answer is None else answer.latency_ms
            marked.append(marking.mark(ready, response, latency))
            if answer is None or response is None:
                missing[name] = answer.error if answer is not None else ""
            elif latency is not None:
                latencies.append(latency)
    return MarkedExam(exam, marking, tuple(marked), missing, tuple(latencies), tuple(notes))


def self_test(marking: Marking) -> list[dict[str, Any]]:
    """Mark every case of the rubric; the cases whose marks are others, as a gate shows them."""
    failures = []
    for case in marking.rubric.self_test:
        latency = None if case.latency_ms is UNSET else case.latency_ms
        actual = marking.marks(
            mark_item(case.item, case.response, marking, latency_ms=latency).bits
        )
        if actual != case.breakdown:
            failures.append({"name": case.name, "expected": case.breakdown, "actual": actual})
    return failures


MAX_TEXT = 1000
MAX_MARKS = 2000


def lost_marks(
    result: ExamResult, exam: Exam, answers: Mapping[str, Answer], marking: Marking
) -> list[LostMark]:
    """The lost marks of a result, item after item in its order; at most `MAX_MARKS`."""
    items = {}
    for file in exam.files:
        setting = marking.setting(file.answer_schema)
        items.update({item.id: (item, setting) for item in file.items})
    marks: list[LostMark] = []
    for marked in result.items:
        known = items.get(marked.item)
        if known is None or len(marks) >= MAX_MARKS:
            continue
        item, setting = known
        answer = answers.get(marked.item)
        response = (
            None
            if answer is None or answer.response is None
            else parsed(answer.response, answer.latency_ms)
        )
        for axis, rule in marking.rules.items():
            if axis in marked.lost:
                want = rule.wanted(axis, item.expectations)
                given = "" if response is None else rule.gives(response, setting)
                marks.append(
                    LostMark(
                        item=marked.item,
                        axis=axis,
                        expected="" if want is UNSET else rule.asks(want)[:MAX_TEXT],
                        given=given[:MAX_TEXT],
                    )
                )
    return marks
