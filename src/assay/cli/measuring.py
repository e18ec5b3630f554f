"""What the actions of `assay measure` share: their options, the lines they read, and where the
document goes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, NamedTuple

from assay.cli import options as opt
from assay.cli.frame import STORE, Argument, Command, Options, arg
from assay.cli.ledger import storing_result
from assay.errors import UsageError
from assay.files.json_files import read_documents
from assay.records.grade import ENGINE


class Measured(NamedTuple):
    """What a measure found: the document, and the lines for a terminal."""

    document: dict[str, Any]
    lines: Iterable[str]
    stored: dict[str, Any] | None = None
    """The document without what varies between runs, such as durations: the same measurement is one
    record.
    """


def measure(
    kind: str,
    take: Callable[[Options], Measured],
    description: str,
    example: str,
    *arguments: Argument,
) -> Command:
    """The command of one kind, with the options that every measure has."""
    return Command(
        partial(_run, f"measure {kind}", take),
        description,
        example,
        (*arguments, *STORE),
        formats=(".json",),
    )


K = arg(
    "--k",
    kind="text",
    trust="freely",
    metavar="K,...",
    default="1",
    help="how many attempts to draw (default: 1)",
)


def _run(verb: str, take: Callable[[Options], Measured], options: Options) -> int:
    given = [value for name, value in vars(options).items() if name not in ("output", "formats")]
    # before any work: an output that is read or cannot be written, a ledger that cannot be opened
    inputs = [text for value in given for text in (value if isinstance(value, list) else [value])]
    opt.outputs(options, *(text for text in inputs if isinstance(text, str)))
    with storing_result(options, verb):
        pass
    document, lines, stored = take(options)
    document = {**document, **ENGINE}
    with storing_result(options, verb) as result:
        if result is not None:
            result.put(document if stored is None else {**stored, **ENGINE})
    return opt.give(options, document, lines)


def shown(value: Any) -> str:
    """A number for a person; "none" for none.

    >>> shown(0.5), shown(None), shown(3)
    ('0.5000', 'none', '3')
    """
    return "none" if value is None else f"{value:.4f}" if isinstance(value, float) else str(value)


def read_ks(text: str) -> list[int]:
    """The whole numbers of `--k 1,5`."""
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise UsageError(
            "CLI-001", f"--k {text!r} is not a list of whole numbers.", fix="Write --k 1,5."
        ) from None


def trees(path: str) -> Iterator[Any]:
    """The documents of a file; an unreadable line is an error."""
    return (document.tree for document in read_documents(path))
