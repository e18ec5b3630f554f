"""`assay.exam/1`: a graded exam as a document, and the way back.

Going out, every item has the shape of the rubric chapter: `item, prompt, expected, got, score,
breakdown, weighted`. Coming back, nothing is believed: the weighted parts must be the marks times
the rubric's weights, the score their sum, the exam's score the mean. A document that does not add
up is refused.
"""

from __future__ import annotations

from collections import Counter
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

from msgspec import Meta, Struct, field

from assay import exact
from assay.errors import Fault, InputError
from assay.exams.diagnosis import diagnose
from assay.exams.exam import exam_digest
from assay.exams.marking import FULL, Graded, Marked, Marking, mean
from assay.exams.patterns import find_patterns
from assay.exams.policy import ExamRules, fraction, shown
from assay.exams.rubric import AXES, BIT
from assay.exams.versions import Systems
from assay.records.evidence import Number, OptionalNumber
from assay.records.reading import read_record

if TYPE_CHECKING:
    from assay.exams.exam import Exam
    from assay.files.json_files import Document

EXAM_SCHEMA = "assay.exam/1"
MAX_FAULTS = 100


# --- out


class _Shown(NamedTuple):
    """How one of the sixteen outcomes looks."""

    score: float
    breakdown: dict[str, float]
    weighted: dict[str, float]


def _outcomes(marking: Marking) -> list[_Shown]:
    found = []
    for bits in range(FULL + 1):
        on = {axis: bool(bits & BIT[axis]) for axis in AXES}
        weighted = {
            axis: exact.shown(marking.weights[axis] if on[axis] else 0, exact.NORM_DIGITS)
            for axis in AXES
        }
        found.append(
            _Shown(
                exact.shown(marking.units[bits], exact.NORM_DIGITS),
                {axis: float(on[axis]) for axis in AXES},
                weighted,
            )
        )
    return found


def item_documents(marked: tuple[Marked, ...], marking: Marking) -> list[dict[str, Any]]:
    """The items in the shape of the rubric chapter."""
    outcomes = _outcomes(marking)
    found = []
    for one in marked:
        look = outcomes[one.bits]
        found.append(
            {
                "item": one.item.id,
                "prompt": one.item.prompt,
                "expected": one.item.wanted,
                "got": one.got,
                "score": look.score,
                "breakdown": look.breakdown,
                "weighted": look.weighted,
            }
        )
    return found


def exam_document(
    graded: Graded,
    rules: ExamRules,
    *,
    unknown: tuple[str, ...] = (),
    faults: tuple[Fault, ...] = (),
    notes: tuple[str, ...] = (),
) -> dict[str, Any]:
    """The whole result."""
    n = len(graded.marked)
    counts = Counter(one.bits for one in graded.marked)
    marking = graded.marking
    asked = graded.exam.item_digests(marking.rubric.answer_schema)
    spread: Counter[int] = Counter()
    for bits, count in counts.items():
        spread[marking.units[bits]] += count
    axes = {}
    for axis in AXES:
        zero = sum(count for bits, count in counts.items() if not bits & BIT[axis])
        axes[axis] = {
            "mean": shown(Fraction(n - zero, n)),
            "lost": shown(mean(marking.weights[axis] * zero, n)),
            "zero_items": zero,
        }
    return {
        "schema": EXAM_SCHEMA,
        "exams": [
            {"exam": file.exam, "version": file.version, "items": len(file.items)}
            for file in graded.exam.files
        ],
        "set": graded.exam.set,
        "rubric": marking.id,
        "policy": rules.id,
        "score": shown(graded.score),
        "n": n,
        "missing": list(graded.missing),
        "missing_reasons": graded.missing,
        "unknown": list(unknown),
        "items": item_documents(graded.marked, marking),
        "axes": axes,
        "distribution": [
            {"score": exact.shown(units, exact.NORM_DIGITS), "items": count}
            for units, count in sorted(spread.items(), reverse=True)
        ],
        "patterns": [pattern.document() for pattern in find_patterns(graded, rules)],
        "diagnosis": diagnose(graded, rules),
        "latency": {"p50_ms": graded.p50_ms(), "n": len(graded.latencies)},
        "faults": [fault.as_dict() for fault in faults],
        "notes": list(notes),
        "digests": {
            "exam": exam_digest(graded.exam.set, asked),
            "rubric": marking.digest,
            "policy": rules.digest,
            "items": asked,
        },
        **Systems(marking.scoring_system, rules.grading_system).document(),
    }


# --- back


class ItemDocument(Struct, frozen=True, kw_only=True):
    """One item of a result, in the shape of the rubric chapter."""

    item: str
    prompt: str
    expected: list[str]
    got: str | None
    score: Number
    breakdown: dict[str, Number]
    weighted: dict[str, Number]


class LatencyDocument(Struct, frozen=True, kw_only=True):
    """How long the answers took."""

    p50_ms: OptionalNumber = None
    n: int = 0


