"""Import another tool's files: an importer reads them and writes their runs to a temporary file,
with one run in memory at a time.

Later stages read that file like any other runs. The totals that the tool states are compared with
those counted. This module grades nothing and stores nothing.
"""

from __future__ import annotations

import os
import shlex
import shutil
import stat
import tempfile
from collections.abc import Iterable, Sequence
from fractions import Fraction
from hashlib import blake2b
from typing import Any, NamedTuple

from assay.canon import encode
from assay.errors import AssayError, InputError, NotEnoughEvidence, UsageError, count
from assay.files.atomic import atomic_write
from assay.files.inputs import open_input
from assay.files.json_files import Document, parse_json
from assay.importers.column_map import SCORE, column_of, scales_of
from assay.importers.importer import Importer, Wanted
from assay.importers.metric_names import may_be_less
from assay.importers.recognition import importer_of_all
from assay.importers.samples import gate_name
from assay.importers.tally import ImportTally
from assay.records.reading import read_run
from assay.scoring.extension import marked
from assay.scoring.gates import GATES
from assay.scoring.profile import GateRef, Profile, ProfileCriterion

PREFIX = "imported-"
"""The prefix of the names of these profiles."""
SHOWN = 200
"""How many characters of an error a message shows."""
PASSED = "passed"
"""The criterion of results with a verdict and no metric."""


def reasons_not_to_grade(tool: str, tally: ImportTally, *, where: str) -> dict[str, str]:
    """Why metrics can't be graded, by the names of their criteria. Raises InputError for a metric
    with a few values beyond the scale of the others: they are on another scale, or wrong.
    """
    reasons = {name: _why_not(name, tally, gate_name(tool)) for name in tally.metrics}
    for name, metric in tally.metrics.items():
        if not reasons[name] and metric.first_outside is not None:
            value, sample = metric.first_outside
            raise InputError(
                "SCO-011",
                f"{metric.label} is {value} on the sample {sample!r}, and from 0 to 1 on"
                f" {metric.n - metric.outside:,} others.",
                where=where,
                fix=f"Correct it, set the scale with {map_option(tally, [name])}, or pass a"
                " profile with --profile P.",
            )
    return {name: reason for name, reason in reasons.items() if reason}


def map_option(tally: ImportTally, names: Iterable[str]) -> str:
    """The `--map` option that would state the scales of these metrics; empty if all are words. For
    a table it has the other columns too, because it replaces the guessed ones.
    """
    entries = dict(tally.mapping)
    scaled = [name for name in names if tally.metrics[name].n or not tally.metrics[name].words]
    if not scaled:
        return ""
    for name in scaled:
        metric = tally.metrics[name]
        label = metric.label if f"{SCORE}{metric.label}" in entries else name
        column = column_of(entries.get(f"{SCORE}{label}", name)).name
        named = may_be_less(metric.label) or may_be_less(column)
        less = named and metric.n and not metric.outside
        entries[f"{SCORE}{label}"] = f"{column}:{'1..0' if less else 'LOW..HIGH'}"
    return f"--map {shlex.quote(','.join(f'{key}={text}' for key, text in entries.items()))}"


def make_profile(tool: str, tally: ImportTally, *, where: str) -> Profile:
    """The profile for one import. The tally gets notes on what it leaves out and assumes."""
    gate = gate_name(tool)
    metrics = "the columns of a table" if tool == "table" else f"the metrics that {tool} wrote"
    reasons = reasons_not_to_grade(tool, tally, where=where)
    criteria, notes, assumed = [], [], []
    for name, metric in tally.metrics.items():
        if name in reasons:
            notes.append(f"{metric.label} is not graded: {reasons[name]}")
            continue
        if not metric.n:
            notes.append(
                f"{metric.label} has no value on any sample: none is given, or none is a number"
            )
        if metric.rounded:
            notes.append(
                f"values of {metric.label} that rounding put beyond its scale count as its end:"
                f" {metric.rounded:,}"
            )
        criteria.append(
            ProfileCriterion(
                id=name,
                label=metric.title.strip() or name,
                weight=1,
                layer=2 if metric.judged else 1,
                formula="zero_one",
            )
        )
        is_declared = metric.scale is not None or metric.label in tally.higher_is_better
        if name != PASSED and not is_declared:
            assumed.append(metric.label)
    if tally.errors == tally.samples:
        reason = " ".join(tally.first_error.split()).rstrip(".")
        why = f": {reason[:SHOWN]}{'..' if len(reason) > SHOWN else ''}" if reason else ""
        fix = "Fix that and run the evaluation again: there is nothing to grade."
        if tally.error_key:
            left_out = f"`--map {tally.error_key}=`"
            fix += f" If the column isn't about errors, leave it out with {left_out}."
        message = f"{tally.errors:,} of {tally.samples:,} samples errored{why}."
        raise NotEnoughEvidence("SCO-010", message, where=where, fix=fix)
    if not any(tally.metrics[criterion.id].n for criterion in criteria):
        lacking = f" {notes[0]}." if notes else " Its samples have no scores."
        option = map_option(tally, reasons)
        way = f"Set its scale with {option}, or pass" if option else "Pass"
        raise NotEnoughEvidence(
            "SCO-010",
            f"there is nothing to grade: no metric has values on a known scale.{lacking}",
            where=where,
            fix=f"{way} a profile that measures these runs with --profile P.",
        )
    if assumed:
        notes.append(f"assumed that higher is better: {', '.join(assumed)}")
    for note in notes:
        tally.note(note)
    made = Profile(
        profile=f"{PREFIX}{tool}",
        version="1",
        title=f"Made from {metrics}",
        family=f"{PREFIX}{tool}",
        gates=[GateRef(id=gate, verdict=True, title=f"{tool}: passed")] if tally.verdicts else [],
        criteria=criteria,
        description=(
            f"Assay made this profile from {metrics}: one criterion for each, equal weights, no"
            " floors. Write a profile with your own weights and floors and give it with --profile."
        ),
        made_from=metrics,
        not_graded=list(reasons),
    )
    return marked(made)


