"""The view of an evaluation: one line, a row of a list, its worst samples, what a terminal and a
comment show of it. Its page is in `evaluation_page`.
"""

from __future__ import annotations

from bisect import insort
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct, structs

from assay.errors import count
from assay.records.evaluation import Evaluation, EvaluationTotals, VersionedName
from assay.records.evidence import Run, title_of
from assay.records.grade import Grade
from assay.records.grade_line import as_line, unscored
from assay.records.samples import (
    ANSWERS,
    QUESTIONS,
    SampleGrade,
    answer_text,
    flat,
    gate_reason,
    judge_texts,
    main_text,
    sample_evidence,
    sample_grade,
)
from assay.records.summary import ValueInterval
from assay.views.blocks import (
    Column,
    Facts,
    Paragraph,
    Part,
    Sentences,
    Table,
    parts_of,
)
from assay.views.pieces import (
    absent,
    badge,
    clip,
    line,
    link,
    meter,
    moment,
    number,
    phrase,
    points,
    small,
    verdict,
)

_HEAD = ("Name", "Workflow", "Dataset", Column("Runs", "n"), "Pass rate", "Mean score", "Started")


def unchecked(settings: Mapping[str, Any]) -> str:
    """How many answers the tool of an import passed without a check; empty if it did not."""
    noted = settings.get("unchecked")
    if not isinstance(noted, dict) or not isinstance(noted.get("n"), int):
        return ""
    n, of = noted["n"], noted.get("of")
    share = f"{n:,} of {of:,} answers" if isinstance(of, int) and of != n else count(n, "answer")
    was = "was" if share == "1 answer" else "were"
    return f"{share} {was} passed unchecked"


def chosen_part(evaluation: Evaluation) -> str:
    """How much of the dataset ran, where samples were chosen; empty if all of it was to run."""
    only = evaluation.only
    return f"{len(only.samples):,} of {count(only.of, 'sample')}, chosen" if only else ""


def on_dataset(evaluation: Evaluation) -> str:
    """The dataset of an evaluation, and how much of it ran, where samples were chosen."""
    part = chosen_part(evaluation)
    return f"{versioned(evaluation.dataset)}{f' ({part})' if part else ''}"


def import_notes(settings: Mapping[str, Any]) -> list[str]:
    """What the import of an evaluation noted: what was left out, unchecked or not graded."""
    notes = settings.get("notes")
    notes = notes if isinstance(notes, list) else []
    return [note.rstrip(".") for note in notes if isinstance(note, str)]


def evaluation_line(evaluation: Evaluation) -> str:
    """The result of an evaluation, in one line."""
    totals = evaluation.totals
    passed = (
        "not graded"
        if totals.ungraded == totals.n
        else f"{totals.passed:,} of {count(totals.n, 'run')} passed"
    )
    subject = f"{versioned(evaluation.workflow)} on {on_dataset(evaluation)}"
    warning = unchecked(evaluation.settings)
    return f"{evaluation.name}: {subject}, {passed}{f'; {warning}' if warning else ''}"


def evaluations_table(evaluations: Sequence[Evaluation]) -> Table:
    """A list of evaluations, in the order given."""
    rows = []
    for evaluation in evaluations:
        totals = evaluation.totals
        graded = totals.ungraded < totals.n
        rows.append(
            [
                evaluation.name,
                versioned(evaluation.workflow),
                on_dataset(evaluation),
                f"{totals.n:,}",
                phrase(
                    number(totals.pass_rate.value, interval=totals.pass_rate, percent=True),
                    f"; {unchecked(evaluation.settings)}" if unchecked(evaluation.settings) else "",
                )
                if graded
                else absent("not graded"),
                number(totals.score.value, interval=totals.score) if graded else "",
                evaluation.started[:16].replace("T", " "),
            ]
        )
    return Table("Evaluations", _HEAD, rows)


_LIST = (
    "Evaluation",
    "Workflow",
    "Dataset",
    Column("Runs", "n"),
    Column("Pass rate", "tight"),
    Column("Mean score", "tight"),
    "Started",
)


