"""Results as Markdown for a pull-request comment or a job summary: the verdict first, then what
failed and why, then the rest in a few lines.

Only our own words are Markdown. Every text from evidence, a policy or a file name stands in a code
span, where no renderer sees markup, a link, an issue number or an @mention. A page is bounded:
beyond its rows it says how many more there are.
"""

from __future__ import annotations

import re
from typing import IO, TYPE_CHECKING, Any

from assay.errors import printable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from assay.records.grade import Payload

ROWS = 50
"""Rows of a table at the most; a comment on a code host has a limit of its own."""
MAX_TEXT = 200
MAX_FAULTS = 10
MAX_CAUSES = 3
BAR = 20
_TICKS = re.compile("`+")


def code(text: object) -> str:
    r"""Any text as a code span that holds in a table cell too. What would break the line or run
    backwards is written as an escape.

    >>> code("a|b"), code("@all <b>\n")
    ('`a\\|b`', '`@all <b>\\n`')
    >>> code("`x`")
    '`` `x` ``'
    """
    shown = printable(str(text))
    if len(shown) > MAX_TEXT:
        shown = f"{shown[:MAX_TEXT]}…"
    if not shown.strip():
        return "(empty)"
    fence = "`" * (1 + max((len(ticks) for ticks in _TICKS.findall(shown)), default=0))
    # one blank on each side is taken off again by the renderer, and keeps a backtick at the edge
    # apart from the fence
    pad = " " if shown[0] in "` " or shown[-1] in "` " else ""
    inside = shown.replace("|", "\\|")
    return f"{fence}{pad}{inside}{pad}{fence}"


def bar(count: int, total: int) -> str:
    """A text bar. Something is never drawn as nothing, and less than all never as all.

    >>> bar(1, 1000), bar(999, 1000), bar(0, 3)
    ('█░░░░░░░░░░░░░░░░░░░', '███████████████████░', '░░░░░░░░░░░░░░░░░░░░')
    """
    full = BAR * count // total if total else 0
    full = max(full, 1) if count else 0
    return "█" * full + "░" * (BAR - full)


# --- grades


class Markdown:
    """Grades as a page. It holds at most `rows` rows of each kind, so that a stream of any length
    needs no memory; all is written at the end.
    """

    def __init__(self, rows: int = ROWS) -> None:
        self.rows = rows
        self.failed: list[bytes] = []
        self.passed: list[bytes] = []

    def head(self) -> bytes:
        """Nothing: the verdict comes first, and is not known yet."""
        return b""

    def piece(self, result: Payload) -> bytes:
        """One row, behind a sign that says of which kind it is."""
        passed = result["passed"] is True
        cells = (
            f"{code(result['run_id'])} | {result['grade']} | {result['weighted_score']:.2f} |"
            f" {'yes' if passed else 'no'} | {'' if passed else _why(result)}"
        )
        return f"{'+' if passed else '-'}| {cells} |\n".encode()

    def joint(self) -> bytes:
        """Nothing."""
        return b""

    def onto(self, stream: IO[bytes]) -> Markdown:
        """Rows wait here until the verdict is known."""
        return self

    def write(self, data: bytes) -> None:
        """Keep a row, as long as there is room for one."""
        rows = self.passed if data[:1] == b"+" else self.failed
        if data and len(rows) < self.rows:
            rows.append(data[1:])

    def foot(self, faults: Sequence[dict[str, Any]], counts: dict[str, Any]) -> bytes:
        """The whole page."""
        rows = [*self.failed, *self.passed][: self.rows]
        parts = [_verdict(counts)]
        if rows:
            parts.append(
                "| run | grade | score | passed | why |\n|---|---|---:|---|---|\n"
                + b"".join(rows).decode()
                + _more(counts, len(rows), len(self.failed))
            )
        parts.append(_fault_list(faults, counts["faults"]))
        if counts["graded"]:
            parts.append(_bars(counts))
        parts.append(
            f"Policy {code(counts['policy'])} · {code(counts['scoringSystem'])} ·"
            f" {code(counts['gradingSystem'])}\n"
        )
        return "\n".join(filter(None, parts)).encode()

    def finish(
        self, stream: IO[bytes], faults: Sequence[dict[str, Any]], counts: dict[str, Any]
    ) -> None:
        """Write the page."""
        stream.write(self.foot(faults, counts))


