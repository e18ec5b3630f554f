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
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import Struct

from assay import exact
from assay.canon import canonical
from assay.exams.normal import MATCHES, Normaliser
from assay.exams.rubric import AXES, BIT, ExamRubric, compile_schema
from assay.exams.versions import SCORING_SYSTEM
from assay.files.json_files import parse_json
from assay.records.plain import beyond_json
from assay.records.systems import is_published, system_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from assay.exams.answers import Answer
    from assay.exams.exam import Exam, ExamItem

_CORRECTNESS, _GLOSS, _SCHEMA, _CONCISENESS = (BIT[axis] for axis in AXES)
FULL = sum(BIT.values())
_SUBSTRING = MATCHES["substring"]


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


class _Forms(dict[str, str]):
    """Forms by what they are after normalisation: they repeat over an exam."""

    def __init__(self, normal: Callable[[str], str]) -> None:
        self._normal = normal

    def __missing__(self, entry: str) -> str:
        made = self[entry] = self._normal(entry)
        return made


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
    ) -> list[Prepared]:
        """Items of one file, ready to be marked against."""
        return list(self.each(items, schema))

    def each(
        self, items: Iterable[ExamItem], schema: dict[str, Any] | None = None
    ) -> Iterator[Prepared]:
        """The same, one after another: an exam of a hundred thousand items is not held twice."""
        validator = compile_schema(schema) if schema is not None else self._validator
        match, form = self.rubric.match, _Forms(self.normal.apply).__getitem__
        for item in items:
            wanted = item.expected_contains
            if wanted is None:
                wanted = item.wanted
            yield Prepared(
                item,
                tuple(map(form, wanted)),
                tuple(map(form, item.gloss_contains)),
                MATCHES[item.match or match],
                validator,
            )

    def mark(self, ready: Prepared, response: Any) -> Marked:
        """The marks of one response. None is no answer and has none."""
        if response is None:
            return Marked(ready.item, None, None, 0, self.units[0])
        item, expected, wanted, found, validator = (
            ready.item,
            ready.expected,
            ready.gloss,
            ready.found,
            ready.validator,
        )
        tree = response if type(response) is dict else _parsed(response)
        normal = self.normal.apply
        if tree is None:
            text = response if isinstance(response, str) else canonical(response).decode()
            whole = normal(text)
            bits = (_CORRECTNESS if _finds(whole, expected, found) else 0) | (
                _GLOSS if _finds(whole, wanted, found) else 0
            )
            return Marked(item, text, text, bits, self.units[bits])
        got, gloss, explained = tree.get("correction"), tree.get("gloss"), tree.get("explanation")
        got, gloss = (
            got if isinstance(got, str) else None,
            gloss if isinstance(gloss, str) else None,
        )
        bits = _CORRECTNESS if got is not None and _finds(normal(got), expected, found) else 0
        if gloss is not None and _finds(normal(gloss), wanted, found):
            bits |= _GLOSS
        if _is_json(tree) and validator.check(tree).valid:  # what could not be checked was not kept
            bits |= _SCHEMA
        if (
            isinstance(explained, str) and 0 < len(explained.split()) <= self._budget
        ):  # words are separated by whitespace; no explanation is not concise
            bits |= _CONCISENESS
        return Marked(item, got, gloss, bits, self.units[bits])

    def may_hold(self, text: str | None, entries: Iterable[str]) -> bool:
        """Whether a text holds these forms by the most lenient way of matching: the others find
        nothing that this one does not.
        """
        return text is not None and _finds(
            self.normal.apply(text), tuple(map(self.normal.apply, entries)), _SUBSTRING
        )

    def concise(self, words: int | None) -> bool:
        """Whether that many words are within the budget, which is inclusive. No explanation is not
        concise.
        """
        return words is not None and words <= self._budget


def _finds(text: str, entries: tuple[str, ...], found: Callable[[str, str], bool]) -> bool:
    if found is _SUBSTRING:
        for entry in entries:  # as below  # noqa: SIM110
            if entry not in text:
                return False
        return True
    for entry in entries:  # the innermost loop of all; a generator would cost as much as the search  # noqa: SIM110
        if not found(text, entry):
            return False
    return True


def _is_json(tree: dict[str, Any]) -> bool:
    for value in tree.values():  # the usual answer holds texts alone
        if type(value) is not str:
            return not beyond_json(tree)
    return True


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
    return marking.mark(marking.prepare([item], schema)[0], response)


class Graded(NamedTuple):
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


def grade_exam(exam: Exam, answers: Mapping[str, Answer], marking: Marking) -> Graded:
    """Mark every item of an exam. One without an answer has no marks and is listed."""
    marked, missing, latencies = [], {}, []
    mark = marking.mark
    for file in exam.files:
        for ready in marking.each(file.items, file.answer_schema):
            name = ready.item.id
            answer = answers.get(name)
            response = None if answer is None else answer.response
            marked.append(mark(ready, response))
            if answer is None or response is None:
                missing[name] = (answer.error if answer is not None else "") or "no answer"
            elif answer.latency_ms is not None:
                latencies.append(answer.latency_ms)
    return Graded(exam, marking, tuple(marked), missing, tuple(latencies))
