"""`assay gate` on outputs of `assay batch`."""

from __future__ import annotations

import os
from tempfile import TemporaryDirectory
from typing import NamedTuple

from assay.batch.duckdb_engine import DuckDBEngine
from assay.cli.batch_plan import asks_to_store, graded_by
from assay.cli.parsing import Options
from assay.errors import UsageError
from assay.files.inputs import no_such_file
from assay.files.own_files import is_batch_output
from assay.pipeline.batch_sides import BatchOutput, read_batch_output
from assay.records.decision import Decision
from assay.registry import is_path
from assay.release.attestation import Subject
from assay.release.policy import ReleaseRules
from assay.services.batch_compare import FreshOutputs, compare_batches
from assay.services.compare import Asked


class BatchDecision(NamedTuple):
    """A decision, and the files that each side was read from."""

    decision: Decision
    judged: list[Subject]
    compared: list[Subject]


def decide_on_batches(options: Options, rules: ReleaseRules, asked: Asked) -> BatchDecision:
    """The decision between two batches."""
    _check(options)
    candidate, baseline = (
        read_batch_output(side.path) for side in (options.files[0], options.baseline[0])
    )
    fresh = FreshOutputs(
        *(
            read_batch_output(paths[0].path) if paths else None
            for paths in (options.fresh, options.fresh_baseline)
        )
    )
    graded = graded_by(options, baseline, policy="grading_policy")
    with TemporaryDirectory() as scratch:
        engine = DuckDBEngine(scratch=scratch)
        try:
            made = compare_batches(engine, candidate, baseline, graded, rules, asked, fresh)
        finally:
            engine.close()
    return BatchDecision(made, _files(candidate, fresh.candidate), _files(baseline, fresh.baseline))


def _files(*outputs: BatchOutput | None) -> list[Subject]:
    """The files of these batches."""
    return [Subject(file, sha256) for output in outputs if output for file, sha256 in output.files]


def _check(options: Options) -> None:
    """Refuse what can't be worked out over batches."""
    sides = (options.files, options.baseline, options.fresh, options.fresh_baseline)
    inputs = (side for sources in sides for side in sources)
    if other := [side.name for side in inputs if not is_batch_output(side.path)]:
        if is_path(other[0]) and not os.path.exists(other[0]):
            raise no_such_file(other[0])
        raise UsageError(
            "BAT-061",
            f"{other[0]} isn't an output of `assay batch`, and another input is.",
            fix="Grade all of them with `assay batch`, or give runs or scorecards.",
        )
    if any(len(paths) > 1 for paths in sides):
        raise UsageError("BAT-061", "a decision over batches takes one batch on each side.")
    if options.fresh_baseline and not options.fresh:
        raise UsageError(
            "CLI-001", "--fresh-baseline needs --fresh, the fresh runs of the candidate."
        )
    given = {
        "--charts": options.charts,
        "--store": asks_to_store(options),
        "-o FILE.sarif": any(path.endswith(".sarif") for path in options.output),
    }
    if refused := [name for name, value in given.items() if value]:
        raise UsageError(
            "BAT-061",
            f"{', '.join(refused)} can't be used over batches.",
            fix="Omit it, or decide over runs or scorecards.",
        )
