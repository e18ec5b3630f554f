"""Make a profile from the metrics of another tool's results: one criterion for each, with equal
weights, no floors and no roles; the tool's verdict is a gate.

A metric is graded if all its values are from 0 to 1, the only scale that needs no explanation, or
if its scale is stated. A metric with other values, or for which lower may be better, is not graded,
with a note; one with values of both kinds is refused. A metric without any value counts as missing
from every sample: a judge that failed every time must not be ignored.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable

from assay.errors import InputError, NotEnoughEvidence
from assay.importers.column_map import SCORE, column_of
from assay.importers.metric_names import may_be_less
from assay.importers.samples import gate_name
from assay.importers.tally import ImportTally
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
