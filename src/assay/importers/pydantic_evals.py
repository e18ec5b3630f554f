"""Reports of pydantic-evals, as `EvaluationReportAdapter` writes them to JSON: one case is one
sample, one more for each repeat of it.

A case passed where all of its assertions hold. Scores and assertions are metrics; where some cases
have assertions that others lack, the share of its assertions that each case passes replaces them.
A comparison requires the evaluators of each case of that case, so that one that loses an assertion
doesn't compare as equal. A failed task and a failed evaluator are missing evidence. Labels and the
counts of an experiment (`metrics`) are kept, and not graded.

The names of a report come after its cases, which wait in a spool.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from decimal import Decimal
from functools import cached_property
from typing import Any

from assay.canon import digest
from assay.files.json_stream import stream_json
from assay.importers.head import Head
from assay.importers.importer import Importer, NameVersion, Wanted
from assay.importers.samples import (
    UNVERSIONED,
    ResultOrigin,
    amount,
    file_id,
    is_number,
    keyed,
    name_of,
    objects,
    optional,
    sample_run,
    shaped,
    short_id,
    sum_of,
)
from assay.importers.spool import Spool
from assay.importers.tally import ImportTally

TOOL = "pydantic-evals"
_LISTS = (("cases",), ("failures",))
_USED = (
    *("name", "source_case_name", "inputs", "output", "expected_output", "task_duration"),
    *("scores", "assertions", "labels", "metrics", "evaluator_failures", "error_message"),
)
"""The parts of a case that its run needs."""
_REPEAT = re.compile(r" \[(\d{1,4})/(\d{1,4})\]$")


def _fits(head: Head) -> bool:
    return head.has("name", "cases") and (
        head.has("cases[].assertions", "cases[].scores", "cases[].task_duration")
        or head.has("failures[].error_stacktrace", "failures[].expected_output")
    )


class _ReportSurvey:
    """What the whole report shows: its names, and which results its cases have. The cases and
    failures go to `rows`, each after its list and its place there.
    """

    def __init__(self, path: str, rows: Spool) -> None:
        self.names: dict[str, Any] = {}
        self.cases = 0
        self.scores: set[str] = set()
        self.assertions: Counter[str] = Counter()
        self.failed = 0
        """Cases with an evaluator that failed."""
        self.judged: set[str] = set()
        self._checks: Counter[str] = Counter()
        """How many cases without such a failure have each evaluator with its options."""
        for place, value in stream_json(path, _LISTS):
            if not place:
                shaped(value, dict, "the report", path)
            elif len(place) == 2:
                at = f"{place[0]}[{place[1]}]"
                case = shaped(value, dict, at, path)
                if place[0] == "cases":
                    self._look(case, at, path)
                rows.add((place[0], at, {key: case[key] for key in _USED if key in case}))
            elif len(place) == 1:
                self.names[str(place[0])] = value
        for key in ("cases", "failures"):
            if key in self.names and self.names[key] is not None:
                shaped(self.names[key], list, f"`{key}`", path)

    def _look(self, case: dict[str, Any], at: str, path: str) -> None:
        self.cases += 1
        self.failed += bool(case.get("evaluator_failures"))
        scores = _results(case, "scores", at, path)
        assertions = _results(case, "assertions", at, path)
        self.scores |= scores.keys()
        self.assertions.update(assertions.keys())
        if not case.get("evaluator_failures"):
            self._checks.update(_checks({**scores, **assertions}).keys())
        for results in (scores, assertions):
            for name, result in results.items():
                source = result.get("source")
                if isinstance(source, dict) and "judge" in str(source.get("name", "")).lower():
                    self.judged.add(name)

    def missing(self) -> dict[str, Any]:
        """Every metric of the report, without a value."""
        own = self.assertions if self.is_even else ["assertions"]
        return dict.fromkeys([*sorted(self.scores), *own])

    @cached_property
    def checks(self) -> dict[str, int]:
        """The evaluators that measure every case, also one that failed before they did."""
        whole = self.cases - self.failed
        return {check: 0 for check, count in self._checks.items() if count == whole}

    @cached_property
    def is_even(self) -> bool:
        """Whether every case has the same assertions, as far as its evaluators worked."""
        return all(count + self.failed >= self.cases for count in self.assertions.values())


def _read(paths: Sequence[str], wanted: Wanted, tally: ImportTally) -> Iterator[dict[str, Any]]:
    for path in paths:
        with Spool(path) as rows:
            survey = _ReportSurvey(path, rows)
            origin = _origin(path, survey, tally)
            yield from _ReportReader(origin, wanted, tally, path, survey).runs(rows)


def _origin(path: str, survey: _ReportSurvey, tally: ImportTally) -> ResultOrigin:
    name = name_of(survey.names.get("name"), "`name`", path)
    dataset = optional(survey.names.get("dataset_name"), str, "`dataset_name`", path) or name
    if survey.assertions and not survey.is_even:
        tally.note(
            "Cases have different assertions, so each case is graded by the share of the"
            " assertions it passes."
        )
    if survey.names.get("report_evaluator_failures"):
        tally.note("An evaluator of the whole report failed; what it measures is missing.")
    return ResultOrigin(
        TOOL,
        NameVersion(name, UNVERSIONED),
        NameVersion(dataset, UNVERSIONED),
        file_id(path),
        verdicts=bool(survey.assertions),
        judged=survey.judged,
    )


class _ReportReader:
    def __init__(
        self,
        origin: ResultOrigin,
        wanted: Wanted,
        tally: ImportTally,
        path: str,
        survey: _ReportSurvey,
    ) -> None:
        self._origin, self._wanted, self._tally = origin, wanted, tally
        self._path, self._survey = path, survey
        self._repeats: dict[str, set[int]] = {}
        """The repeats of a case that haven't come yet."""

    def runs(self, rows: Spool) -> Iterator[dict[str, Any]]:
        for listed, at, case in rows:
            self._tally.read[listed] += 1
            yield self._run(case, at) if listed == "cases" else self._failure(case, at)
        reason = "the report counts this repeat and doesn't list it"
        for sample_id, missing in self._repeats.items():
            for attempt in sorted(missing):
                yield self._sample(
                    sample_id,
                    attempt,
                    status="cancelled",
                    scores=self._survey.missing(),
                    reason=reason,
                )

    def _run(self, case: dict[str, Any], at: str) -> dict[str, Any]:
        # the survey has checked the shape of both
        given, assertions = case.get("scores") or {}, case.get("assertions") or {}
        scores = self._survey.missing() if case.get("evaluator_failures") else {}
        scores |= {name: result.get("value") for name, result in given.items()}
        held = {
            name: shaped(result.get("value"), bool, f"{at}.assertions.{name}.value", self._path)
            for name, result in assertions.items()
        }
        failures = optional(
            case.get("evaluator_failures"), list, f"{at}.evaluator_failures", self._path
        )
        if failures:
            self._tally.read["evaluator failures"] += len(failures)
        if self._survey.is_even:
            scores |= {
                name: held.get(name) for name in self._survey.assertions if name not in given
            }
        elif self._survey.assertions:
            # an evaluator that failed might have given assertions that don't hold
            share = None if failures or not held else Decimal(sum(held.values())) / len(held)
            scores["assertions"] = None if share is None else round(share, 6)
        labels = _results(case, "labels", at, self._path)
        if labels:
            self._tally.dropped["labels, which are not graded"] += len(labels)
        metrics = optional(case.get("metrics"), dict, f"{at}.metrics", self._path) or {}
        seconds = amount(case.get("task_duration"))
        sample_id, attempt = self._repeat(case, at)
        return self._sample(
            sample_id,
            attempt,
            scores=scores,
            verdict=False if False in held.values() else True if held and not failures else None,
            reason=self._reason(assertions, held, failures or []),
            inputs=keyed(case.get("inputs"), "input"),
            outputs={"answer": case.get("output")},
            expected=_expected(case),
            latency_ms=None if seconds is None else round(Decimal(seconds) * 1000, 3),
            cost_usd=metrics.get("cost") if is_number(metrics.get("cost")) else None,
            tokens=sum_of(metrics.get("input_tokens"), metrics.get("output_tokens")),
            metadata={
                "labels": {name: result.get("value") for name, result in labels.items()},
                "metrics": metrics,
            },
            checks=_checks({**given, **assertions}),
        )

    def _failure(self, case: dict[str, Any], at: str) -> dict[str, Any]:
        sample_id, attempt = self._repeat(case, at)
        return self._sample(
            sample_id,
            attempt,
            status="error",
            scores=self._survey.missing(),
            reason=str(case.get("error_message") or "the task failed"),
            inputs=keyed(case.get("inputs"), "input"),
            expected=_expected(case),
        )

    def _sample(
        self, sample_id: str, attempt: int, *, checks: dict[str, int] | None = None, **more: Any
    ) -> dict[str, Any]:
        return sample_run(
            self._origin,
            self._wanted,
            self._tally,
            sample_id=sample_id,
            attempt=attempt,
            checks=self._survey.checks | (checks or {}),
            **more,
        )

    def _repeat(self, case: dict[str, Any], at: str) -> tuple[str, int]:
        """The id of a case, and which repeat of it this is."""
        name = name_of(case.get("name"), f"{at}.name", self._path)
        source = optional(case.get("source_case_name"), str, f"{at}.source_case_name", self._path)
        number = _REPEAT.search(name)
        if source is None or number is None:
            return short_id(name, 0), 1
        sample_id, attempt = short_id(source, 0), max(1, int(number[1]))
        due = self._repeats.setdefault(sample_id, set(range(1, int(number[2]) + 1)))
        due.discard(attempt)
        return sample_id, attempt

    @staticmethod
    def _reason(
        assertions: dict[str, dict[str, Any]], held: dict[str, bool], failures: list[Any]
    ) -> str:
        wrong = [name for name, holds in held.items() if not holds]
        words = [
            f"{name}: {why}" if (why := assertions[name].get("reason")) else name for name in wrong
        ]
        words += [
            f"{failure.get('name')} failed: {failure.get('error_message')}"
            for failure in failures
            if isinstance(failure, dict)
        ]
        return "; ".join(words)


