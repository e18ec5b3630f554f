"""The comments of a pull request, by GitHub's API: find ours, create it, update it.

Ours begins with a marker and was written by the account of the token: a comment that somebody else
began with the marker could be edited by them after we wrote a verdict into it. The token is sent to
the API alone, never over plain HTTP to another machine, and is in no message.
"""

from __future__ import annotations

import json
import re
import urllib.error
import urllib.request
from http.client import HTTPException
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from assay.errors import UsageError
from assay.files.json_files import parse_json
from assay.files.redirects import staying_opener

MAX_PAGES = 100
PER_PAGE = 100
MAX_REPLY = 16 * 1024 * 1024
TIMEOUT_S = 30
_REPOSITORY = re.compile(r"[A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+")
_LOCAL = ("127.0.0.1", "localhost", "::1")


class PullRequest(NamedTuple):
    """Where a comment goes."""

    api: str
    repository: str
    number: int

    @property
    def name(self) -> str:
        """`owner/name#number`."""
        return f"{self.repository}#{self.number}"


class PostedComment(NamedTuple):
    """What became of a comment: created, updated or unchanged."""

    action: str
    id: int
    url: str


class _Reply(NamedTuple):
    status: int
    tree: Any


class GitHub:
    """The API of GitHub with one token, for one pull request."""

    def __init__(self, place: PullRequest, token: str) -> None:
        if not _is_safe(place.api):
            raise _refused(
                f"{place.api!r} is not an https address, and a token would be readable on the way.",
                "Name the API as --api https://...",
            )
        if not _REPOSITORY.fullmatch(place.repository) or ".." in place.repository:
            raise _refused(
                f"{place.repository!r} is not a repository.", "Name it with --repo OWNER/NAME."
            )
        if not token.isascii() or not token.isprintable() or " " in token:
            # the text of the token itself must not get into a message, nor a line break into a
            # header
            raise _refused("the token contains blanks or unusual characters.", "Copy it again.")
        self._place = place
        self._token = token
        self._opener = staying_opener()
        self._base = f"{place.api.rstrip('/')}/repos/{place.repository}"

    def put_comment(self, marker: str, body: str) -> PostedComment:
        """Update the comment that begins with the marker, or create it."""
        found = self._find(marker)
        if found is None:
            url = f"{self._base}/issues/{self._place.number}/comments"
            made = self._call("POST", url, {"body": body}).tree
            return PostedComment("created", *_identity(made))
        if found.get("body") == body:
            return PostedComment("unchanged", *_identity(found))
        identity, _ = _identity(found)
        made = self._call("PATCH", f"{self._base}/issues/comments/{identity}", {"body": body}).tree
        return PostedComment("updated", *_identity(made))

    def _find(self, marker: str) -> dict[str, Any] | None:
        login = self._login()
        for page in range(1, MAX_PAGES + 1):
            listed = self._call(
                "GET",
                f"{self._base}/issues/{self._place.number}/comments"
                f"?per_page={PER_PAGE}&page={page}",
            ).tree
            if not isinstance(listed, list):
                raise _refused("the API lists comments in an unknown form.", "Check --api.")
            for comment in listed:
                if isinstance(comment, dict) and _is_ours(comment, marker, login):
                    return comment
            if len(listed) < PER_PAGE:
                return None
        raise _refused(
            f"{self._place.name} has more than {MAX_PAGES * PER_PAGE:,} comments.",
            "Write the result to the job summary instead: --step-summary.",
        )

    def _login(self) -> str | None:
        """The account of the token; None for the token of a job or an app, which may not ask."""
        reply = self._call("GET", f"{self._place.api.rstrip('/')}/user", accepted=(200, 403, 404))
        login = reply.tree.get("login") if isinstance(reply.tree, dict) else None
        return login if reply.status == 200 and isinstance(login, str) else None

    def _call(
        self, method: str, url: str, body: Any = None, *, accepted: tuple[int, ...] = (200, 201)
    ) -> _Reply:
        data = None if body is None else json.dumps(body).encode()
        headers = {
            "Accept": "application/vnd.github+json",
            "Authorization": f"Bearer {self._token}",
            "Content-Type": "application/json",
            "User-Agent": "assay",
            "X-GitHub-Api-Version": "2022-11-28",
        }
        request = urllib.request.Request(  # noqa: S310
            url, data=data, headers=headers, method=method
        )  # https, or this machine
        try:
            with self._opener.open(request, timeout=TIMEOUT_S) as answer:
                status, text = answer.status, answer.read(MAX_REPLY + 1)
        except urllib.error.HTTPError as error:
            with error:
                status, text = error.code, error.read(MAX_REPLY + 1)
        except (OSError, ValueError, HTTPException) as error:
            reason = getattr(error, "reason", None) or type(error).__name__
            raise self._failed(f"the API can't be reached: {reason}.", "Try again.") from None
        try:
            tree = parse_json(text) if len(text) <= MAX_REPLY else None
        except ValueError:
            tree = None
        if status in accepted and tree is not None:
            return _Reply(status, tree)
        raise self._refusal(status, tree)

    def _refusal(self, status: int, tree: Any) -> UsageError:
        told = tree.get("message") if isinstance(tree, dict) else None
        why = f"the API answered {status}" + (f": {told[:200]}" if isinstance(told, str) else "")
        if status == 401:
            fix = "The token is not valid, or has expired."
        elif status in (403, 404):
            fix = (
                "The token can't write comments there. A job needs `permissions: {pull-requests:"
                " write}`; a pull request from a fork gets a token that only reads."
            )
        elif status == 429 or status >= 500:
            fix = "Try again."
        else:
            fix = "Check --api, --repo and --pull."
        return self._failed(f"{why}.", fix)

    def _failed(self, message: str, fix: str) -> UsageError:
        return _refused(
            message.replace(self._token, "***"), fix, where=f"comment on {self._place.name}"
        )


def _is_safe(api: str) -> bool:
    """Whether a token may be sent there: by https, or within this machine."""
    try:
        parts = urlsplit(api)
        local = parts.hostname in _LOCAL
    except ValueError:
        return False
    return bool(parts.netloc) and (parts.scheme == "https" or (parts.scheme == "http" and local))


def _is_ours(comment: dict[str, Any], marker: str, login: str | None) -> bool:
    body, user = comment.get("body"), comment.get("user")
    if not isinstance(body, str) or not body.startswith(marker) or not isinstance(user, dict):
        return False
    return user.get("type") == "Bot" if login is None else user.get("login") == login


def _identity(comment: Any) -> tuple[int, str]:
    identity = comment.get("id") if isinstance(comment, dict) else None
    if not isinstance(identity, int):
        raise _refused("the API answers in an unknown form.", "Check --api.")
    return identity, str(comment.get("html_url", ""))


def _refused(message: str, fix: str, *, where: str = "") -> UsageError:
    return UsageError("CLI-002", message, where=where, fix=fix)
