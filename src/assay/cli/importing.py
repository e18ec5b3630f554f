"""`assay import`: what another tool wrote, as evidence."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from assay.cli import options as opt
from assay.cli.frame import CHOICES, STORE, Command, arg
from assay.cli.import_evaluations import shown, store_evaluations, tell_evaluations
from assay.errors import ExitCode, InputError, NotEnoughEvidence, UsageError, printable
from assay.files.atomic import write_file
from assay.files.json_files import open_input
from assay.importers.head import HEAD, Head
from assay.importers.importer import Wanted, named
from assay.importers.known import KNOWN, fitting
from assay.importers.tally import Tally
from assay.registry import near_miss
from assay.views.documents import encode, pretty

if TYPE_CHECKING:
    import argparse

    from assay.importers.importer import Importer

FORMATS = (".jsonl", ".json")


def run(options: argparse.Namespace) -> int:
    """Run the verb."""
    paths = opt.outputs(options)
    if options.files.count("-") > 1 or ("-" in options.files and options.kind is None):
        raise UsageError(
            "CLI-001",
            "standard input can be read once, and its kind cannot be told.",
            fix="Give it once, with --from KIND.",
        )
    importer = _importer(options)
    tally = Tally()
    runs = list(importer.read(options.files, _wanted(options), tally))
    if not runs:
        raise NotEnoughEvidence(
            "FIL-005",
            f"there is no run in them ({_counted(tally.read)}).",
            where=", ".join(options.files),
        )
    _refuse_twins(runs)
    for path in paths:
        write_file(path, pretty(runs) if path.endswith(".json") else _lines(runs))
    made = store_evaluations(options, runs, importer.name)
    if options.json:
        opt.print_json({**_document(runs, tally, paths), "evaluations": shown(made)})
    else:
        if not paths:
            sys.stdout.buffer.write(_lines(runs))
            sys.stdout.buffer.flush()
        _tell(runs, tally, paths)
        tell_evaluations(options, made, sys.stdout if paths else sys.stderr)
    return ExitCode.PASSED


def _importer(options: argparse.Namespace) -> Importer:
    if options.kind is not None:
        found = KNOWN.get(options.kind)
        if found is None:
            raise UsageError(
                "CLI-001",
                f"nothing is imported from '{options.kind}'.{near_miss(options.kind, KNOWN)}",
                fix=f"Supported: {', '.join(KNOWN)}.",
            )
        return found
    fits = {importer.name: importer for path in options.files for importer in _fitting(path)}
    if len(fits) > 1:
        raise UsageError(
            "CLI-001",
            f"the files may be of several kinds: {', '.join(fits)}.",
            fix="Say which with --from KIND, one kind at a time.",
        )
    return next(iter(fits.values()))


def _fitting(path: str) -> list[Importer]:
    with open_input(path) as stream:
        head = stream.read(HEAD)
    fits = fitting(Head(path, head))
    if not fits:
        what = "is empty." if not head.strip() else "is not a file that Assay imports."
        raise InputError(
            "FIL-006",
            what,
            where=path,
            fix=f"Supported: {', '.join(KNOWN)}; --from KIND says which.",
        )
    return fits


def _wanted(options: argparse.Namespace) -> Wanted:
    workflow = None if options.workflow is None else named(options.workflow, "--workflow")
    return Wanted(
        workflow,
        options.family,
        None if options.dataset is None else named(options.dataset, "--dataset"),
    )


def _refuse_twins(runs: list[dict[str, Any]]) -> None:
    """Two runs of one id would be one run to the next reader."""
    seen: set[str] = set()
    for found in runs:
        if found["run_id"] in seen:
            raise InputError(
                "FIL-007",
                f"two runs have the id {found['run_id'][:80]!r}.",
                fix="Give each its own, or import the files one by one.",
            )
        seen.add(found["run_id"])


def _lines(runs: list[dict[str, Any]]) -> bytes:
    return b"".join(encode(found) + b"\n" for found in runs)


def _document(runs: list[dict[str, Any]], tally: Tally, paths: list[str]) -> dict[str, Any]:
    counts = {
        "runs": len(runs),
        "read": dict(tally.read),
        "dropped": dict(tally.dropped),
    }
    return {
        "runs": [] if paths else runs,
        "counts": counts,
        "notes": tally.notes,
        "written": paths,
    }


def _tell(runs: list[dict[str, Any]], tally: Tally, paths: list[str]) -> None:
    """What was read and what was left out, where it is in nobody's way."""
    out = sys.stdout if paths else sys.stderr
    out.write(f"{len(runs):,} run{'s' if len(runs) != 1 else ''} from {_counted(tally.read)}\n")
    for reason, count in sorted(tally.dropped.items()):
        out.write(f"  left out: {count:,} {reason.replace('_', ' ')}\n")
    for note in tally.notes:
        out.write(f"  note: {printable(note)}\n")
    for path in paths:
        out.write(f"wrote {path}\n")


def _counted(read: Any) -> str:
    return ", ".join(f"{count:,} {what}" for what, count in read.items())


COMMANDS = {
    "import": Command(
        run,
        "Turn what another tool wrote into evidence (assay.run/1), grade it and store it as an"
        " evaluation. What is left out is counted and named. No gate: it exits 0 once done.",
        "assay import spans.jsonl -o runs.jsonl --workflow triage@3 --family tool-use --dataset"
        " tickets@1",
        (
            arg("files", nargs="+", metavar="FILE", help="what another tool wrote, or -"),
            arg(
                "--from",
                dest="kind",
                metavar="KIND",
                help=f"what wrote them: {', '.join(KNOWN)} (default: told from the content)",
            ),
            arg(
                "--workflow",
                metavar="ID@VERSION",
                help="the workflow that ran, where the files do not say it",
            ),
            arg(
                "--family",
                metavar="F",
                help="the family of the workflow, which chooses the profile",
            ),
            arg(
                "--dataset",
                metavar="ID@VERSION",
                help="the dataset it ran on, where the files do not say it",
            ),
            arg(
                "--name",
                metavar="NAME",
                help="the name of the evaluation (default: the workflow and the time)",
            ),
            *CHOICES,
            *STORE,
            "--no-store",
        ),
        formats=FORMATS,
    ),
}
