"""Results as Markdown for a pull-request comment or a job summary: the verdict first, then what
failed and why, then a count of the rest.

Only our own words are Markdown. Every text from evidence, a policy or a file name is in a code
span, where no renderer sees markup, a link, an issue number or an @mention. A page is bounded:
beyond its rows it counts the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import IO, Any

import msgspec

from assay.errors import count
from assay.records.grade import Payload
from assay.records.grade_line import NAMED
from assay.views.exporters import Exporter, Format, ReportTitle, ResultSource
from assay.views.grade_line import bar_sentence, causes, is_passed, passed_text
from assay.views.markdown_code import cell_code, code
from assay.views.pieces import bar, points
from assay.views.worst_samples import WorstSample, keep_sample, worst_sample, worst_samples

ROWS = 50
"""Most rows of a table; code hosts limit the length of a comment."""
MAX_FAULTS = 10
MAX_PAGE = 60_000
"""Characters of a page: GitHub refuses a comment of more than 65,536."""
_GRADED_BY = ("policy", "scoringSystem", "gradingSystem")


# --- grades


class Markdown(Format):
    """Grades as a page. It keeps at most `rows` runs that did not pass, so that a stream of any
    length needs no memory; all is written at the end.
    """

    def __init__(self, rows: int = ROWS) -> None:
        self.rows = rows
        self.failed: list[bytes] = []
        self.worst: list[WorstSample] = []
        self.notes: Sequence[str] = ()

    def about(self, title: ReportTitle) -> None:
        """Learn what was noted about the runs."""
        self.notes = title.notes

    def piece_of(self, result: Payload, source: ResultSource) -> bytes:
        """One row, and behind it what the comment shows of the sample."""
        if result["passed"] is True or source.run is None:
            return self.piece(result)
        return self.piece(result) + msgspec.json.encode(worst_sample(result, source.run))

    def piece(self, result: Payload) -> bytes:
        """One row; none for a run that passed."""
        if result["passed"] is True:
            return b""
        cells = (
            f"{cell_code(result['run_id'])} | {result['grade']} |"
            f" {points(result['weighted_score'])} | {_why(result)}"
        )
        return f"| {cells} |\n".encode()

    def onto(self, stream: IO[bytes]) -> Markdown:
        """Rows wait here until the verdict is known."""
        return self

    def write(self, data: bytes) -> None:
        """Keep a row, as long as there is room for one, and the worst samples."""
        row, end, sample = data.partition(b"\n")
        if row and len(self.failed) < self.rows:
            self.failed.append(row + end)
        if sample:
            keep_sample(self.worst, _read_sample(sample))

    def foot(self, faults: Sequence[dict[str, Any]], counts: dict[str, Any]) -> bytes:
        """The whole page, with as many rows as fit."""
        rows = self.rows
        page = self._page(faults, counts, rows)
        while len(page) > MAX_PAGE and rows > 1:
            rows //= 2
            page = self._page(faults, counts, rows)
        return page.encode()

    def _page(self, faults: Sequence[dict[str, Any]], counts: dict[str, Any], most: int) -> str:
        rows = self.failed[:most]
        noted = "".join(f"- {code(note)}\n" for note in self.notes)
        parts = (
            _verdict(counts),
            noted,
            worst_samples(self.worst),
            "| run | grade | score | why |\n|---|---|---:|---|\n"
            + b"".join(rows).decode()
            + _more(counts["failed"] - len(rows))
            if rows
            else "",
            _fault_list(faults, counts["faults"]),
            _bars(counts) if counts["graded"] else "",
            f"Policy {' · '.join(code(counts[key]) for key in _GRADED_BY)}\n",
        )
        return "\n".join(filter(None, parts))


_read_sample = msgspec.json.Decoder(WorstSample).decode


def _verdict(counts: Mapping[str, Any]) -> str:
    graded, failed, faults = counts["graded"], counts["failed"], counts["faults"]
    broken = [f"{count(faults, 'fault')} in the input"] if faults else []
    if not graded:
        return f"## Assay: nothing was graded\n\n{': '.join(['The gate is closed', *broken])}.\n"
    ran = [passed_text(graded, failed)] if failed or not faults else []
    bar = f" {bar_sentence(counts)}".rstrip()
    head, end = ("passed", "") if is_passed(counts) else ("not passed", " The gate is closed.")
    return f"## Assay: {head}\n\n**{' and '.join([*ran, *broken])}.**{bar}{end}\n"


def _why(result: Payload) -> str:
    reasons = causes(result)
    more = len(reasons) - NAMED
    return "; ".join(map(cell_code, reasons[:NAMED])) + (f"; and {more} more" if more > 0 else "")


def _more(failed: int) -> str:
    return f"\n… and {failed:,} more that did not pass.\n" if failed > 0 else ""


def _fault_list(faults: Sequence[Mapping[str, Any]], total: int) -> str:
    lines = []
    for fault in faults[:MAX_FAULTS]:
        line = "" if fault["line"] is None else f" line {fault['line']}"
        lines.append(
            f"- {code(fault['file'])}{line}:"
            f" {code(' '.join(filter(None, (fault.get('path'), fault['message']))))}\n"
        )
    if total > len(lines):
        lines.append(f"- … and {count(total - len(lines), 'more fault')}\n")
    return "".join(lines)


def _bars(counts: Mapping[str, Any]) -> str:
    graded = counts["graded"]
    rows = [(name, counts[name]) for name in ("passed", "failed")]
    rows += counts.get("grades", {}).items()
    lines = [f"{name:<6}  {bar(n, graded)}  {n:,} of {graded:,}\n" for name, n in rows]
    return f"```text\n{''.join(lines)}```\n"


EXPORTER = Exporter("markdown", "Markdown: a page for a pull request", (".md",), Markdown)
