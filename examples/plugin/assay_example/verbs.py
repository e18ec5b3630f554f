"""`assay words FILE`."""

from pathlib import Path

from assay.cli import options as opt
from assay.cli.frame import Command, arg


def run(options):
    """Count the words of a file."""
    words = len(Path(options.file).read_text(encoding="utf-8").split())
    return opt.give(options, {"words": words}, [f"{words} words"])


COMMANDS = {
    "words": Command(
        run, "Count the words of a file.", "assay words answer.txt", (arg("file", metavar="FILE"),)
    )
}
