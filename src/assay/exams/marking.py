"""Marking answers: the one evaluator. The gate, a portal and the Python interface call the same
function and get the same numbers.

Four axes, each 0 or 1. A response is an object, or a text that holds one; a text that holds none is
matched as a whole, without the marks for schema and conciseness. An item without an answer has no
marks. Scores are whole billionths, the exam's mean is their exact quotient, and no float is
compared with anything. Nothing here decides whether an exam is passed: see `gate`.
"""

from __future__ import annotations

from decimal import Context, Decimal, Inexact
from fractions import Fraction
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import Struct

from assay import exact
from assay.canon import canonical
from assay.exams.normal import MATCHES, Normaliser
from assay.exams.rubric import BIT, ExamRubric, compile_schema
from assay.exams.versions import SCORING_SYSTEM
from assay.files.json_files import parse_json
from assay.records.exam import AXES
from assay.records.plain import beyond_json
from assay.records.systems import is_published, system_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from assay.exams.answers import Answer
    from assay.exams.exam import Exam, ExamItem

_CORRECTNESS, _GLOSS, _SCHEMA, _CONCISENESS = (BIT[axis] for axis in AXES)
FULL = sum(BIT.values())


class Prepared(Struct, frozen=True, gc=False):
    """An item, made ready to be marked against: its expected forms normalised, its way of matching
    and its schema found.
    """

    item: ExamItem
    expected: tuple[str, ...]
    gloss: tuple[str, ...]
    found: Callable[[str, str], bool]
    validator: Any


class Marked(Struct, frozen=True, gc=False):
    """The marks of one item: the bits of `BIT`, the score in billionths, and what was answered in
    English and Spanish (None for nothing).
    """

    item: ExamItem
    got: str | None
    gloss: str | None
    bits: int
    units: int

    def on(self, axis: str) -> tuple[list[str], str | None]:
        """What a matched axis expects, and what was answered to it."""
        return (
            (self.item.wanted, self.got)
            if axis == "correctness"
            else (self.item.gloss_contains, self.gloss)
        )


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
        whole = Normaliser(rubric.normalisation)
        self.normal = whole.without(without) if without is not None else whole
        self.weights = {
            axis: exact.norm_of(exact.ratio(part.weight)) for axis, part in rubric.axes.items()
        }
        self.units = tuple(
            sum(weight for axis, weight in self.weights.items() if bits & BIT[axis])
            for bits in range(FULL + 1)
        )
        self._validator = compile_schema(rubric.answer_schema)
        self._budget = rubric.word_budget

    def without(self, step: str) -> Marking:
        """The same rubric with one step of normalisation left out."""
        return Marking(self.rubric, without=step)

    def prepare(
        self, items: Iterable[ExamItem], schema: dict[str, Any] | None = None
    ) -> Iterator[Prepared]:
        """Items of one file, ready to be marked against, one after another: an exam of a hundred
        thousand items is not held twice.
        """
        validator = compile_schema(schema) if schema is not None else self._validator
        form = cache(self.normal)  # forms repeat over an exam
        for item in items:
            yield Prepared(
                item,
                tuple(map(form, item.wanted)),
                tuple(map(form, item.gloss_contains)),
                MATCHES[item.match or self.rubric.match],
                validator,
            )

    def mark(self, ready: Prepared, response: Any) -> Marked:
        """The marks of one response. None is no answer and has none."""
        if response is None:
            return Marked(ready.item, None, None, 0, self.units[0])
        tree = _parsed(response)
        got: str | None
        gloss: str | None
        if tree is None:
            got = gloss = response if isinstance(response, str) else canonical(response).decode()
        else:
            got, gloss = _text(tree.get("correction")), _text(tree.get("gloss"))
        bits = _CORRECTNESS if self._finds(got, ready.expected, ready.found) else 0
        if self._finds(gloss, ready.gloss, ready.found):
            bits |= _GLOSS
        # an answer that could not be checked does not keep its schema
        if tree is not None and not beyond_json(tree) and ready.validator.check(tree).valid:
            bits |= _SCHEMA
        explained = _text(tree.get("explanation")) if tree is not None else None
        if explained and self.concise(len(explained.split()) or None):
            bits |= _CONCISENESS
        return Marked(ready.item, got, gloss, bits, self.units[bits])

    def _finds(
        self, text: str | None, entries: Iterable[str], found: Callable[[str, str], bool]
    ) -> bool:
        """Whether a text has every one of these normalised forms."""
        if text is None:
            return False
        whole = self.normal(text)
        return all(found(whole, entry) for entry in entries)

    def may_hold(self, text: str | None, entries: Iterable[str]) -> bool:
        """Whether a text holds these forms by the most lenient way of matching: the others find
        nothing that this one does not.
        """
        return self._finds(text, map(self.normal, entries), MATCHES["substring"])

    def concise(self, words: int | None) -> bool:
        """Whether that many words are within the budget, which is inclusive. No explanation is not
        concise.
        """
        return words is not None and words <= self._budget


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _parsed(response: Any) -> dict[str, Any] | None:
    if isinstance(response, dict):
        return response
    if not isinstance(response, str) or response.lstrip()[:1] != "{":
        return None
    try:
        tree = parse_json(response.encode("utf-8", "surrogatepass"))
    except ValueError:
        return None
    return tree if isinstance(tree, dict) else None


def mark_item(
    item: ExamItem, response: Any, marking: Marking, *, schema: dict[str, Any] | None = None
) -> Marked:
    """The marks of one answer to one item, as a portal asks for them. The same marks as in an exam:
    it is the same call.
    """
    return marking.mark(next(marking.prepare([item], schema)), response)


class MarkedExam(NamedTuple):
    """An exam, marked: one entry for each item, in the exam's order."""

    exam: Exam
    marking: Marking
    marked: tuple[Marked, ...]
    missing: dict[str, str]
    """Items without an answer, and why."""
    latencies: tuple[Any, ...]

    @property
    def score(self) -> Fraction:
        """The mean of the item scores, exact."""
        return mean(sum(one.units for one in self.marked), len(self.marked))

    @property
    def answered(self) -> list[Marked]:
        """The items that have an answer."""
        return [one for one in self.marked if one.item.id not in self.missing]

    def zero(self, axis: str) -> int:
        """How many items have no mark on an axis; one without an answer has none."""
        bit = BIT[axis]
        return sum(not one.bits & bit for one in self.marked)

    def p50_ms(self) -> Decimal | None:
        """The median latency of the answers that have one, exact; None where none has."""
        return median(self.latencies)


def mean(units: int, n: int) -> Fraction:
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


def grade_exam(exam: Exam, answers: Mapping[str, Answer], marking: Marking) -> MarkedExam:
    """Mark every item of an exam. One without an answer has no marks and is listed."""
    marked, missing, latencies = [], {}, []
    for file in exam.files:
        for ready in marking.prepare(file.items, file.answer_schema):
            name = ready.item.id
            answer = answers.get(name)
            response = None if answer is None else answer.response
            marked.append(marking.mark(ready, response))
            if answer is None or response is None:
                missing[name] = (answer.error if answer is not None else "") or "no answer"
            elif answer.latency_ms is not None:
                latencies.append(answer.latency_ms)
    return MarkedExam(exam, marking, tuple(marked), missing, tuple(latencies))
