"""The samples of an evaluation as rows: what was asked, answered and expected, and what each came
to. The repeats of a sample are folded into its row.

A row is made of a grade and its run. Both are read into structs that hold only what a row shows:
from stored bodies, or from results and runs at hand.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from itertools import chain
from math import fsum
from typing import Any

import msgspec
from msgspec import Struct, field, structs

from assay.canon import encode_any
from assay.records.evidence import Run, title_of
from assay.records.typed import convert
from assay.views.grade_line import GradeLine

MAX_TEXT = 10_000
"""Characters of a question, an answer or an expected value that a row keeps and search looks at."""
QUESTIONS = ("question", "query", "prompt", "input", "task", "message")
ANSWERS = ("answer", "response", "output", "text", "result")
_PLAIN = (str, int, float, Decimal, type(None))


class SampleFloor(Struct, frozen=True, gc=False):
    """The floor of a criterion, on 0..1."""

    norm: float | None = None


class SampleCriterion(Struct, frozen=True, gc=False):
    """What a row shows of a criterion, as in `criteria[]` of a grade."""

    name: str
    norm: float | None = None
    weight: float | None = None
    missing: str | bool | None = None
    critical_floor: SampleFloor | None = None
    floor_failed: bool = False


class SampleGrade(GradeLine, frozen=True, gc=False):
    """What a row shows of a grade. Tens of thousands are read for a page, so nothing else is read:
    no explanation, and of gates only the names of those that fail.
    """

    hard_gate_failures: tuple[str, ...] = ()
    floor_failures: tuple[str, ...] = ()
    explanation: Sequence[str] = field(default=(), name="")
    sample_id: str | None = None
    policy: str | None = None
    criteria: tuple[SampleCriterion, ...] = ()


class SampleEvidence(Struct, frozen=True):
    """What a row shows of a run."""

    run_id: str = ""
    status: str = ""
    inputs: Any = None
    outputs: Any = None
    expected: Any = None
    metadata: Mapping[str, Any] = {}


class SampleRun(Struct, frozen=True, gc=False):
    """One run of a sample: a repeat, where there are several."""

    run_id: str
    digest: str = ""
    """Of the stored run; empty if nothing is stored."""
    grade: SampleGrade | None = None
    """None for a run that could not be graded."""
    sample: str = ""
    """The sample that an ungraded run is of; a grade names its own."""
    forgotten: bool = False
    """Whether it had a grade that was forgotten."""

    @property
    def score(self) -> float:
        """A run without a grade counts as 0."""
        return 0.0 if self.grade is None else float(self.grade.weighted_score or 0)

    @property
    def passed(self) -> bool:
        """A run without a grade did not pass."""
        return self.grade is not None and self.grade.passed is True


class SampleRow(Struct, frozen=True, gc=False):
    """A sample: its texts, and what its runs came to."""

    sample: str
    question: str
    answer: str
    """Of the worst run, where there are repeats."""
    expected: str
    runs: tuple[SampleRun, ...]
    """The worst first."""
    forgotten: bool = False
    """Whether the texts are gone: the run was forgotten, and only its grade is left."""
    title: str = ""
    """What the tool that made the sample calls it, if its id has no meaning."""
    score: float = 0.0
    """The mean over the repeats. It and `passed` always follow from `runs`: they are worked out
    once, because counting and sorting thousands of rows ask for them again and again.
    """
    passed: bool = False
    """Whether every repeat passed."""

    def __post_init__(self) -> None:
        """Work out what the runs came to."""
        mean = fsum([run.score for run in self.runs]) / len(self.runs)
        structs.force_setattr(self, "score", mean)
        structs.force_setattr(self, "passed", all(run.passed for run in self.runs))

    @property
    def name(self) -> str:
        """What people call the sample: its title with its id, or only the id."""
        return f"{self.title} ({self.sample})" if self.title else self.sample

    @property
    def worst(self) -> SampleRun:
        """The run that the row shows."""
        return self.runs[0]

    @property
    def letter(self) -> str:
        """The letter of the worst run; empty if it has none."""
        return (self.worst.grade.grade or "") if self.worst.grade else ""

    @property
    def flaky(self) -> bool:
        """Whether some repeats passed and others did not."""
        return len(self.runs) > 1 and len({run.passed for run in self.runs}) > 1

    @property
    def grade_forgotten(self) -> bool:
        """Whether the grade of any repeat was forgotten."""
        return any(run.forgotten for run in self.runs)

    @property
    def nameless(self) -> bool:
        """Whether its sample is no longer known: `sample` is the id of the run."""
        return all(run.forgotten and not run.sample for run in self.runs)

    @property
    def gates(self) -> list[str]:
        """The gates that any repeat does not pass."""
        return _union([run.grade.hard_gate_failures for run in self.runs if run.grade])

    @property
    def floors(self) -> list[str]:
        """The criteria below their floor in any repeat."""
        return _union([run.grade.floor_failures for run in self.runs if run.grade])

    @property
    def causes(self) -> list[str]:
        """Why it did not pass, without numbers, to be counted; empty if it passed."""
        failed = [run.grade for run in self.runs if not run.passed]
        return _union(["not graded"] if grade is None else grade.counted for grade in failed)

    @property
    def why(self) -> str:
        """Why it did not pass, in a few words; empty if it passed."""
        grade = self.worst.grade
        return "not graded" if grade is None else grade.why

    def norm(self, criterion: str) -> float | None:
        """The mean of a criterion over the repeats; None if any of them lacks a score, which the
        grade counts as 0.
        """
        norms = [
            None if scored.missing else scored.norm
            for run in self.runs
            for scored in (run.grade.criteria if run.grade else ())
            if scored.name == criterion
        ]
        if len(norms) != len(self.runs) or any(norm is None for norm in norms):
            return None
        return fsum(norm for norm in norms if norm is not None) / len(norms)


def sample_grade(result: Mapping[str, Any] | bytes) -> SampleGrade:
    """A grade as a row shows it: a stored body, or one of `results[]`."""
    if isinstance(result, bytes):
        return _GRADES.decode(result)
    return convert(msgspec.to_builtins(result, builtin_types=()), SampleGrade, strict=False)


def sample_evidence(run: Run | bytes) -> SampleEvidence:
    """A run as a row shows it: a record, or its stored body."""
    if isinstance(run, bytes):
        return _RUNS.decode(run)
    return SampleEvidence(
        run.run_id, run.status, run.inputs, run.outputs, run.expected, run.metadata
    )


_GRADES = msgspec.json.Decoder(SampleGrade)
_RUNS = msgspec.json.Decoder(SampleEvidence)


class _SampleName(Struct, frozen=True):
    sample_id: str | None = None


class _SampledRun(Struct, frozen=True):
    dataset: _SampleName | None = None


_SAMPLED = msgspec.json.Decoder(_SampledRun)


def sample_name(body: bytes) -> str:
    """The sample that a stored run is of; empty if it names none."""
    try:
        dataset = _SAMPLED.decode(body).dataset
    except msgspec.DecodeError:
        return ""
    return (dataset.sample_id or "") if dataset else ""


def fold_samples(
    graded: Iterable[tuple[SampleRun, SampleEvidence | None]],
) -> list[SampleRow]:
    """Rows in the order in which their samples first appear."""
    by_sample: dict[str, list[tuple[SampleRun, SampleEvidence | None]]] = {}
    for pair in graded:
        run = pair[0]
        name = (run.grade.sample_id if run.grade else run.sample) or run.run_id
        if name in by_sample:
            by_sample[name].append(pair)
        else:
            by_sample[name] = [pair]
    return [_row(name, repeats) for name, repeats in by_sample.items()]


def _row(name: str, repeats: list[tuple[SampleRun, SampleEvidence | None]]) -> SampleRow:
    if len(repeats) > 1:
        repeats.sort(key=lambda pair: (pair[0].passed, pair[0].score))
    row = SampleRow(name, "", "", "", tuple([run for run, _ in repeats]))
    return row if repeats[0][1] is None else with_evidence(row, repeats[0][1])


def with_evidence(row: SampleRow, evidence: SampleEvidence | None) -> SampleRow:
    """A row with the texts of its worst run; without evidence that run was forgotten."""
    if evidence is None:
        return structs.replace(row, forgotten=True)
    return structs.replace(
        row,
        question=main_text(evidence.inputs, QUESTIONS),
        answer=answer_text(evidence),
        expected=main_text(evidence.expected, ANSWERS),
        title=title_of(evidence.metadata),
    )


def judge_reason(metadata: Mapping[str, Any], criterion: str) -> str:
    """Why a judge gave a run its score on a criterion; empty if the run doesn't state it."""
    reasons = metadata.get("judge_reasons")
    reason = reasons.get(criterion) if isinstance(reasons, Mapping) else None
    return " ".join(reason[:MAX_TEXT].split()) if isinstance(reason, str) else ""


