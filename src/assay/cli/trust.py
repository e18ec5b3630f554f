"""`assay trust`: show what in an `assay.yaml` needs trust, and remember that you trust it."""

from __future__ import annotations

from typing import Any

from assay.cli import options as opt
from assay.cli.configured import settings_of, verb_names
from assay.cli.frame import Command, Options, arg, flag, load_command
from assay.errors import Fault, UsageError, printable
from assay.files.trust import remember
from assay.files.upwards import CONFIG_FILE, find_config
from assay.project.config import KINDS, Config, read_config
from assay.project.trust import part_faults, scorer_faults, trust


def run(options: Options) -> int:
    """Run the verb."""
    path = options.file or find_config()
    if path is None:
        raise UsageError(
            "CLI-001",
            f"there is no {CONFIG_FILE} in this folder or above it.",
            fix="Name one: assay trust FILE.",
        )
    config = read_config(path)
    needed = _needed(config)
    settings = remember(path, None) if options.forget else trust(config)
    document = {
        "schema": "assay.trusted/1",
        "file": path,
        "trusted": not options.forget,
        "needed_for": [_entry(fault) for fault in needed],
        "settings": settings,
    }
    lines = [fault.text() for fault in needed] or [f"nothing in {path} needs trust"]
    done = (
        f"forgotten: {path}"
        if options.forget
        else f"trusted: {path}, until it or a file that it names changes"
    )
    return opt.give(options, document, map(printable, [*lines, done]))


def _needed(config: Config) -> list[Fault]:
    """Everything in the file that some verb needs trust for."""
    faults = list(scorer_faults(config))
    for verb in verb_names():
        command = load_command(verb)
        if command.configured:
            settings = settings_of(command.declared, command.parser(verb), verb, config)
            faults += [fault for setting in settings.values() for fault in setting.faults]
    for kind in KINDS:
        references = dict.fromkeys((*config.named(kind).values(), config.chosen(kind)))
        for reference in filter(None, references):
            faults += part_faults(config, kind, reference)
    unique = {(fault.path, fault.message): fault for fault in faults}
    return sorted(unique.values(), key=lambda fault: fault.line or 0)


def _entry(fault: Fault) -> dict[str, Any]:
    return {"key": fault.path, "line": fault.line, "why": fault.message}


COMMANDS = {
    "trust": Command(
        run,
        "Trust an assay.yaml that you have read: show what it sets that needs trust (addresses,"
        " keys, environment variables, places outside its folder), and remember it in your own"
        " settings until the file changes.",
        "assay trust",
        (
            arg(
                "file",
                kind="path",
                nargs="?",
                metavar="FILE",
                help="the file (default: assay.yaml in this folder or above it)",
            ),
            flag("--forget", "trust it no longer"),
        ),
        configured=False,
    ),
}