def evaluations_list(evaluations: Sequence[tuple[Evaluation, str]]) -> Table:
    """Evaluations with the addresses of their pages, in the order given."""
    rows = []
    for evaluation, href in evaluations:
        totals = evaluation.totals
        graded = totals.ungraded < totals.n
        warned = unchecked(evaluation.settings)
        labels = [" ", *(badge(clip(label, 40)) for label in evaluation.labels[:10])]
        rows.append(
            [
                phrase(link(evaluation.name, href), *(labels if evaluation.labels else ())),
                clip(versioned(evaluation.workflow), 80),
                clip(on_dataset(evaluation), 120),
                f"{totals.n:,}",
                phrase(
                    meter(100 * (totals.pass_rate.value or 0), whole=100, digits=1, unit="%"),
                    line(small(_ends(totals.pass_rate, percent=True))),
                    *([line(small(warned))] if warned else []),
                )
                if graded
                else absent("not graded"),
                phrase(meter(totals.score.value, whole=100), line(small(_ends(totals.score))))
                if graded
                else "",
                moment(evaluation.started),
            ]
        )
    nothing = "No evaluation matches this filter."
    return Table("Evaluations", _LIST, rows, absent=nothing, kind="stack evaluations")


def _ends(interval: ValueInterval, *, percent: bool = False) -> str:
    if interval.low is None or interval.high is None:
        return "no interval"
    if percent:
        return f"{interval.low:.1%} to {interval.high:.1%}"
    return f"{points(interval.low)} to {points(interval.high)}"


def versioned(name: VersionedName) -> str:
    """A name with its version.

    >>> versioned(VersionedName(id="triage", version="3"))
    'triage@3'
    """
    return name.id if name.version is None else f"{name.id}@{name.version}"


# --- the worst samples


WORST = 3
SHORT = 160
"""The same on a terminal."""


class WorstSample(Struct, order=True, frozen=True):
    """A run that did not pass, among the worst of them."""

    score: float
    run_id: str
    key: str
    """What the repeats of a sample share."""
    sample: str
    letter: str
    why: str
    question: str = ""
    answer: str = ""
    expected: str = ""


def worst_sample(result: Mapping[str, Any], run: Run | None) -> WorstSample:
    """What is shown of a run; without the run it has no texts."""
    grade = sample_grade({"weighted_score": 0, **result})
    run_id = str(result.get("run_id"))
    sample = grade.sample_id or run_id
    key = repr((result.get("dataset"), grade.sample_id)) if grade.sample_id else run_id
    score = float(grade.weighted_score or 0)
    made = WorstSample(score, run_id, key, sample, grade.grade or "", _why(grade, result, run))
    return made if run is None else with_texts(made, run)


def _why(grade: SampleGrade, result: Mapping[str, Any], run: Run | None) -> str:
    """Why a run did not pass; if that is one gate, with the gate's reason, or with that of the
    verdict that came with the run.
    """
    reason = "" if grade.cause else gate_reason(grade, result, run)
    return f"{grade.why}: {reason}" if reason else grade.why


def with_texts(sample: WorstSample, run: Run) -> WorstSample:
    """A sample with the texts of its run."""
    title = title_of(run.metadata)
    return structs.replace(
        sample,
        sample=f"{title} ({sample.sample})" if title else sample.sample,
        question=flat(main_text(run.inputs, QUESTIONS)),
        answer=flat(answer_text(sample_evidence(run))),
        expected=flat(main_text(run.expected, ANSWERS)),
    )


def keep_worst(worst: list[WorstSample], result: Mapping[str, Any], run: Run | None) -> None:
    """Put a run in its place among the worst. One that passed has no place there."""
    if result.get("passed") is not True:
        keep_sample(worst, worst_sample(result, run))


def keep_sample(worst: list[WorstSample], sample: WorstSample) -> None:
    """Put a sample in its place, and drop what is then one too many; of its repeats the worst
    counts.
    """
    same = next((kept for kept in worst if kept.key == sample.key), None)
    if same is not None:
        if same <= sample:
            return
        worst.remove(same)
    insort(worst, sample)
    del worst[WORST:]


