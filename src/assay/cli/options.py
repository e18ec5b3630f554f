"""What the verbs share: their parsers, the options that choose profile and policy, and where output
goes.
"""

from __future__ import annotations

import os
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from assay.errors import ExitCode, UsageError, count, printable
from assay.grouping import grouped

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from assay.cli.parsing import Options
    from assay.files.inputs import Source
    from assay.library.shelf import Shelf


ENVIRONMENT = {
    "ASSAY_DB": "the ledger of `--store` and `--db`, if they name none",
    "ASSAY_LIBRARY": (
        "a folder of your own profiles, policies and rubrics, if `--library` names none; it"
        " never changes what a shipped name means"
    ),
    "CI": "turns off colour and live progress",
    "GITHUB_STEP_SUMMARY": "the file that `--step-summary` appends to",
    "NO_COLOR": "turns off colour",
    "OTEL_EXPORTER_OTLP_*": (
        "where `grade`, `run` and `serve` send evaluation events, with OpenTelemetry's own names"
        " and meanings"
    ),
    "XDG_CONFIG_HOME": "the folder of your settings, in which `assay trust` remembers files",
    "TERM": "`dumb` turns off the rich terminal output",
    "JAVA_HOME": "the Java that Spark runs on",
    "SPARK_REMOTE": "the Spark Connect server, sc://HOST:PORT",
}
"""Every variable of the environment that a command reads, and what it does. Names of keys and
headers come from your own files.
"""


def moment(text: str | None) -> datetime | None:
    """A moment in UTC, or None if none is given."""
    if text is None:
        return None
    try:
        moment_read = datetime.fromisoformat(text.replace("Z", "+00:00"))
        in_utc = moment_read.astimezone(UTC)
    except (ValueError, OverflowError):
        raise UsageError(
            "CLI-001", f"--now is {text!r}; write a time such as 2026-11-15T10:00:00Z."
        ) from None
    if moment_read.tzinfo is None:
        raise UsageError(
            "CLI-001",
            f"--now is {text!r}, without a time zone.",
            fix="Write it in UTC, with a Z at the end.",
        )
    return in_utc


def shelf_of(options: Options) -> Shelf:
    """The shelf the options ask for."""
    from assay.library.shelf import Shelf

    folder = options.library or os.environ.get("ASSAY_LIBRARY")
    return Shelf(folder) if folder else Shelf()


def unless_configured(options: Options, verb: str, option: str, text: str) -> str:
    """The text of an option in a hint, with a space before it; nothing if `assay.yaml` sets that
    option for the verb.
    """
    config = options.config
    names = {} if config is None else config.spec.commands.get(verb, {})
    return "" if option in names else f" {text}"


def outputs(options: Options, *inputs: str | Source | None) -> list[str]:
    """The output files, each with an extension that this verb writes. None is a file that the
    command reads: `inputs`, besides its `files`.
    """
    if "formats" not in options:
        return []
    seen: set[str] = set()
    read = (*getattr(options, "files", ()), *inputs)
    names = (each if isinstance(each, str) else each.name for each in read if each)
    taken = {os.path.realpath(name) for name in names if name and name != "-"}
    for path in options.output:
        if os.path.realpath(path) in taken:
            raise UsageError(
                "CLI-001",
                f"'{path}' is read and would be overwritten.",
                fix="Write to another file.",
            )
        extension = os.path.splitext(path)[1]
        if extension not in options.formats:
            raise UsageError(
                "CLI-001",
                f"can't write '{path}': "
                + (f"{extension} is not supported" if extension else "it has no extension")
                + ".",
                fix=f"It writes {', '.join(options.formats)}.",
            )
        if os.path.isdir(path):
            raise UsageError("FIL-008", "is a directory.", where=path)
        if os.path.abspath(path) in seen:
            raise UsageError("CLI-001", f"'{path}' is given twice.")
        seen.add(os.path.abspath(path))
    return list(options.output)


_CODES = {"green": "32", "red": "31", "yellow": "33", "bold": "1", "dim": "2"}


