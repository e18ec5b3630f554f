"""Results -> one HTML page that a release manager can open, print, mail and keep.

The page stands alone: no script, no font, no request; its content policy forbids them all. It
decides nothing: every number on it stands in the results it was given; beside that, runs are
counted and what they lost is subtracted. Each run is shown by the view of its grade.

A page is bounded, so that a stream of any length needs no memory and a browser opens it at once:
beyond its rows, sections and pictures it says how many more there are, and what holds them. What
did not pass never gives way to what did.
"""

from __future__ import annotations

from collections import Counter
from decimal import Decimal
from typing import IO, TYPE_CHECKING, Any, NamedTuple

import msgspec

from assay.views.blocks import (
    Column,
    Facts,
    Figure,
    Paragraph,
    Part,
    Section,
    Table,
    can_draw,
    section,
)
from assay.views.charts import Chart, gates, summaries
from assay.views.drawing import MISSING
from assay.views.exporters import Exporter, Format
from assay.views.grade import grade_charts
from assay.views.grade_line import more_text, passed_text
from assay.views.pieces import count, letter, line, number, phrase, shown, verdict
from assay.views.render import report
from assay.views.report_rows import COLUMNS, Result, line_of, row_of
from assay.views.run import SYSTEMS, run_part

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

ROWS = 5_000
"""Rows of the table at the most."""
SECTIONS = 100
"""Runs with a section of their own at the most."""
PICTURES = 20
"""Failed runs whose charts are drawn; a picture costs about 50 ms."""
FEW = 5
"""Of so few runs those that passed are drawn too."""
PLAIN = 500
"""Rows above which the table is cut into parts that a browser lays out as they come into view."""
PART = 250
CAUSES = 3
_encode = msgspec.json.Encoder(decimal_format="number", enc_hook=str).encode
_decode = msgspec.json.Decoder(float_hook=Decimal).decode


class _KeptRun(NamedTuple):
    """The runs of one verdict: a row of each, and the whole of the first."""

    rows: list[Result]
    whole: list[Result | bytes]