def _results(case: dict[str, Any], kind: str, at: str, path: str) -> dict[str, dict[str, Any]]:
    """The results of one kind, by name."""
    results = optional(case.get(kind), dict, f"{at}.{kind}", path) or {}
    for name, result in results.items():
        if type(result) is not dict:
            shaped(result, dict, f"{at}.{kind}.{name}", path)
    return results


def _checks(results: dict[str, dict[str, Any]]) -> dict[str, int]:
    """What a comparison requires: the evaluator of each result, with the same options. One with
    other options may be easier to please.
    """
    made: dict[str, int] = {}
    for name, result in results.items():
        source = next(iter(objects([result.get("source")])), None)
        if source is None:
            made[name[:100]] = 0
            continue
        settings = [source.get("arguments"), result.get("evaluator_version")]
        stated = any(setting is not None for setting in settings)
        options = f"with the options {digest(settings)[7:19]}" if stated else "without options"
        made[f"{name[:100]} by {str(source.get('name'))[:100]} {options}"] = 0
    return made


def _expected(case: dict[str, Any]) -> dict[str, Any] | None:
    wanted = case.get("expected_output")
    return None if wanted is None else {"answer": wanted}


IMPORTER = Importer(TOOL, "pydantic-evals reports (JSON)", _fits, _read, apart=True)
