"""What the actions of `assay measure` share: their parser, the lines they read, and where the
document goes.
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from assay.cli import options as opt
from assay.cli.ledger import add_store, storing_result
from assay.errors import ExitCode, InputError, UsageError
from assay.files.json_files import Unread, stream_documents
from assay.records.grade import ENGINE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


def make_parser(kind: str, what: str, example: str) -> argparse.ArgumentParser:
    """A parser with the options that every measure has."""
    made = opt.parser(f"measure {kind}", what, example)
    opt.add_output(made, (".json",))
    add_store(made)
    made.set_defaults(measured=f"measure {kind}")
    return made


def parse(made: argparse.ArgumentParser, argv: list[str]) -> argparse.Namespace:
    """The options of a measure. An output that is also read, and a ledger that cannot be opened,
    are told of before any work is done.
    """
    options = made.parse_args(argv)
    check_outputs(
        options,
        *(
            value
            for name, value in vars(options).items()
            if isinstance(value, str) and name != "measured"
        ),
    )
    with storing_result(options, options.measured):
        return options


def check_outputs(options: argparse.Namespace, *inputs: str | None) -> None:
    """Refuse an output that cannot be written, or is read, before any work is done."""
    opt.outputs(argparse.Namespace(**{**vars(options), "files": [path for path in inputs if path]}))


def finish(
    options: argparse.Namespace,
    document: dict[str, Any],
    lines: Iterable[str],
    *,
    stored: dict[str, Any] | None = None,
) -> int:
    """Store the document where that is asked for, write it to every output, and print it or the
    lines.

    `stored` is the document without what another run of the same would not say again, such as how
    long it took: the same measurement twice is one record.
    """
    opt.outputs(options)  # what cannot be written is said before any work
    document = {**document, **ENGINE}
    with storing_result(options, options.measured) as result:
        if result is not None:
            result.put(document if stored is None else {**stored, **ENGINE})
    opt.give(options, document, lambda: sys.stdout.writelines(f"{line}\n" for line in lines))
    return ExitCode.PASSED


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
            "CLI-001", f"--k {text!r} is no list of whole numbers.", fix="Write --k 1,5."
        ) from None


def trees(path: str) -> Iterator[Any]:
    """The documents of a file; a line that is none ends it all."""
    for document in stream_documents(path):
        if isinstance(document, Unread):
            raise InputError(
                document.fault.code, document.fault.message, where=path, faults=[document.fault]
            )
        yield document.tree
