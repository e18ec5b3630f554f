"""The comments (notes) of a GitLab merge request."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import quote

from assay.cli.comment_api import CommentApi, CommentPlace, refused

_PROJECT = re.compile(r"[0-9]{1,12}|[A-Za-z0-9_.-]+(?:/[A-Za-z0-9_.-]+)+")


class GitLab(CommentApi):
    """The API of GitLab, version 4. `job` says that the token is that of a job."""

    update_method = "PUT"

    def __init__(
        self, place: CommentPlace, token: str, *, job: bool = False, page: str = ""
    ) -> None:
        super().__init__(place, token)
        if not _PROJECT.fullmatch(place.repository) or ".." in place.repository:
            raise refused(
                f"{place.repository!r} is not a project.", "Name it with --repo GROUP/NAME."
            )
        self._job = job
        self._page = page

    @property
    def place_name(self) -> str:
        """`group/name!number`."""
        return f"{self.place.repository}!{self.place.number}"

    @property
    def comments_url(self) -> str:
        """The notes of the merge request."""
        project = quote(self.place.repository, safe="")
        return f"{self.api}/projects/{project}/merge_requests/{self.place.number}/notes"

    def comment_url(self, identity: int) -> str:
        """One note."""
        return f"{self.comments_url}/{identity}"

    def headers(self) -> dict[str, str]:
        """The token, by the header of its kind."""
        return {"JOB-TOKEN" if self._job else "PRIVATE-TOKEN": self.token}

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
