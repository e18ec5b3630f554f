"""A comment on a code host, by its API: find ours, create it, update it.

Ours begins with a marker and was written by the account of the token: a comment that somebody else
began with the marker could be edited by them after we wrote a verdict into it. The token is sent
only to the API, never over plain HTTP to another machine, and never appears in a message. What
differs from host to host: `pull_request` (GitHub) and `merge_request` (GitLab).
"""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from http.client import HTTPException
from typing import Any, ClassVar, NamedTuple
from urllib.parse import urlsplit

from assay.errors import UsageError
from assay.files.json_files import parse_json
from assay.files.redirects import staying_opener

MAX_PAGES = 100
PER_PAGE = 100
MAX_REPLY = 16 * 1024 * 1024
TIMEOUT_S = 30
_LOCAL = ("127.0.0.1", "localhost", "::1")


class CommentPlace(NamedTuple):
    """Where a comment goes: a pull request or a merge request."""

    api: str
    repository: str
    number: int


class PostedComment(NamedTuple):
    """What happened to a comment: created, updated or unchanged."""

    action: str
    id: int
    url: str


class ApiReply(NamedTuple):
    """What the API answered."""

    status: int
    tree: Any


class CommentApi:
    """The API of a code host with one token, for one place."""

    update_method: ClassVar[str] = "PATCH"

    def __init__(self, place: CommentPlace, token: str) -> None:
        if not is_safe(place.api):
            raise refused(
                f"{place.api!r} is not an https address, and a token would be readable on the way.",
                "Name the API as --api https://...",
            )
        if not token.isascii() or not token.isprintable() or " " in token:
            # the text of the token itself must not get into a message, nor a line break into a
            # header
            raise refused("the token contains blanks or unusual characters.", "Copy it again.")
        self.place = place
        self.api = place.api.rstrip("/")
        self.token = token
        self._opener = staying_opener()

    # --- what differs from host to host

    @property
    def place_name(self) -> str:
        """The place as people write it."""
        raise NotImplementedError

    @property
    def comments_url(self) -> str:
        """Where comments are listed and created."""
        raise NotImplementedError

    def comment_url(self, identity: int) -> str:
        """Where a comment is updated."""
        raise NotImplementedError

    def headers(self) -> dict[str, str]:
        """The headers that carry the token."""
        raise NotImplementedError

    def account(self) -> str | None:
        """The account of the token; None if it can't be asked for."""
        raise NotImplementedError

    def is_own(self, comment: dict[str, Any], account: str | None) -> bool:
        """Whether the account wrote the comment."""
        raise NotImplementedError

    def web_address(self, comment: dict[str, Any]) -> str:
        """Where people see the comment."""
        raise NotImplementedError

    def fix_of(self, status: int) -> str:
        """What to do where the token may not write."""
        raise NotImplementedError

    # --- what is the same

    def put_comment(self, marker: str, body: str) -> PostedComment:
        """Update the comment that begins with the marker, or create it."""
        found = self._find(marker)
        if found is None:
            made = self.call("POST", self.comments_url, {"body": body}).tree
            return PostedComment("created", *self._identity(made))
        if found.get("body") == body:
            return PostedComment("unchanged", *self._identity(found))
        identity, _ = self._identity(found)
        made = self.call(self.update_method, self.comment_url(identity), {"body": body}).tree
        return PostedComment("updated", *self._identity(made))

    def _find(self, marker: str) -> dict[str, Any] | None:
        account = self.account()
        for page in range(1, MAX_PAGES + 1):
            url = f"{self.comments_url}?per_page={PER_PAGE}&page={page}"
            listed = self.call("GET", url).tree
            if not isinstance(listed, list):
                raise refused("the API lists comments in an unknown form.", "Check --api.")
            for comment in listed:
                if (
                    isinstance(comment, dict)
                    and isinstance(comment.get("body"), str)
                    and comment["body"].startswith(marker)
                    and self.is_own(comment, account)
                ):
                    return comment
            if len(listed) < PER_PAGE:
                return None
        raise refused(
            f"{self.place_name} has more than {MAX_PAGES * PER_PAGE:,} comments.",
            "Keep the text as a file of the job instead.",
        )

    def call(
        self, method: str, url: str, body: Any = None, *, accepted: tuple[int, ...] = (200, 201)
    ) -> ApiReply:
        """Ask the API; a status that is not accepted is an error that says what to do."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json", "User-Agent": "assay", **self.headers()}
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
            return ApiReply(status, tree)
        raise self._refusal(status, tree)

    def _refusal(self, status: int, tree: Any) -> UsageError:
        told = (tree.get("message") or tree.get("error")) if isinstance(tree, dict) else None
        why = f"the API answered {status}" + (f": {told[:200]}" if isinstance(told, str) else "")
        if status in (401, 403, 404):
            fix = self.fix_of(status)
        elif status == 429 or status >= 500:
            fix = "Try again."
        else:
            fix = "Check --api, --repo and --pull."
        return self._failed(f"{why}.", fix)

    def _failed(self, message: str, fix: str) -> UsageError:
        return refused(
            message.replace(self.token, "***"), fix, where=f"comment on {self.place_name}"
        )

    def _identity(self, comment: Any) -> tuple[int, str]:
        identity = comment.get("id") if isinstance(comment, dict) else None
        if not isinstance(identity, int):
            raise refused("the API answers in an unknown form.", "Check --api.")
        return identity, self.web_address(comment)


def is_safe(api: str) -> bool:
    """Whether a token may be sent there: by https, or within this machine."""
    try:
        parts = urlsplit(api)
        local = parts.hostname in _LOCAL
    except ValueError:
        return False
    return bool(parts.netloc) and (parts.scheme == "https" or (parts.scheme == "http" and local))


def refused(message: str, fix: str, *, where: str = "") -> UsageError:
    """An error of a comment."""
    return UsageError("CLI-002", message, where=where, fix=fix)
