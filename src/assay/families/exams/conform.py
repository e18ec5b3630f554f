"""What the rules for exams make of given inputs: the operations of the exam vectors, and the
outcomes of the golden inputs. Each runs the function that marks or gates; no rule is duplicated
here. Wording is not behaviour and is left out.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from functools import cache
from typing import Any

from assay import exact
from assay.errors import InputError
from assay.families.exams import gate, schedule
from assay.families.exams.exam import Exam, ExamFile, file_faults
from assay.families.exams.marking import Marked, MarkedExam, Marking, mark_item, mean
from assay.families.exams.policy import ExamRules, fraction, shown
from assay.families.exams.results import find_patterns, is_mark, outcomes_of
from assay.families.exams.rules import ExamItem, Length
from assay.files.json_files import Document
from assay.library.golden_inputs import golden
from assay.library.shelf import Shelf

Input = dict[str, Any]
Output = dict[str, Any]


@cache
def _rules() -> ExamRules:
    return ExamRules(Shelf().policy_of("exam", "exam"))


@cache
def _marking() -> Marking:
    return Marking(Shelf().rubric_of("exam", _rules().policy.default_rubric))


def _number(value: Any, what: str) -> Fraction:
    """A number, or the decimal text of one."""
    if isinstance(value, str):
        try:
            value = Decimal(value)
        except InvalidOperation:
            raise InputError("EXM-010", f"'{what}' is {value[:40]!r}, not a number.") from None
    try:
        return fraction(value)
    except ValueError as error:
        raise InputError("EXM-010", f"'{what}' is not a number: {error}.") from None


def _score(value: Any, what: str = "score") -> Fraction:
    score = _number(value, what)
    if not 0 <= score <= 1:
        raise InputError("EXM-010", f"'{what}' is outside 0 to 1.")
    return score


def _item(given: Input) -> Output:
    breakdown, marking = given.get("breakdown"), _marking()
    if not isinstance(breakdown, dict) or set(breakdown) != set(marking.axes):
        named = ", ".join(marking.axes)
        raise InputError("EXM-010", f"'breakdown' has a mark for each of {named}.")
    wrong = [axis for axis, mark in breakdown.items() if not is_mark(mark)]
    if wrong:
        raise InputError("EXM-009", f"{', '.join(wrong)}: a mark is 0 or 1.")
    made = outcomes_of(marking)[marking.bits_of(breakdown)]
    return {"score": made.score, "weighted": made.weighted}


def _match(given: Input) -> Output:
    got, expected = given.get("got"), given.get("expected_contains")
    if not isinstance(got, str):
        raise InputError("EXM-006", "'got' must be a string.")
    if not isinstance(expected, list) or not all(isinstance(entry, str) for entry in expected):
        raise InputError("EXM-001", "'expected_contains' must be a list of strings.")
    item = ExamItem(id="item", prompt="prompt", expected_contains=expected, gloss_contains=["-"])
    faults = file_faults(ExamFile(exam="exam", items=[item]), Document({}, ""), {})
    if faults:
        raise InputError(faults[0].code, faults[0].message)
    bits = mark_item(item, {"correction": got}, _marking()).bits
    return {"match": int(bool(bits & _marking().bit["correctness"]))}


def _conciseness(given: Input) -> Output:
    words = given.get("words")
    if words is not None and (type(words) is not int or words < 0):
        raise InputError("EXM-006", "'words' is a count, or null.")
    rules = _marking().rules.values()
    concise = words is not None and any(
        rule.fits(words) for rule in rules if isinstance(rule, Length)
    )
    return {"conciseness": int(concise)}


def _exam(given: Input) -> Output:
    files = given["files"] if "files" in given else [given.get("scores")]
    if not isinstance(files, list) or not all(isinstance(scores, list) for scores in files):
        raise InputError("EXM-010", "scores must be lists.")
    listed = [_score(score) for scores in files for score in scores]
    if not listed:
        raise InputError("EXM-004", "the exam has no items.")
    return {"score": shown(mean(sum(listed, Fraction(0)) * exact.NORM_ONE, len(listed)))}


def _gate(given: Input) -> Output:
    score = _score(given.get("score"))
    return {
        "hard_gate": gate.opens(score, _rules()),
        "production_target": gate.reaches(score, _rules()),
    }


def _eval_gate(given: Input) -> Output:
    baseline = _score(given.get("baseline"), "baseline")
    candidate = _score(given.get("candidate"), "candidate")
    limit = (
        _score(given["max_drop"], "max_drop")
        if given.get("max_drop") is not None
        else _rules().max_drop
    )
    return {"pass": gate.drop_holds(baseline, candidate, limit)}


def _soft(given: Input) -> Output:
    judged = []
    if given.get("p50_ms") is not None:
        if _number(given["p50_ms"], "p50_ms") < 0:
            raise InputError("EXM-010", "'p50_ms' is below zero.")
        judged.append(gate.soft_latency(_decimal(given["p50_ms"]), _rules()))
    failures = given.get("schema_failures")
    if failures is not None:
        if type(failures) is not int or failures < 0:
            raise InputError("EXM-010", "'schema_failures' is a count.")
        judged.append(gate.schema_failures(failures, _rules()))
    if given.get("regression_score") is not None:
        judged.append(
            gate.soft_score(_score(given["regression_score"], "regression_score"), _rules())
        )
    return {"warn": any(gate.warn for gate in judged), "blocks": False}


def _decimal(value: Any) -> Any:
    return Decimal(value) if isinstance(value, str) else value


OPS: dict[str, Callable[[Input], Output]] = {
    "capstone.item": _item,
    "capstone.match": _match,
    "capstone.conciseness": _conciseness,
    "capstone.exam": _exam,
    "capstone.gate": _gate,
    "capstone.eval_gate": _eval_gate,
    "capstone.soft": _soft,
}


def scoring() -> list[Any]:
    """The marks of every golden answer, under every way to match and with each step left out."""
    marking = Marking(Shelf().rubric_of("exam", "tutor@1"))
    outcomes = []
    for probe in (document.tree for document in golden("exam_scores.jsonl")):
        for match in ("substring", "word", "exact"):
            item = ExamItem(
                id="golden",
                prompt="golden",
                expected_contains=probe["expected"],
                gloss_contains=probe["gloss"],
                match=match,
            )
            for marks in (marking, *(marking.without(step) for step in marking.normal.names)):
                marked = mark_item(item, probe["response"], marks, schema=probe.get("schema"))
                outcomes.append([marked.bits, marked.units, marks.got(marked)])
    return outcomes


def _graded(items: list[list[Any]], marking: Marking) -> MarkedExam:
    """An exam whose items have these verbs, marks and answers."""
    marked = []
    for index, (verb, bits, got) in enumerate(items):
        item = ExamItem(
            id=f"i{index}",
            prompt="golden",
            expected_contains=["comió"],
            gloss_contains=["ate"],
            verb=verb,
        )
        read = (got, got, None, None)
        marked.append(Marked(item, read, bits, marking.units[bits]))
    return MarkedExam(Exam((), ()), marking, tuple(marked), {}, ())


def grading() -> list[Any]:
    """The results of the gates and the schedule on every golden set of marks."""
    shelf = Shelf()
    rules = ExamRules(shelf.policy_of("exam", "exam@1"))
    marking = Marking(shelf.rubric_of("exam", "tutor@1"))
    outcomes: list[Any] = []
    for probe in (document.tree for document in golden("exam_grades.jsonl")):
        if probe["kind"] == "score":
            score = fraction(probe["score"])
            outcomes.append(
                [
                    gate.opens(score, rules),
                    gate.reaches(score, rules),
                    gate.soft_score(score, rules).warn,
                ]
            )
        elif probe["kind"] == "drop":
            before, after = fraction(probe["baseline"]), fraction(probe["candidate"])
            outcomes.append(
                [
                    gate.drop_holds(before, after, rules.max_drop),
                    after - before > rules.verify_rise_above,
                ]
            )
        elif probe["kind"] == "soft":
            outcomes.append(
                [
                    gate.soft_latency(probe["p50_ms"], rules).warn,
                    gate.schema_failures(probe["schema_failures"], rules).warn,
                ]
            )
        elif probe["kind"] == "mean":
            total: Fraction = mean(
                sum(marking.units[bits] for bits in probe["bits"]), len(probe["bits"])
            )
            outcomes.append([str(total), gate.opens(total, rules)])
        elif probe["kind"] == "patterns":
            outcomes.append(
                [
                    [pattern.kind, pattern.evidence]
                    for pattern in find_patterns(_graded(probe["items"], marking), rules)
                ]
            )
        else:
            card = None
            for bits in probe["reviews"]:
                card = schedule.review(
                    "golden",
                    schedule.quality_of(bits, marking, rules.policy.sm2),
                    rules.policy.sm2,
                    on=card.due if card else date(2026, 1, 1),
                    before=card,
                )
                outcomes.append(
                    [
                        card.quality,
                        card.repetitions,
                        str(card.ease),
                        card.interval_days,
                        card.due.isoformat(),
                    ]
                )
    return outcomes
