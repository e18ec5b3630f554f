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
from datetime import datetime
from decimal import Decimal
from typing import Any, NamedTuple
from zipfile import ZipInfo

from assay.canon import digest
from assay.errors import InputError, NotEnoughEvidence, count
from assay.files.archives import Archive, open_archive
from assay.files.inputs import open_input
from assay.files.json_files import MAX_LINE, member
from assay.files.json_stream import loads, stream_json
from assay.importers.head import Head
from assay.importers.importer import Importer, NameVersion, Wanted
from assay.importers.samples import (
    UNVERSIONED,
    ResultOrigin,
    amount,
    objects,
    optional,
    sample_run,
    shaped,
    short_id,
)
from assay.importers.tally import ImportTally

LETTERS = {"C": Decimal(1), "P": Decimal("0.5"), "I": Decimal(0), "N": Decimal(0)}
"""Correct, partially correct, incorrect, no answer."""
WORDS = {"yes": Decimal(1), "true": Decimal(1), "no": Decimal(0), "false": Decimal(0)}
VERDICT = "assay"
"""The score for passed or not in a log that Assay exported, and the package that wrote it."""
_NUMBER = re.compile(r"[-+]?(\d{1,30}(\.\d{0,30})?|\.\d{1,30})([eE][-+]?\d{1,2})?")
_COMMIT = re.compile(r"[0-9A-Za-z]{4,64}")
_ATTACHED = "attachment://"


def parts_of(sample: Any, where: str, tally: ImportTally, scorer: str) -> dict[str, Any]:
    """What `sample_run` needs of a sample. `scorer` names a score that has no name."""
    shaped(sample, dict, "a sample", where)
    number, epoch = sample.get("id"), sample.get("epoch", 1)
    if isinstance(number, bool) or not isinstance(number, int | str) or number == "":
        raise InputError("SCO-011", f"a sample has the id {number!r:.60}.", where=where)
    if isinstance(epoch, bool) or not isinstance(epoch, int) or not 1 <= epoch < 10**6:
        raise InputError(
            "SCO-011", f"the sample {number!r:.60} has the epoch {epoch!r:.60}.", where=where
        )
    status, reason = _ending(sample)
    attached = sample.get("attachments")
    texts = attached if isinstance(attached, dict) else {}
    words: dict[str, Any] = {}
    scores = _scores(sample, where, tally, scorer, words)
    if status == "success" and not scores:
        reason = "no scorer gave a score"
    target = sample.get("target")
    answer = _resolved(_answer(sample), texts)
    return {
        "sample_id": short_id(number, 0),
        "attempt": epoch,
        "status": status,
        "reason": reason,
        "scores": scores,
        "inputs": {"input": _resolved(sample.get("input"), texts)} if "input" in sample else None,
        "outputs": {"answer": answer},
        "expected": {"answer": target} if target not in (None, "", []) else None,
        "latency_ms": amount(sample.get("total_time"), 1000),
        "tokens": _tokens(sample.get("model_usage")),
        "retries": len(retried)
        if isinstance(retried := sample.get("error_retries"), list)
        else None,
        "tags": _limit(sample),
        "metadata": {"labels": words} if words else {},
        **times_of(sample),
    }


def checks_of(spec: dict[str, Any]) -> dict[str, int]:
    """What a comparison requires: each scorer with its options, and with the model that grades. A
    scorer with other options may be easier to please.

    >>> checks_of({"scorers": [{"name": "match", "options": {}}]})
    {'scorer match without options': 0}
    """
    roles = next(iter(objects([spec.get("model_roles")])), {})
    checks = {}
    for scorer in objects(spec.get("scorers")):
        name = str(scorer.get("name"))
        options = next(iter(objects([scorer.get("options")])), {})
        grader = roles.get(options.get("model_role") or "grader") if "model" in name else None
        settings = [part for part in (options, grader) if part]
        suffix = f"with the options {digest(settings)[7:19]}" if settings else "without options"
        checks[f"scorer {name[:100]} {suffix}"] = 0
    return checks


def is_graded(spec: dict[str, Any]) -> bool:
    """Whether Assay exported the log: its scores without its verdicts could open a failed gate."""
    packages = next(iter(objects([spec.get("packages")])), {})
    return VERDICT in packages and str(spec.get("model")).startswith(f"{VERDICT}/")


def scorer_of(results: dict[str, Any]) -> str:
    """The name of the only scorer, which samples of old logs don't repeat."""
    first = results.get("scorer") or next(iter(objects(results.get("scores"))), None)
    name = first.get("name") if isinstance(first, dict) else None
    return name if isinstance(name, str) and name else "score"


def unscored_in(results: dict[str, Any]) -> list[str]:
    """The labels of the scores that no sample has, by the log's own count.

    >>> unscored_in({"scores": [{"name": "match", "scorer": "match", "scored_samples": 0}]})
    ['match']
    """
    return [
        name if name == scorer else f"{scorer}/{name}"
        for score in objects(results.get("scores"))
        if count_of(score.get("scored_samples")) == 0
        for name, scorer in [(str(score.get("name")), str(score.get("scorer")))]
    ]


def times_of(part: dict[str, Any], *, created: Any = None) -> dict[str, str]:
    """When a sample or a whole log ran, as it says it; else when it was created."""
    named = {"started_at": part.get("started_at"), "finished_at": part.get("completed_at")}
    times = {name: _moment(text) or _moment(created) for name, text in named.items()}
    return {name: moment for name, moment in times.items() if moment is not None}


