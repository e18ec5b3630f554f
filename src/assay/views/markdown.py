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


# --- decisions

_OUTCOMES = {
    "promote": "**The candidate may replace the baseline.**",
    "hold": "**The candidate may not replace the baseline yet.** The gate is closed.",
    "reject": "**The candidate may not replace the baseline.** The gate is closed.",
    "not_enough_evidence": "**There is not enough evidence to decide.** The gate is closed.",
}


def decision(document: Mapping[str, Any]) -> str:
    """A decision (`assay.decision/1`) as a page: outcome, rules, difference, and what would change
    it.
    """
    outcome = str(document["outcome"])
    title = outcome.replace("_", " ") if outcome in _OUTCOMES else code(outcome)
    parts = [
        (
            "## Assay:"
            f" {title}\n\n{_OUTCOMES.get(outcome, 'This outcome is none that exists; the gate is closed.')}\n"  # noqa: E501
        )
    ]
    order = sorted(
        document["rules"], key=lambda rule: rule.get("holds") is True
    )  # what does not hold comes first
    rows = [
        f"| {code(rule['id'])} | {_holds(rule.get('holds'))} |"
        f" {code(rule.get('reason') or 'no reason is given')} |\n"
        for rule in order
    ]
    parts.append("| rule | holds | why |\n|---|---|---|\n" + "".join(rows))
    comparison = document.get("comparison")
    if comparison:
        parts.append(_comparison(comparison))
    parts.append(_sides(document))
    changes = _changes(document)
    if changes:
        parts.append("What would change it:\n\n" + "".join(f"- {one}\n" for one in changes))
    parts.append(
        f"Policy {code(document.get('policy'))} · {code(document.get('scoringSystem'))} ·"
        f" {code(document.get('gradingSystem'))}\n"
    )
    return "\n".join(filter(None, parts))


def _sides(document: Mapping[str, Any]) -> str:
    """The pass rate of each side as a bar with its interval; nothing where neither states one."""
    lines = []
    for side in ("candidate", "baseline"):
        block = document.get(side)
        found = block.get("pass_rate") if isinstance(block, dict) else None
        value, low, high = (
            found.get(key) if isinstance(found, dict) else None for key in ("value", "low", "high")
        )
        if isinstance(value, int | float):
            ends = (
                f" [{100 * low:.1f}%, {100 * high:.1f}%]"
                if isinstance(low, int | float) and isinstance(high, int | float)
                else ""
            )
            n = block.get("n") if isinstance(block, dict) else None
            lines.append(
                f"{side:<9}  {bar(round(1000 * value), 1000)}  {100 * value:.1f}%{ends} passed, n"
                f" {n if isinstance(n, int) else 'not known'}\n"
            )
    return "```text\n" + "".join(lines) + "```\n" if lines else ""


def _holds(holds: object) -> str:
    return "yes" if holds is True else "**no**" if holds is False else "**not known**"


def _number(value: object) -> str:
    return (
        f"{value:+.2f}"
        if isinstance(value, float)
        else "not known"
        if value is None
        else f"{float(str(value)):+.2f}"
    )


def _comparison(comparison: Mapping[str, Any]) -> str:
    difference = comparison.get("difference") or {}
    level = difference.get("level")
    interval = f"{float(level) * 100:g}% interval" if level is not None else "interval"
    low, high = difference.get("low"), difference.get("high")
    between = (
        f"{interval} {_number(low)} to {_number(high)}"
        if low is not None or high is not None
        else f"no {interval}"
    )
    method = f" ({code(difference['method'])})" if difference.get("method") else ""
    margin = comparison.get("margin")
    lines = [
        (
            f"Candidate minus baseline, in points of 100: **{_number(difference.get('estimate'))}**,"  # noqa: E501
            f" {between}{method}."
        )
    ]
    lines.append(
        f"It may fall by {float(margin):g} at the most."
        if margin is not None
        else "No margin is known."
    )
    named = [
        name for name in ("superior", "non_inferior", "equivalent") if comparison.get(name) is True
    ]
    if named:
        lines.append(f"The candidate is {', '.join(name.replace('_', '-') for name in named)}.")
    sides = {
        "n_paired": "pairs",
        "n_candidate": "of the candidate",
        "n_baseline": "of the baseline",
    }
    counts = [
        f"{int(comparison[key]):,} {word}"
        for key, word in sides.items()
        if comparison.get(key) is not None
    ]
    if counts:
        lines.append(f"Samples: {', '.join(counts)}.")
    effect = comparison.get("minimum_detectable_effect")
    if effect is not None and not isinstance(effect, dict):
        lines.append(f"The smallest difference this set can see is {float(effect):.2f}.")
    drawn = _interval_line(low, high, difference.get("estimate"), margin)
    return " ".join(lines) + "\n" + (f"\n```text\n{drawn}\n```\n" if drawn else "")


def _interval_line(low: Any, high: Any, estimate: Any, margin: Any) -> str:
    """The interval as a line of text, with minus the margin and zero marked; empty where an end is
    missing.
    """
    if None in (low, high, estimate, margin):
        return ""
    low, high, estimate, edge = float(low), float(high), float(estimate), -float(margin)
    left, right = float(min(low, edge, 0.0)), float(max(high, edge, 0.0))
    if not 0 < right - left < float("inf"):
        return ""
    width = 2 * BAR

    def at(value: float) -> int:
        return round((value - left) / (right - left) * width)

    line = [" "] * (width + 1)
    line[at(low) : at(high) + 1] = "─" * (at(high) - at(low) + 1)
    for value, sign in ((edge, "M"), (0.0, "0"), (estimate, "●")):
        line[at(value)] = sign
    return "".join(line).rstrip() + "    M minus the margin, 0 no difference, ● the estimate"


def _changes(document: Mapping[str, Any]) -> list[str]:
    """What the decision itself names; without that, the rules that do not hold."""
    named = document.get("would_change")
    if named:
        return [code(one) for one in ([named] if isinstance(named, str) else named)]
    return [
        f"the rule {code(rule['id'])} would have to hold"
        for rule in document["rules"]
        if rule.get("holds") is not True
    ]
