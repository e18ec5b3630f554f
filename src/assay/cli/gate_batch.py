"""`assay gate` on outputs of `assay batch`: the engine counts, and the rows stay where they are."""

from __future__ import annotations

import os

from assay.cli.batch_engine import reading_engine
from assay.cli.batch_plan import asks_to_store, graded_by
from assay.cli.gate_worst import CandidateWorst
from assay.cli.parsing import Options
from assay.errors import UsageError
from assay.files.inputs import no_such_file
from assay.files.own_files import is_batch_output
from assay.pipeline.batch_gate import decide_batches, read_batch_side
from assay.records.decision import Decision
from assay.registry import is_path
from assay.release.attestation import Subject
from assay.release.policy import ReleaseRules


def decide_on_batches(options: Options, rules: ReleaseRules) -> Decision:
    """The decision between two batches."""
    _check(options)
    candidate, baseline = (
        read_batch_side(text) for text in (options.files[0], options.baseline[0])
    )
    options.judged, options.compared = (
        [Subject(file, digest) for file, digest in side.files] for side in (candidate, baseline)
    )
    options.worst = CandidateWorst.of(options)
    graded = graded_by(options, baseline, policy="grading_policy")
    with reading_engine(options) as engine:
        return decide_batches(
            engine,
            candidate,
            baseline,
            graded.plan,
            rules,
            graded.grading,
            roles=graded.roles,
            quarantine=list(dict.fromkeys(options.quarantine)),
            looks=options.looks,
            slices=list(dict.fromkeys(options.slice)),
        )


def _check(options: Options) -> None:
    """Refuse what can't be worked out over batches."""
    texts = [*options.files, *options.baseline]
    if other := [text for text in texts if not is_batch_output(text)]:
        if is_path(other[0]) and not os.path.exists(other[0]):
            raise no_such_file(other[0])
        raise UsageError(
            "BAT-061",
            f"{other[0]} isn't an output of `assay batch`, and the other side is.",
            fix="Grade both sides with `assay batch`, or give runs or scorecards on both.",
        )
    if len(options.files) > 1 or len(options.baseline) > 1:
        raise UsageError("BAT-061", "a decision over batches takes one batch on each side.")
    given = {
        "--allow-unpaired": options.allow_unpaired,
        "--with-plan": options.with_plan,
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
