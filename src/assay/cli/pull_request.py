"""The comments of a GitHub pull request."""

from __future__ import annotations

import re
from typing import Any

from assay.cli.comment_api import CommentApi, CommentPlace, refused

_REPOSITORY = re.compile(r"[A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+")


class GitHub(CommentApi):
    """The API of GitHub."""

    def __init__(self, place: CommentPlace, token: str) -> None:
        super().__init__(place, token)
        if not _REPOSITORY.fullmatch(place.repository) or ".." in place.repository:
            raise refused(
                f"{place.repository!r} is not a repository.", "Name it with --repo OWNER/NAME."
            )
        self._base = f"{self.api}/repos/{place.repository}/issues"

    @property
    def place_name(self) -> str:
        """`owner/name#number`."""
        return f"{self.place.repository}#{self.place.number}"

    @property
    def comments_url(self) -> str:
        """Comments on a pull request are those of its issue."""
        return f"{self._base}/{self.place.number}/comments"

    def comment_url(self, identity: int) -> str:
        """One comment."""
        return f"{self._base}/comments/{identity}"

    def headers(self) -> dict[str, str]:
        """The token, and the version of the API."""
        return {
            "Accept": "application/vnd.github+json",
            "Authorization": f"Bearer {self.token}",
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
