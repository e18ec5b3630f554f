"""Evaluation tables of MLflow, saved as JSON, CSV or Parquet: one row is one sample.

`mlflow.evaluate` writes eval_results_table.json with a column `<metric>/v1/score` for each metric;
`mlflow.genai.evaluate` has `<name>/value` and `<name>/rationale` in its `result_df`; and
`mlflow.search_traces` has a list of `assessments` for each trace. A yes or no of a judge is 1 or 0,
as MLflow counts it, and so are pass and fail; any other word is kept and not graded. Several
assessments of one name count with their mean, but for those that others override. A scorer that
failed is missing. A table that Assay exported has its verdicts, the ids of its samples, and which
end of each metric is better.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from assay.files.tables import line_of, table_rows
from assay.importers.cells import (
    INDEXES,
    MetricColumns,
    amount_of,
    first_of,
    number_in,
    present,
    structure_of,
)
from assay.importers.head import Head
from assay.importers.importer import Importer, NameVersion, Wanted
from assay.importers.samples import (
    UNVERSIONED,
    ResultOrigin,
    failure_of,
    file_id,
    keyed,
    objects,
    optional,
    sample_run,
    shaped,
    short_id,
)
from assay.importers.tally import ImportTally

TOOL = "mlflow"
_SCORE = re.compile(r"(?P<label>.+/v\d+)/score|(?P<name>.+)/value")
_DETAIL = re.compile(r".+/v\d+/\w+|.+/(?:rationale|error_message|error_code)")
_OUTPUTS = ("outputs", "predictions", "prediction", "output", "response", "answer")
_TARGETS = ("targets", "target", "ground_truth", "expected_response", "expectations", "label")
_INPUTS = ("inputs", "request", "question", "query", "input", "prompt")
_ERRORS = ("error_message", "model_error_message")
_RUNS = ("trace_id", "request_id", "client_request_id", "request_time", "timestamp_ms", "run_id")
_UNUSED = ("trace", "spans", "trace_metadata", "tags", "request_metadata", "request_preview")
_UNUSED_TOO = ("response_preview", "status", "state", "execution_duration", "execution_time_ms")
_TIMES = ("execution_duration", "execution_time_ms", "latency_ms")
_NUMBERS = ("token_count", "latency")
"""Columns of `mlflow.evaluate` that say how long an answer was and how long it took."""
_NO_INPUTS = frozenset(
    (*INDEXES, *_OUTPUTS, *_TARGETS, *_ERRORS, *_RUNS, *_UNUSED, *_UNUSED_TOO, *_NUMBERS)
) | {"assessments"}
_GRADED = ("assay/v1/passed", "assay/v1/score")
"""Columns of grades that Assay exported: a score without its verdict could open a failed gate."""
_OWN_ID = "sample_id"
_HIGHER = "greater_is_better"
_FAILED = {"ERROR": "the trace ended in an error", "IN_PROGRESS": "the trace has not ended"}
"""What the state of a trace says if it has no result."""


def _fits(head: Head) -> bool:
    columns = head.columns
    if any(re.fullmatch(r".+/v\d+/(?:score|justification)", column) for column in columns):
        return True
    if {"trace_id", "assessments"} <= columns:
        return not columns.isdisjoint(("request", "response", "state"))
    named = {column.removesuffix("/value") for column in columns if column.endswith("/value")}
    return any(
        f"{name}/{detail}" in columns for name in named for detail in ("rationale", "error_code")
    )


def _read(paths: Sequence[str], wanted: Wanted, tally: ImportTally) -> Iterator[dict[str, Any]]:
    for path in paths:
        yield from _MetricTable(path, wanted, tally).runs()


class _Scores:
    """The metrics of a row, with what was said about them."""

    def __init__(self, tally: ImportTally, columns: MetricColumns) -> None:
        self._tally, self._columns = tally, columns
        self.values: dict[str, list[Any]] = {}
        self.reasons: dict[str, str] = {}
        self.labels: dict[str, Any] = {}

    def add(self, label: str, value: Any, *, reason: Any = None, error: Any = None) -> None:
        """Add the value of a metric: a number, or the word of a judge."""
        if present(error) is not None:
            value, reason = None, error
            self._tally.read["failed scorers"] += 1
        if present(reason) is not None:
            self.reasons[label] = str(reason)[:2000]
        if not self._columns.is_text(label):
            self.values.setdefault(label, []).append(self._columns.number(label, value))
        elif present(value) is not None:
            self.labels[label] = value
            self._tally.in_words(label, "values in words, which are not graded")

    def lose(self, label: str) -> None:
        """Count a metric as missing if it has no value: nothing replaced the one that it had."""
        if label not in self.labels:
            self.values.setdefault(label, [None])


@lru_cache(1024)
def _metric(column: str) -> str | None:
    """The metric whose values a column has."""
    named = _SCORE.fullmatch(column)
    return None if named is None else named["label"] or named["name"]


def _is_numeric(label: str) -> bool:
    """Whether MLflow writes only numbers for a metric: text is an error message there."""
    return re.fullmatch(r".+/v\d+", label) is not None


def _label(assessment: Mapping[str, Any]) -> str:
    return str(assessment.get("assessment_name") or assessment.get("name") or "assessment")


def _judge(assessment: Mapping[str, Any]) -> str | None:
    """The check that a model made, by its name; None if none did."""
    source = assessment.get("source")
    if not isinstance(source, dict) or "LLM" not in str(source.get("source_type")):
        return None
    return f"{_label(assessment)[:100]} by {str(source.get('source_id'))[:100]}"


class _MetricTable:
    def __init__(self, path: str, wanted: Wanted, tally: ImportTally) -> None:
        self._path, self._wanted, self._tally = path, wanted, tally
        self._judged: set[str] = set()
        name = NameVersion(TOOL, UNVERSIONED)
        self._origin = ResultOrigin(TOOL, name, name, file_id(path), judged=self._judged)
        self._expected: set[str] = set()
        """What samples expect: it has columns like those of metrics."""
        self._judges: dict[str, str] = {}
        """The judge of each metric in the first rows, for rows without an assessment."""
        first = (self._valued(row) for row, _ in table_rows(path))
        self._columns = MetricColumns(first, tally, other=(), is_metric=_is_numeric)
        self._seen: Counter[str] = Counter()

    def _valued(self, row: Any) -> dict[str, Any]:
        """The values of a row's metrics, by their labels."""
        if not isinstance(row, dict):
            return {}
        values = {
            label: value for column, value in row.items() if (label := _metric(column)) is not None
        }
        for assessment in objects(structure_of(row.get("assessments"))):
            if isinstance(assessment.get("expectation"), dict):
                self._expected.add(_label(assessment))
            elif isinstance(feedback := assessment.get("feedback"), dict):
                values[_label(assessment)] = feedback.get("value")
                if judge := _judge(assessment):
                    self._judges.setdefault(_label(assessment), judge)
        return {label: value for label, value in values.items() if label not in self._expected}

    def runs(self) -> Iterator[dict[str, Any]]:
        for index, (value, place) in enumerate(table_rows(self._path), 1):
            row = shaped(value, dict, place, self._path)
            if index == 1:
                graded = not row.keys().isdisjoint(_GRADED)
                # the verdict of a grade knows which outputs were required
                answers = not graded and not row.keys().isdisjoint(_OUTPUTS)
                self._origin = self._origin._replace(answers=answers, verdicts=graded)
            self._tally.read["rows"] += 1
            yield self._run(row, place, index)

    def _run(self, row: dict[str, Any], place: str, index: int) -> dict[str, Any]:
        expected = dict(keyed(structure_of(first_of(row, _TARGETS)), "answer") or {})
        assessments = _assessments(row, f"{place}.assessments", self._path)
        scores = self._scores(row, {_label(assessment) for assessment in assessments})
        held = {
            _label(assessment) for assessment in assessments if assessment.get("valid") is not False
        }
        judges = {label: judge for label, judge in self._judges.items() if label not in held}
        for assessment in assessments:
            feedback, expectation = assessment.get("feedback"), assessment.get("expectation")
            if isinstance(feedback, dict) and assessment.get("valid") is False:
                self._tally.dropped["assessments that others override"] += 1
            elif isinstance(feedback, dict):
                if judge := _judge(assessment):
                    self._judged.add(_label(assessment))
                    judges[_label(assessment)] = judge
                error = assessment.get("error") or feedback.get("error")
                value, reason = feedback.get("value"), assessment.get("rationale")
                scores.add(_label(assessment), value, reason=reason, error=error)
            elif isinstance(expectation, dict):
                expected[_label(assessment)] = expectation.get("value")
        for label in {
            _label(assessment) for assessment in assessments if assessment.get("valid") is False
        }:
            scores.lose(label)
        inputs, failure = _inputs(row), _failure(row)
        own_id = row.get(_OWN_ID) if self._origin.verdicts else None
        sample_id = short_id(inputs or None if own_id is None else own_id, index)
        self._seen[sample_id] += 1
        answer = first_of(row, _OUTPUTS)
        answered = self._origin.answers or answer is not None
        notes = (("reasons", scores.reasons), ("labels", scores.labels))
        return sample_run(
            self._origin,
            self._wanted,
            self._tally,
            sample_id=sample_id,
            status="success" if failure is None else "error",
            reason=failure or "",
            scores=scores.values,
            verdict=_verdict(row, f"{self._path}: {place}"),
            inputs=inputs or None,
            outputs={"answer": answer} if answered else None,
            expected=expected or None,
            latency_ms=_latency(row),
            attempt=self._seen[sample_id],
            endings={"state", "status"} & row.keys(),
            checks=dict.fromkeys(judges.values(), 0),
            metadata={key: value for key, value in notes if value},
            line=line_of(place),
        )

    def _scores(self, row: dict[str, Any], assessed: set[str]) -> _Scores:
        """The metrics that have columns, but for those that the row's assessments have as well."""
        scores = _Scores(self._tally, self._columns)
        for column, value in row.items():
            label = _metric(column)
            if label is None or label in assessed or label in self._expected:
                continue
            reason = row.get(f"{label}/justification", row.get(f"{label}/rationale"))
            if present(reason) is not None and present(value) is not None:
                self._judged.add(label)  # next to no value, it says why there is none
            if str(row.get(f"{label}/{_HIGHER}")).lower() == "true":
                self._tally.higher_is_better.add(label)
            scores.add(label, value, reason=reason, error=row.get(f"{label}/error_message"))
        return scores


