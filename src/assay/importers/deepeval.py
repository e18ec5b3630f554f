"""Test runs of deepeval, as it saves them: each test case is a run, with deepeval's own verdict and
the scores of its metrics.

A metric that ended in an error has no score, and a case without another failure then has no
verdict. In a run of `evaluate()` every metric belongs to every case, so that one that was skipped
is missing. In a test file each test may have its own metrics; those that all of them have are
criteria, and so is the mean of each test's metrics. Where lower is better, the score is 1 - the
metric's. A comparison holds each case to the metrics, thresholds and judges of the baseline.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from decimal import Decimal
from functools import cached_property
from typing import Any, NamedTuple

from assay.canon import digest
from assay.errors import InputError, NotEnoughEvidence
from assay.files.json_files import member
from assay.files.json_stream import stream_json
from assay.importers.head import Head
from assay.importers.importer import Importer, NameVersion, Wanted
from assay.importers.metric_names import may_be_less
from assay.importers.samples import (
    UNVERSIONED,
    ResultOrigin,
    amount,
    file_id,
    is_immense,
    is_number,
    objects,
    optional,
    refused,
    sample_run,
    shaped,
)
from assay.importers.spool import Spool
from assay.importers.tally import ImportTally

EXPECTATIONS = "Expectations"
"""The name of the metric that the expectations of a case are."""


class CaseMetric(NamedTuple):
    """What one metric made of one case."""

    name: str
    score: Any
    threshold: Any
    success: bool | None
    error: str | None
    reason: str
    model: str
    """The model that it asks; empty if it asks none."""
    flaky: bool
    """Whether its failure doesn't fail the case."""

    @property
    def is_lower(self) -> bool | None:
        """Whether its verdict shows that lower is better; None if it doesn't show either."""
        known = is_number(self.score) and is_number(self.threshold) and self.success is not None
        if not known or self.error or self.score == self.threshold:
            return None
        return self.success is (self.score < self.threshold)


def measured_in(case: dict[str, Any], path: str) -> list[CaseMetric]:
    """The metrics of a case, checked."""
    return [_metric(shaped(entry, dict, "a metric", path), path) for entry in _entries(case, path)]


def is_uneven(case: dict[str, Any]) -> bool:
    """Whether a case has metrics that other cases needn't have: of its spans or expectations."""
    return bool(case.get("expectationsData")) or any(
        span.get("metricsData") for span in _spans(case)
    )


def answer_of(case: dict[str, Any]) -> Any:
    """The answer; of a case that only its spans show, the output of the first of them."""
    answer = case.get("actualOutput")
    if answer is None:
        (trace,) = objects([case.get("trace")]) or [{}]
        roots = (span for span in _spans(case) if span.get("parentUuid") is None)
        answer = next((span["output"] for span in (trace, *roots) if span.get("output")), None)
    return answer


