"""The samples of an evaluation as rows: what was asked, answered and expected, and what each came
to; which of them a query shows, and in what order. The repeats of a sample are folded into its row.

A row is made of a grade and its run. Both are read into structs that hold only what a row shows:
from stored bodies, or from results and runs at hand. A query is made of an address, so that a view
can be linked to. Every page that lists samples, or steps from one to the next, asks here.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from functools import partial
from itertools import chain
from math import fsum
from typing import Any, Literal, NamedTuple
from unicodedata import normalize

import msgspec
from msgspec import Struct, field, structs

from assay.canon import encode_any
from assay.records.evidence import Run, title_of
from assay.records.grade_line import GradeLine
from assay.records.typed import convert

MAX_TEXT = 10_000
"""Characters of a question, an answer or an expected value that a row keeps and search looks at."""
QUESTIONS = ("question", "query", "prompt", "input", "task", "message")
ANSWERS = ("answer", "response", "output", "text", "result")
FLAT = 3_200
"""Characters of a text that are looked at for one line of it."""
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


def row_of_run(result: Mapping[str, Any], run: Run | None) -> SampleRow:
    """The row of one run; without the run it has no texts."""
    grade = sample_grade({"weighted_score": 0, **result})
    evidence = None if run is None else sample_evidence(run)
    (row,) = fold_samples([(SampleRun(str(result.get("run_id")), "", grade), evidence)])
    return row


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


def flat(text: str) -> str:
    """The beginning of a text, on one line."""
    return " ".join(text[:FLAT].split())


def gate_reason(grade: SampleGrade, result: Mapping[str, Any], run: Run | None) -> str:
    """The reason of the only gate that a run fails; empty if it states none."""
    if len(grade.hard_gate_failures) != 1:
        return ""
    name = grade.hard_gate_failures[0]
    verdict = None if run is None else run.gates.get(name)
    if verdict is not None and verdict.passed is False and verdict.reason:
        return flat(verdict.reason)
    return flat(str(result.get("hard_gates", {}).get(name, {}).get("reason") or ""))


def names_of(result: Mapping[str, Any]) -> tuple[Any, ...]:
    """What a person may call a run or its grade: its id, or its sample, alone or as a decision
    calls it, with its dataset. The sample of a run is in its dataset.

    >>> names_of({"run_id": "r-1", "sample_id": "s-1", "dataset": {"id": "faq"}})
    ('r-1', 's-1', 'faq/s-1')
    """
    dataset = result.get("dataset")
    of = dataset if isinstance(dataset, dict) else {"id": getattr(dataset, "id", None)}
    name, sample = of.get("id"), of.get("sample_id") or result.get("sample_id")
    within = (f"{name}/{sample}",) if name and sample else ()
    return result.get("run_id"), sample, *within


# --- both sides of a decision


SideName = Literal["candidate", "baseline"]


class SampleAnswer(NamedTuple):
    """What one side answered to a sample, and what its runs came to."""

    text: str
    passed: int
    runs: int
    why: str = ""
    """Why a run did not pass."""
    reason: str = ""
    """The reason of the only gate that it fails."""


class SampleTexts(NamedTuple):
    """What a sample was asked, and what both sides answered."""

    question: str = ""
    expected: str = ""
    candidate: SampleAnswer | None = None
    baseline: SampleAnswer | None = None


Texts = Mapping[str, SampleTexts]
"""The texts of the samples that a decision names."""


NO_TEXTS: Texts = {}


class TextCollector:
    """Collects the texts of some samples. Of repeats it keeps the answer that a reader looks for:
    one that failed of the candidate, and one that passed of the baseline.
    """

    def __init__(self) -> None:
        self._texts: dict[str, SampleTexts] = {}

    def add(
        self,
        side: SideName,
        sample: str,
        grade: SampleGrade | None,
        run: SampleEvidence,
        *,
        reason: str = "",
    ) -> None:
        """Take a run of a sample, with its grade, and the reason of its failed gate."""
        known = self._texts.get(sample, SampleTexts())
        passed = grade is not None and grade.passed is True
        before: SampleAnswer | None = getattr(known, side)
        why = "" if grade is None else grade.why
        answer = SampleAnswer(flat(answer_text(run)), int(passed), 1, why, reason)
        if before is not None:
            shown = before if bool(before.why) is (side == "candidate") else answer
            answer = shown._replace(passed=before.passed + passed, runs=before.runs + 1)
        known = known._replace(
            question=known.question or flat(main_text(run.inputs, QUESTIONS)),
            expected=known.expected or flat(main_text(run.expected, ANSWERS)),
        )
        self._texts[sample] = (
            known._replace(candidate=answer)
            if side == "candidate"
            else known._replace(baseline=answer)
        )

    def texts(self) -> dict[str, SampleTexts]:
        """What was collected."""
        return dict(self._texts)


# --- which samples to show

ON_A_PAGE = 50
CRITERION = "criterion:"
"""What `sort` starts with for a criterion: one may be called `score`."""
MAX_VALUE = 500
MAX_GATES = 20
"""Limits of an address."""
_SINGLE = ("why", "q", "sort")
TEXTS = ("question", "answer", "expected")
Baseline = Mapping[str, SampleRow]
"""The rows to compare with, by sample."""
Change = Literal["new", "better", "worse", "same"]


def change_of(row: SampleRow, base: SampleRow | None) -> Change:
    """How a sample differs from the same one of the baseline: by its verdict, else by its score;
    `new` where the baseline lacks it. A tie in both with another letter is worse: the letter was
    capped on one side. Forgetting a grade makes nothing better: without its own a sample is worse,
    without that of the baseline it is at best the same.
    """
    if base is None:
        return "new"
    if row.grade_forgotten or base.grade_forgotten:
        return "same" if row.passed else "worse"
    now, before = (row.passed, round(row.score, 2)), (base.passed, round(base.score, 2))
    if now == before:
        if row.letter == base.letter:
            return "same"
        return "better" if row.letter and row.letter < (base.letter or "~") else "worse"
    return "better" if now > before else "worse"


def without_doubles(rows: Sequence[SampleRow], others: Sequence[SampleRow]) -> list[SampleRow]:
    """The rows of one side without nameless ones that the other side shows already: each may be a
    sample that only the other side names.
    """
    own, theirs = ({row.sample for row in side} for side in (rows, others))
    doubles = sum(row.sample not in own and not row.nameless for row in others)
    kept = []
    for row in rows:
        if doubles and row.nameless and row.sample not in theirs:
            doubles -= 1
        else:
            kept.append(row)
    return kept


def missing_samples(rows: Sequence[SampleRow], before: Sequence[SampleRow]) -> list[SampleRow]:
    """The samples of a baseline that an evaluation lacks, as the baseline has them."""
    ours = {row.sample for row in rows}
    return [row for row in without_doubles(before, rows) if row.sample not in ours]


def _changed(row: SampleRow, baseline: Baseline | None, *wanted: Change) -> bool:
    return baseline is not None and change_of(row, baseline.get(row.sample)) in wanted


SHOWN: dict[str, Callable[[SampleRow, Baseline | None], bool]] = {
    "failed": lambda row, _: not row.passed,
    "passed": lambda row, _: row.passed,
    "floor": lambda row, _: bool(row.floors),
    "flaky": lambda row, _: row.flaky,
    "ungraded": lambda row, _: any(run.grade is None for run in row.runs),
    "differs": lambda row, base: _changed(row, base, "new", "better", "worse"),
    "worse": lambda row, base: _changed(row, base, "worse"),
    "better": lambda row, base: _changed(row, base, "better"),
}
"""What `show` can be, and the samples that it shows."""
_OF_BASELINE = {"differs", "worse", "better"}
_EITHER = (("failed", "passed"), ("worse", "better"))


class SampleQuery(Struct, frozen=True, kw_only=True):
    """What an address asks for. A sample is shown where everything holds; an empty query shows all,
    the worst first.
    """

    show: tuple[str, ...] = ()
    """Names of SHOWN; an unknown one is ignored."""
    gate: tuple[str, ...] = ()
    """Gates that the sample does not pass."""
    why: str = ""
    """One of the sample's `causes`."""
    q: str = ""
    """Text that the sample's name, question, answer or expected value contains."""
    sort: str = ""
    """`sample`, `score`, `change` (against the baseline), one of TEXTS or `criterion:NAME`; a
    leading `-` turns it round.
    """
    page: int = 1

    @property
    def needs_texts(self) -> bool:
        """Whether the texts of every row are needed, not only of those on the page."""
        return bool(self.q) or self.sort.removeprefix("-") in TEXTS

    @property
    def needs_baseline(self) -> bool:
        """Whether rows can't be chosen or put in order without those of the baseline."""
        return bool(_OF_BASELINE & set(self.show)) or self.sort.removeprefix("-") == "change"

    @property
    def filters(self) -> bool:
        """Whether anything is left out."""
        return bool(self.show or self.gate or self.why or self.q)

    def pairs(self) -> dict[str, str | tuple[str, ...]]:
        """The query of an address, without what is empty; the first page has no number."""
        pairs: dict[str, Any] = structs.asdict(self) | {
            "page": str(self.page) if self.page > 1 else ""
        }
        return {name: value for name, value in pairs.items() if value}

    def toggled(self, name: str) -> SampleQuery:
        """With something more or less of `show`, on the first page; its opposite goes."""
        gone = {name, *(name_of_pair for pair in _EITHER if name in pair for name_of_pair in pair)}
        rest = tuple(name_shown for name_shown in self.show if name_shown not in gone)
        return self.but(show=rest if name in self.show else (*rest, name))

    def toggled_gate(self, name: str) -> SampleQuery:
        """With a gate more or less, on the first page."""
        rest = tuple(gate_name for gate_name in self.gate if gate_name != name)
        return self.but(gate=rest if name in self.gate else (*rest, name))

    def but(self, **changed: Any) -> SampleQuery:
        """With other values, on the first page unless one is given."""
        return structs.replace(self, **{"page": 1, **changed})


