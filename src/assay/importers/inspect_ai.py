"""Logs of inspect_ai: `.eval` archives and `.json`, of tasks that succeeded or not.

Every sample of every epoch is a run; an epoch is an attempt. Each scorer is a metric, and so is
each key of a scorer that gives several values. A sample that failed, that was invalidated, or that
the log declares and does not have, is missing evidence: it has no score. A comparison requires each
scorer of the baseline, with the same options.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any, NamedTuple
from zipfile import ZipInfo

from assay.errors import InputError, NotEnoughEvidence, count
from assay.files.archives import Archive, open_archive
from assay.files.inputs import open_input
from assay.files.json_files import MAX_LINE, member
from assay.files.json_stream import loads, stream_json
from assay.importers.head import Head
from assay.importers.importer import Importer, NameVersion, Wanted
from assay.importers.inspect_samples import (
    VERDICT,
    attached,
    checks_of,
    count_of,
    is_graded,
    limited,
    parts_of,
    revision_text,
    scorer_of,
    times_of,
    unscored_in,
)
from assay.importers.parts import objects, optional, shaped
from assay.importers.samples import UNVERSIONED, ResultOrigin, sample_run, short_id
from assay.importers.tally import ImportTally

_SAMPLE = re.compile(r"samples/.*_epoch_\d+(\.json|/sample\.json)", re.DOTALL)
_CHUNK = re.compile(r"(samples/.*_epoch_\d+)/attachments/(\d{1,9})\.json", re.DOTALL)
"""Texts of a sample that is kept in several entries, from that number on."""
_HEADERS = ("header.json", "_journal/start.json")
_ENTRIES = tuple(name.encode() for name in _HEADERS)
_LARGE = [("events",), ("messages",), ("attachments", "*"), ("store", "*"), ("timelines",)]
"""Parts of a sample that may be large and are read piece by piece."""
SMALL = 2 * 1024 * 1024
"""Bytes of a sample that is read whole."""
_MEANS = ("accuracy", "mean")
MAX_DECLARED = 1_000_000
"""Samples that a log may declare."""


def _fits(head: Head) -> bool:
    if head.is_zip:
        return any(name in head.data for name in _ENTRIES)
    return head.has("version", "status", "eval.task", "eval.model")


def _read(paths: Sequence[str], wanted: Wanted, tally: ImportTally) -> Iterator[dict[str, Any]]:
    for path in paths:
        with open_input(path) as stream:
            packed = stream.peek(4)[:2] == b"PK"
        logs = _packed(path, tally) if packed else _plain(path)
        yield from _Log(path, wanted, tally, only=len(paths) == 1).runs(logs)


def _plain(path: str) -> Iterator[tuple[str, Any]]:
    """The parts of a `.json` log: those of its header by their names, and its samples."""
    for place, value in stream_json(path, [("samples",), ("reductions",)]):
        if place and place[0] == "samples" and len(place) == 2:
            yield "sample", value
        elif len(place) == 1:
            yield str(place[0]), value
        elif not place:
            raise InputError("FIL-006", "is not a log of inspect_ai.", where=path)


def _packed(path: str, tally: ImportTally) -> Iterator[tuple[str, Any]]:
    """The parts of an `.eval` archive."""
    with open_archive(path) as archive:
        headers = {}
        chunks: dict[str, dict[int, ZipInfo]] = {}
        entries = archive.entries()
        for entry in entries:
            if entry.filename in _HEADERS:
                headers[entry.filename] = entry
            elif match := _CHUNK.fullmatch(entry.filename):
                chunks.setdefault(match[1], {})[int(match[2])] = entry
        if superseded := archive.count - len(entries):
            tally.dropped["superseded_entries"] += superseded
        header_entry = next((headers[name] for name in _HEADERS if name in headers), None)
        if header_entry is None:
            raise InputError(
                "FIL-006",
                "is a ZIP archive without a header.json, so it is not a log of inspect_ai.",
                where=path,
            )
        header = loads(archive.read(header_entry, MAX_LINE), f"{path}/{header_entry.filename}")
        if not isinstance(header, dict):
            raise InputError("FIL-006", f"{header_entry.filename} is not an object.", where=path)
        yield from header.items()
        for entry in entries:
            if _SAMPLE.fullmatch(entry.filename):
                sample = _sample(archive, entry, f"{path}/{entry.filename}")
                texts = chunks.get(entry.filename.removesuffix("/sample.json"))
                if texts and isinstance(sample, dict):
                    sample["attachments"] = _texts(archive, texts, attached(sample), path)
                yield "sample", sample


def _sample(archive: Archive, entry: ZipInfo, where: str) -> Any:
    """One sample of an archive; of a large one, without the parts that nothing here looks at."""
    if entry.file_size < SMALL:
        return loads(archive.read(entry, SMALL), where)
    sample: dict[str, Any] = {}
    texts: dict[str, Any] = {}
    named: set[str] | None = None
    with archive.open(entry) as stream:
        for place, value in stream_json(where, _LARGE, opened=stream):
            if len(place) == 1:
                sample[str(place[0])] = value
            elif place and place[0] == "attachments":
                if named is None:
                    named = attached(sample)
                if place[1] in named:
                    texts[str(place[1])] = value
            elif place and place[0] == "messages":
                sample["messages"] = [value]  # the last one
            elif not place:
                raise InputError("FIL-006", "a sample is not an object.", where=where)
    return {**sample, "attachments": texts}


def _texts(
    archive: Archive, chunks: dict[int, ZipInfo], names: set[str], path: str
) -> dict[str, Any]:
    """The texts of a sample that is kept in several entries, by their numbers."""
    made: dict[str, Any] = {}
    for start, entry in chunks.items():
        last = min((other for other in chunks if other > start), default=None)
        numbers = [int(name) for name in names if name.isdecimal() and len(name) < 10]
        mine = [n for n in numbers if n >= start and (last is None or n < last)]
        if mine:
            where = f"{path}/{entry.filename}"
            listed = shaped(loads(archive.read(entry, MAX_LINE), where), list, "the entry", where)
            made |= {str(n): listed[n - start] for n in mine if n - start < len(listed)}
    return made


class _Declared(NamedTuple):
    """The samples that a log says it has, or that its task would have had."""

    ids: list[str]
    epochs: int
    total: int | None

    @property
    def is_known(self) -> bool:
        """Whether their number is known."""
        return self.total is not None or bool(self.ids)


class _Log:
    """One log, on its way to runs."""

    def __init__(self, path: str, wanted: Wanted, tally: ImportTally, *, only: bool) -> None:
        self._path, self._wanted, self._tally, self._only = path, wanted, tally, only
        self._header: dict[str, Any] = {}
        self._seen: set[tuple[str, int]] = set()
        self._origin: ResultOrigin | None = None
        self._errors = 0
        self._checks: dict[str, int] = {}
        self._scorer = ""
        self._times: dict[str, str] = {}
        """When the whole log ran."""
        self._unsure = False
        """Whether the log may lack more than it declares."""

    def runs(self, parts: Iterator[tuple[str, Any]]) -> Iterator[dict[str, Any]]:
        for key, value in parts:
            if key == "sample":
                yield self._run(value)
            else:
                self._header[key] = value
        origin = self._origin or self._named()
        declared = self._declared()
        if not self._seen and (self._header.get("status") == "success" or not declared.ids):
            raise NotEnoughEvidence(
                "FIL-005",
                "the log has no samples.",
                where=self._path,
                fix="Run inspect without --no-log-samples.",
            )
        status = self._header.get("status")
        if status != "success" and not declared.is_known:
            raise NotEnoughEvidence(
                "FIL-010",
                f"the status of the log is {str(status)[:40]!r}, and it doesn't say how many"
                " samples it should have.",
                where=self._path,
                fix="Let the evaluation end, or repeat it with `inspect eval-retry`.",
            )
        absent = self._absent(declared)
        if self._header.get("invalidated") and not absent and not self._errors:
            raise InputError(
                "FIL-010",
                "the log says that samples were invalidated, and doesn't mark which.",
                where=self._path,
                fix="Write the log again with inspect_ai, or repeat it with `inspect eval-retry`.",
            )
        yield from self._missing(origin, absent)
        # what was cancelled after its last sample lacks nothing
        if status not in ("success", "cancelled") and not absent and not self._errors:
            yield self._rest(origin)
        self._state(declared)

    # --- what the header says

    def _part(self, key: str) -> dict[str, Any]:
        return optional(self._header.get(key), dict, f"`{key}`", self._path) or {}

    def _named(self) -> ResultOrigin:
        spec = self._part("eval")
        task, model = spec.get("task"), spec.get("model")
        if not isinstance(task, str) or not task.strip():
            raise InputError(
                "SCO-011", "its `eval` does not name the task before the samples.", where=self._path
            )
        if not isinstance(model, str) or not model.strip():
            model = UNVERSIONED
        solver = spec.get("solver")
        if isinstance(solver, str) and solver.strip():
            model = f"{model} with {solver}"
        model = f"{model[:180]}{revision_text(spec.get('revision'))}"
        name = member(spec, "dataset", "name")
        edition = spec.get("task_version")
        own = spec.get("eval_id")
        ids = [own] if own else [spec.get("run_id"), spec.get("task_id")]
        run = ".".join(part for part in ids if isinstance(part, str) and part) or task
        judged = {
            entry["name"]
            for entry in objects(spec.get("scorers"))
            if "model_graded" in str(entry.get("name"))
        }
        status = self._header.get("status")
        if status != "success":
            self._tally.note(f"the status of the log is {str(status)[:40]!r}, not 'success'")
        if self._header.get("invalidated"):
            self._tally.note("samples of the log were invalidated; they have no scores")
        return ResultOrigin(
            "inspect_ai",
            NameVersion(task, model[:200]),
            NameVersion(
                name if isinstance(name, str) and name.strip() else task,
                str(edition) if edition and isinstance(edition, int | str) else UNVERSIONED,
            ),
            run[:200],
            verdicts=is_graded(spec),
            judged={*judged, "model_graded_qa", "model_graded_fact"},
        )

    def _declared(self) -> _Declared:
        spec, results = self._part("eval"), self._part("results")
        epochs = count_of(member(spec, "config", "epochs")) or 1
        ids = member(spec, "dataset", "sample_ids")
        named = [short_id(sample_id, 0) for sample_id in ids] if isinstance(ids, list) else []
        total = count_of(results.get("total_samples"))
        if total is None and not named and member(spec, "config", "sample_id") is None:
            size = count_of(member(spec, "dataset", "samples"))
            size = limited(size, member(spec, "config", "limit"))
            total = None if size is None else size * epochs
        if max(total or 0, len(named) * epochs) > MAX_DECLARED:
            raise InputError(
                "FIL-004", f"it declares more than {MAX_DECLARED:,} samples.", where=self._path
            )
        return _Declared(named, epochs, total)

    # --- samples

    def _run(self, sample: Any) -> dict[str, Any]:
        if self._origin is None:
            self._origin = self._named()
            spec = self._part("eval")
            self._checks = checks_of(spec)
            self._scorer = scorer_of(self._part("results"))
            self._times = times_of(self._part("stats"), created=spec.get("created"))
        self._tally.read["samples"] += 1
        made = parts_of(sample, self._path, self._tally, self._scorer)
        mark = (made["sample_id"], made["attempt"])
        if mark in self._seen:
            raise InputError(
                "FIL-007",
                f"the sample {mark[0]!r} of epoch {mark[1]} appears twice in the log.",
                where=self._path,
            )
        self._seen.add(mark)
        if self._origin.verdicts and (passed := made["scores"].get(VERDICT)) is not None:
            made["verdict"] = passed == 1
        self._errors += made["status"] != "success"
        return sample_run(
            self._origin, self._wanted, self._tally, checks=self._checks, **{**self._times, **made}
        )

    def _absent(self, declared: _Declared) -> list[tuple[str, int]]:
        """The samples that are declared and not there."""
        absent = [
            (name, epoch)
            for name in declared.ids
            for epoch in range(1, declared.epochs + 1)
            if (name, epoch) not in self._seen
        ]
        left = (declared.total or 0) - len(self._seen) - len(absent)
        return absent + [(f"missing-{index}", 1) for index in range(1, left + 1)]

    def _rest(self, origin: ResultOrigin) -> dict[str, Any]:
        """The unknown rest of a log that did not end well although its samples did."""
        self._unsure = True
        status = str(self._header.get("status"))[:40]
        self._tally.note(
            f"nothing in the log shows why its status is {status!r}; counted as one missing sample"
        )
        return sample_run(
            origin,
            self._wanted,
            self._tally,
            sample_id="missing-1",
            status="cancelled",
            reason=f"the status of the log is {status!r}, so samples may be missing",
        )

    def _missing(
        self, origin: ResultOrigin, absent: list[tuple[str, int]]
    ) -> Iterator[dict[str, Any]]:
        if absent:
            self._tally.note(
                f"the log lacks {count(len(absent), 'sample')} that it declares: missing evidence"
            )
        for name, epoch in absent:
            yield sample_run(
                origin,
                self._wanted,
                self._tally,
                sample_id=name,
                status="cancelled",
                attempt=epoch,
                reason="the log declares this sample but doesn't contain it",
            )

    # --- totals

    def _state(self, declared: _Declared) -> None:
        known = len(declared.ids) * declared.epochs
        if declared.total is not None and self._part("results") and not self._unsure:
            if declared.total >= known:
                self._tally.state("samples", declared.total)
                completed = count_of(self._part("results").get("completed_samples"))
                if completed is not None:
                    self._tally.stated_errors += max(0, declared.total - completed)
            else:
                self._tally.note(
                    f"the log counts {declared.total:,} samples and declares {known:,}"
                )
        for label in unscored_in(self._part("results")):
            self._tally.metric(label)  # a scorer that never gave a score must not be ignored
        if not self._only:
            return
        for label, mean, is_plain in self._means(declared.epochs):
            self._tally.state(self._tally.metric(label), mean, is_plain=is_plain)

    def _means(self, epochs: int) -> Iterator[tuple[str, Decimal | int, bool]]:
        """The means that the log has for metrics of ours, by their labels, and whether nothing but
        the samples makes them. A reducer other than the mean makes another number of several
        epochs.
        """
        results = self._part("results")
        labels = {metric.label for metric in self._tally.metrics.values()}
        scores = objects(results.get("scores")) or objects([results.get("scorer")])
        done: set[str] = set()
        for score in scores:
            metrics = score.get("metrics", results.get("metrics"))
            if score.get("reducer") not in (None, "mean") or not isinstance(metrics, dict):
                continue
            name, scorer = str(score.get("name")), str(score.get("scorer"))
            label = name if name in labels else f"{scorer}/{name}"
            if label not in labels or label in done:
                continue
            done.add(label)
            for key in _MEANS:
                entry = metrics.get(key)
                value = entry.get("value") if isinstance(entry, dict) else entry
                if value is not None and not isinstance(value, bool | str | list | dict):
                    own = isinstance(entry, dict) and (entry.get("params") or entry.get("options"))
                    yield label, value, not own and (epochs == 1 or score.get("reducer") == "mean")
                    break


def _again(names: Sequence[str], times: int, workflow: str) -> str:
    """The samples by their ids, as epochs, which are not cached unless the task asks for it.

    >>> _again(["q-1", "q-2"], 7, "triage")
    'inspect eval triage --sample-id q-1,q-2 --epochs 7'
    """
    listed = shlex.quote(",".join(names))
    return f"inspect eval {shlex.quote(workflow)} --sample-id {listed} --epochs {times}"


IMPORTER = Importer(
    "inspect_ai", "inspect_ai logs (.eval, .json)", _fits, _read, apart=True, again=_again
)