class Report(Format):
    """Grades as a page, taken one by one: a format of `assay.views.exporters`."""

    def __init__(
        self,
        *,
        title: str = "Assay report",
        subtitle: str = "",
        pictures: int = PICTURES,
        rows: int = ROWS,
        sections: int = SECTIONS,
    ) -> None:
        self.title, self.subtitle = title, subtitle
        self._pictures, self._rows, self._sections = pictures, rows, sections
        self._failed, self._passed = _KeptRun([], []), _KeptRun([], [])
        self._letters: Counter[Any] = Counter()
        self._causes: Counter[str] = Counter()
        self._gates: Counter[str] = Counter()
        self._bins = summaries.score_bins([])
        self._systems: dict[str, dict[Any, None]] = {key: {} for key in SYSTEMS}
        self._bands: dict[str, list[Result]] = {}
        self._thresholds: dict[str, Any] = {}
        self.graded = self.passed = 0

    # --- one by one ---

    def piece(self, result: Mapping[str, Any]) -> bytes:
        """A result: its row on one line, the whole of it on the next."""
        return _encode(row_of(result)) + b"\n" + _encode(result)

    def onto(self, stream: IO[bytes]) -> Report:
        """Runs wait here until the verdict is known."""
        return self

    def write(self, data: bytes) -> None:
        """Take a piece."""
        if data:
            row, _, whole = data.partition(b"\n")
            self._take(_decode(row), whole)

    def add(self, result: Result) -> None:
        """Take a result as it is."""
        self._take(row_of(result), result)

    def foot(self, faults: Sequence[Mapping[str, Any]], counts: Mapping[str, Any]) -> bytes:
        """The whole page."""
        return self.page(faults, counts).encode("utf-8", "replace")

    def _take(self, row: Result, whole: Result | bytes) -> None:
        good = row.get("passed") is True
        self.graded += 1
        self.passed += good
        self._letters[row.get("grade")] += 1
        place = summaries.bin_of(row.get("weighted_score"))
        if place is not None:
            self._bins[place]["count"] += 1
        self._gates.update(row.get("hard_gate_failures") or ())
        if not good:
            self._causes.update(row["causes"])
        for key, values in self._systems.items():
            if len(values) < 10:
                values[row.get(key)] = None
        if len(self._bands) < 2:
            self._bands[repr((row.get("policy"), row.get("bands")))] = [
                band for band in row.get("bands") or () if isinstance(band, dict)
            ]
        if len(self._thresholds) < 2:
            self._thresholds[repr(row.get("pass_threshold"))] = row.get("pass_threshold")
        kept = self._passed if good else self._failed
        if len(kept.rows) < self._rows:
            kept.rows.append(row)
        if len(kept.whole) < self._sections:
            kept.whole.append(whole)

    # --- the whole ---

    def charts(self) -> list[Chart]:
        """Every chart of the page: those of all runs, then those of each run that is drawn. A run's
        are named after its number.
        """
        found = self._summary()
        for place, run in self._drawn():
            found += [
                chart._replace(
                    name=f"run-{place}-{chart.name}", title=f"{run.get('run_id')}: {chart.title}"
                )
                for chart in grade_charts(run)
            ]
        return found

    def _sectioned(self) -> list[Result]:
        """The runs with a section: those that did not pass, and after them, where there is room,
        those that did.
        """
        whole = [*self._failed.whole, *self._passed.whole][: self._sections]
        return [_decode(one) if isinstance(one, bytes) else one for one in whole]

    def _drawn(self) -> Iterator[tuple[int, Result]]:
        few = self.graded <= FEW
        for place, run in enumerate(self._sectioned()[: self._pictures], 1):
            if few or run.get("passed") is not True:
                yield place, run

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
        found = [
            summaries.grade_mix(self._ordered(), ", ".join(policies)),
            summaries.score_histogram(
                self._bins,
                bands=bands,
                threshold=threshold,
                policy=policies[0] if len(policies) == 1 else "",
            ),
        ]
        return [*found, gates.gate_failures(self._gates, self.graded)] if self._gates else found

    def page(
        self, faults: Sequence[Mapping[str, Any]] = (), counts: Mapping[str, Any] | None = None
    ) -> str:
        """The page of the runs that were taken, and of the inputs that could not be read."""
        unread: list[Result] = [dict(fault) for fault in faults]
        missed = max(len(unread), (counts or {}).get("faults") or 0)
        draw = self._pictures > 0 and can_draw()
        parts = self._head(missed, counts or {})
        if self._pictures and not draw and self.graded:
            parts.append(Paragraph(MISSING, "hint"))
        if unread:
            parts.append(_faults(unread, missed))
        if self.graded:
            charts = self._summary()
            if charts:
                figures = [Figure(chart, draw=draw) for chart in charts]
                parts.append(section("All together", *figures, id="together", kind="pair"))
            drawn = {place for place, _ in self._drawn()} if draw else set()
            runs = [
                run_part(run, place, draw=place in drawn)
                for place, run in enumerate(self._sectioned(), 1)
            ]
            parts += [self._all_runs(len(runs)), *runs, *self._left_out(len(runs))]
        return report(self.title, *parts)

    def _head(self, unread: int, counts: Mapping[str, Any]) -> list[Part]:
        numbers = [
            (f"{self.passed:,}", "passed"),
            (f"{self.graded - self.passed:,}", "not passed"),
            *([(f"{unread:,}", "could not be read")] if unread else []),
        ]
        parts: list[Part] = [Paragraph(self.subtitle, "lead")] if self.subtitle else []
        parts += [
            Paragraph(self._verdict(unread), "verdict"),
            Facts([(name, value) for value, name in numbers], "figures"),
        ]
        if not self.graded:
            return parts
        policies = [shown(policy, "policy not stated") for policy in self._systems["policy"]]
        policy = policies[0] if len(policies) == 1 else f"{len(policies)} policies"
        letters = [line(f"{n:,} × ", letter(name, policy)) for name, n in self._ordered().items()]
        rate = counts.get("pass_rate")
        facts: list[tuple[str, str]] = [("Letters", phrase(*letters))]
        if isinstance(rate, dict):
            share = number(rate.get("value"), interval=rate, n=self.graded, percent=True)
            facts.append(("Pass rate", share))
        facts += [(label, shown(list(self._systems[key]))) for key, label in SYSTEMS.items()]
        return [*parts, Facts(facts)]

    def _verdict(self, unread: int) -> str:
        """The verdict in a sentence, and what did it most often."""
        if not self.graded:
            return "No run was graded, so none passed."
        failed = self.graded - self.passed
        if not failed and not unread:
            return phrase(verdict("passed", "Passed."), f" {passed_text(self.graded, 0)}.")
        reasons = [passed_text(self.graded, failed)] if failed else []
        reasons += [f"{count(unread, 'input')} could not be read"] if unread else []
        common = sorted(self._causes.items(), key=lambda pair: (-pair[1], pair[0]))[:CAUSES]
        causes = "; ".join(f"{cause} ({n:,})" for cause, n in common)
        why = f" Most often: {causes}." if causes else ""
        return phrase(verdict("failed", "Not passed."), f" {' and '.join(reasons)}.{why}")

    def _all_runs(self, sections: int) -> Section:
        rows = [*self._failed.rows, *self._passed.rows][: self._rows]
        lines = [line_of(row, place, sections) for place, row in enumerate(rows, 1)]
        parts: list[Part]
        if len(lines) <= PLAIN:
            parts = [Table("What did not pass comes first.", COLUMNS, lines, kind="stack runs")]
        else:
            # a browser lays out the parts of a long table as they come into view
            parts = [
                Table(
                    f"Runs {at + 1:,} to {at + len(lines[at : at + PART]):,} of {len(lines):,}",
                    COLUMNS,
                    lines[at : at + PART],
                    kind="long part",
                )
                for at in range(0, len(lines), PART)
            ]
        more = self.graded - len(rows)
        if more:
            failed = self.graded - self.passed - min(len(self._failed.rows), len(rows))
            text = (
                f"{more_text(more, failed)} They are not on this page; -o grades.jsonl writes every"
                " one."
            )
            parts.append(Paragraph(text, "hint"))
        return section("All runs", *parts, id="runs")

    def _left_out(self, sections: int) -> list[Section]:
        """What has no section, and where it is."""
        more = self.graded - sections
        if more <= 0:
            return []
        failed = max(0, self.graded - self.passed - sections)
        text = (
            f"{more:,} runs have no section here: {failed:,} that did not pass and"
            f" {more - failed:,} that did. Every one is in the grades, which -o grades.jsonl"
            " writes; assay explain FILE --run ID explains one."
        )
        return [section("Left out", Paragraph(text), id="left-out")]