def revision_text(revision: Any) -> str:
    """The commit that was evaluated, as part of a version.

    >>> revision_text({"type": "git", "commit": "04c45e7d9af", "dirty": True}), revision_text(None)
    ('+04c45e7-dirty', '')
    """
    commit = revision.get("commit") if isinstance(revision, dict) else None
    if not isinstance(commit, str) or not _COMMIT.fullmatch(commit):
        return ""
    return f"+{commit[:7]}{'-dirty' if revision.get('dirty') is True else ''}"


def _moment(text: Any) -> str | None:
    """A moment as a log writes it; None if it is none.

    >>> _moment("2026-10-15T10:00:00+00:00"), _moment("yesterday")
    ('2026-10-15T10:00:00+00:00', None)
    """
    if not isinstance(text, str) or len(text) > 40:
        return None
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return None
    return text


def _ending(sample: dict[str, Any]) -> tuple[str, str]:
    """The status of a sample, and why."""
    error = sample.get("error")
    if error is not None:
        message = error.get("message") if isinstance(error, dict) else error
        return "error", str(message)[:2000]
    if sample.get("invalidation") is not None:
        return "cancelled", "the sample was invalidated after it ran"
    if sample.get("limit") is not None and not (sample.get("scores") or sample.get("score")):
        return "timeout", f"stopped by a limit: {_limit(sample)}"
    return "success", ""


def _limit(sample: dict[str, Any]) -> list[str] | None:
    limit = sample.get("limit")
    if limit is None:
        return None
    kind = limit.get("type") if isinstance(limit, dict) else limit
    return [f"limit:{str(kind)[:40]}"]


def _scores(
    sample: dict[str, Any], where: str, tally: ImportTally, scorer: str, words: dict[str, Any]
) -> dict[str, Any]:
    """The scores that are numbers; the others are added to `words`."""
    what = f"`scores` of the sample {sample.get('id')!r:.60}"
    scores = optional(sample.get("scores"), dict, what, where)
    if scores is None:
        scores = {} if sample.get("score") is None else {scorer: sample["score"]}
    made: dict[str, Any] = {}
    for name, score in scores.items():
        value = score.get("value") if isinstance(score, dict) else score
        if isinstance(score, dict) and score.get("history"):
            tally.read["edited scores"] += 1
        several = (
            value
            if isinstance(value, dict)
            else dict(enumerate(value))
            if isinstance(value, list)
            else None
        )
        labelled = (
            {name: value}
            if several is None
            else {f"{name}/{key}": item for key, item in several.items()}
        )
        for label, item in labelled.items():
            read = number(item)
            if read is None and item is not None:
                tally.in_words(label, "scores_that_are_no_numbers")
                words[label] = item
            else:
                made[label] = read
    return made


def number(value: Any) -> Decimal | int | bool | None:
    """The number that inspect_ai takes a value for; None if it is none.

    >>> [number(value) for value in ("C", "P", "N", "yes", True, "0.5", "blue")]
    [Decimal('1'), Decimal('0.5'), Decimal('0'), Decimal('1'), True, Decimal('0.5'), None]
    """
    if isinstance(value, int | Decimal):
        return value
    if not isinstance(value, str):
        return None
    value_read = LETTERS.get(value, WORDS.get(value.lower()))
    if value_read is None and _NUMBER.fullmatch(value.strip()):
        value_read = Decimal(value.strip())
    return value_read


def _answer(sample: dict[str, Any]) -> Any:
    """The text of the model's answer: the completion, or the last message."""
    choices = member(sample, "output", "choices")
    messages = sample.get("messages")
    for listed in (
        [choices[0].get("message")]
        if isinstance(choices, list) and choices and isinstance(choices[0], dict)
        else [],
        messages[-1:] if isinstance(messages, list) else [],
    ):
        for message in listed:
            if isinstance(message, dict) and message.get("role", "assistant") == "assistant":
                return _text(message.get("content"))
    return member(sample, "output", "completion")


def _text(content: Any) -> Any:
    if not isinstance(content, list):
        return content
    parts = [
        part for part in content if isinstance(part, dict) and isinstance(part.get("text"), str)
    ]
    return "\n".join(part["text"] for part in parts)


def attached(sample: dict[str, Any]) -> set[str]:
    """The names of the texts that the log keeps apart and that a sample's input and answer need."""
    shown = f"{sample.get('input')} {sample.get('output')} {sample.get('messages')}"
    return set(re.findall(_ATTACHED + r"(\w+)", shown))


def _resolved(value: Any, texts: dict[str, Any]) -> Any:
    """A value with the texts that the log keeps apart."""
    if isinstance(value, str) and value.startswith(_ATTACHED):
        return texts.get(value.removeprefix(_ATTACHED), value)
    if isinstance(value, list):
        return [_resolved(item, texts) for item in value]
    if isinstance(value, dict):
        return {key: _resolved(item, texts) for key, item in value.items()}
    return value


def _tokens(usage: Any) -> int | None:
    by_model = list(usage.values()) if isinstance(usage, dict) else []
    counts = [count_of(entry.get("total_tokens")) for entry in objects(by_model)]
    known = [count for count in counts if count is not None]
    return sum(known) if known else None


def limited(size: int | None, limit: Any) -> int | None:
    """The samples that a limit leaves, a number or the two ends of a slice; None if unknown.

    >>> limited(80, None), limited(80, 50), limited(80, [40, 100]), limited(None, [0, 9])
    (80, 50, 40, 9)
    """
    if isinstance(limit, list):
        ends = [count_of(end) for end in limit]
        if len(ends) != 2 or ends[0] is None or ends[1] is None:
            return None
        last = ends[1] if size is None else min(size, ends[1])
        return max(0, last - ends[0])
    return size if limit is None or size is None else min(size, count_of(limit) or size)


def count_of(value: Any) -> int | None:
    """A count; None if it is none."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


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