class Digests(Struct, frozen=True, kw_only=True):
    """What a result was made of."""

    exam: str
    rubric: str
    items: dict[str, str]
    """What each item of the exam asks and expects, by its id."""
    policy: str = ""


class ExamDocument(Struct, frozen=True, kw_only=True):
    """A graded exam as it is read back. Keys that a later version adds are let through; nothing
    here is judged by them.
    """

    schema: Literal["assay.exam/1"]
    rubric: str
    score: Number
    n: Annotated[int, Meta(ge=1)]
    missing: list[str]
    items: Annotated[list[ItemDocument], Meta(min_length=1)]
    digests: Digests
    latency: LatencyDocument
    scoring_system: str = field(name="scoringSystem")
    grading_system: str = field(name="gradingSystem")
    set: Literal["capstone", "regression"] = "capstone"
    faults: list[Any] = []
    notes: list[str] = []
    recalibrated_from: str | None = None


class Outcome(NamedTuple):
    """What a gate needs of a graded exam: the marks of every item of the exam, checked."""

    where: str
    document: ExamDocument
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
        return sum(not bits & BIT[axis] for bits in self.bits.values())

    def axis_mean(self, axis: str) -> Fraction:
        """The share of items with the mark."""
        return 1 - Fraction(self.zero(axis), len(self.bits))

    @property
    def unmeasured(self) -> int:
        """How many answers have no latency."""
        return (
            len(self.bits)
            - len(self.removed)
            - len(self.document.missing)
            - self.document.latency.n
        )

    @property
    def p50_ms(self) -> Decimal | int | float | None:
        """The median latency, or None."""
        value: Any = self.document.latency.p50_ms
        return value  # type: ignore[no-any-return]


def read_result(document: Document) -> ExamDocument:
    """A result, its shape checked."""
    tree = document.tree
    if not isinstance(tree, dict) or tree.get("schema") != EXAM_SCHEMA:
        said = tree.get("schema") if isinstance(tree, dict) else None
        raise InputError(
            "FIL-006",
            (
                f"is no graded exam; its schema is {str(said)[:60]!r}."
                if said
                else "is no graded exam."
            ),
            where=document.file,
            fix="`assay exam grade ... -o result.json` writes one.",
        )
    return read_record(document, ExamDocument, "EXM-010")