def worst_facts(sample: WorstSample) -> Facts:
    """A sample on a terminal."""
    head = f"{clip(sample.sample, 80)}: {sample.letter or None} {points(sample.score)}, "
    return Facts(
        [
            ("sample", phrase(head, clip(sample.why, 2 * SHORT))),
            ("question", clip(sample.question, SHORT) if sample.question else ""),
            ("answer", clip(sample.answer, SHORT) if sample.answer else ""),
            ("expected", clip(sample.expected, SHORT) if sample.expected else ""),
        ]
    )


def sample_facts(run: Run) -> Facts:
    """What a run was asked, what it answered or why not, what was expected, why a scorer gave no
    result, and what a judge gave and why, each in short.
    """
    answered = run.outputs or run.metadata.get("error")
    facts = [
        ("question", main_text(run.inputs, QUESTIONS)),
        ("answer", answer_text(sample_evidence(run)) if answered else ""),
        ("expected", main_text(run.expected, ANSWERS)),
    ]
    errors = run.metadata.get("scorer_errors")
    if isinstance(errors, Mapping):
        facts += [("scorer", f"{target}: {reason}") for target, reason in errors.items()]
    facts += [("judge", text) for text in judge_texts(run)]
    return Facts([(label, clip(flat(text), SHORT) if text else "") for label, text in facts])


# --- on a terminal


class RunReasons:
    """What the grades of an evaluation show besides its totals: how many runs miss each floor, and
    why a criterion has no score in the first run that lacks it.
    """

    def __init__(self) -> None:
        self.floors: Counter[str] = Counter()
        self.unscored: dict[str, str] = {}

    def add(self, grade: Grade | Mapping[str, Any]) -> None:
        """Count a grade."""
        self.floors.update(as_line(grade).floor_failures)
        self.unscored = unscored(grade) | self.unscored


def evaluation_view(
    evaluation: Evaluation,
    *,
    worst: Sequence[WorstSample] = (),
    notes: Sequence[str] = (),
    reasons: RunReasons | None = None,
    commands: Sequence[tuple[str, str]] = (),
) -> list[Part]:
    """An evaluation with its worst runs. `notes` are sentences about it; `commands` are
    what to run next and what each shows.
    """
    totals = evaluation.totals
    subject = f"{versioned(evaluation.workflow)} on {on_dataset(evaluation)}"
    whole = totals.passed == totals.n and totals.n > 0
    outcome = verdict(
        ("undetermined" if unchecked(evaluation.settings) else "passed") if whole else "failed",
        f"{totals.passed:,} of {count(totals.n, 'run')} passed",
    )
    notes = [*notes, *(f"From the import: {note}." for note in import_notes(evaluation.settings))]
    width = max((len(command) for command, _ in commands), default=0)
    more = [f"{command:<{width}}  # {what}" for command, what in commands]
    return parts_of(
        Facts(
            [
                ("evaluation", phrase(evaluation.name, ": ", subject)),
                ("passed", outcome),
                (
                    "pass rate",
                    number(totals.pass_rate.value, interval=totals.pass_rate, percent=True),
                ),
                ("mean score", number(totals.score.value, interval=totals.score)),
            ]
        ),
        *_counts(totals, reasons or RunReasons()),
        Paragraph("Worst runs:", "title") if worst else None,
        *map(worst_facts, worst),
        Sentences(notes, "Notes") if notes else None,
        *([Paragraph("More:", "hint"), Sentences(more)] if more else []),
    )


def _counts(totals: EvaluationTotals, reasons: RunReasons) -> list[Part]:
    """What fails and what is missing, most often first; nothing if nothing does."""
    columns = ("Gate that fails", Column("Runs", "n"), Column("Of", "n"))
    absent = ("Criterion without a score", Column("Runs", "n"), Column("Of", "n"), "Why")
    below = ("Criterion below its floor", Column("Runs", "n"), Column("Of", "n"))
    missing = _rows(totals.missing, totals.n)
    missing = [[*row, reasons.unscored.get(row[0], "")] for row in missing]
    tables = [
        Table("Gates that fail", columns, _rows(totals.gate_failures, totals.n)),
        Table("Missed floors", below, _rows(reasons.floors, totals.n)),
        Table("Missing scores", absent, missing),
    ]
    return [table for table in tables if table.rows]


def _rows(counts: Mapping[str, int], n: int) -> list[list[str]]:
    ordered = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    return [[name, f"{failed:,}", f"{n:,}"] for name, failed in ordered if failed]
