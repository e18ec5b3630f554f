"""Exports of Phoenix (Arize): experiments as JSON or CSV, and tables of spans and of annotations.

A run of an experiment is one sample, by the example of its dataset, and a repetition of it another
attempt. In tables of spans, each annotated span is one sample, and so is each trace without any.
Annotations with a score are metrics, and so are those with a label that says which way is better,
such as correct and incorrect; any other label alone is kept and not graded. An annotator that
failed is missing evidence.
"""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from assay.files.tables import line_of, table_rows
from assay.importers.cells import (
    amount_of,
    first_of,
    number_in,
    present,
    structure_of,
    verdict_of,
)
from assay.importers.head import Head
from assay.importers.importer import Importer, NameVersion, Wanted
from assay.importers.samples import (
    UNVERSIONED,
    ResultOrigin,
    file_id,
    file_stem,
    judge_checks,
    keyed,
    kinds_of,
    name_of,
    optional,
    refused,
    sample_run,
    shaped,
    short_id,
    sum_of,
)
from assay.importers.tally import ImportTally

TOOL = "phoenix"
_FLAT = re.compile(r"annotation_(.+)_(label|score|explanation|error|annotator_kind|metadata)")
_EVAL = re.compile(r"eval\.(.+)\.(label|score|explanation)")
_LABELS = {"relevant": 1, "unrelated": 0, "irrelevant": 0}
"""Labels of Phoenix's own evaluators, by which is better."""
_TURNED = {
    "factual": ("factual", 1),
    "hallucinated": ("factual", 0),
    "non-toxic": ("non-toxic", 1),
    "toxic": ("non-toxic", 0),
}
"""Labels of those whose score may be better when lower: the better one, and what each counts."""
_SPAN = ("context.span_id", "span_id")
_TRACE = ("context.trace_id", "trace_id")


def _kind(columns: frozenset[str]) -> str | None:
    """What the rows are: the runs of an experiment, spans, or annotations of spans."""
    if {"example_id", "reference_output", "output"} <= columns:
        return "experiment runs"
    if columns.isdisjoint(_SPAN):
        return None
    if "attributes.input.value" in columns or {"span_kind", "parent_id"} <= columns:
        return "spans"
    scored = {"result.score", "result.label"} & columns or {"score", "explanation"} <= columns
    return "annotations" if scored else None


def _fits(head: Head) -> bool:
    # the keys of JSON are cut at dots; these columns have dots in their names
    columns = head.columns | head.row_keys
    printed = {"context", "kind"} <= columns and "span_kind" not in columns  # by OpenTelemetry
    return not printed and _kind(columns) is not None


class _Annotations:
    """What annotators said about one sample."""

    def __init__(self, tally: ImportTally, judged: set[str]) -> None:
        self._tally, self._judged = tally, judged
        self.scores: dict[str, list[Any]] = {}
        self.reasons: dict[str, str] = {}
        self.labels: dict[str, str] = {}
        self.checks: dict[str, int] = {}
        """The judges, which a comparison requires."""

    def add(self, name: str, parts: Mapping[str, Any], where: str) -> None:
        """Add one annotation: label, score, explanation, error, annotator_kind and metadata."""
        given = {key: present(value) for key, value in parts.items()}
        if all(given.get(key) is None for key in ("label", "score", "explanation", "error")):
            return  # the column of an annotation that this row doesn't have
        score = number_in(given.get("score"), f"the score of {name!r}", where)
        if str(given.get("annotator_kind")).upper() == "LLM":
            self._judged.add(name)
            self.checks |= judge_checks(name, "LLM", structure_of(given.get("metadata")))
        if given.get("label") is not None:
            self.labels[name] = str(given["label"])[:2000]
        reason = given.get("error") or given.get("explanation")
        if reason is not None:
            self.reasons[name] = str(reason)[:2000]
        if given.get("error") is not None:
            self._tally.read["annotators that failed"] += 1
            score = None
        elif (turned := _TURNED.get(_word(given.get("label")))) is not None:
            self._tally.note(f"{name} is graded by its label: {turned[0]} is 1")
            name, score = f"{name}/{turned[0]}", turned[1]
            self._tally.higher_is_better.add(name)
        elif (
            score is None and (score := _graded(given.get("label"))) is None and name in self.labels
        ):
            self._tally.in_words(name, "labels without a score, which are not graded")
            return
        elif (
            score in (0, 1)
            and _graded(given.get("label")) == 1 - score
            and self._tally.scale_of(name) is None
        ):
            raise refused(
                f"{name!r} has the label {self.labels[name][:40]!r} and the score {score}.",
                where,
                "If lower is better, state it with --map"
                f" {shlex.quote(f'score:{name}={name}:1..0')}.",
            )
        self.scores.setdefault(name, []).append(score)

    def flat(self, row: Mapping[str, Any], where: str) -> None:
        """Add the annotations that are columns."""
        named: dict[str, dict[str, Any]] = {}
        for column, value in row.items():
            match = _FLAT.fullmatch(column) or _EVAL.fullmatch(column)
            if match is not None:
                named.setdefault(match[1], {})[match[2]] = value
        for name, parts in named.items():
            self.add(name, parts, where)

    @property
    def metadata(self) -> dict[str, Any]:
        """What isn't a score."""
        parts = (("reasons", self.reasons), ("labels", self.labels))
        return {key: value for key, value in parts if value}


