"""Traces as runs: one trace is one run, with what its spans say of workflow, dataset and sample.

`assay.workflow.id`, `.version`, `.family`, `assay.dataset.id`, `.version`, `assay.sample_id` and
`assay.run_id` on a span or its resource say where a run belongs; `service.name` and
`service.version` stand in for the workflow. Evidence that no span shows (`assay.required_outputs`,
`assay.expected` and so on) may be attributes that contain JSON. A trace without any span of a run
is skipped and counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from assay.errors import Fault, FaultList, InputError, NotEnoughEvidence
from assay.files.inputs import open_input
from assay.files.json_files import MAX_LINE, Document, limited, parsed
from assay.grouping import grouped
from assay.importers.head import Head
from assay.importers.importer import Importer, Wanted
from assay.importers.tally import ImportTally
from assay.records.evidence import RUN_SCHEMA
from assay.records.reading import read_run
from assay.tracing.genai import evidence, is_run
from assay.tracing.spans import Span, name, tree
from assay.tracing.wire import from_console, from_json, from_protobuf, is_console, is_otlp

MAX_TOTAL = 1_000_000
"""Spans in one import."""
PEEK = 512
_UNTEXTUAL = frozenset({*range(32), 127} - set(b"\t\n\r"))
PREFIX = "assay."
NEEDED = ("workflow.id", "workflow.version", "dataset.id", "dataset.version")
OPTIONAL = ("workflow.family", "sample_id", "run_id")
GIVEN = (
    "required_outputs",
    "required_inputs",
    "output_schema",
    "expected",
    "forbidden_tools",
    "handoff_rules",
    "scores",
    "gates",
    "claims",
    "tests",
    "patch_applies",
    "judge",
    "tags",
    "group",
    "attempt",
)
"""Parts of a run that no span shows and that its maker may state."""


def runs(spans: Iterable[Span], wanted: Wanted) -> tuple[list[dict[str, Any]], Counter[str]]:
    """Every trace as a run of `assay.run/1`, the oldest first, and what was left out, by reason.

    What a trace states of itself holds; `wanted` fills in what it leaves open.
    """
    traces = grouped((span.trace_id, span) for span in spans)
    made: list[dict[str, Any]] = []
    dropped: Counter[str] = Counter()
    for _, trace in sorted(
        traces.items(), key=lambda item: (min(span.start_ns for span in item[1]), item[0])
    ):
        if is_run(trace):
            run = run_of(trace, wanted)
            dropped.update(run["metadata"]["otel"].get("dropped", {}))
            made.append(run)
        else:
            dropped["traces_without_a_run"] += 1
            dropped["spans_of_no_run"] += len(trace)
    return made, dropped


def run_of(spans: Sequence[Span], wanted: Wanted, *, refused: int = 0) -> dict[str, Any]:
    """One trace as a run, checked as any other run is. `refused` counts spans of it that could not
    be read.
    """
    trace_id = spans[0].trace_id
    where = f"trace {trace_id}"
    stated = {**_service(spans), **wanted.stated(), **_stated(spans, where)}
    if missing := [key for key in NEEDED if key not in stated]:
        options = dict.fromkeys(f"--{key.partition('.')[0]} ID@VERSION" for key in missing)
        raise InputError(
            "SCO-011",
            f"nothing states {', '.join(PREFIX + key for key in missing)}.",
            where=where,
            fix=f"Use `assay import {' '.join(options)}`, or set them on the spans or their"
            " resource.",
        )
    parts = evidence(spans, refused=refused)
    if "sample_id" not in stated:
        parts["metadata"]["otel"]["sample_id"] = "the trace id is used: no span has assay.sample_id"
    names = {"family": stated["workflow.family"]} if "workflow.family" in stated else {}
    run = {
        "schema": RUN_SCHEMA,
        "run_id": stated.get("run_id", trace_id),
        "workflow": {
            "id": stated["workflow.id"],
            "version": stated["workflow.version"],
            **names,
        },
        "dataset": {
            "id": stated["dataset.id"],
            "version": stated["dataset.version"],
            "sample_id": stated.get("sample_id", trace_id),
        },
        **parts,
        **_given(spans),
    }
    # spans may state anything; nothing leaves here that `assay grade` would refuse
    read_run(Document(run, where))
    return run


def _stated(spans: Sequence[Span], where: str) -> dict[str, str]:
    """What spans, or else their resources, state of where the run belongs. Two that disagree are an
    error: one of them is of another run.
    """
    stated: dict[str, str] = {}
    for key in (*NEEDED, *OPTIONAL):
        for places in ([span.attributes for span in spans], [span.resource for span in spans]):
            values = {name(_plain(place.get(PREFIX + key))) for place in places} - {None}
            if len(values) > 1:
                listed = ", ".join(repr(value) for value in sorted(map(str, values))[:3])
                raise InputError(
                    "SCO-011", f"its spans disagree on {PREFIX}{key}: {listed}.", where=where
                )
            if values:
                stated[key] = str(values.pop())
                break
    return stated


def _service(spans: Sequence[Span]) -> dict[str, str]:
    """The service of the first root, which stands in for the workflow."""
    tops = [span for span in spans if span.parent_id is None or span.remote_parent] or spans
    resource = min(tops, key=lambda span: (span.start_ns, span.span_id)).resource
    names = {key: name(resource.get(f"service.{key}")) for key in ("name", "version")}
    known = {
        key: value
        for key, value in names.items()
        if value is not None and not value.startswith("unknown_service")
    }
    return {f"workflow.{key.replace('name', 'id')}": value for key, value in known.items()}


def _plain(value: Any) -> Any:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _given(spans: Sequence[Span]) -> dict[str, Any]:
    """Parts of the run that its maker wrote on a span or its resource; those of the root hold."""
    places = [
        place
        for span in sorted(
            spans,
            key=lambda span: (span.parent_id is not None, span.start_ns, span.span_id),
            reverse=True,
        )
        for place in (span.resource, span.attributes)
    ]
    return {
        key: tree(place[PREFIX + key])
        for place in places
        for key in GIVEN
        if place.get(PREFIX + key) is not None
    }


# --- files


def read_spans(path: str) -> Iterator[Span]:
    """The spans of a file: OTLP as JSON (one document, or one on each line), OTLP as protobuf, or
    what the Python SDK prints to a console.
    """
    faults = FaultList(path)
    for entry in _entries(path):
        if isinstance(entry, Fault):
            faults.take(entry)
        elif not faults.count:
            yield entry
    faults.raise_if_any()


def _entries(path: str) -> Iterator[Span | Fault]:
    file = "<stdin>" if path == "-" else path
    with open_input(path) as stream:
        # whatever is opened for reading can be peeked into
        binary = not looks_like_json(stream.peek(PEEK))
        head = stream.readline(MAX_LINE + 1)
        if binary:
            yield from from_protobuf(_rest(head, stream, file), file=file)
            return
        if head.strip() not in (b"{", b"[") and head.rstrip().endswith((b"}", b"]")):
            number = 1
            while head:
                yield from _document(head, file, number)
                head = stream.readline(MAX_LINE + 1)
                number += 1
            return
        data = _rest(head, stream, file)
    if not data.strip():
        return
    # the console prints one indented object after the other; each ends with a brace at the
    # beginning of a line
    pieces = data.split(b"\n}\n") if b"\n}\n{" in data else [data]
    line = 1
    for index, piece in enumerate(pieces):
        whole = piece + (b"\n}" if index < len(pieces) - 1 else b"")
        yield from _document(whole, file, line)
        line += whole.count(b"\n") + 1


def _rest(head: bytes, stream: Any, file: str) -> bytes:
    return limited(head + stream.read(max(0, MAX_LINE + 1 - len(head))), file)


def looks_like_json(head: bytes) -> bool:
    """Whether the first bytes of a file are text, such as JSON is; protobuf has tags and lengths
    there, which no text has.

    >>> looks_like_json(b' {"resourceSpans": []}'), looks_like_json(bytes((10, 20, 10, 2)))
    (True, False)
    """
    return not _UNTEXTUAL.intersection(head[:PEEK])


def _document(data: bytes, file: str, line: int) -> Iterator[Span | Fault]:
    if not data.strip():
        return
    if len(data) > MAX_LINE:
        yield Fault(
            f"is longer than {MAX_LINE // 2**20} MiB.", code="FIL-004", file=file, line=line
        )
        return
    documents = parsed(data, file=file, line=line)
    for document in documents if isinstance(documents, list) else [documents]:
        if is_otlp(document):
            yield from from_json(document, file=file, line=line)
        elif is_console(document):
            try:
                yield from_console(document)
            except ValueError as error:
                yield Fault(str(error), file=file, line=line)
        else:
            yield Fault(
                "is neither an OTLP export of spans nor a span of the Python SDK.",
                code="FIL-006",
                file=file,
                line=line,
            )


def fits(start: Head) -> bool:
    """Whether a file that begins so contains spans."""
    if looks_like_json(start.data):
        return any(
            f"{base}resourceSpans" in start.keys
            or start.has(f"{base}context.trace_id", f"{base}start_time")
            for base in ("", "[].")
        )
    return start.data[:1] == b"\n"  # the tag of the first field of an export


def read(paths: Sequence[str], wanted: Wanted, tally: ImportTally) -> Iterator[dict[str, Any]]:
    """Files as runs; the spans of one trace may lie in several files."""
    spans: list[Span] = []
    for path in paths:
        before = len(spans)
        for span in read_spans(path):
            spans.append(span)
            if len(spans) > MAX_TOTAL:
                raise InputError(
                    "FIL-004",
                    f"there are more than {MAX_TOTAL:,} spans.",
                    where=path,
                    fix="Import fewer files at once.",
                )
        if len(spans) == before:
            raise NotEnoughEvidence(
                "FIL-005",
                "the file has no spans.",
                where=path,
                fix="Leave it out if nothing belongs in it.",
            )
    made, dropped = runs(spans, wanted)
    tally.read.update(
        files=len(paths), spans=len(spans), traces=len({span.trace_id for span in spans})
    )
    tally.dropped.update(dropped)
    tally.notes += _notes(made)
    yield from made


def _notes(made: Sequence[Mapping[str, Any]]) -> list[str]:
    otel = {run["run_id"]: run["metadata"]["otel"] for run in made}
    broken = [run_id for run_id, about in otel.items() if "gaps" in about]
    unnamed = sum("sample_id" in about for about in otel.values())
    notes = []
    if broken:
        gaps = sum((Counter(otel[run_id]["gaps"]) for run_id in broken), Counter[str]())
        lost = [f"{name.replace('_', ' ')} ({n:,})" for name, n in sorted(gaps.items())]
        notes.append(
            f"{len(broken)} of {len(made)} traces are not whole and have status 'error', first:"
            f" {broken[0]}; {', '.join(lost)}"
        )
    if unnamed:
        notes.append(
            f"{unnamed:,} of {len(made):,} runs have the trace id as their sample: set"
            " assay.sample_id to pair them with another version's"
        )
    return notes


IMPORTER = Importer(
    "otlp",
    "OpenTelemetry spans: OTLP as JSON or protobuf, or the console output of the Python SDK",
    fits,
    read,
)
