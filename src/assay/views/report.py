"""Results as one HTML page that a release manager can open, print, mail and archive: the page of an
evaluation in a file.

The page is self-contained: it loads nothing, and its content policy allows only its own script,
which searches and sorts; the page is complete without it. It decides nothing: every number comes
from the results; the page only counts runs and subtracts lost points.

One row for each sample, then the evidence of those that did not pass, the worst first. A page is
bounded, so that a stream of any length needs no memory and a browser opens it at once: beyond its
rows and its evidence it says how many more there are, and what shows them. Samples that did not
pass always come before those that did. Until the page is written, runs wait on disk.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import IO, Any

import msgspec
from msgspec import structs

from assay.canon import encode_any
from assay.errors import count
from assay.records.evidence import Run
from assay.records.grade_line import as_line
from assay.records.samples import (
    SampleRow,
    row_of_run,
)
from assay.records.summary import ValueInterval
from assay.views.blocks import (
    Column,
    Facts,
    Figure,
    Paragraph,
    Part,
    Section,
    Sentences,
    Table,
    can_draw,
    parts_of,
    section,
    stated,
)
from assay.views.charts import Chart, summaries
from assay.views.drawing import MISSING
from assay.views.exporters import Exporter, Format, ReportTitle, ResultSource
from assay.views.grade import grade_charts
from assay.views.grade_line import bar_sentence, is_passed, passed_text
from assay.views.pieces import clip, letter, listed, number, phrase, sentence, shown, verdict
from assay.views.render import report
from assay.views.run import SYSTEMS
from assay.views.sample import evidence_block, kept_evidence
from assay.views.sample_table import (
    Layout,
    SampleTable,
    cut,
    in_parts,
    merged,
    sample_line,
    table_hint,
)

# --- what is kept of each result

_decode = msgspec.json.Decoder(float_hook=Decimal).decode
Result = dict[str, Any]
_ROW = (
    *("run_id", "passed", "grade", "weighted_score", "pass_threshold", "hard_gate_failures"),
    *("workflow", "bands"),
    *SYSTEMS,
)
_DATASET = ("id", "version")


def row_of(result: Mapping[str, Any]) -> Result:
    """What the counts need of a result: its causes, and the points that each criterion lost."""
    dataset = result.get("dataset") or {}
    return {
        **{key: result.get(key) for key in _ROW},
        "dataset": [dataset.get(key) for key in _DATASET],
        "causes": as_line(result).counted,
        "lost": {
            str(criterion.get("name")): (
                criterion.get("label") or criterion.get("name"),
                float(criterion.get("maximum") or 0) - float(criterion.get("contribution") or 0),
            )
            for criterion in result.get("criteria") or ()
        },
    }


ROW_TEXT = 2_000
"""Characters of a question, an answer or an expected value that are kept for a row."""


class KeptRow(msgspec.Struct):
    """The row of one run, and its workflow."""

    row: SampleRow
    workflow: str


read_row = msgspec.json.Decoder(KeptRow).decode


def kept_row(result: Mapping[str, Any], run: Run | None) -> KeptRow:
    """The row of one run, its texts cut."""
    row = row_of_run(result, run)
    texts = {name: getattr(row, name)[:ROW_TEXT] for name in ("question", "answer", "expected")}
    return KeptRow(structs.replace(row, **texts), workflow_name(result))


def workflow_name(result: Mapping[str, Any]) -> str:
    """The workflow of a result and its version, on one line."""
    workflow = result.get("workflow")
    if not isinstance(workflow, dict):
        return "none, a bare scorecard"
    return f"{workflow.get('id')}@{workflow.get('version')}"


class KeptEvidence(msgspec.Struct):
    """The evidence of a run as it waits: its grade, and what was kept of the run."""

    result: msgspec.Raw
    kept: dict[str, Any]


read_evidence = msgspec.json.Decoder(KeptEvidence).decode


def drawn_evidence(row: SampleRow, spooled: bytes, place: int, *, opened: bool) -> str:
    """The evidence of a sample, drawn at once: its size counts."""
    evidence = read_evidence(spooled)
    result = _decode(evidence.result)
    return evidence_block(row, evidence.kept, result, place, opened=opened).__html__()


def evidence_hint(n: int, failed: int) -> str:
    """Of which samples the page has the evidence, and what shows the others."""
    if failed <= n:
        more = ", and the worst of those that did" if n > failed else ""
        if not failed:
            return "The samples with the lowest scores."
        return f"Every sample that did not pass{more}."
    return (
        f"The worst {n:,} of {failed:,} samples that did not pass. `assay view` shows the others,"
        " and `assay explain FILE --run ID` explains one."
    )


# --- where runs wait


KEPT = 400
"""Runs whose evidence is kept; more than a page has room for."""
REPEATS = 1000
"""Repeats of a sample that are read; the counts have them all."""

_TABLES = """
PRAGMA journal_mode = OFF;
PRAGMA synchronous = OFF;
CREATE TABLE runs (place INTEGER PRIMARY KEY, sample TEXT, passed INTEGER, score REAL, row BLOB);
CREATE TABLE evidence (place INTEGER PRIMARY KEY, passed INTEGER, score REAL, body BLOB);
"""
_DROP = """
DELETE FROM evidence WHERE place NOT IN (
  SELECT place FROM evidence ORDER BY passed, score, place LIMIT ?
)
"""
_SAMPLES = """
SELECT sample, min(passed) AS good, avg(score) AS mean, min(place) AS first, count(*)
FROM runs GROUP BY sample ORDER BY good, mean, first LIMIT ?
"""
_RUNS = """
SELECT row, body FROM runs LEFT JOIN evidence USING (place)
WHERE sample = ? ORDER BY runs.passed, runs.score, place LIMIT ?
"""


class SampleSpool:
    """Runs in a file that is gone when it is closed."""

    def __init__(self) -> None:
        # SQLite keeps a database without a name in a private file, and only while it is open
        self._database = sqlite3.connect("", isolation_level=None)
        self._database.executescript(_TABLES)
        self._database.execute("BEGIN")
        self._kept = 0
        self._limit: tuple[float, float] = (2, 0)
        """The verdict and the score above which evidence would be dropped again."""

    def add(self, sample: str, *, passed: bool, score: float, row: bytes, evidence: bytes) -> None:
        """Let a run wait."""
        name = sample.encode("utf-8", "replace").decode()
        added = self._database.execute(
            "INSERT INTO runs (sample, passed, score, row) VALUES (?, ?, ?, ?)",
            (name, passed, score, row),
        )
        if (passed, score) > self._limit:
            return
        self._database.execute(
            "INSERT INTO evidence VALUES (?, ?, ?, ?)", (added.lastrowid, passed, score, evidence)
        )
        self._kept += 1
        if self._kept >= 2 * KEPT:
            self._database.execute(_DROP, (KEPT,))
            self._kept = KEPT
            self._limit = self._database.execute(
                "SELECT passed, score FROM evidence ORDER BY passed DESC, score DESC"
            ).fetchone()

    def count(self) -> tuple[int, int]:
        """How many samples there are, and how many of them passed in every repeat."""
        self._database.execute(
            "CREATE INDEX IF NOT EXISTS by_sample ON runs (sample, passed, score, place)"
        )
        counts = self._database.execute(
            "SELECT count(*), sum(good) FROM (SELECT min(passed) AS good FROM runs GROUP BY sample)"
        ).fetchone()
        return counts[0], counts[1] or 0

    def samples(self, most: int) -> Iterator[tuple[int, list[bytes], bytes | None]]:
        """The worst samples: those that did not pass, and after them those that did, by score. Of
        each how many runs it has, the rows of them, the worst first, and the evidence of the worst,
        where it was kept.
        """
        for sample, _, _, _, n in self._database.execute(_SAMPLES, (most,)):
            kept_runs = self._database.execute(_RUNS, (sample, REPEATS)).fetchall()
            yield n, [row for row, _ in kept_runs], kept_runs[0][1]

    def close(self) -> None:
        """Drop what waits."""
        self._database.close()


# --- the page


ROWS = 10_000
"""Rows of the table at most."""
EVIDENCE = 200
"""Samples with their evidence at most, and the bytes that it may take."""
EVIDENCE_BYTES = 700_000
OPENED = 3
"""The worst samples, whose evidence is open, and the least number of samples that have any."""
PICTURES = 20
"""Runs whose charts are written by `--charts`."""
CAUSES = 3


class Report(Format):
    """Grades as a page, taken one by one: a format of `assay.views.exporters`."""

    def __init__(
        self,
        *,
        title: str = "Assay report",
        subtitle: str = "",
        pictures: bool = True,
        rows: int = ROWS,
        evidence: int = EVIDENCE,
    ) -> None:
        self.title, self.subtitle = title, subtitle
        self._pictures, self._rows, self._most_evidence = pictures, rows, evidence
        self._named = False
        """Whether the title is that of an evaluation, whose workflow is shown below it."""
        self._rate: Callable[[int, int], ValueInterval] | None = None
        self._notes: Sequence[str] = ()
        self._unchecked = False
        self._spool: SampleSpool | None = None
        self._letters: Counter[Any] = Counter()
        self._causes: Counter[str] = Counter()
        self._gates: Counter[str] = Counter()
        self._lost: dict[str, float] = {}
        """Points that each criterion lost in all runs, in the order of the first."""
        self._labels: dict[str, str] = {}
        self._bins = [0] * summaries.BINS
        self._systems: dict[str, dict[Any, None]] = {key: {} for key in SYSTEMS}
        self._workflows: set[str] = set()
        self._bands: dict[str, list[Result]] = {}
        self._thresholds: dict[str, Any] = {}
        self._has_texts = False
        self._charted: list[Result] | None = None
        self.graded = self.passed = 0

    # --- one by one

    def about(self, title: ReportTitle) -> None:
        """Learn what is graded."""
        self._named = bool(title.name)
        self.title, self.subtitle = title.name or self.title, title.lead
        self._rate, self._notes, self._unchecked = title.rate, title.notes, title.unchecked

    def piece_of(self, result: Any, source: ResultSource) -> bytes:
        """A result on three lines: what is counted, its row, and its evidence."""
        plain = msgspec.to_builtins(result, builtin_types=(Decimal,), enc_hook=str)
        evidence = {"result": plain, "kept": kept_evidence(source.run)}
        return b"\n".join(map(encode_any, (row_of(plain), kept_row(plain, source.run), evidence)))

    def onto(self, stream: IO[bytes]) -> Report:
        """Runs wait here until the verdict is known."""
        return self

    def write(self, data: bytes) -> None:
        """Take a piece."""
        if data:
            counted, row, evidence = data.split(b"\n", 2)
            self._take(_decode(counted), row, evidence)

    def add(self, result: Mapping[str, Any], run: Run | None = None) -> None:
        """Take a result as it is."""
        self.write(self.piece_of(result, ResultSource(run=run)))

    def foot(self, faults: Sequence[Mapping[str, Any]], counts: Mapping[str, Any]) -> bytes:
        """The whole page."""
        return self.page(faults, counts).encode("utf-8", "replace")

    def close(self) -> None:
        """Drop what waits."""
        if self._spool is not None:
            self._spool.close()
            self._spool = None

    def _take(self, counted: Result, row: bytes, evidence: bytes) -> None:
        good = counted.get("passed") is True
        self.graded += 1
        self.passed += good
        self._letters[counted.get("grade")] += 1
        place = summaries.bin_of(counted.get("weighted_score"))
        if place is not None:
            self._bins[place] += 1
        self._gates.update(counted.get("hard_gate_failures") or ())
        self._count_lost(counted["lost"])
        if not good:
            self._causes.update(counted["causes"])
        for key, values in self._systems.items():
            if len(values) < 10:
                values[counted.get(key)] = None
        if len(self._bands) < 2:
            self._bands[repr((counted.get("policy"), counted.get("bands")))] = (
                counted.get("bands") or []
            )
        if len(self._thresholds) < 2:
            self._thresholds[repr(counted.get("pass_threshold"))] = counted.get("pass_threshold")
        if len(self._workflows) < 2:
            self._workflows.add(workflow_name(counted))
        if self._spool is None:
            self._spool = SampleSpool()
        made = read_row(row).row
        self._has_texts = self._has_texts or bool(made.question or made.answer or made.expected)
        # samples of two workflows or datasets may share a name
        key = encode_any([counted.get("workflow"), counted.get("dataset"), made.sample]).decode()
        score = made.worst.score
        self._spool.add(key, passed=good, score=score, row=row, evidence=evidence)

    def _count_lost(self, lost: Mapping[str, Any]) -> None:
        for name, (label, points) in lost.items():
            if name in self._lost or len(self._lost) < 1000:
                self._lost[name] = self._lost.get(name, 0.0) + float(points)
                self._labels.setdefault(name, label)

    # --- the whole

    def charts(self) -> list[Chart]:
        """The charts of all runs, then those of the worst. A run's are named after its place."""
        drawn = self._summary()
        for place, run in enumerate(self._worst_results(), 1):
            drawn += [
                chart._replace(
                    name=f"run-{place}-{chart.name}", title=f"{run.get('run_id')}: {chart.title}"
                )
                for chart in grade_charts(run)
            ]
        return drawn

    def _worst_results(self) -> list[Result]:
        """The grades of the worst runs; they outlive what waits on disk."""
        if self._charted is None:
            spooled = self._spool.samples(PICTURES) if self._spool is not None else ()
            self._charted = [
                _decode(read_evidence(evidence).result) for _, _, evidence in spooled if evidence
            ]
        return self._charted

    def _ordered(self) -> dict[Any, int]:
        """How many runs have each letter, in the order of the bands. A letter that nobody has is
        counted too, where the policy has it.
        """
        order = [band.get("grade") for bands in self._bands.values() for band in bands]
        return {letter: self._letters[letter] for letter in dict.fromkeys([*order, *self._letters])}

    def _summary(self) -> list[Chart]:
        if self.graded < 2:
            return []
        policies = [str(policy) for policy in self._systems["policy"]]
        # bands and threshold are drawn only where they are those of every run
        bands = next(iter(self._bands.values())) if len(self._bands) == 1 else []
        threshold = next(iter(self._thresholds.values())) if len(self._thresholds) == 1 else None
        drawn = [
            summaries.grade_mix(self._ordered(), ", ".join(policies)),
            summaries.score_histogram(
                self._bins,
                bands=bands,
                threshold=threshold,
                policy=policies[0] if len(policies) == 1 else "",
            ),
        ]
        return [*drawn, summaries.gate_failures(self._gates, self.graded)] if self._gates else drawn

    def page(
        self, faults: Sequence[Mapping[str, Any]] = (), counts: Mapping[str, Any] | None = None
    ) -> str:
        """The page of the runs that were taken, and of the inputs that could not be read."""
        unread: list[Result] = [dict(fault) for fault in faults]
        missed = max(len(unread), (counts or {}).get("faults") or 0)
        draw = self._pictures and can_draw()
        charts = self._summary() if self.graded else []
        figures = [Figure(chart, draw=draw) for chart in charts]
        parts = parts_of(
            *self._head(missed, (counts or {}).get("bar")),
            Paragraph(MISSING, "hint") if self._pictures and not draw and self.graded else None,
            _faults(unread, missed) if unread else None,
            section("Overview", *figures, id="together", kind="pair") if figures else None,
            *(self._samples() if self.graded else []),
        )
        if self.graded:
            self._worst_results()
        return report(self.title, *parts, script="report.js" if self.graded else "")

    def _samples(self) -> list[Part]:
        """The table of samples, and the evidence of the worst of them."""
        assert self._spool is not None
        total, passed = self._spool.count()
        n, failed = min(total, self._rows), total - passed
        layout = Layout.of(n, self._lost)
        lines, folds, room = [], list[str](), EVIDENCE_BYTES
        wanted = min(self._most_evidence, max(failed, OPENED))
        for runs, rows, evidence in self._spool.samples(self._rows):
            kept = [read_row(row) for row in rows]
            row, place = merged([kept_sample.row for kept_sample in kept]), 0
            if len(folds) < wanted and room > 0 and evidence is not None:
                place = len(folds) + 1
                folds.append(drawn_evidence(row, evidence, place, opened=place <= OPENED))
                room -= len(folds[-1].encode("utf-8", "replace"))
            workflow = kept[0].workflow if len(self._workflows) > 1 else ""
            lines.append(sample_line(row, layout, place=place, n=runs, workflow=workflow))
        table = SampleTable(
            in_parts(lines),
            [(cut(self._labels[name], 30), clip(self._labels[name])) for name in layout.criteria],
            self._has_texts,
            len(self._workflows) > 1,
            n,
        )
        hint = table_hint(total, failed, n, criteria=(len(layout.criteria), len(self._lost)))
        return [
            section("Samples", table, id="samples", hint=hint),
            section(
                "Evidence",
                *folds,
                id="evidence",
                hint=evidence_hint(len(folds), failed),
            ),
        ]

    def _head(self, unread: int, bar: Mapping[str, Any] | None) -> list[Part]:
        numbers = [
            (f"{self.passed:,}", "passed"),
            (f"{self.graded - self.passed:,}", "not passed"),
            *([(f"{unread:,}", "could not be read")] if unread else []),
        ]
        if self._rate is not None and self.graded:
            rate = self._rate(self.passed, self.graded)
            numbers.append((number(rate.value, interval=rate, percent=True), "pass rate"))
        parts: list[Part] = [Paragraph(self.subtitle, "lead")] if self.subtitle else []
        parts += [
            Paragraph(self._verdict(unread, bar), "verdict"),
            Facts([(name, value) for value, name in numbers], "figures"),
            *([Sentences([*map(sentence, self._notes)], "Notes")] if self._notes else []),
        ]
        if not self.graded:
            return parts
        policies = [shown(policy, "policy not stated") for policy in self._systems["policy"]]
        policy = policies[0] if len(policies) == 1 else f"{len(policies)} policies"
        letters = [phrase(f"{n:,} × ", letter(name, policy)) for name, n in self._ordered().items()]
        is_one = not self._named and len(self._workflows) == 1
        facts = stated(
            (f"Grades under {policy}", listed(letters, " ")),
            ("Workflow", next(iter(self._workflows)) if is_one else ""),
            *((label, shown(list(self._systems[key]))) for key, label in SYSTEMS.items()),
        )
        return [*parts, Facts(facts, "mix")]

    def _verdict(self, unread: int, bar: Mapping[str, Any] | None) -> str:
        """The verdict in a sentence, and what did it most often."""
        if not self.graded:
            return "No run was graded, so none passed."
        failed = self.graded - self.passed
        counts = {"failed": failed, "faults": unread, "bar": bar}
        rate = f" {bar_sentence(counts)}".rstrip()
        reasons = [passed_text(self.graded, failed)] if failed or not unread else []
        if is_passed(counts):
            kind = "undetermined" if self._unchecked else "passed"
            return phrase(verdict(kind, "Passed."), f" {reasons[0]}.{rate}")
        reasons += [f"{count(unread, 'input')} could not be read"] if unread else []
        common = sorted(self._causes.items(), key=lambda pair: (-pair[1], pair[0]))[:CAUSES]
        causes = "; ".join(f"{cause} ({n:,})" for cause, n in common)
        why = f" Most common reasons: {causes}." if causes else ""
        return phrase(verdict("failed", "Not passed."), f" {' and '.join(reasons)}.{rate}{why}")


