"""`assay ledger export`: every stored grade as Parquet rows that `assay batch` reads."""

from __future__ import annotations

import os
import shlex
from typing import Any
from urllib.parse import unquote

from assay.archive.export_rows import FORGOTTEN
from assay.archive.ledger_export import NO_PROFILE, ExportResult, export_ledger
from assay.cli import options as opt
from assay.cli.frame import Command, Options, arg
from assay.cli.ledger import open_for
from assay.cli.progress import Progress
from assay.errors import ExitCode, NotEnoughEvidence, count, printable
from assay.library.shelf import Shelf

SHOWN = 5
MISSING = "missing from the ledger, which counted them; run `assay ledger verify`"


def _export(options: Options) -> int:
    with open_for(options.db, read_only=True) as ledger:
        projects = [options.project] if options.project else ledger.projects()
        total = sum(ledger.count("grade", project=name).n for name in projects)
        if not total:
            where = f"the project '{options.project}'" if options.project else "the ledger"
            raise NotEnoughEvidence(
                "STO-012",
                f"{where} has no grades to export.",
                where=ledger.where,
                fix="`assay grade FILE --store` and `assay run` store grades.",
            )
        progress = Progress(total, "export", unit="grades")
        done = export_ledger(ledger, options.output, projects, progress.add)
        progress.end()
    document = _document(done, options.output, projects)
    # records that were removed from outside leave no reason behind, only the ledger's own count
    missing = total - document["total"]["grades"] - sum(document["left_out"].values())
    if missing > 0:
        document["left_out"][MISSING] = missing
    # what somebody had forgotten before the export is meant to be absent
    whole = not ({*document["left_out"]} - {FORGOTTEN}) and not document["forgotten_since"]
    return opt.give(options, document, _lines(document, options.output), ExitCode.of(whole))


def _document(done: ExportResult, folder: str, projects: list[str]) -> dict[str, Any]:
    states = {name: done.manifest.projects[name] for name in projects}
    left_out: dict[str, int] = {}
    for state in states.values():
        for reason, number in state.left_out.items():
            left_out[reason] = left_out.get(reason, 0) + number
    return {
        "schema": done.manifest.schema,
        "folder": folder,
        "added": {"grades": done.grades, "rows": done.rows, "files": done.files},
        "total": {
            "grades": sum(state.grades for state in states.values()),
            "rows": sum(state.rows for state in states.values()),
            "files": sum(len(state.files) for state in states.values()),
        },
        "projects": {
            name: {"seq": state.seq, "grades": state.grades, "rows": state.rows}
            for name, state in states.items()
        },
        "profiles": sorted(
            {
                os.path.dirname(os.path.dirname(name))  # the folder of a profile is one batch
                for state in states.values()
                for name in state.files
                if f"profile={NO_PROFILE}/" not in name
            }
        ),
        "left_out": left_out,
        "forgotten_since": sum(state.forgotten for state in states.values()),
    }


def _lines(document: dict[str, Any], folder: str) -> list[str]:
    added, total = document["added"], document["total"]
    head = f"{folder}: {count(added['grades'], 'grade')} added, {total['grades']:,} in all"
    rows = f"{count(added['rows'], 'row')} in {count(added['files'], 'new file')}"
    lines = [
        opt.paint(printable(head), "green", "bold"),
        f"{rows}; {count(total['rows'], 'row')} in {count(total['files'], 'file')} in all",
    ]
    warnings = [f"{number:,} left out: {reason}" for reason, number in document["left_out"].items()]
    if forgotten := document["forgotten_since"]:
        warnings.append(
            f"{count(forgotten, 'exported grade')} forgotten in the ledger since."
            f" Delete {folder} and export again."
        )
    lines += [opt.paint(printable(warning), "red") for warning in warnings]
    return lines + _hints(document["profiles"], folder)


def _hints(profiles: list[str], folder: str) -> list[str]:
    """A command for each profile that grades its rows; a profile from a file has to be named."""
    library = os.environ.get("ASSAY_LIBRARY")
    shelf = Shelf(library) if library else Shelf()
    known = {entry.id for entry in shelf.entries("profiles")}
    lines: list[str] = []
    for name in profiles[:SHOWN]:
        profile = unquote(name.rpartition("profile=")[2])
        place, chosen = shlex.quote(os.path.join(folder, name)), shlex.quote(profile)
        lines.append(
            f"  assay batch {place} -o graded-{len(lines) + 1}.parquet --profile {chosen}"
            " --keep run_id,sample,attempt,group,dataset_version,judge,stored_grade"
            if profile in known
            else f"  {place} needs the file of its profile: assay batch --profile FILE"
        )
    return ["Grade them again:", *map(printable, lines)] if lines else []


COMMANDS = {
    "ledger export": Command(
        _export,
        "Write every stored grade as Parquet: a row for each criterion and each gate, partitioned"
        " by project, profile and day, in the form that `assay batch` reads. A later export to the"
        " same folder adds only what is new. Exit 0 if all grades are in the folder, 1 if some had"
        " to be left out, 4 if there are none.",
        "assay ledger export -o lake",
        (
            arg(
                "-o",
                "--output",
                metavar="DIR",
                required=True,
                help="the folder to write to: a new one, or that of an earlier export",
            ),
            "--db",
            arg(
                "--project",
                metavar="NAME",
                help="export only this project of the ledger (default: all projects)",
            ),
        ),
    ),
}
