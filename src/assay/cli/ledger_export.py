"""`assay ledger export`: every stored grade as Parquet rows that `assay batch` reads."""

from __future__ import annotations

import glob
import os
import shlex
from collections import Counter
from typing import Any
from urllib.parse import unquote

from assay.cli import options as opt
from assay.cli.frame import Command, Options, arg
from assay.cli.progress import Progress
from assay.errors import ExitCode, NotEnoughEvidence, count, printable
from assay.library.shelf import Shelf
from assay.project.ledger import open_for
from assay.services.ledger_export import FORGOTTEN, export_ledger

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
        exports = export_ledger(ledger, options.output, projects, progress.add)
        progress.end()
    grades = sum(done.grades for done in exports.values())
    left_out: Counter[str] = Counter()
    for done in exports.values():
        left_out.update(done.left_out)
    # records that were removed from outside leave no reason behind, only the ledger's own count
    missing = total - grades - left_out.total()
    if missing > 0:
        left_out[MISSING] = missing
    document = {
        "folder": options.output,
        "grades": grades,
        "rows": sum(done.rows for done in exports.values()),
        "projects": {
            name: {"grades": done.grades, "rows": done.rows} for name, done in exports.items()
        },
        "profiles": sorted(  # the folder of a profile is one batch
            os.path.relpath(place, options.output)
            for place in glob.glob(
                os.path.join(glob.escape(options.output), "project=*", "profile=*")
            )
            if not place.endswith("__HIVE_DEFAULT_PARTITION__")  # grades without a profile
        ),
        "left_out": dict(left_out),
    }
    # what somebody had forgotten before the export is meant to be absent
    whole = not ({*left_out} - {FORGOTTEN})
    return opt.give(options, document, _lines(document, options.output), ExitCode.of(whole))


def _lines(document: dict[str, Any], folder: str) -> list[str]:
    done = f"{folder}: {count(document['grades'], 'grade')} in {count(document['rows'], 'row')}"
    lines = [opt.paint(printable(done), "green", "bold")]
    lines += [
        opt.paint(printable(f"{number:,} left out: {reason}"), "red")
        for reason, number in document["left_out"].items()
    ]
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
        " by project, profile and day, in the form that `assay batch` reads. Exit 0 if all grades"
        " are in the folder, 1 if some had to be left out, 4 if there are none.",
        "assay ledger export -o lake",
        (
            arg(
                "-o",
                "--output",
                kind="path",
                metavar="DIR",
                required=True,
                help="the new folder to write to",
            ),
            "--db",
            arg(
                "--project",
                heading="ledger",
                kind="text",
                trust="freely",
                key="project",
                metavar="NAME",
                help="export only this project of the ledger (default: all projects)",
            ),
        ),
    ),
}
