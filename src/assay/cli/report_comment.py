"""`assay report comment`: a Markdown file as a comment on a pull request, updated in place.

Only the text is posted. Whether the build goes on is the exit code of the gate, which this command
neither knows nor changes.
"""

from __future__ import annotations

import os
import re
import sys
from typing import TYPE_CHECKING, Any

from assay import __version__
from assay.cli import options as opt
from assay.cli.frame import Command, arg
from assay.cli.pull_request import GitHub, PullRequest
from assay.errors import AssayError, ExitCode, InputError, UsageError, printable
from assay.files.json_files import open_input, parse_json

if TYPE_CHECKING:
    import argparse

API = "https://api.github.com"
MAX_FILE = 4 * 1024 * 1024
MAX_EVENT = 32 * 1024 * 1024
MAX_BODY = 65_000
"""GitHub refuses a comment of more than 65,536 characters."""
_KEY = re.compile(r"[A-Za-z0-9_.-]{1,60}")
_PULL = re.compile(r"refs/pull/([0-9]{1,9})/")


def _comment(options: argparse.Namespace) -> int:
    if not _KEY.fullmatch(options.key):
        raise UsageError(
            "CLI-001",
            f"--key is {options.key!r}; it may contain letters, digits and . _ - only.",
            fix="Such as --key nightly.",
        )
    event = _event()
    place = _place(options, event)
    token = os.environ.get(options.token_env, "").strip()
    if not token:
        raise UsageError(
            "CLI-002",
            f"there is no token in ${options.token_env}.",
            where=f"comment on {place.name}",
            fix=(
                f"In a GitHub job set `env: {{{options.token_env}: "
                '"${{ github.token }}"}` and `permissions: {pull-requests: write}`.'
            ),
        )
    marker = f"<!-- assay:{options.key} -->\n"
    body = _body(marker, _read(options.file), event)
    posted = GitHub(place, token).put_comment(marker.strip(), body)
    if options.json:
        opt.print_json({**posted._asdict(), "repository": place.repository, "pull": place.number})
    else:
        sys.stdout.write(f"{posted.action} {printable(posted.url or place.name)}\n")
    return ExitCode.PASSED


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


def _event() -> dict[str, Any]:
    """What GitHub says of the event that started the job; empty outside of one."""
    path = os.environ.get("GITHUB_EVENT_PATH")
    if not path:
        return {}
    try:
        with open_input(path) as stream:
            tree = parse_json(stream.read(MAX_EVENT))
    except (AssayError, ValueError):
        return {}
    return tree if isinstance(tree, dict) else {}


def _place(options: argparse.Namespace, event: dict[str, Any]) -> PullRequest:
    repository = options.repo or os.environ.get("GITHUB_REPOSITORY", "")
    number = options.pull
    if number is None:
        named = _at(event, "pull_request", "number")
        ref = _PULL.match(os.environ.get("GITHUB_REF", ""))
        number = named if isinstance(named, int) else int(ref[1]) if ref else None
    missing = [
        text
        for text, value in (("--repo OWNER/NAME", repository), ("--pull NUMBER", number))
        if not value
    ]
    if missing or number is None or number < 1:
        raise UsageError(
            "CLI-002",
            "it is not clear which pull request to comment on.",
            fix=f"Give {' and '.join(missing) or 'a --pull from 1 on'}. In a job that a pull"
            " request started, GitHub's variables say it.",
        )
    api = options.api or os.environ.get("GITHUB_API_URL") or API
    return PullRequest(api, repository, number)


def _body(marker: str, text: str, event: dict[str, Any]) -> str:
    """The comment: marker, text, and what it is about, so that a stale one shows."""
    head = _at(event, "pull_request", "head", "sha") or os.environ.get("GITHUB_SHA")
    about = [f"Assay {__version__}"]
    if isinstance(head, str) and re.fullmatch(r"[0-9a-f]{7,64}", head):
        about.append(f"commit {head[:10]}")
    footer = f"\n\n<sub>{' · '.join(about)}</sub>\n"
    room = MAX_BODY - len(marker) - len(footer) - 80
    text = text.strip()
    if len(text) > room:
        kept = text[:room].rpartition("\n")[0] or text[:room]
        text = f"{kept}\n\n**Cut here: the whole text is too long for a comment.**"
    return f"{marker}{text}{footer}"


def _at(tree: Any, *path: str) -> Any:
    for key in path:
        tree = tree.get(key) if isinstance(tree, dict) else None
    return tree


COMMANDS = {
    "report comment": Command(
        _comment,
        "Post a Markdown file as a comment on a GitHub pull request, or update the one posted"
        " before. Exit 0 once it is there.",
        "assay report comment decision.md",
        (
            arg("file", metavar="FILE", help="the text, such as `assay gate ... -o decision.md`"),
            arg(
                "--key",
                metavar="NAME",
                default="gate",
                help="which comment to update, where a pull request has several (default: gate)",
            ),
            arg("--repo", metavar="NAME", help="OWNER/NAME (default: $GITHUB_REPOSITORY)"),
            arg(
                "--pull",
                type=int,
                metavar="N",
                help="number of the pull request (default: the one that started this job)",
            ),
            arg(
                "--api",
                metavar="URL",
                help=f"GitHub's API (default: $GITHUB_API_URL, else {API})",
            ),
            arg(
                "--token-env",
                metavar="NAME",
                default="GITHUB_TOKEN",
                help="the variable with the token (default: GITHUB_TOKEN)",
            ),
        ),
        configured=False,
    ),
}
