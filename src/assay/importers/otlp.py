"""Traces as runs: one trace is one run, with what its spans say of workflow, dataset and sample.

`assay.workflow.id`, `.version`, `.family`, `assay.dataset.id`, `.version`, `assay.sample_id` and
`assay.run_id` on a span or its resource say where a run belongs; `service.name` and
`service.version` stand in for the workflow. Evidence that no span shows (`assay.required_outputs`,
`assay.expected` and their like) may stand there as JSON. A trace without any span of a run is left
out and counted.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from assay.errors import Fault, InputError
from assay.files.json_files import MAX_LINE, Document, open_input
from assay.importers.importer import Imported, Importer, Named, Wanted, lacking
from assay.records.evidence import RUN_SCHEMA
from assay.records.reading import read_run
from assay.tracing.genai import Span, evidence, is_run
from assay.tracing.protobuf import from_protobuf
from assay.tracing.spans import name, tree
from assay.tracing.wire import from_console, from_json, is_console, is_otlp, parsed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

MAX_TOTAL = 1_000_000
"""Spans in one import."""
MAX_FAULTS = 20
PEEK = 512
_UNTEXTUAL = frozenset({*range(32), 127} - set(b"\t\n\r"))
PREFIX = "assay."
GIVEN = (
    *(
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
    ),
    *("patch_applies", "judge", "tags", "group", "attempt"),
)
"""Parts of a run that no span shows and that its maker may say."""


class Dropped(Counter[str]):
    """What was left out, by its reason."""


def runs(
    spans: Iterable[Span],
    *,
    workflow: Named | None = None,
    family: str | None = None,
    dataset: Named | None = None,
) -> tuple[list[dict[str, Any]], Dropped]:
    """Every trace as a run of `assay.run/1`, the oldest first, and what was left out.

    What a trace says of itself holds; the arguments say what it leaves open.
    """
    traces: dict[str, list[Span]] = {}
    for span in spans:
        traces.setdefault(span.trace_id, []).append(span)
    made: list[dict[str, Any]] = []
    dropped = Dropped()
    wanted = Wanted(workflow, family, dataset)
    for trace_id in sorted(
        traces, key=lambda key: (min(span.start_ns for span in traces[key]), key)
    ):
        found = traces[trace_id]
        if not is_run(found):
            dropped["traces_without_a_run"] += 1
            dropped["spans_of_no_run"] += len(found)
            continue
        run = run_of(found, wanted)
        dropped.update(run["metadata"]["otel"].get("dropped", {}))
        made.append(run)
    return made, dropped


def run_of(spans: Sequence[Span], wanted: Wanted, *, refused: int = 0) -> dict[str, Any]:
    """One trace as a run, checked as any other run is. `refused` counts spans of it that could not
    be read.
    """
    where = f"trace {spans[0].trace_id}"
    said = _said(spans, where)
    parts = evidence(spans, refused=refused)
    notes = parts["metadata"]["otel"]
    service, version = said.get("service.name"), said.get("service.version")
    workflow_id = said.get("assay.workflow.id") or (
        wanted.workflow.id if wanted.workflow else service
    )
    workflow_version = said.get("assay.workflow.version") or (
        wanted.workflow.version if wanted.workflow else version
    )
    dataset_id = said.get("assay.dataset.id") or (wanted.dataset.id if wanted.dataset else None)
    dataset_version = said.get("assay.dataset.version") or (
        wanted.dataset.version if wanted.dataset else None
    )
    for found, what, option, attribute in (
        (workflow_id, "which workflow ran", "--workflow ID@VERSION", "assay.workflow.id"),
        (
            workflow_version,
            "which version of the workflow ran",
            "--workflow ID@VERSION",
            "assay.workflow.version",
        ),
        (dataset_id, "on which dataset it ran", "--dataset ID@VERSION", "assay.dataset.id"),
        (
            dataset_version,
            "on which version of the dataset it ran",
            "--dataset ID@VERSION",
            "assay.dataset.version",
        ),
    ):
        if found is None:
            raise lacking(
                what, where, f"Give {option}, or set {attribute} on the spans or their resource."
            )
    family = said.get("assay.workflow.family") or wanted.family
    sample = said.get("assay.sample_id")
    if sample is None:
        notes["sample_id"] = "the trace id stands for it: no span has assay.sample_id"
    run = {
        "schema": RUN_SCHEMA,
        "run_id": said.get("assay.run_id") or spans[0].trace_id,
        "workflow": {
            "id": workflow_id,
            "version": workflow_version,
            **({"family": family} if family is not None else {}),
        },
        "dataset": {
            "id": dataset_id,
            "version": dataset_version,
            "sample_id": sample or spans[0].trace_id,
        },
        **parts,
        **_given(spans),
    }
    read_run(
        Document(run, where)
    )  # what spans say may be of any shape; nothing leaves here that `assay grade` would refuse
    return run


def _said(spans: Sequence[Span], where: str) -> dict[str, str]:
    """What spans and resources say of where the run belongs. Two who disagree are an error: one of
    them is of another run.
    """
    names = [
        PREFIX + key
        for key in (
            "workflow.id",
            "workflow.version",
            "workflow.family",
            "dataset.id",
            "dataset.version",
            "sample_id",
            "run_id",
        )
    ]
    made: dict[str, str] = {}
    for key in names:
        found = {
            value
            for value in (name(_plain(span.attributes.get(key))) for span in spans)
            if value is not None
        }
        found = found or {
            value
            for value in (name(_plain(span.resource.get(key))) for span in spans)
            if value is not None
        }
        if len(found) > 1:
            raise InputError(
                "SCO-011",
                f"its spans disagree on {key}:"
                f" {', '.join(repr(value) for value in sorted(found)[:3])}.",
                where=where,
            )
        if found:
            made[key] = found.pop()
    tops = [span for span in spans if span.parent_id is None or span.remote_parent] or list(spans)
    first = min(tops, key=lambda span: (span.start_ns, span.span_id))
    for key in ("service.name", "service.version"):
        value = name(first.resource.get(key))
        if value is not None and not value.startswith("unknown_service"):
            made[key] = value
    return made


def _plain(value: Any) -> Any:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _given(spans: Sequence[Span]) -> dict[str, Any]:
    """Parts of the run that its maker wrote on a span or its resource."""
    made: dict[str, Any] = {}
    for span in sorted(
        spans,
        key=lambda span: (span.parent_id is not None, span.start_ns, span.span_id),
        reverse=True,
    ):
        for about in (span.resource, span.attributes):  # the root's own word comes last and holds
            made.update(
                {
                    key: tree(about[PREFIX + key])
                    for key in GIVEN
                    if about.get(PREFIX + key) is not None
                }
            )
    return made


# --- files


def read_spans(path: str) -> Iterator[Span]:
    """The spans of a file: OTLP as JSON (one document, or one on each line), OTLP as protobuf, or
    what the Python SDK prints to a console.
    """
    faults: list[Fault] = []
    count = 0
    for found in _entries(path):
        if isinstance(found, Fault):
            faults.append(found)
            count += 1
        elif not faults:
            yield found
    if faults:
        error = InputError(
            faults[0].code, faults[0].message, where=path, faults=faults[:MAX_FAULTS]
        )
        error.fault_count = count
        raise error


def _entries(path: str) -> Iterator[Span | Fault]:
    file = "<stdin>" if path == "-" else path
    with open_input(path) as stream:
        # whatever is opened for reading can be peeked into
        binary = not looks_like_json(stream.peek(PEEK))  # type: ignore[attr-defined]
        head = stream.readline(MAX_LINE + 1)
        if binary:
            yield from from_protobuf(_rest(head, stream, file), file=file)
            return
        if head.strip() not in (b"{", b"[") and _is_whole(head):
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
    data: bytes = head + stream.read(max(0, MAX_LINE + 1 - len(head)))
    if len(data) > MAX_LINE:
        raise InputError(
            "FIL-004",
            f"is larger than {MAX_LINE // 2**20} MiB.",
            where=file,
            fix="Put one document on each line of a .jsonl file.",
        )
    return data


def looks_like_json(head: bytes) -> bool:
    """Whether the first bytes of a file are text, such as JSON is; protobuf has tags and lengths
    there, which no text holds.

    >>> looks_like_json(b' {"resourceSpans": []}'), looks_like_json(bytes((10, 20, 10, 2)))
    (True, False)
    """
    return not _UNTEXTUAL.intersection(head[:PEEK])


def _is_whole(line: bytes) -> bool:
    return line.rstrip().endswith((b"}", b"]"))


def _document(data: bytes, file: str, line: int) -> Iterator[Span | Fault]:
    if not data.strip():
        return
    if len(data) > MAX_LINE:
        yield Fault(
            f"is longer than {MAX_LINE // 2**20} MiB.", code="FIL-004", file=file, line=line
        )
        return
    found = parsed(data, file=file, line=line)
    for one in found if isinstance(found, list) else [found]:
        if is_otlp(one):
            yield from from_json(one, file=file, line=line)
        elif is_console(one):
            try:
                yield from_console(one)
            except ValueError as error:
                yield Fault(str(error), file=file, line=line)
        else:
            yield Fault(
                "is neither an OTLP export of spans nor a span of the Python SDK.",
                code="FIL-006",
                file=file,
                line=line,
            )


def fits(head: bytes) -> bool:
    """Whether a file that begins so holds spans."""
    if looks_like_json(head):
        return b'"resourceSpans"' in head or (b'"trace_id"' in head and b'"context"' in head)
    return head[:1] == b"\n"  # the tag of the first field of an export


def read(paths: Sequence[str], wanted: Wanted) -> Imported:
    """Files as runs; the spans of one trace may lie in several files."""
    spans: list[Span] = []
    for path in paths:
        for span in read_spans(path):
            spans.append(span)
            if len(spans) > MAX_TOTAL:
                raise InputError(
                    "FIL-004",
                    f"there are more than {MAX_TOTAL:,} spans.",
                    where=path,
                    fix="Import fewer files at once.",
                )
    made, dropped = runs(
        spans, workflow=wanted.workflow, family=wanted.family, dataset=wanted.dataset
    )
    return Imported(
        made,
        {
            "files": len(paths),
            "spans": len(spans),
            "traces": len({span.trace_id for span in spans}),
        },
        dropped,
        _notes(made),
    )


def _notes(made: Sequence[Mapping[str, Any]]) -> list[str]:
    broken = [run["run_id"] for run in made if "gaps" in run["metadata"]["otel"]]
    unnamed = sum("sample_id" in run["metadata"]["otel"] for run in made)
    found = []
    if broken:
        found.append(
            f"{len(broken)} of {len(made)} traces are not whole and have status 'error', first:"
            f" {broken[0]}"
        )
    if unnamed:
        found.append(
            f"{unnamed} of {len(made)} runs have the trace id as their sample: set assay.sample_id"
            " to pair them with another version's"
        )
    return found


IMPORTER = Importer(
    "otlp",
    "OpenTelemetry spans: OTLP as JSON or protobuf, or the console output of the Python SDK",
    fits,
    read,
)
