"""`assay report comment`: a Markdown file as a comment on a GitHub pull request or a GitLab merge
request, updated in place. The environment of the job determines which.

Only the text is posted. The exit code of the gate decides whether the build continues; this command
neither knows nor changes it.
"""

from __future__ import annotations

import os
import re
from typing import Any

from assay import __version__
from assay.cli import options as opt
from assay.cli.comment_api import CommentApi, CommentPlace, GitHub, GitLab
from assay.cli.frame import Command, Options, arg
from assay.errors import AssayError, InputError, UsageError, printable
from assay.files.inputs import open_input
from assay.files.json_files import member, parse_json

API = "https://api.github.com"
GITLAB_API = "https://gitlab.com/api/v4"
MAX_FILE = 4 * 1024 * 1024
MAX_EVENT = 32 * 1024 * 1024
MAX_BODY = 65_000
"""GitHub refuses a comment of more than 65,536 characters."""
_KEY = re.compile(r"[A-Za-z0-9_.-]{1,60}")
_PULL = re.compile(r"refs/pull/([0-9]{1,9})/")


def _comment(options: Options) -> int:
    if not _KEY.fullmatch(options.key):
        raise UsageError(
            "CLI-001",
            f"--key is {options.key!r}; it may contain letters, digits and . _ - only.",
            fix="Such as --key nightly.",
        )
    event = _event()
    host = _gitlab(options) if _is_gitlab(options) else _github(options, event)
    marker = f"<!-- assay:{options.key} -->\n"
    body = _body(marker, _read(options.file), event)
    posted = host.put_comment(marker.strip(), body)
    place = host.place
    document = {**posted._asdict(), "repository": place.repository, "pull": place.number}
    line = f"{posted.action} {printable(posted.url or host.place_name)}"
    return opt.give(options, document, [line])


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
    """GitHub's description of the event that started the job; empty outside a job."""
    path = os.environ.get("GITHUB_EVENT_PATH")
    if not path:
        return {}
    try:
        with open_input(path) as stream:
            tree = parse_json(stream.read(MAX_EVENT))
    except (AssayError, ValueError):
        return {}
    return tree if isinstance(tree, dict) else {}


def _is_gitlab(options: Options) -> bool:
    """Whether the comment goes to GitLab: by the address of the API, else by whose job this is."""
    if options.api:
        return bool(options.api.rstrip("/").endswith("/api/v4"))
    return bool(os.environ.get("CI_API_V4_URL")) and not os.environ.get("GITHUB_EVENT_PATH")


def _github(options: Options, event: dict[str, Any]) -> CommentApi:
    repository = options.repo or os.environ.get("GITHUB_REPOSITORY", "")
    number = options.pull
    if number is None:
        named = member(event, "pull_request", "number")
        ref = _PULL.match(os.environ.get("GITHUB_REF", ""))
        number = named if isinstance(named, int) else int(ref[1]) if ref else None
    what = "In a job that a pull request started, GitHub's variables name it."
    api = options.api or os.environ.get("GITHUB_API_URL") or API
    place = _place(api, repository, number, f"which pull request to comment on. {what}")
    variable = options.token_env or "GITHUB_TOKEN"
    token = os.environ.get(variable, "").strip()
    if not token:
        raise _no_token(
            variable,
            f"{place.repository}#{place.number}",
            f'In a GitHub job set `env: {{{variable}: "${{{{ github.token }}}}"}}` and'
            " `permissions: {pull-requests: write}`.",
        )
    return GitHub(place, token)


def _gitlab(options: Options) -> CommentApi:
    text = os.environ.get("CI_MERGE_REQUEST_IID", "")
    number = options.pull
    if number is None:
        number = int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None
    repository = options.repo or os.environ.get("CI_PROJECT_PATH", "")
    what = "In a merge request pipeline, GitLab's variables name it."
    api = options.api or os.environ.get("CI_API_V4_URL") or GITLAB_API
    place = _place(api, repository, number, f"which merge request to comment on. {what}")
    variable = options.token_env or "GITLAB_TOKEN"
    token = os.environ.get(variable, "").strip()
    job = "" if token or options.token_env else os.environ.get("CI_JOB_TOKEN", "").strip()
    if not token and not job:
        raise _no_token(
            variable,
            f"{place.repository}!{place.number}",
            "Make a project access token with the scope `api`, and store it as the masked"
            f" variable {variable}.",
        )
    project = os.environ.get("CI_PROJECT_URL", "")
    page = f"{project}/-/merge_requests/{number}" if project and not options.repo else ""
    return GitLab(place, token or job, job=not token, page=page)


def _place(api: str, repository: str, number: int | None, unclear: str) -> CommentPlace:
    missing = [
        text
        for text, value in (("--repo OWNER/NAME", repository), ("--pull NUMBER", number))
        if not value
    ]
    if missing or number is None or number < 1:
        which, _, hint = unclear.partition(". ")
        raise UsageError(
            "CLI-002",
            f"it is not clear {which}.",
            fix=f"Give {' and '.join(missing) or 'a --pull of 1 or more'}. {hint}",
        )
    return CommentPlace(api, repository, number)


def _no_token(variable: str, place: str, fix: str) -> UsageError:
    return UsageError(
        "CLI-002", f"there is no token in ${variable}.", where=f"comment on {place}", fix=fix
    )


def _body(marker: str, text: str, event: dict[str, Any]) -> str:
    """The comment: marker, text, and the commit it is about, so that a stale comment is
    recognisable.
    """
    own = os.environ.get("GITHUB_SHA") or os.environ.get("CI_COMMIT_SHA")
    head = member(event, "pull_request", "head", "sha") or own
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


COMMANDS = {
    "report comment": Command(
        _comment,
        "Post a Markdown file as a comment on a GitHub pull request or a GitLab merge request, or"
        " update the one posted before. Exit 0 once it is posted.",
        "assay report comment decision.md",
        (
            arg("file", metavar="FILE", help="the text, such as `assay gate ... -o decision.md`"),
            arg(
                "--key",
                metavar="NAME",
                default="gate",
                help="which comment to update, where a pull request has several (default: gate)",
            ),
            arg(
                "--repo",
                metavar="NAME",
                help="OWNER/NAME (default: $GITHUB_REPOSITORY or $CI_PROJECT_PATH)",
            ),
            arg(
                "--pull",
                type=int,
                metavar="N",
                help=(
                    "number of the pull request or merge request (default: the one that started"
                    " this job)"
                ),
            ),
            arg(
                "--api",
                metavar="URL",
                help=(
                    f"GitHub's API, or GitLab's, which ends in /api/v4 (default: $GITHUB_API_URL or"
                    f" $CI_API_V4_URL, else {API})"
                ),
            ),
            arg(
                "--token-env",
                metavar="NAME",
                help=(
                    "the variable with the token (default: GITHUB_TOKEN; on GitLab GITLAB_TOKEN,"
                    " else CI_JOB_TOKEN)"
                ),
            ),
        ),
        configured=False,
    ),
}