def _graded(label: Any) -> int | None:
    """The score that a label means; None if it doesn't say which way is better."""
    return _LABELS.get(_word(label), verdict_of(label))


def _word(label: Any) -> str:
    return str(label)[:20].strip().lower()


def _read(paths: Sequence[str], wanted: Wanted, tally: ImportTally) -> Iterator[dict[str, Any]]:
    kinds = kinds_of(
        paths,
        lambda head: _kind(head.columns | head.row_keys),
        "has neither runs of an experiment, spans nor annotations as Phoenix exports them.",
    )
    for path, kind in kinds.items():
        if kind == "experiment runs":
            yield from _experiment(path, wanted, tally)
    others = {path: kind for path, kind in kinds.items() if kind != "experiment runs"}
    if others:
        yield from _SpanReader(others, wanted, tally).runs()


# --- experiments


def _experiment(path: str, wanted: Wanted, tally: ImportTally) -> Iterator[dict[str, Any]]:
    judged: set[str] = set()
    # Phoenix names the file after the experiment, and nothing in it says more
    origin = ResultOrigin(
        TOOL,
        NameVersion(TOOL, short_id(file_stem(path), 0)),
        NameVersion(TOOL, UNVERSIONED),
        file_id(path),
        judged=judged,
    )
    seen: Counter[str] = Counter()
    for value, place in table_rows(path):
        row = shaped(value, dict, place, path)
        where = f"{path}: {place}"
        tally.read["experiment runs"] += 1
        annotations = _Annotations(tally, judged)
        annotations.flat(row, where)
        listed = optional(structure_of(row.get("annotations")), list, f"{place}.annotations", path)
        for item in listed or []:
            annotation = shaped(item, dict, f"{place}.annotations", path)
            name = name_of(annotation.get("name"), f"{place}: `name`", path)
            annotations.add(name, annotation, where)
        sample_id = short_id(name_of(row.get("example_id"), f"{place}: `example_id`", path), 0)
        seen[sample_id] += 1
        failure = present(row.get("error"))
        yield sample_run(
            origin,
            wanted,
            tally,
            sample_id=sample_id,
            status="success" if failure is None else "error",
            reason="" if failure is None else str(failure),
            scores=annotations.scores,
            inputs=keyed(structure_of(row.get("input")), "input"),
            outputs={"answer": present(row.get("output"))},
            expected=keyed(structure_of(row.get("reference_output")), "answer"),
            latency_ms=amount_of(row.get("latency_ms")),
            tokens=sum_of(
                *(amount_of(row.get(f"{kind}_token_count")) for kind in ("prompt", "completion"))
            ),
            attempt=seen[sample_id],
            endings={"error"} & row.keys(),
            checks=annotations.checks,
            metadata=annotations.metadata,
            line=line_of(place),
        )


# --- spans