def paint(text: str, *names: str) -> str:
    """Text in colour on a terminal, unless NO_COLOR or CI is set; else as it is."""
    if not names or not sys.stdout.isatty() or os.environ.get("NO_COLOR") or os.environ.get("CI"):
        return text
    return f"\x1b[{';'.join(_CODES[name] for name in names)}m{text}\x1b[0m"


def give(
    options: Options,
    document: Any,
    show: Callable[[], object] | Iterable[str],
    code: int = ExitCode.PASSED,
    *,
    forms: Mapping[str, Callable[[Any], bytes]] | None = None,
    written: Iterable[str] | None = None,
) -> int:
    """End a verb with this exit code: write its document to every output file, as JSON or in the
    form of the extension, and print it, as JSON or by `show`, which is a function or lines.
    `written` are output files that are there already, instead.
    """
    from assay.canon import pretty
    from assay.files.atomic import write_file

    paths = outputs(options) if written is None else []
    for path in paths:
        write_file(path, (forms or {}).get(os.path.splitext(path)[1], pretty)(document))
    if options.json:
        print_json(document)
    elif callable(show):
        show()
    else:
        print_lines(show)
    report_written(options, written or paths)
    return code


def step_summary(options: Options) -> str | None:
    """The file of the page of a CI step, if `--step-summary` asks for it and the job has one."""
    if not options.step_summary:
        return None
    target = os.environ.get("GITHUB_STEP_SUMMARY")
    if not target:
        note("$GITHUB_STEP_SUMMARY is not set; no step summary was written.")
    return target or None


def append_summary(target: str, page: bytes) -> None:
    """Add a page to what other steps of the job wrote."""
    try:
        with open(target, "ab") as stream:
            stream.write(page)
    except OSError as error:
        raise UsageError(
            "FIL-008", f"the step summary cannot be written: {error.strerror}.", where=target
        ) from None


def json_lines(rows: Iterable[Any]) -> bytes:
    """Rows as JSON Lines."""
    from assay.canon import encode

    return b"".join(encode(row) + b"\n" for row in rows)


def report_written(options: Options, paths: Iterable[str]) -> None:
    """Name the files that were written on standard error, unless a program reads the output."""
    if not options.json:
        sys.stdout.flush()
        sys.stderr.writelines(f"wrote {printable(path)}\n" for path in paths)


def note(text: str) -> None:
    """Print a note on standard error."""
    sys.stderr.write(f"assay: {printable(text)}\n")


def warn(text: str) -> None:
    """Print a warning on standard error."""
    sys.stderr.write(f"warning: {printable(text)}\n")


def found_lines(findings: Iterable[tuple[str, str]], files: int, what: str) -> Iterator[str]:
    """What a linter found in these files, as a file and a text, one file after another."""
    texts = grouped((file, f"  {printable(text)}") for file, text in findings)
    for file, lines in texts.items():
        yield f"{printable(file)}: {count(len(lines), what)}"
        yield from lines
    if not texts:
        yield f"{count(files, 'file')} checked, nothing found."


class Alternatives(NamedTuple):
    """Which of some options are set, where one excludes the others."""

    given: list[str]
    options: Options
    """The options without those of `assay.yaml` that one on the command line replaces."""


def given_of(options: Options, *names: str) -> Alternatives:
    """Which of these options are set, where one excludes the others."""
    named = [name for name in names if getattr(options, name)]
    sources = options.sources
    given = [name for name in named if sources.get(name) == "command line"] or named
    replaced = dict.fromkeys(set(named) - set(given))
    return Alternatives(given, options.with_values(**replaced))


def print_lines(lines: Iterable[str]) -> None:
    """Print lines to standard output."""
    sys.stdout.write("".join(f"{line}\n" for line in lines))


def print_json(document: Any) -> None:
    """Print one JSON document to standard output."""
    from assay.canon import pretty

    sys.stdout.buffer.write(pretty(document))
    sys.stdout.buffer.flush()