def _faults(faults: Sequence[Result], total: int) -> Section:
    rows = [[shown(fault.get(key)) for key in ("file", "line", "message")] for fault in faults]
    columns = ("File", Column("Line", "n"), Column("What is wrong", "wide"))
    parts: list[Part] = [Table("Inputs that were not graded", columns, rows, kind="stack")]
    if total > len(rows):
        parts.append(Paragraph(f"… and {total - len(rows):,} more.", "hint"))
    return section("Could not be read", *parts, id="faults")


def render(
    results: Sequence[Mapping[str, Any]],
    *,
    title: str,
    subtitle: str = "",
    faults: Sequence[Mapping[str, Any]] = (),
    runs: Sequence[Run | None] = (),
    pictures: bool = True,
) -> str:
    """The page for a list of results, as in `results[]` of `assay.grades/1`. `faults` are the
    inputs that could not be read; `runs` are the runs of the results, in the same order.

    Same results, same bytes. Without `pictures`, tables replace charts.

    >>> "No run was graded, so none passed." in render([], title="Nightly")
    True
    """
    report = Report(title=title, subtitle=subtitle, pictures=pictures)
    for result, run in zip(results, runs or [None] * len(results), strict=True):
        report.add(result, run)
    page = report.page(msgspec.to_builtins(list(faults), builtin_types=(Decimal,), enc_hook=str))
    report.close()
    return page


EXPORTER = Exporter("html", "HTML: a self-contained page with charts", (".html",), Report)