def check_result(result: ExamDocument, marking: Marking, *, where: str) -> Outcome:
    """A result whose every number was made again from its marks, held against the items of its
    exam. What does not add up is refused, all of it at once.

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
    outcomes = [_exactly(look) for look in _outcomes(marking)]
    for index, item in enumerate(result.items):
        if item.item in bits:
            faults.append(
                Fault(
                    f"the item '{item.item}' stands twice.",
                    code="EXM-002",
                    file=where,
                    path=f"items[{index}].item",
                )
            )
        if item.item not in result.digests.items:
            faults.append(
                Fault(
                    f"the exam has no item '{item.item}'.",
                    code="EXM-008",
                    file=where,
                    path=f"items[{index}].item",
                )
            )
        if not item.expected or not all(map(marking.normal.apply, item.expected)):
            faults.append(
                Fault(
                    "nothing is expected, so every answer would be right.",
                    code="EXM-003",
                    file=where,
                    path=f"items[{index}].expected",
                )
            )
        bits[item.item] = _bits(item, index, where, faults)
        if bits[item.item] & BIT["correctness"] and not marking.may_hold(item.got, item.expected):
            message = (
                f"correctness is 1, and {str(item.got)[:60]!r} does not hold"
                f" {', '.join(item.expected)[:60]!r}."
            )
            faults.append(
                Fault(message, code="EXM-011", file=where, path=f"items[{index}].breakdown")
            )
        score, weighted = outcomes[bits[item.item]]
        if (item.score != score or item.weighted != weighted) and len(faults) < MAX_FAULTS:
            faults += _item_faults(item, bits[item.item], marking, f"items[{index}]", where)
    if not faults:
        outcome = Outcome(where, result, marking, bits)
        if exam_digest(result.set, result.digests.items) != result.digests.exam:
            message = (
                "is not the digest of this set and these items: an item or the set was changed."
            )
            faults.append(Fault(message, code="EXM-011", file=where, path="digests.exam"))
        if result.n != len(bits):
            faults.append(
                Fault(
                    f"n is {result.n}, and there are {len(bits)} items.",
                    code="EXM-011",
                    file=where,
                    path="n",
                )
            )
        if not _is(result.score, outcome.score):
            faults.append(
                Fault(
                    f"is {result.score}; the mean of the items is {shown(outcome.score)}.",
                    code="EXM-011",
                    file=where,
                    path="score",
                )
            )
        p50 = result.latency.p50_ms
        if p50 is not None and not exact.is_amount(p50):
            faults.append(
                Fault(
                    "must be a number from 0 on.", code="EXM-010", file=where, path="latency.p50_ms"
                )
            )
        lost = [name for name in result.missing if bits.get(name) != 0]
        if lost:
            faults.append(
                Fault(
                    f"{', '.join(lost[:5])}: missing, and yet with marks or not among the items.",
                    code="EXM-011",
                    file=where,
                    path="missing",
                )
            )
    if faults:
        raise InputError(faults[0].code, faults[0].message, where=where, faults=faults[:MAX_FAULTS])
    removed = tuple(name for name in result.digests.items if name not in bits)
    return outcome._replace(bits={**bits, **dict.fromkeys(removed, 0)}, removed=removed)


def check_whole(outcome: Outcome) -> None:
    """Refuse a result that lacks items of its exam where it is to be a measure for others: counted
    as missing they would lower the bar.
    """
    if outcome.removed:
        named = ", ".join(outcome.removed[:5])
        raise InputError(
            "EXM-011",
            f"{len(outcome.removed)} items of its exam are not in it: {named}.",
            where=outcome.where,
            fix="Grade its answers again.",
        )


def hold_against(outcome: Outcome, exam: Exam, marking: Marking) -> None:
    """Refuse a result of another exam than this one: shortened, longer, with other questions,
    expectations or set, or graded with another rubric.
    """
    asked = exam.item_digests(outcome.marking.rubric.answer_schema)
    own = outcome.document.digests
    if exam_digest(exam.set, asked) == own.exam:
        shown_as = {item.id: (item.prompt, item.wanted) for item in exam.items}
        wrong = [
            one.item
            for one in outcome.document.items
            if (one.prompt, one.expected) != shown_as[one.item]
        ]
        reason = (
            f"it shows another prompt or another expectation for {', '.join(wrong[:5])}"
            if wrong
            else ""
        )
        if outcome.marking.digest != marking.digest:
            reason = (
                f"it was graded with {outcome.marking.id}, and the exam is graded with {marking.id}"
            )
    else:
        lost, added = (
            [name for name in asked if name not in own.items],
            [name for name in own.items if name not in asked],
        )
        other = [name for name in asked if name in own.items and own.items[name] != asked[name]]
        parts = [
            f"{what} {', '.join(names[:5])}"
            for what, names in (("it lacks", lost), ("it adds", added), ("it changes", other))
            if names
        ]
        reason = (
            "; ".join(parts)
            or f"it is of the set '{outcome.document.set}', and the exam of the set '{exam.set}'"
        )
    if reason:
        raise InputError(
            "EXM-012",
            f"is a result of another exam: {reason}.",
            where=outcome.where,
            fix="Grade the answers again on this exam.",
        )


def _exactly(look: _Shown) -> tuple[Decimal, dict[str, Decimal]]:
    return Decimal(repr(look.score)), {
        axis: Decimal(repr(part)) for axis, part in look.weighted.items()
    }


def _bits(item: ItemDocument, index: int, where: str, faults: list[Fault]) -> int:
    found = 0
    at = f"items[{index}]"
    if set(item.breakdown) != set(AXES):
        faults.append(
            Fault(
                f"has the axes {', '.join(item.breakdown)}; they are {', '.join(AXES)}.",
                code="EXM-010",
                file=where,
                path=f"{at}.breakdown",
            )
        )
        return 0
    for axis, mark in item.breakdown.items():
        if not is_mark(mark):
            faults.append(
                Fault(
                    f"{axis} is {str(mark)[:40]}; a mark is 0 or 1.",
                    code="EXM-009",
                    file=where,
                    path=f"{at}.breakdown.{axis}",
                )
            )
        elif mark == 1:
            found |= BIT[axis]
    return found


def is_mark(mark: object) -> bool:
    """Whether this is 0 or 1; true and false are neither.

    >>> [is_mark(x) for x in (0, 1.0, Decimal("1.00"), 0.5, True, "1")]
    [True, True, True, False, False, False]
    """
    return not isinstance(mark, bool) and isinstance(mark, int | float | Decimal) and mark in (0, 1)


def _is(number: object, value: Fraction) -> bool:
    """Whether a number in a document is this value as documents show it."""
    return exact.is_number(number) and fraction(number) == fraction(shown(value))


def _item_faults(
    item: ItemDocument, bits: int, marking: Marking, at: str, where: str
) -> list[Fault]:
    found = []
    if set(item.weighted) != set(AXES):
        found.append(
            Fault(
                f"has the axes {', '.join(item.weighted)}; they are {', '.join(AXES)}.",
                code="EXM-010",
                file=where,
                path=f"{at}.weighted",
            )
        )
    for axis in AXES:
        part = Fraction(marking.weights[axis] if bits & BIT[axis] else 0, exact.NORM_ONE)
        if not _is(item.weighted.get(axis), part):
            message = (
                f"{axis} is {item.weighted.get(axis)}; its mark times its weight is {shown(part)}."
            )
            found.append(Fault(message, code="EXM-011", file=where, path=f"{at}.weighted"))
    total = mean(marking.units[bits], 1)
    if not _is(item.score, total):
        message = (
            f"the score of '{item.item}' is {item.score}; its weighted parts sum to {shown(total)}."
        )
        found.append(Fault(message, code="EXM-011", file=where, path=f"{at}.score"))
    return found
