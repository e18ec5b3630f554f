"""The results of the rules for exams on their golden inputs. Wording is not behaviour and is left
out.
"""

from __future__ import annotations

from datetime import date
from fractions import Fraction
from typing import Any

from assay.families.exams import gate, sm2
from assay.families.exams.exam import Exam, ExamItem
from assay.families.exams.marking import Marked, MarkedExam, Marking, mark_item, mean
from assay.families.exams.patterns import find_patterns
from assay.families.exams.policy import ExamRules, fraction
from assay.library.golden_inputs import golden
from assay.library.shelf import Shelf


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
                card = sm2.review(
                    "golden",
                    sm2.quality_of(bits, marking, rules.policy.sm2),
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
