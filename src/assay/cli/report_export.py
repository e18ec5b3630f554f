"""`assay report export`: grades in the format of another tool, by its name."""

from __future__ import annotations

import io

from assay.cli import options as opt
from assay.cli.frame import CHOICES, Command, Options, arg
from assay.cli.grade import choice_of
from assay.cli.hints import GRADED_BY, given
from assay.cli.imported_inputs import MADE
from assay.cli.references import STORED
from assay.cli.stream import Stopped, grade_stream, output_of
from assay.cli.totals import faults_error
from assay.errors import NotEnoughEvidence, UsageError
from assay.files.inputs import listed
from assay.registry import is_path
from assay.views.exporters import EXPORTERS, Exporter
from assay.views.grade_line import totals_text, versions_text

NAMED = ("inspect", "mlflow", "promptfoo", "otel")
"""The exporters that no extension picks."""


def run(options: Options) -> int:
    """Write one file in the format that is asked for."""
    formats = exporter_of(options.to).extensions
    options = options.with_values(output=[options.output], formats=formats)
    (path,) = opt.outputs(options)
    output = output_of(path, options.to)
    choice = choice_of(options)
    output.form.prepare(
        path=path,
        graded_by=_graded_by(options),
        reported=lambda workflow: choice.grader().plan_for(workflow).reported,
    )
    try:
        totals = grade_stream(
            options.files,
            choice,
            [output],
            spool=io.BytesIO(),
            spool_format="text",
            spool_limit=0,
            keep_going=False,
            jobs=options.jobs,
        )
    except Stopped as end:
        if end.totals.fault_count:
            raise faults_error(end.totals, stopped=True) from None
        raise NotEnoughEvidence(
            "FIL-005", "there is nothing to export.", where=listed(options.files)
        ) from None
    counts = totals.counts()
    document = {"exporter": options.to, "output": path, "counts": counts}
    lines = [totals_text(counts), versions_text(counts)]
    return opt.give(options, document, lines, written=[path])


def _graded_by(options: Options) -> list[str] | None:
    """The options that grade other runs as these are graded; None if their profile lives only as
    long as this command.
    """
    words = [word for name in GRADED_BY for word in given(options, name)]
    if options.sources.get("profile") in (MADE, STORED):
        return None if is_path(options.profile) else [*words, "--profile", options.profile]
    return words


def exporter_of(name: str) -> Exporter:
    """The exporter of that name, shipped or of a plugin."""
    exporter = EXPORTERS.get(name)
    if exporter is None:
        raise UsageError(
            "CLI-001",
            f"no exporter is named '{name}'.{EXPORTERS.near(name)}",
            fix="`assay library list exporters` shows them.",
        )
    return exporter


COMMANDS = {
    "report export": Command(
        run,
        "Grade runs and write the grades in the format of another tool. It exits 0 even if"
        " runs fail.",
        "assay report export runs.jsonl --to inspect -o grades.json",
        (
            "files",
            arg(
                "--to",
                kind="text",
                trust="freely",
                metavar="NAME",
                required=True,
                help=(
                    f"{', '.join(NAMED)}, or an exporter of a plugin; `assay library list"
                    " exporters` shows them all"
                ),
            ),
            arg(
                "-o",
                "--output",
                kind="path",
                metavar="FILE",
                required=True,
                help="the file to write, with the extension of the format",
            ),
            *CHOICES,
            "--jobs",
        ),
    )
}
