"""`assay gate` on outputs of `assay batch`: the engine counts, and the rows stay where they are."""

from __future__ import annotations

from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from assay.batch.duckdb_engine import DuckDBEngine
from assay.batch.plan import make_batch_plan
from assay.cli import options as opt
from assay.cli.gate_sides import given_rules
from assay.cli.gate_worst import CandidateWorst
from assay.cli.run_settings import is_typed
from assay.errors import InputError, UsageError
from assay.files.own_files import is_batch_output
from assay.grading.policy import make_rules
from assay.pipeline.batch_gate import decide_batches, read_batch_side
from assay.pipeline.batching import scoring_plan
from assay.release.attestation import Subject

if TYPE_CHECKING:
    import argparse

    from assay.records.decision import Decision
    from assay.release.policy import ReleaseRules


def decide_on_batches(options: argparse.Namespace, rules: ReleaseRules) -> Decision:
    """The decision between two batches."""
    _check(options)
    candidate, baseline = (
        read_batch_side(text) for text in (options.files[0], options.baseline[0])
    )
    options.judged, options.compared = (
        [Subject(file, found) for file, found in side.files] for side in (candidate, baseline)
    )
    options.worst = CandidateWorst.of(options)
    given, shelf = given_rules(options), opt.shelf_of(options)
    named = options.profile if "profile" in given else baseline.record.profile
    if named is None:
        raise InputError("BAT-060", "its record names no profile.", where=baseline.path)
    scoring = scoring_plan(shelf, profile=named, rubric=options.rubric)
    grading = make_rules(
        shelf.policy(options.grading_policy if "policy" in given else baseline.record.policy)
    )
    roles = {
        planned.spec.id: planned.spec.role
        for planned in scoring.criteria
        if planned.spec.role is not None
    }
    with TemporaryDirectory() as scratch:
        engine = DuckDBEngine(scratch=scratch)
        try:
            return decide_batches(
                engine,
                candidate,
                baseline,
                make_batch_plan(scoring, grading),
                rules,
                grading,
                roles=roles,
                quarantine=list(dict.fromkeys(options.quarantine)),
            )
        finally:
            engine.close()


def _check(options: argparse.Namespace) -> None:
    """Refuse what can't be worked out over batches."""
    texts = [*options.files, *options.baseline]
    if other := [text for text in texts if not is_batch_output(text)]:
        raise UsageError(
            "BAT-061",
            f"{other[0]} isn't an output of `assay batch`, and the other side is.",
            fix="Grade both sides with `assay batch`, or give runs or scorecards on both.",
        )
    if len(options.files) > 1 or len(options.baseline) > 1:
        raise UsageError("BAT-061", "a decision over batches takes one batch on each side.")
    asked = {
        "--allow-unpaired": options.allow_unpaired,
        "--looks": options.looks > 1,
        "--slice": options.slice,
        "--with-plan": options.with_plan,
        "--charts": options.charts,
        "--store": options.store and is_typed(options, "store"),
        "-o FILE.sarif": any(path.endswith(".sarif") for path in options.output),
    }
    if refused := [name for name, value in asked.items() if value]:
        raise UsageError(
            "BAT-061",
            f"{', '.join(refused)} can't be used over batches.",
            fix="Omit it, or decide over runs or scorecards.",
        )
