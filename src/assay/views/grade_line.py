"""A grade in lines of text: why it did not pass, many grades as a count, and the whole grade as
`assay explain` shows it.

Every place that has room for a line takes its words from here: the terminal, a pull-request
comment, a test case, a row of a report or of a page. The page of a grade is in `grade`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from assay.errors import count
from assay.records.grade import Payload
from assay.records.grade_line import GradeLine, as_line
from assay.records.scorecard import STATUS_GATE
from assay.views.blocks import Column, Note, Part, Sentences, Table
from assay.views.pieces import Piece, absent, bar, phrase, points, shown, small, verdict


def passed_word(passed: object) -> str:
    """Whether a run passed; one that does not state it did not."""
    return "passed" if passed is True else "not passed"


def outcome(passed: object) -> Piece:
    """The same as a verdict."""
    return verdict(passed_word(passed))


def floor_state(item: Mapping[str, Any]) -> str:
    """Whether a criterion meets its floor."""
    return verdict("missed") if item.get("floor_failed") else verdict("holds", "met")


def lines_table(lines: Iterable[GradeLine]) -> Table:
    """Grades as a table, a row each."""
    columns = ("Grade", Column("Score", "n"), "", "Verdict", "Run", "Why")
    rows = [
        [
            line.grade or absent("none"),
            points(line.weighted_score),
            bar(line.weighted_score, 100, width=8),
            outcome(line.passed),
            line.run_id or absent("none"),
            line.why,
        ]
        for line in lines
    ]
    return Table("Grades", columns, rows)


def change_text(result: Mapping[str, Any]) -> str:
    """The smallest change that would move a grade up, in the words of its explanation; empty if
    there is no better grade.
    """
    sentences = explained(result)
    at = _change_at(result)
    return "" if at is None else sentences[at]


def _change_at(result: Mapping[str, Any]) -> int | None:
    """Where the explanation says what would move the grade up; None if nothing would. That is its
    last sentence, but for the one on what would lose the letter.
    """
    sentences: Sequence[str] = result.get("explanation") or ()
    bands: Sequence[Mapping[str, Any]] = result.get("bands") or ()
    if not sentences:
        return None
    if result.get("hard_gate_failures"):
        return len(sentences) - 1
    placement: Mapping[str, Any] = result.get("placement") or {}
    is_best = bool(bands) and result.get("grade") == bands[0]["grade"]
    if is_best and not placement.get("smallest_gain"):
        return None
    return len(sentences) - (2 if placement.get("smallest_loss") else 1)


def explained(result: Mapping[str, Any]) -> list[str]:
    """The sentences of an explanation. The one that says what would move the letter also says what
    the run needs to pass, if that is more.
    """
    sentences, at = list(result.get("explanation") or ()), _change_at(result)
    if at is not None and result.get("passed") is not True:
        sentences[at] = _with_verdict(sentences[at], result)
    return sentences


def surprises(result: Mapping[str, Any]) -> list[str]:
    """An explanation without the verdict, the gates if they all pass, and the points of each
    criterion.
    """
    sentences, at = explained(result), _change_at(result)
    gates = result.get("hard_gates") or ()
    first = 2 if len(gates) > 1 and not result.get("hard_gate_failures") else 1
    loss = (result.get("placement") or {}).get("smallest_loss")
    end = at if at is not None else len(sentences) - (1 if loss else 0)
    return sentences[first : end - len(result.get("criteria") or ())] + sentences[end:]


def _with_verdict(sentence: str, result: Mapping[str, Any]) -> str:
    placed = not result.get("hard_gate_failures") and result.get("placement")
    gain = (placed or {}).get("smallest_gain") or {}
    needs, left = [], False
    for item in result.get("criteria") or ():
        floor = (item.get("critical_floor") or {}).get("norm")
        if item.get("floor_failed") and floor is not None:
            if item.get("judge_fault"):
                needs.append(f"an admitted judge card for {item['name']}")
                left = True
            if item["norm"] < floor:
                needs.append(f"{floor} in {item['name']}")
                left |= item["name"] != gain.get("criterion") or gain["needed_norm"] < floor
    score, threshold = result.get("weighted_score"), result.get("pass_threshold")
    if score is not None and threshold is not None and score < threshold:
        needs.append(f"a score of {float(threshold):g}")
        edges = {band["grade"]: band["min"] for band in result.get("bands") or ()}
        left |= edges.get(gain.get("grade"), score) < threshold
    if not left:
        return sentence
    *first, last = needs
    most = f"{', '.join(first)} and " if first else ""
    return f"{sentence} To pass, it needs at least {most}{last}."


# --- every cause


def gate_text(name: str, gate: Mapping[str, Any]) -> str:
    """A gate that does not pass, with its reason."""
    state = "failed" if gate["status"] == "fail" else "is undetermined"
    return f"gate {name} {state}: {gate['reason']}"


def causes(result: Payload) -> list[str]:
    """Everything that kept a run from passing: gates, floors, missing scores, the score itself."""
    shut = [(name, gate) for name, gate in result["hard_gates"].items() if gate["status"] != "pass"]
    shut.sort(key=lambda pair: not result.get("cause") or pair[0] != STATUS_GATE)
    reasons = [gate_text(name, gate) for name, gate in shut]
    for rule in ("critical_floors", "missing_score"):
        reasons += [
            finding["text"]
            for finding in result["findings"]
            if finding["rule"] == rule and finding["fired"]
        ]
    if result["weighted_score"] < result["pass_threshold"]:
        reasons.append(f"{points(result['weighted_score'])} is below {_threshold(result)}")
    return reasons or [as_line(result).because]


def score_text(result: Payload) -> str:
    """The letter and the score, with what was to be reached."""
    return (
        f"grade {result['grade']}, score {points(result['weighted_score'])} of 100, threshold"
        f" {_threshold(result)}"
    )


def _threshold(result: Payload) -> str:
    return f"{float(result['pass_threshold']):g}"


# --- many grades


def versions_text(counts: Mapping[str, Any]) -> str:
    """The policy and the systems that graded."""
    return f"policy {counts['policy']} · {counts['scoringSystem']} · {counts['gradingSystem']}"


def totals_text(counts: Mapping[str, Any]) -> str:
    """How many were graded, with their results."""
    letters = " · ".join(f"{letter} {n:,}" for letter, n in counts["grades"].items() if n)
    return (
        f"{counts['graded']:,} graded: {counts['passed']:,} passed, {counts['failed']:,} failed"
        + (f"  ({letters})" if letters else "")
    )


def bar_text(bar: Mapping[str, Any]) -> str:
    """Whether enough samples passed, and how many did."""
    words = {True: " met", False: " not met", None: ": can't tell yet"}[bar["holds"]]
    return f"minimum pass rate{words}: {bar['reason']}"


def bar_sentence(counts: Mapping[str, Any]) -> str:
    """What the bar on the pass rate says, as a sentence; empty if there is none."""
    text = bar_text(counts["bar"]) if counts.get("bar") is not None else ""
    return text and f"{text[0].upper()}{text[1:]}."


def is_passed(counts: Mapping[str, Any]) -> bool:
    """Whether every input was read, and every run passed or as many samples as the bar asks for."""
    bar = counts.get("bar")
    return not counts["faults"] and (not counts["failed"] if bar is None else bar["holds"] is True)


def passed_text(graded: int, failed: int) -> str:
    """How many of the runs passed, in a sentence without its stop."""
    if failed:
        return f"{failed:,} of {count(graded, 'run')} did not pass"
    return f"{'The one run' if graded == 1 else f'All {graded:,} runs'} passed"


# --- the whole grade, in lines


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
        f"{kind} {chosen['id']} ({_chosen_by(kind, chosen['why'], named_by)})"
        for kind, chosen in result["selection"].items()
        if chosen is not None
    ]
    return " · ".join([*named, versions_text(result)])


def _chosen_by(kind: str, why: str, named_by: Mapping[str, str]) -> str:
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
