"""`assay report comment`: a Markdown file as the body of a comment on a pull request or a merge
request. The GitHub Action and the GitLab job post it with `gh` and `glab`.
"""

from __future__ import annotations

import re

from assay import __version__
from assay.cli import options as opt
from assay.cli.frame import Command, Options, arg
from assay.errors import InputError, UsageError
from assay.files.inputs import open_input

MAX_FILE = 4 * 1024 * 1024
MAX_BODY = 65_000
"""GitHub refuses a comment of more than 65,536 characters."""
_KEY = re.compile(r"[A-Za-z0-9_.-]{1,60}")
_COMMIT = re.compile(r"([0-9a-f]{7,64})?")


def _comment(options: Options) -> int:
    if not _KEY.fullmatch(options.key):
        raise UsageError(
            "CLI-001",
            f"--key is {options.key!r}; it may contain letters, digits and . _ - only.",
            fix="Such as --key nightly.",
        )
    if not _COMMIT.fullmatch(options.commit):
        raise UsageError("CLI-001", f"--commit is {options.commit!r}; write its SHA.")
    body = _body(f"<!-- assay:{options.key} -->\n", _read(options.file), options.commit)
    return opt.give(
        options,
        {"body": body},
        [] if options.output else body.splitlines(),
        forms={".md": lambda document: str(document["body"]).encode()},
    )


def _read(path: str) -> str:
    with open_input(path) as stream:
        data = stream.read(MAX_FILE + 1)
    if len(data) > MAX_FILE:
        raise InputError("FIL-004", f"is larger than {MAX_FILE:,} bytes.", where=path)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        raise InputError("FIL-002", "is not UTF-8 text.", where=path) from None
    if not text.strip():
        raise InputError(
            "FIL-005", "is empty.", where=path, fix="`assay gate ... -o decision.md` writes one."
        )
    return text


def _body(marker: str, text: str, commit: str) -> str:
    """The comment: marker, text, and the commit it is about, so that a stale comment is
    recognisable.
    """
    about = [f"Assay {__version__}", *([f"commit {commit[:10]}"] if commit else [])]
    footer = f"\n\n<sub>{' · '.join(about)}</sub>\n"
    room = MAX_BODY - len(marker) - len(footer) - 80
    text = text.strip()
    if len(text) > room:
        kept = text[:room].rpartition("\n")[0] or text[:room]
        text = f"{kept}\n\n**Cut here: the whole text is too long for a comment.**"
    return f"{marker}{text}{footer}"


COMMANDS = {
    "report comment": Command(
        _comment,
        "Write the body of a comment on a pull request: the text, cut to what a comment can hold,"
        " with the version and the commit. `gh` or `glab` posts it.",
        "assay report comment decision.md -o comment.md",
        (
            arg("file", metavar="FILE", help="the text, such as `assay gate ... -o decision.md`"),
            arg(
                "--key",
                kind="text",
                trust="freely",
                metavar="NAME",
                default="gate",
                help="the name of the comment, in a marker on its first line (default: gate)",
            ),
            arg(
                "--commit",
                kind="text",
                trust="freely",
                metavar="SHA",
                default="",
                help="the commit that the text is about",
            ),
        ),
        formats=(".md",),
        configured=False,
    ),
}
