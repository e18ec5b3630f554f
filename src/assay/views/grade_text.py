"""A grade for a terminal: the verdict, the points as bars, the sentences, the gates that no
sentence names, and the notes.

It has the same content as the page of a grade (see `grade`), in an order that suits lines of text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from assay.views.blocks import Column, Note, Part, Sentences, Table
from assay.views.grade_line import explained, floor_state, passed_word, versions_text
from assay.views.pieces import absent, bar, phrase, points, shown, small

Result = Mapping[str, Any]
MARKS = {"pass": "ok", "fail": "FAIL", "undetermined": "??"}
"""How a line of text marks a gate."""
BAR = 24


def explanation(result: Result, *, named_by: Mapping[str, str] | None = None) -> list[Part]:
    """Why a run got its grade, from an entry of `results[]` in `assay.grades/1`. `named_by`: what
    named the profile or the rubric, if not the command line.
    """
    head = f"{result['run_id']}: {result['grade']}, {points(result['weighted_score'])}, "
    sentences = [_ended_once(sentence) for sentence in explained(result)]
    gates = [
        Note(
            f"  [{MARKS[gate['status']]:<4}] {name}: {gate['reason']}",
            "" if gate["status"] == "pass" else "bad",
        )
        for name, gate in result["hard_gates"].items()
        if name not in result["hard_gate_failures"]
    ]
    notes = [*result["placement"]["notes"], *result["notes"]]
    return [
        Note(head + passed_word(result["passed"]), "good" if result["passed"] is True else "bad"),
        _bars(result["criteria"]),
        Sentences(sentences),
        *gates,
        Sentences([f"note: {note}" for note in notes]),
        small(f"  {_used(result, named_by or {})}"),
    ]


def _ended_once(sentence: str) -> str:
    """A sentence with one mark at its end.

    >>> _ended_once("Is that right?."), _ended_once("And so on...")
    ('Is that right?', 'And so on...')
    """
    twice = sentence.endswith(("?.", "!.", "..")) and not sentence.endswith("...")
    return sentence[:-1] if twice else sentence


def _used(result: Result, named_by: Mapping[str, str]) -> str:
    """What graded a run: profile and rubric with why they were chosen, the policy, the systems."""
    named = [
        f"{kind} {chosen['id']} ({_why(kind, chosen['why'], named_by)})"
        for kind, chosen in result["selection"].items()
        if chosen is not None
    ]
    return " · ".join([*named, versions_text(result)])


def _why(kind: str, why: str, named_by: Mapping[str, str]) -> str:
    """Why a profile or rubric was chosen. Grading knows that one was requested, not where."""
    return f"from {named_by[kind]}" if kind in named_by else why


def _bars(criteria: Sequence[Result]) -> Table:
    """Each criterion with its points as a bar; all bars of a run share a scale."""
    most = max([item["maximum"] for item in criteria], default=100) or 100
    rows = []
    for item in criteria:
        floor = item["critical_floor"]
        width = max(1, round(BAR * item["maximum"] / most))
        rows.append(
            [
                item["label"] or item["name"],
                points(item["contribution"]),
                bar(item["contribution"], item["maximum"], width=width),
                points(item["maximum"]),
                shown(item["norm"]) if item["missing"] is None else "missing",
                phrase(floor_state(item), f" {shown(floor['norm'])}") if floor else absent("none"),
            ]
        )
    columns = ("Criterion", Column("Points", "n"), "", Column("Of", "n"), Column("Norm", "n"))
    return Table("Criteria", (*columns, "Floor"), rows, kind="drawn")
