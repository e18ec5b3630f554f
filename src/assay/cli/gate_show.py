"""A decision on the terminal, and what its page adds to the report: a changed plan, looks, slices
and flaky samples.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from assay.cli import options as opt
from assay.cli import terminal
from assay.errors import printable
from assay.release.pairs import pair_up
from assay.views import markdown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from assay.release.sides import Side

_WORDS = {
    "promote": "PROMOTE",
    "hold": "HOLD",
    "reject": "REJECT",
    "not_enough_evidence": "NOT ENOUGH EVIDENCE",
}
_COLOURS = {"promote": "green", "reject": "red"}


def show(document: dict[str, Any]) -> None:
    """The decision in words, on standard output: outcome, rules and sides as tables on a terminal,
    and what else there is below them.
    """
    out = sys.stdout
    if not terminal.show_decision(document):
        _head(document)
    found = document["comparison"]
    difference = found["difference"]
    if difference["low"] is not None:
        ends = f"[{difference['low']:+.2f}, {difference['high']:+.2f}]"
        out.write(
            f"difference  {difference['estimate']:+.2f} points {ends}, margin {found['margin']:g},"
            f" {difference['method']}\n"
        )
        out.write(f"            {_drawn(difference, found['margin'])}\n")
    paired = f"{found['n_paired']} paired" if document["paired"] else "unpaired, as asked for"
    out.write(
        f"samples     {found['n_candidate']} here, {found['n_baseline']} in the baseline,"
        f" {paired}\n"
    )
    if found["minimum_detectable_effect"] is not None:
        out.write(
            f"sees        differences from {found['minimum_detectable_effect']:.2f} points on, with"
            " the policy's power\n"
        )
    for side in ("candidate", "baseline"):
        lost = document["missing"][side]
        if lost:
            worth = (
                "score 0 with every gate failed"
                if side == "candidate"
                else "score 100 with every gate passed"
            )
            out.write(
                f"missing     {len(lost)} samples of the {side}, counted as {worth}:"
                f" {printable(', '.join(lost[:5]))}{' ...' if len(lost) > 5 else ''}\n"
            )
    if document["missing"]["quarantined"]:
        out.write(
            f"left out    {printable(', '.join(document['missing']['quarantined']))}, as asked"
            " for\n"
        )
    if document["plan"].get("changed"):
        out.write(
            "plan        CHANGED since it was declared:"
            f" {printable('; '.join(document['plan']['changed']))}\n"
        )
    for name in document.get("unplanned", [])[:1]:
        out.write(
            f"unplanned   {len(document['unplanned'])} samples that the plan does not have, left"
            f" aside: {printable(name)} ...\n"
        )
    for one in document.get("slices", {}).get("slices", []):
        out.write(f"slice       {_slice(one)}\n")
    for one in document.get("flaky", [])[:10]:
        if not one["quarantined"]:
            out.write(f"flaky       {printable(flaky_sentence(one))}\n")
    for line in document.get("notes", ()):
        out.write(f"note        {printable(line)}\n")
    for line in document["would_change"]:
        out.write(f"to change   {printable(line)}\n")
    if document["worse"]:
        shown = ", ".join(
            f"{item['sample']} {item['difference']:+.2f}" for item in document["worse"][:5]
        )
        out.write(f"fell most   {printable(shown)}\n")
    out.write(
        f"\npolicy {document['policy']} · {document['scoringSystem']} ·"
        f" {document['gradingSystem']}\n"
    )


def _head(document: dict[str, Any]) -> None:
    """Outcome and rules as plain text."""
    out, on = sys.stdout, opt.colour()
    outcome = document["outcome"]
    out.write(
        f"{opt.paint(_WORDS[outcome], 'bold', _COLOURS.get(outcome, 'yellow'), on=on)}:"
        f" {printable(document['reason'])}\n\n"
    )
    for rule in document["rules"]:
        sign = (
            "holds"
            if rule["holds"]
            else (
                "open" if rule["holds"] is None else "VIOLATED" if rule["violated"] else "not shown"
            )
        )
        colour = "green" if rule["holds"] else "red" if rule["violated"] else "yellow"
        out.write(
            f"  {opt.paint(f'{sign:<9}', colour, on=on)}  {rule['id']:<22} "
            f" {printable(rule['reason'])}\n"
        )
    out.write("\n")


def _drawn(difference: dict[str, Any], margin: float, *, width: int = 61) -> str:
    """The interval as a line of text: `|` is no difference, `!` minus the margin."""
    reach = max(abs(difference["low"]), abs(difference["high"]), 2 * margin, 0.5) * 1.05
    at = [
        round((value + reach) / (2 * reach) * (width - 1))
        for value in (difference["low"], difference["high"], difference["estimate"], 0.0, -margin)
    ]
    line = ["-" if at[0] <= place <= at[1] else " " for place in range(width)]
    line[at[3]], line[at[4]] = "|", "!"
    line[at[2]] = "o"
    return f"{-reach:+.1f} {''.join(line)} {reach:+.1f}"


def _slice(one: dict[str, Any]) -> str:
    difference = one["difference"]
    ends = (
        f"[{difference['low']:+.2f}, {difference['high']:+.2f}]"
        if difference["low"] is not None
        else f"(no interval: {difference.get('reason')})"
    )
    word = "  WORSE" if one["worse"] else ""
    return (
        f"{printable(one['slice']):<24}  {one['n']:>6} samples "
        f" {difference['value']:+.2f} {ends}{word}"
    )


def flaky_sentence(one: dict[str, Any]) -> str:
    """A flaky sample in words, with what leaves it out."""
    return (
        f"{one['sample']} passed in {one['passed']} of {one['repeats']} repeats of the"
        f" {one['side']}; it counts, unless you say {one['leave_out']}"
    )


def page(document: dict[str, Any], *, most: int = 20) -> str:
    """The decision as Markdown: the report's page, and below it what is particular to this
    decision.
    """
    code, parts = markdown.code, [markdown.decision(document)]
    changed = document["plan"].get("changed")
    if changed:
        parts.append(
            "**The plan changed since it was declared:**\n\n"
            + "".join(f"- {code(one)}\n" for one in changed[:most])
        )
    if document.get("looks", 1) > 1:
        parts.append(
            f"Looked at up to {document['looks']} times; the interval holds at every look.\n"
        )
    slices = document.get("slices", {}).get("slices", [])
    if slices:
        ordered = sorted(slices, key=lambda one: (not one["worse"], one["difference"]["value"]))
        rows = [
            f"| {code(one['slice'])} | {one['n']} | {one['difference']['value']:+.2f} |"
            f" {_worse(one['worse'])} |\n"
            for one in ordered[:most]
        ]
        more = f"\n… and {len(slices) - most} more slices.\n" if len(slices) > most else ""
        parts.append(
            "| slice | samples | difference | shown to be worse |\n|---|---:|---:|---|\n"
            + "".join(rows)
            + more
        )
    flaky = [one for one in document.get("flaky", []) if not one["quarantined"]]
    if flaky:
        more = f"- … and {len(flaky) - most} more\n" if len(flaky) > most else ""
        parts.append(
            "Flaky samples:\n\n"
            + "".join(f"- {code(flaky_sentence(one))}\n" for one in flaky[:most])
            + more
        )
    if document["missing"]["quarantined"]:
        parts.append(
            "Left out by name:"
            f" {', '.join(map(code, document['missing']['quarantined'][:most]))}.\n"
        )
    return "\n".join(parts)


def pairs_of(
    candidate: Side, baseline: Side, *, planned: Sequence[str] | None = None
) -> list[dict[str, Any]]:
    """The score of every sample on both sides, as the page draws them; a side that lost one has
    None there.
    """
    return [
        {
            "sample": pair.sample,
            "candidate": None if pair.candidate is None else float(pair.candidate.score) / 100,
            "baseline": None if pair.baseline is None else float(pair.baseline.score) / 100,
        }
        for pair in pair_up(candidate, baseline, planned=planned)
    ]


def _worse(worse: bool | None) -> str:
    return "**yes**" if worse else "not known" if worse is None else "no"
