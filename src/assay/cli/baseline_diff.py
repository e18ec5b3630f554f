"""`assay baseline diff`: a stored baseline against another one, or against files, sample by sample.
It decides nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from assay.cli import options as opt
from assay.cli.baseline import DIR, LOOK
from assay.cli.frame import COMPARED_BY, Command, Options, arg, store_option
from assay.cli.gate_sides import read_named, read_side
from assay.cli.grade import choice_of
from assay.cli.ledger import looking
from assay.errors import count, printable
from assay.files.inputs import StoredInput
from assay.registry import is_path
from assay.release.comparability import align, mismatch_error, mismatches
from assay.release.decision import compared, failed_names, systems
from assay.release.observations import Pair
from assay.release.policy import ReleaseRules, make_release_rules
from assay.release.sides import pair_up
from assay.views.text import fact_lines

if TYPE_CHECKING:
    from collections.abc import Mapping

    from assay.records.decision import ComparisonRecord, SampleOverlap
    from assay.release.sides import Side
    from assay.services.grading import Grader
    from assay.services.stored_sides import SideReader
    from assay.services.storing import Store

DIFF_SCHEMA = "assay.baseline-diff/1"


def diff(options: Options) -> int:
    """Compare a stored baseline with another one, or with files."""
    options.files = options.others
    opt.outputs(options)  # what cannot be written is said before any work
    with looking(options) as ledger:
        document = _compared(options, ledger)
    return opt.give(options, document, map(printable, diff_lines(document)))


def _compared(options: Options, ledger: Store | None) -> dict[str, Any]:
    kept = None
    if ledger is not None:
        from assay.services.stored_sides import SideReader

        kept = SideReader(ledger)
    grader = choice_of(options).grader()
    rules = make_release_rules(opt.shelf_of(options).policy_of("release", options.release_policy))
    before = _side([options.baseline], options, grader, kept)
    after = _side(options.others, options, grader, kept)
    return compare_sides(before, after, rules)


def _side(texts: list[str], options: Options, grader: Grader, kept: SideReader | None) -> Side:
    if len(texts) == 1 and not is_path(texts[0]) and not isinstance(texts[0], StoredInput):
        return read_named(texts[0], grader, folder=options.dir, kept=kept).side.side
    return read_side(texts, grader, name=", ".join(texts)).side


def compare_sides(before: Side, after: Side, rules: ReleaseRules) -> dict[str, Any]:
    """What is different between two sides, over all samples and in each of them. Sides that can't
    be compared are an error.
    """
    aligned = align(after, before, rules)
    different = [
        mismatch
        for mismatch in mismatches(after, before)
        if not (mismatch.field == "dataset" and aligned.overlap is not None)
    ]
    if different:
        raise mismatch_error(different)
    pairs = pair_up(aligned.candidate, aligned.baseline)
    return {
        "schema": DIFF_SCHEMA,
        "baseline": before.name,
        "other": after.name,
        "comparison": compared(pairs, rules),
        "missing": {
            "other": [pair.sample for pair in pairs if not pair.candidate.attempts],
            "baseline": sorted(after.samples.keys() - before.samples.keys()),
        },
        **({} if aligned.overlap is None else {"overlap": aligned.overlap}),
        "changed": [shown for pair in pairs if (shown := _changed(pair)) is not None],
        "policy": rules.policy,
        **systems(after, rules),
    }


def _changed(pair: Pair) -> dict[str, Any] | None:
    """What is different in one sample; None if nothing is."""
    if not pair.candidate.attempts or not pair.baseline.attempts:
        return None  # listed as missing
    ours, theirs = (
        float(sum(run.score for run in side.attempts)) / len(side.attempts) / 100
        for side in (pair.candidate, pair.baseline)
    )
    gates, floors = (
        [failed_names(pair, side, kind) for side in ("candidate", "baseline")]
        for kind in ("gate", "floor")
    )
    shown = {
        "sample": pair.sample,
        "difference": round(ours - theirs, 4),
        "other": ours,
        "baseline": theirs,
        "newly_failed_gates": sorted(gates[0] - gates[1]),
        "mended_gates": sorted(gates[1] - gates[0]),
        "newly_missed_floors": sorted(floors[0] - floors[1]),
    }
    return (
        shown
        if shown["difference"]
        or shown["newly_failed_gates"]
        or shown["mended_gates"]
        or shown["newly_missed_floors"]
        else None
    )


_KINDS_OF_CHANGE = {
    "newly_failed_gates": "now fails",
    "mended_gates": "fixed",
    "newly_missed_floors": "below the floor of",
}


def diff_lines(document: dict[str, Any], *, most: int = 20) -> list[str]:
    """The comparison of two sides as lines, largest drop first."""
    comparison: ComparisonRecord = document["comparison"]
    difference = comparison.difference
    paired = count(comparison.n_paired, "paired sample")
    overlap: SampleOverlap | None = document.get("overlap")
    ends = (
        f", no interval: {difference.reason}"
        if difference.low is None
        else f" [{difference.low:+.2f}, {difference.high:+.2f}], {difference.method}"
    )
    ordered = sorted(document["changed"], key=by_difference)
    more = len(ordered) - most
    systems_used = f"{document['scoringSystem']} · {document['gradingSystem']}"
    return [
        f"{document['other']} against {document['baseline']}: {paired}",
        *fact_lines(
            (
                "dataset",
                ""
                if overlap is None
                else f"{count(overlap.equal, 'equal sample')}; {len(overlap.new)} new,"
                f" {len(overlap.changed)} different, {len(overlap.dropped)} dropped",
            ),
            (
                "difference",
                "" if difference.estimate is None else f"{difference.estimate:+.2f} points{ends}",
            ),
            (
                "samples",
                f"{comparison.wins} higher, {comparison.losses} lower, {comparison.ties} the same",
            ),
            *(
                (
                    "missing",
                    f"{len(lost)} in the {side}: {', '.join(lost[:5])}"
                    + (" ..." if len(lost) > 5 else ""),
                )
                for side, lost in document["missing"].items()
                if lost
            ),
        ),
        *map(change_line, ordered[:most]),
        *([f"  ... and {more:,} more that differ"] if more > 0 else []),
        "",
        f"policy {document['policy']} · {systems_used}",
    ]


def by_difference(change: Mapping[str, Any]) -> tuple[float, str]:
    """The order of changed samples: what fell most comes first."""
    return change["difference"], change["sample"]


def change_line(change: Mapping[str, Any]) -> str:
    """What is different in one sample, in a line."""
    changes = "; ".join(
        f"{words} {', '.join(change[key])}"
        for key, words in _KINDS_OF_CHANGE.items()
        if change[key]
    )
    return f"  {change['difference']:+7.2f}  {change['sample']}  {changes}".rstrip()


COMMANDS = {
    "baseline diff": Command(
        diff,
        "Compare a stored baseline with another, or with files: the paired differences,"
        " sample by sample. It exits 0 whatever the result.",
        "assay baseline diff production runs.jsonl",
        (
            DIR,
            arg("baseline", metavar="NAME", help="the stored baseline to compare with").of_runs(),
            arg(
                "others",
                metavar="OTHER|FILE",
                nargs="+",
                help=(
                    "another stored baseline, an evaluation's name or latest, or files of runs,"
                    " scorecards or grades"
                ),
            ).of_runs(),
            arg(
                "--release-policy",
                "--policy",
                kind="name",
                key="release.policy",
                metavar="R",
                default="release",
                help="release policy whose margin and level are used (default: release)",
            ),
            *COMPARED_BY,
            store_option(LOOK),
            "--project",
        ),
        formats=(".json",),
    ),
}
