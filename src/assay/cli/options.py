"""What the verbs share: their parsers, the options that choose profile and policy, and where output
goes.
"""

from __future__ import annotations

import argparse
import os
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from assay.errors import EXIT_CODES_TEXT, ExitCode, UsageError
from assay.registry import near_miss

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from assay.library.shelf import Shelf


ENVIRONMENT = {
    "ASSAY_DB": "the ledger of `--store` and `--db`, where they name none",
    "ASSAY_LIBRARY": (
        "a folder of your own profiles, policies and rubrics, where `--library` names none; it"
        " never changes what a shipped name means"
    ),
    "CI": "turns off colour and live progress",
    "GITHUB_STEP_SUMMARY": "the file that `--step-summary` appends to",
    "NO_COLOR": "turns off colour",
    "OTEL_EXPORTER_OTLP_*": (
        "where `grade` and `serve` send evaluation events, with OpenTelemetry's own names and"
        " meanings"
    ),
    "TERM": "`dumb` turns off the rich terminal output",
}
"""Every variable of the environment that a command reads, and what it does. Names of keys and
headers come from your own files.
"""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> Any:
        raise UsageError("CLI-001", f"{message}.", fix=f"`{self.prog} --help` shows what it takes.")


def parser(verb: str, what: str, example: str) -> argparse.ArgumentParser:
    """A parser for one verb: one sentence, an example to paste, what the exit codes mean."""
    made = _Parser(
        prog=f"assay {verb}",
        description=what,
        epilog=f"example: {example}\n\n{EXIT_CODES_TEXT}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    made.add_argument(
        "--json",
        action="store_true",
        help="print one JSON document on standard output and nothing else there",
    )
    return made


def choose(
    verb: str,
    argv: list[str],
    actions: Mapping[str, str],
    *,
    what: str,
    example: str,
    word: str = "ACTION",
) -> str | ExitCode:
    """The action that a verb with several is asked for; or the exit code, once its help is
    printed.
    """
    action = argv[0] if argv else ""
    if action in actions:
        return action
    if action and action not in ("-h", "--help", "help", "--json"):
        near = near_miss(action, actions)
        raise UsageError(
            "CLI-001",
            f"there is no {word.lower()} '{action}'.{near}",
            fix=f"`assay {verb} --help` lists them.",
        )
    width = max(map(len, actions))
    listed = "\n".join(f"  {name:<{width}}  {text}" for name, text in actions.items())
    asked = action in ("-h", "--help", "help")
    (sys.stdout if asked else sys.stderr).write(
        f"{what}\n\nusage: assay {verb} {word} [options]\n\n{listed}\n\n"
        f"  assay {verb} {word} --help   what it takes, with an example\n\n"
        f"example: {example}\n{EXIT_CODES_TEXT}\n"
    )
    return ExitCode.PASSED if asked else ExitCode.MISUSE


def add_choices(made: argparse.ArgumentParser) -> None:
    """The options that choose profile, policy and rubric."""
    made.add_argument(
        "--profile",
        metavar="P",
        help=(
            "profile by name, letter A-D, name@version or YAML file (default: the run's"
            " workflow.family)"
        ),
    )
    made.add_argument(
        "--policy",
        metavar="Q",
        default="workflow",
        help="policy by name, name@version or YAML file (default: workflow)",
    )
    made.add_argument(
        "--rubric",
        metavar="R",
        help="rubric that overrides the profile's criteria, by name, name@version or YAML file",
    )
    add_cards(made)
    add_library(made)


def add_cards(made: argparse.ArgumentParser) -> None:
    """The options that say what is known about judges."""
    made.add_argument(
        "--judge-card",
        metavar="FILE",
        action="append",
        default=[],
        help="the card of a judge (assay judge card); may be repeated",
    )
    made.add_argument(
        "--now",
        metavar="TIME",
        help="the moment to count a card's age from, as 2026-11-15T10:00:00Z (default: now)",
    )


def moment(text: str | None) -> datetime | None:
    """A moment in UTC, or None where none is given."""
    if text is None:
        return None
    try:
        found = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        raise UsageError(
            "CLI-001", f"--now is {text!r}; it is a moment as 2026-11-15T10:00:00Z."
        ) from None
    if found.tzinfo is None:
        raise UsageError(
            "CLI-001",
            f"--now is {text!r}, without a time zone.",
            fix="Write it in UTC, with a Z at the end.",
        )
    return found.astimezone(UTC)


def add_library(made: argparse.ArgumentParser) -> None:
    """The option for a team's own shelf."""
    made.add_argument(
        "--library",
        metavar="DIR",
        help=(
            "a folder with profiles/, policies/ and rubrics/ of your own (default: $ASSAY_LIBRARY)"
        ),
    )


def shelf_of(options: argparse.Namespace) -> Shelf:
    """The shelf the options ask for."""
    from assay.library.shelf import Shelf

    folder = options.library or os.environ.get("ASSAY_LIBRARY")
    return Shelf(folder) if folder else Shelf()


def add_output(made: argparse.ArgumentParser, formats: tuple[str, ...]) -> None:
    """The option `-o`, which may be repeated."""
    made.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        action="append",
        default=[],
        help=(
            f"write to a file; the extension picks the format ({' '.join(formats)}); may be"
            " repeated"
        ),
    )
    made.set_defaults(formats=formats)


def outputs(options: argparse.Namespace) -> list[str]:
    """The output files, each with an extension that this verb writes."""
    seen: set[str] = set()
    inputs = {os.path.realpath(path) for path in getattr(options, "files", ()) if path != "-"}
    for path in options.output:
        if os.path.realpath(path) in inputs:
            raise UsageError(
                "CLI-001",
                f"'{path}' is read and would be overwritten.",
                fix="Write to another file.",
            )
        extension = os.path.splitext(path)[1]
        if extension not in options.formats:
            raise UsageError(
                "CLI-001",
                f"the extension of '{path}' is none this verb writes.",
                fix=f"They are {', '.join(options.formats)}.",
            )
        if os.path.isdir(path):
            raise UsageError("FIL-008", "is a directory.", where=path)
        if os.path.abspath(path) in seen:
            raise UsageError("CLI-001", f"'{path}' is given twice.")
        seen.add(os.path.abspath(path))
    return list(options.output)


def colour(stream: Any = None) -> bool:
    """Whether to use colour: on a terminal, unless NO_COLOR or CI is set."""
    target = stream or sys.stdout
    return bool(target.isatty() and not os.environ.get("NO_COLOR") and not os.environ.get("CI"))


_CODES = {"green": "32", "red": "31", "yellow": "33", "bold": "1", "dim": "2"}


def paint(text: str, *names: str, on: bool) -> str:
    """Text in colour, or as it is."""
    return f"\x1b[{';'.join(_CODES[name] for name in names)}m{text}\x1b[0m" if on else text


def give(options: argparse.Namespace, document: Any, show: Callable[[], object]) -> None:
    """The document to every output file, and to standard output: as JSON, or in the words of
    `show`.
    """
    from assay.files.atomic import atomic_write
    from assay.views.documents import pretty

    for path in outputs(options):
        with atomic_write(path) as stream:
            stream.write(pretty(document))
    if options.json:
        print_json(document)
    else:
        show()


def print_json(document: Any) -> None:
    """One JSON document on standard output."""
    from assay.views.documents import pretty

    sys.stdout.buffer.write(pretty(document))
    sys.stdout.buffer.flush()
