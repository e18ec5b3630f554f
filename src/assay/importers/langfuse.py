"""Exports of Langfuse, as its pages, its API or its scheduled exports write them: JSON, JSON Lines
or CSV. One trace is one sample.

Traces, observations and scores may come in one file or in several, which are joined by the trace.
NUMERIC and BOOLEAN scores are metrics; several of one name on a trace count with their mean, as in
Langfuse. CATEGORICAL scores are words: pass and fail and the like are 1 and 0, and others, which
have no order, are not graded. A trace without scores is missing evidence, and so is one with an
observation whose level is ERROR. Pages of the API are refused where some of them are missing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from assay.errors import NotEnoughEvidence
from assay.files.json_files import member
from assay.files.json_stream import stream_json
from assay.files.tables import table_rows
from assay.importers.cells import (
    amount_of,
    first_of,
    number_in,
    present,
    score_of,
    structure_of,
    verdict_of,
)
from assay.importers.head import Head
from assay.importers.importer import Importer, NameVersion, Wanted
from assay.importers.samples import (
    UNVERSIONED,
    ResultOrigin,
    amount,
    file_id,
    head_of,
    judge_checks,
    keyed,
    kinds_of,
    mean_of,
    name_of,
    objects,
    optional,
    sample_run,
    shaped,
    short_id,
)
from assay.importers.tally import ImportTally

TOOL = "langfuse"
_COLUMNS = """
id timestamp name userId sessionId release version environment tags bookmarked public input output
metadata latency usage inputCost outputCost totalCost level errorCount warningCount defaultCount
debugCount observationCount inputTokens outputTokens totalTokens comments htmlPath observations
scores createdAt updatedAt projectId externalId traceId traceName startTime endTime type
parentObservationId statusMessage model internalModel internalModelId modelParameters modelId
providedModelName promptId promptName promptVersion timeToFirstToken usageDetails costDetails
inputUsage outputUsage totalUsage completionStartTime traceTags traceTimestamp inputPrice
outputPrice totalPrice toolCalls toolDefinitions toolCallNames user_id session_id project_id
created_at updated_at trace_id trace_name start_time end_time parent_observation_id status_message
usage_details cost_details total_cost
"""
_KNOWN = frozenset(_COLUMNS.split())
"""Columns of traces and observations; any other that has lists of numbers is a score."""
_TRACES = ("bookmarked", "htmlPath", "observationCount")


def _kind(columns: frozenset[str]) -> str | None:
    """What the rows are: scores, observations or traces."""
    if columns & {"traceId", "trace_id"}:
        if columns & {"dataType", "data_type"} and {"name", "value"} <= columns:
            return "scores"
        if "type" in columns and columns & {"startTime", "start_time"}:
            return "observations"
    if {"subject", "name", "value"} <= columns and columns & {"dataType", "data_type"}:
        return "scores"  # of the third version of its API
    if {"id", "timestamp", "name"} <= columns and (
        not columns.isdisjoint(_TRACES) or {"session_id", "release", "public"} <= columns
    ):
        return "traces"
    return None


def _columns(head: Head) -> frozenset[str]:
    if head.has("data[].id"):
        return frozenset(
            key.removeprefix("data[].") for key in head.keys if key.startswith("data[].")
        )
    if head.has("trace.id", "observations"):
        return frozenset(key.removeprefix("trace.") for key in head.keys) | {"htmlPath"}
    return head.columns


class _ExportReader:
    def __init__(self, paths: Sequence[str], wanted: Wanted, tally: ImportTally) -> None:
        self._wanted, self._tally = wanted, tally
        self._kinds = kinds_of(
            paths,
            lambda head: _kind(_columns(head)),
            "has neither traces, observations nor scores as Langfuse exports them.",
        )
        self._judged: set[str] = set()
        self._seen: Counter[str] = Counter()
        self._scores: dict[str, dict[str, list[Any]]] = {}
        """Scores exported apart from their trace, by trace and name."""
        self._judges: dict[str, dict[str, int]] = {}
        """The judges of each trace, which a comparison requires."""
        self._inner: set[str] = set()
        """Scores of observations, which another version may have fewer of."""
        self._failed: set[str] = set()
        """Traces with an observation that ended in an error."""
        name = NameVersion(TOOL, UNVERSIONED)
        runs = "+".join(file_id(path) for path in paths)[:200]
        self._origin = ResultOrigin(
            TOOL,
            name,
            name,
            runs,
            answers=set(self._kinds.values()) != {"scores"},
            judged=self._judged,
        )
        self._name: str | None = None

    def runs(self) -> Iterator[dict[str, Any]]:
        for kind in sorted(set(self._kinds.values())):
            _check_pages([path for path, one in self._kinds.items() if one == kind], kind)
        for path, kind in self._kinds.items():
            if kind != "traces":
                self._collect(path, kind)
        main = "traces" if "traces" in self._kinds.values() else "observations"
        for path, kind in self._kinds.items():
            if kind == main:
                yield from self._samples(path, kind)
        for trace_id, scores in self._scores.items():
            if main == "traces":
                self._tally.dropped["scores of traces that are not in the files"] += sum(
                    map(len, scores.values())
                )
            else:
                yield self._run({"id": trace_id}, scores)

    def _collect(self, path: str, kind: str) -> None:
        for row, place in _rows(path):
            trace_id = _trace_of(row)
            self._tally.read[kind] += 1
            if trace_id is None:
                self._tally.dropped[f"{kind} without a trace"] += 1
                continue
            scores = self._scores.setdefault(str(trace_id), {})
            if kind == "scores":
                self._score(row, str(trace_id), scores, place, path)
            else:
                self._flat(row, scores)
                self._failed |= {str(trace_id)} if _is_error(row) else set()

    def _samples(self, path: str, kind: str) -> Iterator[dict[str, Any]]:
        for row, place in _rows(path):
            if kind == "observations":
                if not _is_root(row):
                    continue
                row = {**row, "id": first_of(row, ("traceId", "trace_id"))}
                if row["id"] is None or str(row["id"]) not in self._scores:
                    continue  # a trace with several roots, or none
                row["name"] = first_of(row, ("traceName", "trace_name")) or row.get("name")
            else:
                self._tally.read[kind] += 1
            trace_id = name_of(present(row.get("id")), f"{place}: `id`", path)
            scores = self._scores.pop(trace_id, {})
            if kind == "traces":
                self._flat(row, scores)
                listed = structure_of(row.get("scores"))
                for score in optional(listed, list, f"{place}: `scores`", path) or []:
                    if isinstance(score, dict):  # an id where the export is without them
                        self._score(score, trace_id, scores, place, path)
            yield self._run(row, scores)

    def _score(
        self,
        score: Mapping[str, Any],
        trace_id: str,
        scores: dict[str, list[Any]],
        place: str,
        path: str,
    ) -> None:
        name = name_of(score.get("name"), f"{place}: `name` of a score", path)
        kind = str(first_of(score, ("dataType", "data_type")) or "NUMERIC").upper()
        verdict = verdict_of(first_of(score, ("stringValue", "string_value", "value")))
        if kind == "CATEGORICAL" and verdict is not None:
            score = {**score, "value": verdict}
        elif kind not in ("NUMERIC", "BOOLEAN"):
            self._tally.in_words(name, f"{kind.lower()} scores, which are not graded")
            return
        value = number_in(score.get("value"), f"{place}: the {kind} score {name!r}", path)
        if str(score.get("source")).upper() == "EVAL":
            self._judged.add(name)
            checks = judge_checks(name, "EVAL", structure_of(score.get("metadata")))
            self._judges.setdefault(trace_id, {}).update(checks)
        if _observation_of(score) is not None:
            self._inner.add(name)
        scores.setdefault(name, []).append(value)

    def _flat(self, row: Mapping[str, Any], scores: dict[str, list[Any]]) -> None:
        """Scores as columns, each with a list of values."""
        for column, cell in row.items():
            values = None if column in _KNOWN else structure_of(cell)
            if not isinstance(values, list) or not values:
                continue
            try:
                scores.setdefault(column, []).extend([score_of(value) for value in values])
            except ValueError:
                self._tally.in_words(column, "categorical scores, which are not graded")
                if not scores[column]:
                    del scores[column]

    def _run(self, row: Mapping[str, Any], scores: Mapping[str, list[Any]]) -> dict[str, Any]:
        name = present(row.get("name"))
        if self._name is None and name is not None:
            self._name = str(name)
            version = present(row.get("release")) or present(row.get("version")) or UNVERSIONED
            self._origin = self._origin._replace(
                workflow=NameVersion(short_id(self._name, 0), short_id(str(version), 0))
            )
        elif name is not None and str(name) != self._name:
            self._tally.note(
                f"The export has traces of several names; all are one evaluation of {self._name!r}."
            )
        given = structure_of(row.get("input"))
        answer = structure_of(row.get("output"))
        failed = _is_error(row) or str(row["id"]) in self._failed
        sample_id = short_id(str(row["id"]) if given is None else {"input": given}, 0)
        self._seen[sample_id] += 1
        checks = self._judges.pop(str(row["id"]), {})
        return sample_run(
            self._origin,
            self._wanted,
            self._tally,
            sample_id=sample_id,
            status="error" if failed else "success",
            reason="an observation of the trace has the level ERROR" if failed else "",
            scores={
                label: mean_of(values) if label in self._inner else values
                for label, values in scores.items()
            },
            inputs=keyed(given, "input"),
            outputs={"answer": answer} if self._origin.answers else None,
            latency_ms=amount_of(row.get("latency"), 1000),
            cost_usd=amount_of(first_of(row, ("totalCost", "total_cost"))),
            tags=[str(name)[:200]] if name is not None else None,
            attempt=self._seen[sample_id],
            endings={"level"} & row.keys(),
            checks=checks,
            metadata={"trace_id": str(row["id"])[:200]},
        )


def _check_pages(paths: Sequence[str], kind: str) -> None:
    """Refuse pages of the API if others are missing."""
    pages = [path for path in paths if head_of(path).has("data[].id")]
    ids: set[str] = set()
    total, more = 0, bool(pages)
    for path in pages:
        meta: Any = None
        for place, value in stream_json(path, [("data",)]):
            if place[:1] == ("data",):
                ids.add(str(value.get("id") if isinstance(value, dict) else place))
            meta = value if place == ("meta",) else meta
        total = max(total, int(amount(member(meta, "totalItems")) or 0))
        more = more and bool(member(meta, "cursor"))
    if more or len(ids) < total:
        raise NotEnoughEvidence(
            "FIL-005",
            f"only {len(ids):,} {f'of {total:,} {kind}' if total else kind}: Langfuse has more.",
            where=", ".join(pages),
            fix="Pass the other pages too. To import only these, save the list in `data` alone.",
        )


def _trace_of(row: Mapping[str, Any]) -> Any:
    """The trace of a score or an observation; None if it belongs to none."""
    subject = structure_of(row.get("subject"))
    if isinstance(subject, dict):
        if subject.get("kind") == "trace":
            return present(subject.get("id"))
        row = subject
    return first_of(row, ("traceId", "trace_id"))


def _observation_of(score: Mapping[str, Any]) -> Any:
    """The observation that a score belongs to; None if it belongs to a whole trace."""
    subject = structure_of(score.get("subject"))
    if isinstance(subject, dict) and subject.get("kind") == "observation":
        return subject.get("id")
    return first_of(score, ("observationId", "observation_id"))


def _is_error(row: Mapping[str, Any]) -> bool:
    """Whether an observation, or one of a trace, ended in an error, as far as the row shows."""
    inner = objects(structure_of(row.get("observations")))
    errors = amount_of(first_of(row, ("errorCount", "error_count")))
    return bool(errors) or any(
        str(entry.get("level")).upper() == "ERROR" for entry in (row, *inner)
    )


def _is_root(row: Mapping[str, Any]) -> bool:
    """Whether an observation is the first of its trace, or the program marked it as that."""
    marked = first_of(row, ("isRootObservation", "is_root_observation"))
    parent = first_of(row, ("parentObservationId", "parent_observation_id"))
    return parent is None or str(marked).lower() == "true"


def _rows(path: str) -> Iterator[tuple[dict[str, Any], str]]:
    head = head_of(path)
    if head.has("data[].id"):
        for place, value in stream_json(path, [("data",)]):
            if len(place) == 2 and place[0] == "data":
                at = f"data[{place[1]}]"
                yield shaped(value, dict, at, path), at
        return
    for value, at in table_rows(path):
        row = shaped(value, dict, at, path)
        if isinstance(row.get("trace"), dict):  # the download of a single trace
            parts = {key: row.get(key) for key in ("scores", "observations")}
            row = {**parts, **row["trace"]}
        yield row, at


IMPORTER = Importer(
    TOOL,
    "exports of Langfuse (JSON, JSON Lines, CSV)",
    lambda head: _kind(_columns(head)) is not None,
    lambda paths, wanted, tally: _ExportReader(paths, wanted, tally).runs(),
)