def read_query(values: Callable[[str], Sequence[str]]) -> SampleQuery:
    """The query of an address; `values` gives all values of a name. What can't be read, or is too
    long to mean anything, is ignored.

    >>> read_query({"show": ["failed"], "page": ["x"]}.get)
    SampleQuery(show=('failed',), gate=(), why='', q='', sort='', page=1)
    """
    single = {name: (values(name) or [""])[0].strip()[:MAX_VALUE] for name in _SINGLE}
    page = (values("page") or [""])[0]
    return SampleQuery(
        show=tuple(dict.fromkeys(value for value in values("show") or () if value in SHOWN)),
        gate=tuple(dict.fromkeys(value[:MAX_VALUE] for value in values("gate") or ()))[:MAX_GATES],
        page=int(page) if page.isascii() and page.isdigit() and 0 < len(page) < 7 else 1,
        **single,
    )


class SampleCounts(NamedTuple):
    """How many samples each filter would show."""

    n: int
    show: Mapping[str, int]
    gates: Mapping[str, int]
    """The most frequent first, as in `reasons`."""
    reasons: Mapping[str, int]
    compared: bool = False
    """Whether a baseline was at hand; without one, nothing is counted as different."""
    missing: int = 0
    """Samples of the baseline that the evaluation lacks; no filter shows them."""
    forgotten: int = 0
    """Runs whose grade was forgotten."""


