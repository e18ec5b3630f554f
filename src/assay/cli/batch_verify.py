"""`assay batch --verify`: whether an output is what its record and its evidence say."""

from __future__ import annotations

from typing import TYPE_CHECKING

from assay.cli import options as opt
from assay.errors import ExitCode, printable

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Sequence

    from assay.batch.engine import BatchEngine
    from assay.batch.targets import BatchTarget
    from assay.pipeline.batch_verification import BatchCheck


def run_verification(options: argparse.Namespace, engine: BatchEngine, target: BatchTarget) -> int:
    """Verify the output of the options and show each check."""
    from assay.pipeline.batch_verification import verify_batch
    from assay.pipeline.grading import DEFAULT_POLICY

    try:
        checks = verify_batch(
            opt.shelf_of(options),
            engine,
            options.inputs,
            target,
            profile=options.profile,
            # without --policy, the one that the record names
            policy=None if options.policy == DEFAULT_POLICY else options.policy,
            rubric=options.rubric,
            runs=options.run_ids,
        )
    finally:
        engine.close()
    holds = not any(check.faults for check in checks)
    if options.json:
        opt.print_json(
            {
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
        )
    else:
        opt.print_lines(map(printable, _lines(checks, target)))
    return ExitCode.PASSED if holds else ExitCode.FAILED


def _lines(checks: Sequence[BatchCheck], target: BatchTarget) -> Iterable[str]:
    for check in checks:
        yield f"{check.name:<12}{'✗' if check.faults else '✓'} {check.note}".rstrip()
        for fault in check.faults:
            yield f"  {fault}"
    failed = [check.name for check in checks if check.faults]
    if failed:
        yield f"verified    ✗ {target.path} differs in: {', '.join(failed)}"
    else:
        yield f"verified    ✓ {target.path} matches its record"
