"""What `assay batch` shows of its result, to people and to programs; and `assay batch --verify`:
whether an output is what its record and its evidence say.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from assay.cli import options as opt
from assay.cli.parsing import Options
from assay.errors import ExitCode, count, few, printable
from assay.families.batch.engine import BatchEngine
from assay.families.batch.job import BatchResult
from assay.families.batch.row_faults import TWICE, WIDE_TWICE
from assay.families.batch.run_query import DECIDED
from assay.families.batch.targets import BatchTarget
from assay.pipeline.batch_verification import BatchCheck
from assay.release.pass_rate import BarResult
from assay.views.text import fact_lines

MOST_UNUSED = 12
"""Columns that the summary names."""

_REPEATED = (TWICE.reason, WIDE_TWICE.reason)


def batch_document(
    result: BatchResult, target: BatchTarget, checked: BarResult | None
) -> dict[str, Any]:
    """The result of a batch, for programs."""
    from msgspec import to_builtins

    tally = result.tally
    return {
        "record": to_builtins(result.record),
        "output": target.grades,
        "rejects": target.rejects if result.record.rejects else None,
        "record_file": target.record,
        "failed": {
            "reasons": tally.reasons,
            "gates": tally.gates,
            "floors": tally.floors,
            "missing": tally.missing,
        },
        "rejected": [
            {
                "code": reject.code,
                "reason": reject.reason,
                "count": reject.n,
                "examples": reject.examples,
            }
            for reject in tally.rejects
        ],
        "unused": result.unused,
        "partitions": {"graded": result.graded, "kept": result.kept},
        **({} if checked is None else {"bar": checked.shown()}),
    }


def batch_summary(
    result: BatchResult,
    target: BatchTarget,
    checked: BarResult | None,
    *,
    earlier: str | None = None,
) -> Iterable[str]:
    """The same for people; `earlier` is the output that was graded again."""
    record, tally = result.record, result.tally
    holds = tally.passed == tally.runs if checked is None else checked.holds
    mark = "✓" if holds and not tally.rejects else "✗"
    graded = count(tally.runs, "run")
    decided = [name for name in result.unused if name.lower() in DECIDED]
    rejected = sum(reject.n for reject in tally.rejects)
    failed = {
        "failed": tally.reasons,
        "gates": tally.gates,
        "floors": tally.floors,
        "no score": tally.missing,
    }
    yield from fact_lines(
        (
            "passed",
            f"{mark} {tally.passed:,} of {graded} passed ({_percent(tally.passed / tally.runs)})",
        ),
        (
            "sample",
            ""
            if record.sample is None
            else f"{record.sample:,} runs were drawn; the others weren't graded",
        ),
        ("from", "" if earlier is None else f"the norms in {earlier}, not the evidence"),
        ("rows", f"{record.counts.rows:,}"),
        ("grades", "  ".join(f"{letter} {n:,}" for letter, n in tally.grades.items())),
        *(
            (label, few([f"{name} {n:,}" for name, n in names.items()]))
            for label, names in failed.items()
        ),
        (
            "partitions",
            f"{len(result.graded):,} graded, {len(result.kept):,} unchanged and kept"
            if result.graded or result.kept
            else "",
        ),
        ("not used", few(result.unused, MOST_UNUSED)),
        (
            "not kept",
            f"{', '.join(decided)}, which `assay gate` reads: --keep {','.join(decided)}"
            if decided
            else "",
        ),
        (
            "rejected",
            f"{count(rejected, 'entry', 'entries')}; runs not graded: {tally.invalid:,}"
            if tally.rejects
            else "",
        ),
    )
    for row in tally.rejects:
        yield f"  {row.code}  {row.n:,}: {row.reason}; such as {'; '.join(row.examples)}"
    yield from fact_lines(
        ("by", _versions(record)),
        ("bar", "" if checked is None else checked.reason),
        ("wrote", target.grades),
        ("rejects", target.rejects if record.rejects else ""),
        ("record", target.record),
    )
    if tally.rejects:
        yield "Fix or remove the rejected rows, then run this again with --overwrite."
    if len(record.inputs) > 1 and any(reject.reason in _REPEATED for reject in tally.rejects):
        yield (
            f"If the {len(record.inputs):,} inputs are versions of the same runs, grade each into"
            " its own output; `assay gate` compares two of them."
        )
    failing = [name for name, count in tally.gates.items() if count == tally.runs - tally.invalid]
    if failing:
        yield (
            f"No run passes {_listed(failing)}. A gate without a verdict fails: give each gate a"
            " column of true and false, or rows with `gate` and `verdict`."
        )


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} and {count(len(names) - 1, 'more gate')}"


def _versions(record: Any) -> str:
    return (
        f"profile {record.profile} · policy {record.policy} · {record.scoring_system}"
        f" · {record.grading_system} · {record.engine.name} {record.engine.version}"
    )


def _percent(share: float) -> str:
    """Rounded, but one failure in a million isn't shown as 100%."""
    return f"{share if share == 1 else min(share, 0.999):.1%}"


def run_verification(options: Options, engine: BatchEngine, target: BatchTarget) -> int:
    """Verify the output of the options and show each check."""
    from assay.cli.batch_plan import chosen_policy, required
    from assay.pipeline.batch_verification import verify_batch

    try:
        checks = verify_batch(
            opt.shelf_of(options),
            engine,
            options.inputs,
            target,
            profile=required(options, options.profile),
            policy=chosen_policy(options),
            rubric=options.rubric,
            runs=options.run_ids,
        )
    finally:
        engine.close()
    holds = not any(check.faults for check in checks)
    document = {
        "verified": holds,
        "checks": [
            {
                "name": check.name,
                "holds": not check.faults,
                "checked": check.note,
                "faults": list(check.faults),
            }
            for check in checks
        ],
    }
    lines = map(printable, _lines(checks, target))
    return opt.give(options, document, lines, ExitCode.of(holds))


def _lines(checks: Sequence[BatchCheck], target: BatchTarget) -> Iterable[str]:
    for check in checks:
        yield f"{check.name:<12}{'✗' if check.faults else '✓'} {check.note}".rstrip()
        for fault in check.faults:
            yield f"  {fault}"
    failed = ", ".join(check.name for check in checks if check.faults)
    state = (
        f"✗ {target.path} differs in: {failed}" if failed else f"✓ {target.path} matches its record"
    )
    yield from fact_lines(("verified", state))