def count_samples(
    rows: Sequence[SampleRow], baseline: Baseline | None = None, *, missing: int = 0
) -> SampleCounts:
    """The counts of all rows given; `missing` are the samples that only the baseline has."""
    shown: Counter[str] = Counter()
    gates: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    plain = [(name, fits) for name, fits in SHOWN.items() if name not in _OF_BASELINE]
    for row in rows:
        for name, fits in plain:
            if fits(row, None):
                shown[name] += 1
        if baseline is not None:
            change = change_of(row, baseline.get(row.sample))
            if change != "same":
                shown["differs"] += 1
            if change in SHOWN:
                shown[change] += 1
        if not row.passed:
            for gate in row.gates:
                gates[gate] += 1
            for reason in row.causes:
                reasons[reason] += 1
    return SampleCounts(
        len(rows),
        shown,
        dict(gates.most_common()),
        dict(reasons.most_common()),
        baseline is not None,
        missing,
        sum(run.forgotten for row in rows for run in row.runs),
    )


def select_samples(
    rows: Iterable[SampleRow], query: SampleQuery, baseline: Baseline | None = None
) -> list[SampleRow]:
    """The rows that a query shows, in its order. Equal ones stay in the order of the evaluation."""
    tests = [SHOWN[name] for name in query.show if name in SHOWN]
    wanted = _plain(query.q)
    selected = [
        row
        for row in rows
        if all(fits(row, baseline) for fits in tests)
        and (not query.gate or set(query.gate) <= set(row.gates))
        and (not query.why or query.why in row.causes)
        and (not wanted or _contains(row, wanted))
    ]
    name = query.sort.removeprefix("-")
    selected.sort(key=_key(name, baseline or {}), reverse=query.sort.startswith("-") and bool(name))
    return selected