def grades(document: Mapping[str, Any], *, rows: int = ROWS) -> str:
    """A grades document (`assay.grades/1`) as a page."""
    page = Markdown(rows)
    for result in document["results"]:
        page.write(page.piece(result))
    return page.foot(document["faults"], document["counts"]).decode()


def _verdict(counts: Mapping[str, Any]) -> str:
    graded, failed, faults = counts["graded"], counts["failed"], counts["faults"]
    broken = f"{faults:,} fault{'s' if faults != 1 else ''} in the input"
    if not graded:
        return (
            "## Assay: nothing was graded\n\nThe gate is"
            f" closed{f': {broken}' if faults else ''}.\n"
        )
    if failed or faults:
        said = [f"{failed:,} of {graded:,} runs did not pass"] if failed else []
        return (
            f"## Assay: not passed\n\n**{' and '.join([*said, *([broken] if faults else [])])}.**"
            " The gate is closed.\n"
        )
    return (
        "## Assay:"
        f" passed\n\n**{'The one run' if graded == 1 else f'All {graded:,} runs'} passed.**\n"
    )


def _why(result: Payload) -> str:
    causes = [
        f"gate {code(name)} {'failed' if gate['status'] == 'fail' else 'is undetermined'}:"
        f" {code(gate['reason'])}"
        for name, gate in result["hard_gates"].items()
        if gate["status"] != "pass"
    ]
    for criterion in result["criteria"]:
        if criterion["floor_failed"]:
            floor = criterion["critical_floor"]
            causes.append(
                f"{code(criterion['name'])} {float(criterion['norm']):g} is below its floor"
                + (f" {float(floor['norm']):g}" if floor else "")
            )
        if criterion["missing"]:
            causes.append(f"{code(criterion['name'])} has no score: {code(criterion['missing'])}")
    if result["weighted_score"] < result["pass_threshold"]:
        causes.append(
            f"{result['weighted_score']:.2f} is below {float(result['pass_threshold']):g}"
        )
    more = len(causes) - MAX_CAUSES
    return "; ".join(causes[:MAX_CAUSES]) + (f"; and {more} more" if more > 0 else "") or code(
        result["reason"]
    )


def _more(counts: Mapping[str, Any], shown: int, failed_shown: int) -> str:
    more = counts["graded"] - shown
    if more <= 0:
        return ""
    failed = counts["failed"] - min(failed_shown, shown)
    return f"\n… and {more:,} more: {failed:,} not passed, {more - failed:,} passed.\n"


def _fault_list(faults: Sequence[Mapping[str, Any]], total: int) -> str:
    lines = []
    for fault in faults[:MAX_FAULTS]:
        line = "" if fault["line"] is None else f" line {fault['line']}"
        lines.append(
            f"- {code(fault['file'])}{line}:"
            f" {code(' '.join(filter(None, (fault.get('path'), fault['message']))))}\n"
        )
    if total > len(lines):
        lines.append(f"- … and {total - len(lines):,} more faults\n")
    return "".join(lines)


def _bars(counts: Mapping[str, Any]) -> str:
    graded = counts["graded"]
    rows = [
        ("passed", counts["passed"]),
        ("failed", counts["failed"]),
        *counts.get("grades", {}).items(),
    ]
    return (
        "```text\n"
        + "".join(
            f"{name:<6}  {bar(count, graded)}  {count:,} of {graded:,}\n" for name, count in rows
        )
        + "```\n"
    )
