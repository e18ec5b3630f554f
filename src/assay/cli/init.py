"""`assay init`: an assay.yaml, samples and a CI job for a folder; or a complete example project.

It asks nothing and overwrites nothing. It reads the code in the folder (see `init_search`) and
never runs it.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from typing import Any

from assay.cli import options as opt
from assay.cli.frame import Command, arg
from assay.cli.init_files import IGNORE_FILE, IGNORED, SCHEMA_FILE, files_for, slug
from assay.cli.init_search import FolderSearch, Gradable, search
from assay.errors import ExitCode, UsageError, printable
from assay.files.atomic import write_file
from assay.records.descriptions import described_schema
from assay.running.config import ConfigFile
from assay.views.documents import pretty

PROJECTS = os.path.join(os.path.dirname(__file__), "examples", "projects")
_RUN = ("assay run", "assay run next", "assay gate latest --baseline latest~1")
_GRADE = (
    "assay tools grade --emit-prompts",
    "assay tools score proofs/grade-work",
    "assay tools grade --consume-scores proofs/grade-work",
)
EXAMPLES: dict[str, tuple[str, ...]] = {
    "rag": _RUN,
    "agent": _RUN,
    "code-repair": _RUN,
    "mcp": _GRADE,
    "exam": ("assay exam grade exam.yaml", "assay exam gate result.json"),
}
"""The example projects, and the commands that come next."""


def run(options: argparse.Namespace) -> int:
    """Run the verb."""
    folder = options.dir
    if os.path.exists(folder) and not os.path.isdir(folder):
        raise UsageError("FIL-008", "is not a folder.", where=folder)
    document = _example(options.example, folder) if options.example else _project(folder)
    if options.json:
        opt.print_json(document)
    else:
        opt.print_lines(printable(line) for line in _lines(document))
    return ExitCode.PASSED


def _example(name: str, folder: str) -> dict[str, Any]:
    """Write an example project, all of it or nothing."""
    source = os.path.join(PROJECTS, name)
    files: dict[str, bytes] = {}
    for place, folders, names in os.walk(source):
        folders[:] = sorted(one for one in folders if one != "__pycache__")
        for one in sorted(names):
            path = os.path.join(place, one)
            with open(path, "rb") as stream:
                files[os.path.relpath(path, source)] = stream.read()
    taken = [path for path in files if os.path.lexists(os.path.join(folder, path))]
    if taken:
        raise UsageError(
            "FIL-008",
            f"there is already {', '.join(taken[:5])}; an example overwrites nothing.",
            where=folder,
            fix=f"Name a new folder: assay init --example {name} {name}-example",
        )
    if not os.path.lexists(os.path.join(folder, IGNORE_FILE)):
        files[IGNORE_FILE] = IGNORED.encode()
    _write(folder, files)
    return {
        "schema": "assay.init/1",
        "folder": folder,
        "found": [],
        "wrote": sorted(files),
        "left": [],
        "next": [*_enter(folder), *EXAMPLES[name]],
    }


def _project(folder: str) -> dict[str, Any]:
    """Write what is missing for the folder's own project."""
    found = search(folder) if os.path.isdir(folder) else None
    subject = found.subjects[0] if found and found.subjects else None
    texts = files_for(subject, slug(folder))
    files = {path: text.encode() for path, text in texts.items()}
    files[SCHEMA_FILE] = pretty(described_schema(ConfigFile))
    files[IGNORE_FILE] = IGNORED.encode()
    left = [path for path in files if os.path.lexists(os.path.join(folder, path))]
    new = {path: data for path, data in files.items() if path not in left}
    _write(folder, new)
    return {
        "schema": "assay.init/1",
        "folder": folder,
        **_found(found, subject),
        "wrote": list(new),
        "left": left,
        "next": [*_enter(folder), *_next(found, subject)],
    }


def _found(found: FolderSearch | None, subject: Gradable | None) -> dict[str, Any]:
    if found is None:
        return {"found": [], "chosen": None, "results": [], "unread": []}
    return {
        "found": [one._asdict() for one in found.subjects],
        "chosen": None if subject is None else subject.target,
        "results": [one._asdict() for one in found.results],
        "unread": found.unread,
    }


def _next(found: FolderSearch | None, subject: Gradable | None) -> list[str]:
    if subject is not None and subject.kind == "mcp":
        return ["assay tools check"]
    imports = [
        f"assay import {one.file} --from {one.importer} -o runs.jsonl"
        for one in (found.results[:1] if found else ())
    ]
    if subject is None and imports:
        return imports
    return ["assay run"]


def _enter(folder: str) -> list[str]:
    return [] if os.path.abspath(folder) == os.getcwd() else [f"cd {folder}"]


def _write(folder: str, files: Mapping[str, bytes]) -> None:
    for path, data in files.items():
        target = os.path.join(folder, path)
        try:
            os.makedirs(os.path.dirname(target) or ".", exist_ok=True)
        except OSError as error:
            raise UsageError(
                "FIL-008", f"the folder cannot be made: {error.strerror}.", where=target
            ) from None
        write_file(target, data)


def _lines(document: Mapping[str, Any]) -> list[str]:
    lines: list[str] = []
    found = document["found"]
    if "chosen" in document:
        for number, one in enumerate(found[:5]):
            note = (
                "  <- used in assay.yaml"
                if number == 0 and "assay.yaml" in document["wrote"]
                else ""
            )
            lines.append(f"found   {one['why']} ({one['kind']}){note}")
        if len(found) > 5:
            lines.append(f"        and {len(found) - 5} more")
        if not found:
            lines.append("found   nothing that looks like a workflow: edit `adapter` in assay.yaml")
        lines += [f"found   {one['file']}: {one['title']}" for one in document["results"][:5]]
        if document["unread"]:
            names = ", ".join(document["unread"][:3])
            lines.append(f"skipped {names}: too large, or not Python that can be parsed")
    lines += [f"wrote   {path}" for path in document["wrote"]]
    lines += [f"kept    {path}, which already exists" for path in document["left"]]
    if "samples.jsonl" in document["wrote"] and "chosen" in document:
        lines.append("edit    samples.jsonl: three questions and what a right answer contains")
    if found and found[0]["kind"] == "http" and "assay.yaml" in document["wrote"]:
        lines.append(f"start   your endpoint: assay run posts to {found[0]['target']}")
    return [*lines, *(f"next    {command}" for command in document["next"])]


COMMANDS = {
    "init": Command(
        run,
        "Look at a folder and write what `assay run` needs: an assay.yaml with comments, a dataset"
        " of three samples to edit, and a CI job. Nothing is executed, and no file is overwritten."
        " With --example: a complete small project that needs no key and passes.",
        "assay init --example rag bot",
        (
            arg(
                "dir", nargs="?", metavar="DIR", default=".", help="the folder (default: this one)"
            ),
            arg(
                "--example",
                choices=tuple(EXAMPLES),
                help="write this example project instead",
            ),
        ),
        configured=False,
    ),
}
