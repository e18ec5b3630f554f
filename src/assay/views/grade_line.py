"""A grade in one line, why it did not pass, and many grades as a count.

Every place that has room for a line takes its words from here: the terminal, a pull-request
comment, a test case, a row of a report or of a page. The whole grade is in `grade`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct, structs

from assay.errors import count, few
from assay.records.grade import Grade, Payload
from assay.records.scorecard import STATUS_GATE
from assay.records.typed import convert
from assay.views.blocks import Column, Table
from assay.views.pieces import Piece, absent, bar, points, verdict

NAMED = 3
"""Gates, criteria or causes that a line names; it counts the others."""
LONGEST_REASON = 160
NO_REASON = "no reason given"


def passed_word(passed: object) -> str:
    """Whether a run passed; one that does not state it did not."""
    return "passed" if passed is True else "not passed"


def outcome(passed: object) -> Piece:
    """The same as a verdict."""
    return verdict(passed_word(passed))


def floor_state(item: Mapping[str, Any]) -> str:
    """Whether a criterion meets its floor."""
    return verdict("missed") if item.get("floor_failed") else verdict("holds", "met")


class GradeLine(Struct, frozen=True):
    """What a line shows of a grade. Each field is that of `results[]` in `assay.grades/1`."""

    run_id: str | None = None
    grade: str | None = None
    weighted_score: Any = None
    passed: bool = False
    reason: str | None = None
    pass_threshold: Any = None
    hard_gate_failures: Sequence[str] = ()
    floor_failures: Sequence[str] = ()
    explanation: Sequence[str] = ()
    cause: str = ""
    """What ended the run, such as an error of the provider; empty if nothing is stated."""
    status: str | None = None
    """How the run ended."""
    unscored: Sequence[str] = ()
    """The criteria without a score, which count as 0."""
    uncalibrated: Sequence[str] = ()
    """The criteria that reach their floors, but only through a judge that may not gate."""

    @property
    def why(self) -> str:
        """Why it did not pass, in a few words; empty if it passed.

        >>> GradeLine(hard_gate_failures=["clean", "signed"]).why, GradeLine(passed=True).why
        ('gates clean, signed do not pass', '')
        """
        if self.passed is True:
            return ""
        gates, floors = self.hard_gate_failures, self.floor_failures
        if gates:
            one = len(gates) == 1
            shut = (
                f"gate{'' if one else 's'} {few(gates, NAMED)} {'does' if one else 'do'} not pass"
            )
            return f"{self.cause}; {shut}" if self.cause else shut
        if floors:
            missed = [name for name in floors if name not in self.uncalibrated]
            one = len(missed or floors) == 1
            if missed:
                return f"{few(missed, NAMED)} {'misses its floor' if one else 'miss their floors'}"
            reached = "reaches its floor" if one else "reach their floors"
            return f"{few(floors, NAMED)} {reached} {_UNCALIBRATED}"
        if self.reason == "below_pass_threshold":
            short = f"{points(self.weighted_score)} is below {float(self.pass_threshold):g}"
            verb = "is" if len(self.unscored) == 1 else "are"
            lacking = f"; {few(self.unscored, NAMED)} {verb} missing" if self.unscored else ""
            return short + lacking
        return _REASONS.get(str(self.reason), str(self.reason or NO_REASON))

    @property
    def because(self) -> str:
        """Why it did or did not pass: the verdict in a sentence."""
        return next(iter(self.explanation), "") or self.why or NO_REASON

    @property
    def counted(self) -> list[str]:
        """Why it did not pass, in words that can be counted over many runs: how the run ended where
        it did not succeed, else each gate and floor, without numbers.
        """
        if self.cause:
            return [" ".join(self.cause.split("\n", 1)[0].split())[:LONGEST_REASON]]
        # A run that broke off fails most gates; each of them would hide the one reason.
        if STATUS_GATE in self.hard_gate_failures and self.status not in (None, "success"):
            return [f"the run ended with status {self.status}"[:LONGEST_REASON]]
        reasons = [f"gate {name} does not pass" for name in self.hard_gate_failures]
        reasons += [
            f"{name} reaches its floor {_UNCALIBRATED}"
            if name in self.uncalibrated
            else f"{name} misses its floor"
            for name in self.floor_failures
        ]
        reasons = reasons or [_REASONS.get(str(self.reason), str(self.reason or NO_REASON))]
        return [reason[:LONGEST_REASON] for reason in reasons]

    @property
    def head(self) -> str:
        """The letter, the score, the verdict and the run."""
        word = "passed" if self.passed is True else "FAILED"
        return f"{self.grade}  {points(self.weighted_score):>6}  {word}  {self.run_id}"

    @property
    def text(self) -> str:
        """The line of `assay grade`.

        >>> GradeLine("r-1", "F", 50, reason="below_pass_threshold", pass_threshold=70).text
        'F   50.00  FAILED  r-1  50.00 is below 70'
        """
        return f"{self.head}  {self.why}" if self.why else self.head


_UNCALIBRATED = "only through an uncalibrated judge"
_REASONS = {
    "below_pass_threshold": "score below the threshold",
    "below_passing_grade": "the policy does not pass this grade",
    "no_hard_gates": "no hard gate",
}


def as_line(grade: Grade | Mapping[str, Any]) -> GradeLine:
    """The line of a grade, given as a record or as an entry of `results[]`."""
    line = convert(grade, GradeLine, from_attributes=True)
    if line.passed is True:
        return line
    if line.hard_gate_failures:
        return line
    return structs.replace(line, unscored=list(unscored(grade)), uncalibrated=_uncalibrated(grade))


def unscored(grade: Grade | Mapping[str, Any]) -> dict[str, str]:
    """The criteria without a score, with the reason for each."""
    if isinstance(grade, Grade):
        own = [item.criterion for item in grade.criteria]
        return {
            criterion.name: criterion.missing or NO_REASON
            for criterion in own
            if criterion.raw_score is None
        }
    criteria = grade.get("criteria") or ()
    return {
        str(item["name"]): str(item.get("missing") or NO_REASON)
        for item in criteria
        if item.get("raw_score", 0) is None
    }


def _uncalibrated(grade: Grade | Mapping[str, Any]) -> list[str]:
    """The criteria that reach their floors, but only through a judge that may not gate."""
    if isinstance(grade, Grade):
        return [
            item.name
            for item in grade.criteria
            if item.floor_failed and item.norm_units >= (item.floor_units or 0)
        ]
    return [
        str(item["name"])
        for item in grade.get("criteria") or ()
        if item.get("judge_fault")
        and item.get("floor_failed")
        and item["norm"] >= item["critical_floor"]["norm"]
    ]


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