def _contains(row: SampleRow, wanted: str) -> bool:
    texts = (row.sample, row.title, row.question, row.answer, row.expected)
    return any(wanted in _plain(text) for text in texts)


def _plain(text: str) -> str:
    """Text as search sees it: neither case nor the way a letter is composed matters."""
    return normalize("NFC", text).casefold()


def _key(name: str, baseline: Baseline) -> Callable[[SampleRow], Any]:
    if name == "change":
        return partial(_change, baseline=baseline)
    if name.startswith(CRITERION):
        return partial(_norm, criterion=name.removeprefix(CRITERION))
    return _KEYS.get(name, lambda row: (row.passed, row.score))


def _norm(row: SampleRow, *, criterion: str) -> float:
    """A missing score is worse than 0."""
    norm = row.norm(criterion)
    return -1.0 if norm is None else norm


def _change(row: SampleRow, *, baseline: Baseline) -> tuple[int, float]:
    """Verdicts that changed come first, then scores; what the baseline lacks is last."""
    base = baseline.get(row.sample)
    if base is None:
        return 2, 0.0
    return row.passed - base.passed, row.score - base.score


_NUMBERS = re.compile(r"([0-9]{1,18})")


def _natural(text: str) -> list[tuple[int, str]]:
    """A key that puts q-9 before q-10."""
    parts = _NUMBERS.split(text)
    return [(int(part) if place % 2 else 0, part) for place, part in enumerate(parts)]


_KEYS: dict[str, Callable[[SampleRow], Any]] = {
    "sample": lambda row: _natural(row.sample),
    "score": lambda row: row.score,
    "question": lambda row: _plain(row.question),
    "answer": lambda row: _plain(row.answer),
    "expected": lambda row: _plain(row.expected),
}


class SamplePage(NamedTuple):
    """One page of the rows."""

    rows: Sequence[SampleRow]
    number: int
    pages: int
    total: int
    first: int
    """The place of the first row among all, from 1; 0 if there are none."""


def page_of(rows: Sequence[SampleRow], number: int, *, on_a_page: int = ON_A_PAGE) -> SamplePage:
    """A page of rows by its number; one past either end is the nearest there is."""
    pages = max(1, -(-len(rows) // on_a_page))
    number = min(max(1, number), pages)
    start = (number - 1) * on_a_page
    part = rows[start : start + on_a_page]
    return SamplePage(part, number, pages, len(rows), start + 1 if part else 0)


class Neighbours(NamedTuple):
    """The rows before and after one, in the order of a query."""

    previous: SampleRow | None
    following: SampleRow | None
    place: int
    """From 1; 0 where the query does not show the row."""
    total: int


def neighbours(rows: Sequence[SampleRow], run: str) -> Neighbours:
    """The way from a row to the next, by the digest or id of any of its runs."""
    for place, row in enumerate(rows):
        if any(run in (sample_run.digest, sample_run.run_id) for sample_run in row.runs):
            return Neighbours(
                rows[place - 1] if place else None,
                rows[place + 1] if place + 1 < len(rows) else None,
                place + 1,
                len(rows),
            )
    return Neighbours(None, None, 0, len(rows))