def judge_texts(run: Run) -> Iterator[str]:
    """Each score that a judge gave to a run, with its reason."""
    for name, score in run.scores.items():
        if score.source is not None and score.source.kind == "llm" and score.raw is not None:
            reason = judge_reason(run.metadata, name)
            yield f"{name} {score.raw} by {score.source.name}{': ' if reason else ''}{reason}"


def answer_text(evidence: SampleEvidence, *, most: int = MAX_TEXT) -> str:
    """What a run answered; where it answered nothing, how it ended."""
    if evidence.outputs:
        return main_text(evidence.outputs, ANSWERS, most=most)
    error = evidence.metadata.get("error")
    ended = "no answer"
    if evidence.status != "success":
        ended += f"; status {evidence.status or 'unknown'}"
    return f"{ended}: {str(error)[:MAX_TEXT]}" if error else ended


def main_text(values: Any, names: Sequence[str], *, most: int = MAX_TEXT) -> str:
    """The value that a person looks for: the only one, the one with a usual name, else all of them,
    each with its name; as JSON where one is more than a text or a number.

    >>> main_text({"question": "When?", "lang": "en"}, QUESTIONS), main_text({"a": 1, "b": "c"}, ())
    ('When?', 'a: 1 · b: c')
    >>> main_text({"a": 1, "b": [2]}, ())
    '{"a":1,"b":[2]}'
    """
    if values is None or values == {}:
        return ""
    value = values
    if isinstance(values, Mapping):
        known = [values[name] for name in names if name in values]
        value = next(iter(values.values())) if len(values) == 1 else known[0] if known else values
    if isinstance(value, Mapping) and all(isinstance(item, _PLAIN) for item in value.values()):
        return " · ".join(f"{name}: {_text(item)}" for name, item in value.items())[:most]
    return _text(value)[:most]


def _text(value: Any) -> str:
    return value if isinstance(value, str) else encode_any(value).decode()


def _union(lists: Iterable[Iterable[str]]) -> list[str]:
    return list(dict.fromkeys(chain.from_iterable(lists)))
