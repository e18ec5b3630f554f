"""A decision as a command has it: with the samples that it names and their texts from both sides,
and the command that should come next.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from assay.cli.hints import GRADED_BY, command, given, is_one_file
from assay.cli.ledger import baselines_folder, ledger_options
from assay.cli.parsing import Options
from assay.files.inputs import StoredInput
from assay.files.json_files import member
from assay.files.own_files import is_batch_output
from assay.importers.known import KNOWN
from assay.records.decision import Decision
from assay.records.evidence import IMPORTED
from assay.records.samples import NO_TEXTS, TextCollector, Texts, row_of_run
from assay.release.attestation import Subject
from assay.release.baseline import names
from assay.services.compare import ReadSide
from assay.services.grading import Graded, Grader
from assay.services.sides import read_texts
from assay.views.blocks import Part, section
from assay.views.charts.decisions import ScorePair
from assay.views.decision import new_failures, samples_to_show
from assay.views.sample import evidence_block, kept_evidence

BROKEN = 3
"""Samples that failed before, too, of which a page shows the texts."""
IN_DETAIL = 3
"""Samples of which a page has the whole evidence."""


class NamedSamples(NamedTuple):
    """What the pages of a decision show of the samples that it names."""

    texts: Texts = NO_TEXTS
    broken: Sequence[str] = ()
    """Samples that fail on both sides."""
    runs: Sequence[tuple[Graded, dict[str, Any]]] = ()
    """The candidate's worst runs of some of them, each with its grade as it is shown."""

    def parts(self) -> list[Part]:
        """The evidence of these runs, for a page."""
        folds = []
        for place, (graded, payload) in enumerate(self.runs, 1):
            row, kept = row_of_run(payload, graded.run), kept_evidence(graded.run)
            folds.append(evidence_block(row, kept, payload, place, opened=False))
        title = "Runs of the candidate in detail"
        return [section(title, *folds, id="worst")] if folds else []


class Decided(NamedTuple):
    """A decision, and what its reports show besides it."""

    decision: Decision
    judged: list[Subject]
    """What the candidate was read from."""
    compared: list[Subject]
    """What the baseline was read from."""
    named: NamedSamples | None = None
    """What is shown of the samples that it names; None for batches."""
    pairs: list[ScorePair] | None = None
    """The scores of every sample; None for batches."""
    importer: str = ""
    """Which tool's results the candidate is; empty for runs of our own."""
    workflow: str = ""
    """The candidate's workflow."""
    fresh: Sequence[ReadSide | None] = ()
    """The fresh runs of the candidate and of the baseline."""


def named_samples(
    options: Options, decision: Decision, candidate: ReadSide, baseline: ReadSide, grader: Grader
) -> NamedSamples:
    """The texts that the outputs of a command show; nothing is read where none shows any."""
    pages = any(path.endswith((".md", ".html")) for path in options.output)
    cases = any(path.endswith((".xml", ".sarif")) for path in options.output)
    shown = [item.sample for item in new_failures(decision)]
    if not (pages or options.step_summary or ((cases or not options.json) and shown)):
        return NamedSamples()
    wanted = samples_to_show(decision)
    broken = _failing_on_both(candidate, baseline, set(decision.missing.quarantined))
    named = {*wanted, *broken}
    collector, worst = TextCollector(), dict[str, tuple[Graded, dict[str, Any]]]()
    detailed = (wanted or broken)[:IN_DETAIL]
    for graded, payload in read_texts(candidate.documents, grader, "candidate", named, collector):
        sample = graded.grade.sample
        known = worst.get(sample)
        if sample in detailed and (
            known is None or graded.grade.score_units < known[0].grade.score_units
        ):
            worst[sample] = graded, payload
    for _ in read_texts(baseline.documents, grader, "baseline", named, collector):
        pass
    return NamedSamples(
        collector.texts(), broken, [worst[sample] for sample in detailed if sample in worst]
    )


def _failing_on_both(candidate: ReadSide, baseline: ReadSide, left_out: set[str]) -> list[str]:
    """The samples that no run of either side passes, the candidate's worst first."""
    before = baseline.side.samples
    failing = [
        sample
        for name, sample in candidate.side.samples.items()
        if not sample.passed
        and (known := before.get(name)) is not None
        and not known.passed
        and name not in left_out
    ]
    failing.sort(key=lambda sample: (sample.score, sample.sample))
    return [sample.sample for sample in failing[:BROKEN]]


def next_command(options: Options, made: Decided) -> list[str]:
    """The command that makes a promoted candidate the new baseline, that runs again what may newly
    fail, or that explains the sample on which a rejected candidate fell most.
    """
    document = made.decision
    if document.outcome == "promote":
        return _baseline_command(options)
    if document.confirmation.needed and document.outcome != "reject":
        return _fresh_commands(options, made)
    fell = next((item for item in document.worse if item.candidate is not None), None)
    if document.outcome != "reject" or fell is None or len(options.files) > 1:
        return []
    file = options.files[0]
    if not is_one_file(file) or is_batch_output(file):
        return []
    policy = given(options, "--grading-policy")[1:]
    words = ("explain", file, "--run", fell.sample, *(("--policy", *policy) if policy else ()))
    ledger = ledger_options(options) if isinstance(file, StoredInput) else ""
    return [f"{command(*words, options=options, carry=GRADED_BY)}{ledger}  # why"]


def open_samples(document: Decision) -> list[str]:
    """The samples that fresh runs could settle."""
    suspects = document.confirmation.suspects
    waiting = {suspect.sample for suspect in suspects if suspect.verdict == "open"}
    return sorted(waiting | set(document.confirmation.severe))


def suspects_text(document: Decision) -> bytes:
    """The samples that fresh runs could settle, one on each line, as `assay run --only` reads
    them.
    """
    return "".join(f"{name}\n" for name in open_samples(document)).encode()


def importer_of(candidate: ReadSide) -> str:
    """The importer that read a side's first run."""
    for document in candidate.documents():
        imported = member(getattr(document, "tree", None), "metadata", IMPORTED, "from")
        return imported if isinstance(imported, str) else ""
    return ""


def _fresh_commands(options: Options, made: Decided) -> list[str]:
    """What makes the fresh runs: this command where both versions are workflows of assay.yaml, else
    the tool that the results come from.
    """
    document, names = made.decision, open_samples(made.decision)
    turns = document.confirmation.repeats
    known = KNOWN[made.importer].again if made.importer in KNOWN else None
    if known is not None:
        titles = document.titles or {}
        shown = [titles.get(name) or name.partition("/")[2] or name for name in names]
        again = known(shown, turns, made.workflow)
        return [f"{again}  # on both versions, then --fresh and --fresh-baseline"]
    if options.config is not None and all(isinstance(file, StoredInput) for file in options.files):
        typed = [word for name in options.baseline for word in ("--baseline", name)]
        words = ("gate", *options.files, *typed, "--confirm")
        return [f"{command(*words, options=options, carry=GRADED_BY)}  # run them again"]
    return []


def _baseline_command(options: Options) -> list[str]:
    replaced = [name for name in options.baseline if name in names(options.baselines)]
    if len(options.baseline) != 1 or not replaced or not all(map(is_one_file, options.files)):
        return []
    ledger = ledger_options(options) if isinstance(options.files[0], StoredInput) else ""
    typed = options.baselines != baselines_folder()
    carry = (*GRADED_BY, "--grading-policy", *(("--baselines",) if typed else ()))
    words = command("baseline", "set", *replaced, *options.files, options=options, carry=carry)
    return [f"{words}{ledger}  # once it is released"]