class _SpanReader:
    def __init__(self, kinds: Mapping[str, str], wanted: Wanted, tally: ImportTally) -> None:
        self._kinds, self._wanted, self._tally = kinds, wanted, tally
        self._judged: set[str] = set()
        self._by_span: dict[str, _Annotations] = {}
        """The annotations of each span that come in a file of annotations."""
        self._annotated: set[str] = set()
        """Traces with a span that is annotated."""
        name = NameVersion(TOOL, UNVERSIONED)
        runs = "+".join(map(file_id, kinds))[:200]
        answers = "spans" in kinds.values()
        self._origin = ResultOrigin(TOOL, name, name, runs, answers=answers, judged=self._judged)
        self._seen: Counter[str] = Counter()

    def runs(self) -> Iterator[dict[str, Any]]:
        for row, place, path in self._rows("annotations"):
            self._tally.read["annotations"] += 1
            span_id = name_of(first_of(row, _SPAN), f"{place}: the id of the span", path)
            name = first_of(row, ("annotation_name", "name", "eval_name")) or file_stem(path)
            annotations = self._by_span.setdefault(span_id, _Annotations(self._tally, self._judged))
            parts = {key.removeprefix("result."): value for key, value in row.items()}
            annotations.add(str(name), parts, f"{path}: {place}")
        for row, _, _ in self._rows("spans"):
            if self._is_annotated(row):
                self._annotated.add(str(first_of(row, _TRACE)))
        for row, place, path in self._rows("spans"):
            self._tally.read["spans"] += 1
            span_id = name_of(first_of(row, _SPAN), f"{place}: the id of the span", path)
            is_root = present(row.get("parent_id")) is None
            if self._is_annotated(row) or (
                is_root and str(first_of(row, _TRACE)) not in self._annotated
            ):
                annotations = self._by_span.pop(span_id, _Annotations(self._tally, self._judged))
                annotations.flat(row, f"{path}: {place}")
                yield self._run(span_id, row, annotations)
            else:
                self._tally.dropped["spans without annotations, in traces that have some"] += 1
        for span_id, annotations in self._by_span.items():
            if "spans" in self._kinds.values():
                self._tally.dropped["annotations of spans that are not in the files"] += 1
            else:
                yield self._run(span_id, {}, annotations)

    def _rows(self, wanted: str) -> Iterator[tuple[dict[str, Any], str, str]]:
        for path, kind in self._kinds.items():
            for value, place in table_rows(path) if kind == wanted else ():
                yield _plain(shaped(value, dict, place, path)), place, path

    def _is_annotated(self, row: Mapping[str, Any]) -> bool:
        return str(first_of(row, _SPAN)) in self._by_span or any(
            _EVAL.fullmatch(column) and present(value) is not None for column, value in row.items()
        )

    def _run(
        self, span_id: str, row: Mapping[str, Any], annotations: _Annotations
    ) -> dict[str, Any]:
        given = structure_of(row.get("attributes.input.value"))
        failed = str(row.get("status_code")).upper() == "ERROR"
        reason = present(row.get("status_message")) or "the span has the status ERROR"
        sample_id = short_id(span_id if given is None else {"input": given}, 0)
        self._seen[sample_id] += 1
        return sample_run(
            self._origin,
            self._wanted,
            self._tally,
            sample_id=sample_id,
            status="error" if failed else "success",
            reason=str(reason) if failed else "",
            scores=annotations.scores,
            inputs=keyed(given, "input"),
            outputs={"answer": present(row.get("attributes.output.value"))} if row else None,
            attempt=self._seen[sample_id],
            endings={"status_code"} & row.keys(),
            tags=[str(row["name"])[:200]] if present(row.get("name")) is not None else None,
            checks=annotations.checks,
            metadata={"span_id": span_id[:200], **annotations.metadata},
        )


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    """A row with objects inside `context` and `attributes` as columns, as tables have them."""
    for name in ("context", "attributes"):
        inner = row.get(name)
        if isinstance(inner, dict):
            row = {**row, **{f"{name}.{key}": value for key, value in inner.items()}}
            for part in ("input", "output"):
                if isinstance(inner.get(part), dict):
                    row[f"{name}.{part}.value"] = inner[part].get("value")
    return row


IMPORTER = Importer(TOOL, "exports of Phoenix (JSON, CSV, Parquet)", _fits, _read)