def _why_not(name: str, tally: ImportTally, gate: str) -> str:
    metric = tally.metrics[name]
    if name in GATES or name == gate:
        return "its name is that of a gate"
    if metric.scale is not None:
        return ""
    if metric.label in tally.doubts:
        return tally.doubts[metric.label]
    if metric.label not in tally.higher_is_better and may_be_less(metric.label):
        return "its name suggests that lower is better; to grade it, give its scale with --map"
    if metric.words and not metric.n:
        return "its values are not numbers, and the file doesn't define which are good"
    if not metric.n or 2 * metric.outside < metric.n:  # 1 to 5 stars have a 1 now and then
        return ""
    return (
        f"its values run from {metric.low} to {metric.high}; to grade it, give its scale with --map"
    )


COUNTS = ("samples", "passed")
"""The totals that must be equal."""
_CLOSE = Fraction(1, 10_000)
"""How far rounding may move a mean."""


class ImportedRuns(NamedTuple):
    """The result of an import: a .jsonl file of runs, and its tally."""

    files: tuple[str, ...]
    importer: Importer
    spool: str
    """The .jsonl file of the runs."""
    n: int
    tally: ImportTally

    def made_profile(self) -> Profile | None:
        """The profile made from the metrics, with a note for each metric that it leaves out; None
        for runs without them, which are scored by their evidence.
        """
        if not self.tally.samples:
            return None
        where = ", ".join(self.files)
        reasons = reasons_not_to_grade(self.importer.name, self.tally, where=where)
        if not any(metric.n and name not in reasons for name, metric in self.tally.metrics.items()):
            self.score_verdicts()
        return make_profile(self.importer.name, self.tally, where=where)

    def score_verdicts(self) -> None:
        """Give each run the tool's verdict as the score `passed`, for results without a metric that
        can be graded and for those compared with them.
        """
        if not self.tally.verdicts or PASSED in self.tally.metrics:
            return
        gate, tool = gate_name(self.importer.name), self.importer.name
        metric = self.tally.metrics[self.tally.metric(PASSED)]
        with atomic_write(self.spool) as out, open(self.spool, "rb") as stream:
            for line in stream:
                run = parse_json(line, is_own=True)
                verdict = run.get("gates", {}).get(gate, {}).get("passed")
                raw = None if verdict is None else int(verdict)
                metric.add(raw)
                source = {"kind": "script", "name": f"{tool}:{PASSED}"}
                run.setdefault("scores", {})[PASSED] = {"raw": raw, "source": source}
                out.write(encode(run) + b"\n")


def import_runs(
    paths: Sequence[str], folder: str, *, kind: str | None = None, wanted: Wanted | None = None
) -> ImportedRuns:
    """Read files that belong together, and write their runs to a new file in `folder`. Any fault is
    an error.
    """
    if "-" in paths and (len(paths) > 1 or kind is None):
        raise UsageError(
            "CLI-001",
            "standard input can be read only once, so its kind can't be detected.",
            fix="Pass it alone, with --from KIND.",
        )
    wanted = wanted or Wanted()
    where = ", ".join("<stdin>" if path == "-" else path for path in paths)
    read_from = [_file(path, folder) for path in paths]
    tally, seen = ImportTally(), set[bytes]()
    spool = os.path.join(folder, f"{len(os.listdir(folder))}.jsonl")
    try:
        importer = importer_of_all(read_from, kind, wanted.mapping)
        tally.apart = importer.apart
        if importer.name != "table":  # a table maps all of its columns
            tally.scales.update(scales_of(wanted.mapping))
        with open(spool, "xb", buffering=1024 * 1024) as stream:
            for run in importer.read(read_from, wanted, tally):
                read_run(Document(run, where))
                stream.write(encode(run) + b"\n")
                _note_id(run["run_id"], seen, where, importer.name)
    except AssayError as error:
        for path, file in zip(paths, read_from, strict=True):  # users don't know the copy's name
            if file != path:
                error.where = error.where.replace(file, "<stdin>" if path == "-" else path)
        raise
    if not seen:
        read = tally.read_text()
        raise NotEnoughEvidence(
            "FIL-005", f"contains no runs{f' ({read})' if read else ''}.", where=where
        )
    _compare(tally, importer.name, where)
    if importer.name != "table":
        used = [tally.scale_of(metric.label) for metric in tally.metrics.values()]
        tally.mapping = {
            f"{SCORE}{given.name}": f"{label}:{given.scale}"
            for label, given in tally.scales.items()
            if given in used
        }
    return ImportedRuns(tuple(paths), importer, spool, len(seen), tally)