def _verdict(row: Mapping[str, Any], where: str) -> bool | None:
    verdict = number_in(row.get(_GRADED[0]), f"`{_GRADED[0]}`", where)
    return None if verdict is None else verdict == 1


def _failure(row: Mapping[str, Any]) -> str | None:
    failure = first_of(row, _ERRORS)
    if failure is None:  # TraceState.ERROR in CSV
        state = str(row.get("state", row.get("status"))).upper().rpartition(".")[2]
        failure = _FAILED.get(state)
    if failure is None:  # a column of somebody's own; one with a slash is about a metric
        failure = failure_of(row, (name for name in row if "/" not in name)) or None
    return None if failure is None else str(failure)


def _assessments(row: Mapping[str, Any], what: str, path: str) -> list[dict[str, Any]]:
    listed = optional(structure_of(row.get("assessments")), list, what, path) or []
    return [
        shaped(structure_of(item), dict, f"{what}[{index}]", path)
        for index, item in enumerate(listed)
    ]


def _inputs(row: Mapping[str, Any]) -> dict[str, Any]:
    """What the sample was asked: the column that MLflow names, or every column that is nothing
    else.
    """
    given = keyed(structure_of(first_of(row, _INPUTS)), "input")
    if given is not None:
        return given
    return {
        column: value
        for column, value in row.items()
        if column not in _NO_INPUTS
        and _metric(column) is None
        and not _DETAIL.fullmatch(column)
        and present(value) is not None
    }


def _latency(row: Mapping[str, Any]) -> Any:
    """Milliseconds; the old column `latency` has seconds."""
    time = amount_of(first_of(row, _TIMES))
    return amount_of(row.get("latency"), 1000) if time is None else time


IMPORTER = Importer(TOOL, "MLflow evaluation tables (JSON, CSV, Parquet)", _fits, _read, apart=True)