def _faults(faults: Sequence[Result], total: int) -> Section:
    rows = [[shown(fault.get(key)) for key in ("file", "line", "message")] for fault in faults]
    columns = ("File", Column("Line", "n"), Column("What is wrong", "wide"))
    parts: list[Part] = [Table("These inputs are not graded.", columns, rows, kind="stack")]
    if total > len(rows):
        parts.append(Paragraph(f"… and {total - len(rows):,} more.", "hint"))
    return section("Could not be read", *parts, id="faults")


def render(
    results: Sequence[Mapping[str, Any]],
    *,
    title: str,
    subtitle: str = "",
    faults: Sequence[Mapping[str, Any]] = (),
    pictures: int = PICTURES,
) -> str:
    """The page for a list of results, as they stand in `results[]` of `assay.grades/1`; `faults`
    are the inputs that could not be read.

    Runs that did not pass come first, otherwise the order is kept. Same results, same bytes.
    `pictures` says of how many runs charts are drawn at the most; with 0 none is drawn at all, and
    tables stand in their place.

    >>> "No run was graded, so none passed." in render([], title="Nightly")
    True
    """
    report = Report(title=title, subtitle=subtitle, pictures=pictures)
    for result in msgspec.to_builtins(list(results), builtin_types=(Decimal,), enc_hook=str):
        report.add(result)
    return report.page(msgspec.to_builtins(list(faults), builtin_types=(Decimal,), enc_hook=str))


EXPORTER = Exporter("html", "HTML: a page with charts that stands alone", (".html",), Report)