def _spans(case: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for trace in objects([case.get("trace")]):
        for key, spans in trace.items():
            if key.endswith("Spans"):
                yield from objects(spans)


def _entries(case: dict[str, Any], path: str) -> Iterator[Any]:
    for place in (case, *_spans(case)):
        yield from optional(place.get("metricsData"), list, "`metricsData`", path) or []
    expected = optional(case.get("expectationsData"), dict, "`expectationsData`", path)
    if expected is not None:
        yield {**expected, "name": EXPECTATIONS}


def _metric(metric: dict[str, Any], path: str) -> CaseMetric:
    name = shaped(metric.get("name"), str, "the `name` of a metric", path)
    success = optional(metric.get("success"), bool, "`success`", path)
    error = metric.get("error")
    score, line = None if error else metric.get("score"), metric.get("threshold")
    for what, value in (("score", score), ("threshold", line)):
        if is_number(value) and is_immense(value):
            raise refused(f"the {what} of {name[:60]!r} is out of range.", path, "")
    if score is not None and not is_number(score):
        raise InputError(
            "SCO-011",
            f"a case has {score!r:.60} as its {name[:60]!r}; a score is a number.",
            where=path,
        )
    return CaseMetric(
        name,
        score,
        line,
        success,
        error=str(error) if error else None,
        reason=str(error or metric.get("reason") or ""),
        model=str(metric.get("evaluationModel") or "")[:100],
        flaky=metric.get("flaky") is True,
    )


CASES, TALKS = "testCases", "conversationalTestCases"
_WRAPPED = "testRunData"
_EACH = [(CASES,), (TALKS,), (_WRAPPED, CASES), (_WRAPPED, TALKS)]
_KEPT = (
    *("name", "input", "actualOutput", "expectedOutput", "context", "success", "turns"),
    *("scenario", "expectedOutcome", "completionTime", "tokenCost"),
)
OWN = "mean of its metrics"
"""The score of a test by all of its metrics, where tests have different ones."""
LOWER = ("Bias", "Hallucination", "Toxicity")
"""Metrics of deepeval that are better when lower."""
_ASKED = ("input", "expectedOutput", "context", "scenario", "expectedOutcome")


def _fits(head: Head) -> bool:
    return any(
        head.has(f"{above}{cases}[].metricsData")
        or head.has(f"{above}{cases}", f"{above}testPassed")
        for above in ("", f"{_WRAPPED}.")
        for cases in (CASES, TALKS)
    )


def _parts(path: str) -> Iterator[tuple[str, Any]]:
    """The cases of a file, and the rest of it by its keys."""
    for place, value in stream_json(path, _EACH):
        keys = place[1:] if place[:1] == (_WRAPPED,) else place
        if len(keys) == 2 and keys[0] in (CASES, TALKS):
            yield "case", shaped(value, dict, f"{keys[0]}[{keys[1]}]", path)
        elif len(keys) == 1:
            if keys[0] in (CASES, TALKS):
                shaped(value, list, f"`{keys[0]}`", path)
            yield str(keys[0]), value
        else:
            shaped(value, dict, "the file", path)


class _TestRun:
    """What the whole file shows, before its cases become runs."""

    def __init__(self, path: str, spool: Spool) -> None:
        self.path, self.spool = path, spool
        self.header: dict[str, Any] = {}
        self.cases = self.open = self.traces = 0
        self.uneven = False
        """Whether each case may have its own metrics."""
        self.counts: Counter[str] = Counter()
        self.excused: Counter[str] = Counter()
        """Failures of metrics that were marked as flaky, so that they don't fail their case."""
        self.judged: dict[str, set[str]] = {}
        """The models that each metric asks, where it does."""
        self.votes: dict[str, dict[bool, int]] = {}
        """For each metric, the first case whose verdict shows that lower, or higher, is better."""
        self.broken: set[str] = set()
        """Metrics that failed somewhere above their threshold, so that lower is better."""
        self.talks: set[bool] = set()
        for key, value in _parts(path):
            if key == "case":
                self._take(value)
            else:
                self.header[key] = value

    def _take(self, case: dict[str, Any]) -> None:
        self.cases += 1
        self.traces += case.get("trace") is not None
        self.open += case.get("success") is None
        self.talks.add("turns" in case)
        self.uneven = self.uneven or is_uneven(case)
        measured = measured_in(case, self.path)
        kept = {key: case[key] for key in _KEPT if key in case}
        self.spool.add([{**kept, "actualOutput": answer_of(case)}, measured])
        for metric in measured:
            if metric.model:
                self.judged.setdefault(metric.name, set()).add(metric.model)
            if metric.flaky and (metric.error or metric.success is False):
                self.excused[metric.name] += 1
            if (lower := metric.is_lower) is not None:
                self._vote(metric, lower)
        self.counts.update(dict.fromkeys(metric.name for metric in measured).keys())

    def _vote(self, metric: CaseMetric, lower: bool) -> None:
        votes = self.votes.setdefault(metric.name, {})
        votes.setdefault(lower, self.cases)
        if lower and not metric.success:
            self.broken.add(metric.name)
        if len(votes) > 1:
            verdict = "passed" if metric.success else "failed"
            raise InputError(
                "SCO-011",
                f"{metric.name[:60]} {verdict} with {metric.score} at a threshold of"
                f" {metric.threshold} in test case {self.cases}; by test case {votes[not lower]},"
                f" {'higher' if lower else 'lower'} is better.",
                where=self.path,
                fix="The file was changed, or the metric decides by more than its score. Give that"
                " part its own metric.",
            )

    def is_lower(self, name: str) -> bool:
        """Whether lower is better, by the metric's verdicts or else by deepeval's own list."""
        votes = self.votes.get(name)
        return True in votes if votes else name in LOWER

    def label(self, name: str) -> str:
        """The label of a metric's score: another direction is another criterion."""
        return f"1 - {name}" if self.is_lower(name) else name

    def graded(self, name: str, value: Any) -> Any:
        """A score or a threshold of a metric, so that higher is better."""
        if isinstance(value, bool):
            value = int(value)
        return 1 - value if value is not None and self.is_lower(name) else value

    @cached_property
    def has_own(self) -> bool:
        """Whether some tests have metrics that others lack."""
        return len(self.criteria) < len(self.counts)

    @cached_property
    def criteria(self) -> list[str]:
        """The metrics that every case must have."""
        if self.uneven or "testFile" in self.header or len(self.talks) > 1:
            return [name for name, count in self.counts.items() if count == self.cases]
        return list(self.counts)

    @cached_property
    def labels(self) -> dict[str, str]:
        """Their labels."""
        return {name: self.label(name) for name in self.criteria}

    def text(self, key: str) -> str | None:
        """A text of the header."""
        value = self.header.get(key)
        return value.strip()[:120] or None if isinstance(value, str) else None

    def origin(self) -> ResultOrigin:
        """Where the cases come from."""
        model = member(self.header, "hyperparameters", "model")
        if not isinstance(model, str) or not model.strip():
            model = self.text("identifier") or UNVERSIONED
        file = os.path.basename((self.text("testFile") or "").replace("\\", "/"))
        data = self.text("datasetAlias")
        name = file.removesuffix(".py") or data or "deepeval"
        return ResultOrigin(
            "deepeval",
            NameVersion(name, model.strip()[:120]),
            NameVersion(data or name, self.text("datasetVersion") or UNVERSIONED),
            file_id(self.path),
            verdicts=True,
            judged={*map(self.label, self.judged), *([OWN] if self.judged else [])},
        )


def _read(paths: Sequence[str], wanted: Wanted, tally: ImportTally) -> Iterator[dict[str, Any]]:
    for path in paths:
        with Spool(path) as spool:
            run = _TestRun(path, spool)
            if not run.cases:
                raise NotEnoughEvidence("FIL-005", "the file has no test cases.", where=path)
            _note(run, tally)
            yield from _runs(run, wanted, tally)
        _state(run, tally, only=len(paths) == 1)
    if tally.unchecked:
        tally.note(
            f"{tally.unchecked:,} of {tally.samples:,} test cases have no metric; deepeval passes"
            " them unchecked"
        )


def _note(run: _TestRun, tally: ImportTally) -> None:
    loose = sorted(run.counts.keys() - set(run.criteria))
    if loose:
        tally.note(
            f"metrics that only some tests have count in the mean of each test's metrics:"
            f" {', '.join(loose[:5])}"
        )
    lower = sorted(filter(run.is_lower, run.counts))
    # a metric that passes whatever its score is would look like one that is better when lower
    sure = [name for name in lower if name in run.broken or may_be_less(name)]
    tally.higher_is_better |= {run.label(name) for name in sure}
    why = "its verdicts pass below the threshold and never fail above it, so either may be better"
    tally.doubts |= {run.label(name): why for name in lower if name not in sure}
    if sure:
        tally.note(f"lower is better, so 1 - score is graded: {', '.join(sure[:5])}")
    if run.excused:
        listed = ", ".join(f"{name} on {n:,}" for name, n in run.excused.most_common(5))
        tally.note(f"deepeval passed cases with a failed metric that is marked as flaky: {listed}")
    if run.traces:
        tally.dropped["traces"] += run.traces


def _runs(run: _TestRun, wanted: Wanted, tally: ImportTally) -> Iterator[dict[str, Any]]:
    origin = run.origin()
    attempts: Counter[str] = Counter()
    for case, measured in run.spool:
        tally.read["test_cases"] += 1
        metrics = [CaseMetric(*fields) for fields in measured]
        yield _run(case, metrics, run, origin, attempts, wanted, tally)


def _run(
    case: dict[str, Any],
    measured: list[CaseMetric],
    run: _TestRun,
    origin: ResultOrigin,
    attempts: Counter[str],
    wanted: Wanted,
    tally: ImportTally,
) -> dict[str, Any]:
    path = run.path
    success = optional(case.get("success"), bool, "`success`", path)
    errors = [metric for metric in measured if metric.error and not metric.flaky]
    failures = [
        metric
        for metric in measured
        if metric.success is False and not (metric.error or metric.flaky)
    ]
    if success and (bad := failures or errors):
        raise refused(
            f"a case has `success` true, and its {bad[0].name[:60]!r} failed.",
            path,
            "The file was changed after deepeval wrote it. Write it again.",
        )
    if errors and not failures:
        success = None
    reasons = [f"{error.name}: {error.reason}" for error in (*errors, *failures)]
    values = _values(run, measured)
    turns = optional(case.get("turns"), list, "`turns`", path)
    content = {key: case[key] for key in _ASKED if case.get(key) is not None}
    if turns is not None and "scenario" not in case:
        content["turns"] = _said(turns, "user")
    sample_id = digest(content)[7:19]
    attempts[sample_id] += 1
    return sample_run(
        origin,
        wanted,
        tally,
        sample_id=sample_id,
        attempt=attempts[sample_id],
        scores=_scores(run, values) or {"passed": success if measured else None},
        verdict=success,
        unchecked=bool(not measured and success),
        reason="; ".join(reasons),
        inputs=_inputs(case, turns),
        outputs={
            "answer": case.get("actualOutput")
            if turns is None
            else _said(turns, "assistant") or None
        },
        expected=None
        if (right := case.get("expectedOutput", case.get("expectedOutcome"))) is None
        else {"answer": right},
        latency_ms=amount(case.get("completionTime"), 1000),
        cost_usd=amount(case.get("tokenCost")),
        checks=_checks(run, measured),
        metadata=_metadata(case, measured) or None,
    )


def _values(run: _TestRun, measured: list[CaseMetric]) -> dict[str, Any]:
    """The scores of a case, each so that higher is better; of two by one name, the worse."""
    values: dict[str, Any] = {}
    for metric in measured:
        value = run.graded(metric.name, metric.score)
        before = values.get(metric.name, value)
        values[metric.name] = None if value is None or before is None else min(value, before)
    return values


def _scores(run: _TestRun, values: dict[str, Any]) -> dict[str, Any]:
    scores = {label: values.get(name) for name, label in run.labels.items()}
    if run.has_own:
        known = [value for value in values.values() if value is not None]
        whole = known and len(known) == len(values)
        scores[OWN] = Decimal(sum(known)) / len(known) if whole else None
    return scores


def _metadata(case: dict[str, Any], measured: list[CaseMetric]) -> dict[str, Any]:
    """The name of a case, and its scores and thresholds as they are written."""
    named = {"name": str(case["name"])[:200]} if "name" in case else {}
    written = {
        metric.name: {"score": metric.score, "threshold": metric.threshold} for metric in measured
    }
    return {**named, "deepeval": written} if measured else named


def _checks(run: _TestRun, measured: list[CaseMetric]) -> dict[str, Any]:
    """What a comparison requires of a case."""
    checks: dict[str, Any] = {}
    for metric in measured:
        if metric.flaky:  # it fails no case, so it can't replace a metric that does
            continue
        bar = run.graded(metric.name, metric.threshold) if is_number(metric.threshold) else 0
        label = run.label(metric.name)
        checks[label] = min(bar, checks.get(label, bar))
    times = Counter(run.label(one.name) for one in measured if not one.flaky)
    if not run.uneven:  # another version may have fewer spans
        checks |= {f"scores of {label}": n for label, n in times.items() if n > 1}
    if run.has_own and measured:  # more metrics would make another mean
        checks[f"mean of {len({metric.name for metric in measured})} metrics"] = 0
    for metric in measured:
        if models := run.judged.get(metric.name):
            checks[f"{run.label(metric.name)} by {' and '.join(sorted(models))}"] = 0
    return checks


def _inputs(case: dict[str, Any], turns: list[Any] | None) -> dict[str, Any]:
    if turns is None:
        return {"input": case.get("input")} if "input" in case else {}
    scenario = {"scenario": case["scenario"]} if case.get("scenario") is not None else {}
    return {"turns": _said(turns, "user"), **scenario}


def _said(turns: list[Any], role: str) -> list[Any]:
    return [turn.get("content") for turn in objects(turns) if turn.get("role") == role]


def _state(run: _TestRun, tally: ImportTally, *, only: bool) -> None:
    """Deepeval's own totals."""
    passed, failed = (run.header.get(key) for key in ("testPassed", "testFailed"))
    if isinstance(passed, int) and isinstance(failed, int) and min(passed, failed) >= 0:
        tally.state("passed", int(passed))
        tally.state("samples", passed + failed + run.open)
    for entry in objects(run.header.get("metricsScores")) if only else ():
        scores, name = entry.get("scores"), entry.get("metric")
        if not isinstance(name, str) or not isinstance(scores, list) or name not in run.criteria:
            continue
        criterion = tally.metric(run.label(name))
        if scores and all(map(is_number, scores)) and len(scores) == tally.metrics[criterion].n:
            tally.state(criterion, run.graded(name, Decimal(sum(scores)) / len(scores)))


IMPORTER = Importer("deepeval", "deepeval test runs", _fits, _read, apart=True)
