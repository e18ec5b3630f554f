"""A comment on a code host, by its API: find ours, create it, update it.

Ours begins with a marker and was written by the account of the token: a comment that somebody else
began with the marker could be edited by them after we wrote a verdict into it. The token is sent
only to the API, never over plain HTTP to another machine, and never appears in a message. What
differs from host to host: `GitHub` (pull requests) and `GitLab` (notes of merge requests).
"""

from __future__ import annotations

import json
import re
import urllib.error
import urllib.request
from http.client import HTTPException
from typing import Any, NamedTuple
from urllib.parse import quote, urlsplit

from assay.errors import UsageError
from assay.files.json_files import parse_json
from assay.files.redirects import staying_opener

MAX_PAGES = 100
PER_PAGE = 100
MAX_REPLY = 16 * 1024 * 1024
TIMEOUT_S = 30
_LOCAL = ("127.0.0.1", "localhost", "::1")
_REPOSITORY = re.compile(r"[A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+")
_PROJECT = re.compile(r"[0-9]{1,12}|[A-Za-z0-9_.-]+(?:/[A-Za-z0-9_.-]+)+")


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

    update_method = "PATCH"
    place_name: str
    """The place as people write it."""
    comments_url: str
    """Where comments are listed and created."""
    comment_url: str
    """Where a comment is updated, followed by its id."""
    headers: dict[str, str]
    """The headers that carry the token."""

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

    def put_comment(self, marker: str, body: str) -> PostedComment:
        """Update the comment that begins with the marker, or create it."""
        comment = self._find(marker)
        if comment is None:
            made = self.call("POST", self.comments_url, {"body": body}).tree
            return PostedComment("created", *self._identity(made))
        if comment.get("body") == body:
            return PostedComment("unchanged", *self._identity(comment))
        identity, _ = self._identity(comment)
        made = self.call(self.update_method, f"{self.comment_url}/{identity}", {"body": body}).tree
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
        headers = {"Content-Type": "application/json", "User-Agent": "assay", **self.headers}
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
        stated = (tree.get("message") or tree.get("error")) if isinstance(tree, dict) else None
        reason = f": {stated[:200]}" if isinstance(stated, str) else ""
        if status in (401, 403, 404):
            fix = self.fix_of(status)
        elif status == 429 or status >= 500:
            fix = "Try again."
        else:
            fix = "Check --api, --repo and --pull."
        return self._failed(f"the API answered {status}{reason}.", fix)

    def _failed(self, message: str, fix: str) -> UsageError:
        return refused(
            message.replace(self.token, "***"), fix, where=f"comment on {self.place_name}"
        )

    def _identity(self, comment: Any) -> tuple[int, str]:
        identity = comment.get("id") if isinstance(comment, dict) else None
        if not isinstance(identity, int):
            raise refused("the API answers in an unknown form.", "Check --api.")
        return identity, self.web_address(comment)


class GitHub(CommentApi):
    """The API of GitHub. Comments on a pull request are those of its issue."""

    def __init__(self, place: CommentPlace, token: str) -> None:
        super().__init__(place, token)
        if not _REPOSITORY.fullmatch(place.repository) or ".." in place.repository:
            raise refused(
                f"{place.repository!r} is not a repository.", "Name it with --repo OWNER/NAME."
            )
        issues = f"{self.api}/repos/{place.repository}/issues"
        self.place_name = f"{place.repository}#{place.number}"
        self.comments_url = f"{issues}/{place.number}/comments"
        self.comment_url = f"{issues}/comments"
        self.headers = {
            "Accept": "application/vnd.github+json",
            "Authorization": f"Bearer {token}",
            "X-GitHub-Api-Version": "2022-11-28",
        }

    def account(self) -> str | None:
        """The account of the token; None for the token of a job or an app, which may not ask."""
        reply = self.call("GET", f"{self.api}/user", accepted=(200, 403, 404))
        login = reply.tree.get("login") if isinstance(reply.tree, dict) else None
        return login if reply.status == 200 and isinstance(login, str) else None

    def is_own(self, comment: dict[str, Any], account: str | None) -> bool:
        """Whether the account, or a job, wrote the comment."""
        user = comment.get("user")
        if not isinstance(user, dict):
            return False
        return user.get("type") == "Bot" if account is None else user.get("login") == account

    def web_address(self, comment: dict[str, Any]) -> str:
        """The address that the API returns."""
        return str(comment.get("html_url", ""))

    def fix_of(self, status: int) -> str:
        """What to do where the token may not write."""
        if status == 401:
            return "The token is not valid, or has expired."
        return (
            "The token can't write comments there. A job needs `permissions: {pull-requests:"
            " write}`; a pull request from a fork gets a token that only reads."
        )


class GitLab(CommentApi):
    """The API of GitLab, version 4. `job` says that the token is that of a job; `page` is where
    people see the merge request, if that is known.
    """

    update_method = "PUT"

    def __init__(
        self, place: CommentPlace, token: str, *, job: bool = False, page: str = ""
    ) -> None:
        super().__init__(place, token)
        if not _PROJECT.fullmatch(place.repository) or ".." in place.repository:
            raise refused(
                f"{place.repository!r} is not a project.", "Name it with --repo GROUP/NAME."
            )
        project = f"{self.api}/projects/{quote(place.repository, safe='')}"
        self.place_name = f"{place.repository}!{place.number}"
        self.comments_url = f"{project}/merge_requests/{place.number}/notes"
        self.comment_url = self.comments_url
        self.headers = {"JOB-TOKEN" if job else "PRIVATE-TOKEN": token}
        self._job = job
        self._page = page

    def account(self) -> str:
        """The account of the token; for a job token, the user who started the job."""
        tree = self.call("GET", f"{self.api}/{'job' if self._job else 'user'}").tree
        user = tree.get("user") if self._job and isinstance(tree, dict) else tree
        name = user.get("username") if isinstance(user, dict) else None
        if not isinstance(name, str):
            raise refused("the API answers in an unknown form.", "Check --api.")
        return name

    def is_own(self, comment: dict[str, Any], account: str | None) -> bool:
        """Whether the account wrote the note."""
        author = comment.get("author")
        return isinstance(author, dict) and author.get("username") == account

    def web_address(self, comment: dict[str, Any]) -> str:
        """The note on the page of the merge request, where that is known."""
        return f"{self._page}#note_{comment['id']}" if self._page else ""

    def fix_of(self, status: int) -> str:
        """What to do where the token may not write."""
        if self._job:
            return (
                "The token of a job may not write notes on this GitLab. Make a project access token"
                " with the scope `api` and store it as the masked variable GITLAB_TOKEN."
            )
        if status == 401:
            return "The token is not valid, or has expired."
        return (
            "The token can't write notes there: it needs the scope `api` and the role Reporter in"
            " the project."
        )


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