def _file(path: str, folder: str) -> str:
    """The file to read; a pipe is copied to one, because an importer may read its input twice."""
    if path != "-" and not (os.path.exists(path) and stat.S_ISFIFO(os.stat(path).st_mode)):
        return path
    name = "stdin" if path == "-" else os.path.basename(path)
    copy = os.path.join(tempfile.mkdtemp(dir=folder), name)
    with open_input(path) as stream, open(copy, "wb") as out:
        shutil.copyfileobj(stream, out, 1024 * 1024)
    return copy


def _note_id(run_id: str, seen: set[bytes], where: str, tool: str) -> None:
    """Refuse a second run with the same id: later readers would see only one. Ids are kept as
    128-bit digests.
    """
    digest = blake2b(run_id.encode("utf-8", "surrogatepass"), digest_size=16).digest()
    if digest in seen:
        raise InputError(
            "FIL-007",
            f"two runs have the id {run_id[:80]!r}.",
            where=where,
            fix="Give each run a different id. If the file has two versions, split it in two."
            + " Repeats need a column with their number: --map attempt=COLUMN." * (tool == "table"),
        )
    seen.add(digest)


def _counted(tally: ImportTally, total: str) -> int | Fraction | None:
    """The counted value of a total that the tool states."""
    if total in COUNTS:
        return int(getattr(tally, total))
    metric = tally.metrics.get(total)
    return None if metric is None else metric.mean


def _compare(tally: ImportTally, tool: str, where: str) -> None:
    """Refuse counts, and plain means over all samples, that differ from what the tool states. Other
    means that differ are only noted: the tool may weigh samples or leave some out.
    """
    if tally.errors < tally.stated_errors:
        raise InputError(
            "FIL-010",
            f"{tool} states {count(tally.stated_errors, 'sample')} with an error or without a"
            f" result, and the file shows {tally.errors}.",
            where=where,
            fix="The file was changed after the tool wrote it. Write it again.",
        )
    for total, stated in tally.stated.items():
        counted = _counted(tally, total)
        if total in COUNTS and counted != stated:
            raise InputError(
                "FIL-010",
                f"{tool} states {stated} {total}, and the file has {counted}.",
                where=where,
                fix="The file is cut off or was changed. Write it again.",
            )
        if total not in COUNTS and not _is_close(counted, Fraction(stated)):
            mean = "none" if counted is None else f"{float(counted):.4f}"
            if total in tally.plain and _is_whole(tally, total):
                raise InputError(
                    "FIL-010",
                    f"{tool} states a mean {total} of {stated}, and the mean of its samples is"
                    f" {mean}.",
                    where=where,
                    fix="The file was changed after the tool wrote it. Write it again.",
                )
            tally.note(
                f"{tool} states a mean {total} of {float(stated):.4g}; the mean of its samples is"
                f" {mean}"
            )


def _is_whole(tally: ImportTally, name: str) -> bool:
    """Whether no sample was skipped, ended in an error, or lacks the metric."""
    metric = tally.metrics.get(name)
    return metric is not None and metric.n == tally.samples and not tally.errors


def _is_close(counted: int | Fraction | None, stated: Fraction) -> bool:
    return counted is not None and abs(counted - stated) <= _CLOSE * max(Fraction(1), abs(stated))


def totals(tally: ImportTally) -> list[dict[str, Any]]:
    """The tool's totals and the counted ones, with the number of samples behind them."""
    rows: list[dict[str, Any]] = [
        {"total": "samples", "theirs": tally.stated.get("samples"), "ours": tally.samples}
    ]
    if tally.verdicts or "passed" in tally.stated:
        rows.append(
            {
                "total": "passed",
                "theirs": tally.stated.get("passed"),
                "ours": tally.passed,
                "n": tally.verdicts,
            }
        )
    for name, metric in tally.metrics.items():
        if name in COUNTS:  # a verdict as a score, which is counted above
            continue
        mean = metric.mean
        rows.append(
            {
                "total": f"mean {metric.label}",
                "theirs": tally.stated.get(name),
                "ours": None if mean is None else float(mean),
                "n": metric.n,
            }
        )
    return rows
