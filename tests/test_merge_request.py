"""`assay report comment` in a GitLab job: one note on the merge request, updated in place, against a
server that behaves like GitLab's API.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gitlab import JOB_TOKEN, TOKEN, FakeGitLab

MARKER = "<!-- assay:gate -->"
SHA = "0123456789abcdef0123456789abcdef01234567"
PAGE = "https://gitlab.example.org/acme/tools/bot"


@pytest.fixture
def gitlab() -> Iterator[FakeGitLab]:
    with FakeGitLab() as server:
        yield server


@pytest.fixture
def comment(assay: Any, gitlab: FakeGitLab, tmp_path: Path) -> Any:
    """Post a text as a job of a merge request pipeline does."""
    job = {
        "CI_API_V4_URL": gitlab.url,
        "CI_PROJECT_PATH": "acme/tools/bot",
        "CI_PROJECT_URL": PAGE,
        "CI_MERGE_REQUEST_IID": "7",
        "CI_COMMIT_SHA": SHA,
        "GITLAB_TOKEN": TOKEN,
        "CI_JOB_TOKEN": JOB_TOKEN,
        "GITHUB_EVENT_PATH": "",
    }

    def post(text: str, *options: str, **env: str) -> Any:
        (tmp_path / "decision.md").write_text(text, encoding="utf-8")
        done = assay("report", "comment", "decision.md", *options, env={**job, **env})
        assert TOKEN not in done.out + done.err
        assert JOB_TOKEN not in done.out + done.err
        return done

    return post


def test_the_note_is_created_once_and_then_updated_in_place(
    comment: Any, gitlab: FakeGitLab
) -> None:
    gitlab.add("Looks good to me", "ada")
    done = comment("## Assay: reject\n")
    address = f"{PAGE}/-/merge_requests/7#note_301"
    assert (done.code, done.out) == (0, f"created {address}\n"), done.err
    posted = gitlab.notes[1]["body"]
    assert posted.startswith(f"{MARKER}\n## Assay: reject\n")
    assert f"commit {SHA[:10]}</sub>" in posted
    done = comment("## Assay: promote\n", "--json")
    assert done.json() == {
        "action": "updated",
        "id": 301,
        "url": address,
        "repository": "acme/tools/bot",
        "pull": 7,
    }
    assert comment("## Assay: promote\n").out.startswith("unchanged ")
    assert len(gitlab.notes) == 2


def test_a_note_of_somebody_else_with_our_marker_is_never_ours_on_any_page(
    comment: Any, gitlab: FakeGitLab
) -> None:
    gitlab.add(f"{MARKER}\n## Assay: promote", "mallory")
    for number in range(150):
        gitlab.add(f"remark {number}", "ada")
    gitlab.add(f"{MARKER}\nold", gitlab.me)
    assert comment("## Assay: hold").out.startswith("updated ")
    assert gitlab.notes[0]["body"] == f"{MARKER}\n## Assay: promote"
    assert gitlab.notes[-1]["body"].split("\n")[1] == "## Assay: hold"


def test_the_token_of_a_job_is_taken_where_there_is_no_other_and_says_if_it_may_not(
    comment: Any, gitlab: FakeGitLab
) -> None:
    done = comment("text", GITLAB_TOKEN="")
    assert (done.code, "masked variable GITLAB_TOKEN" in done.err) == (2, True), done.err
    gitlab.jobs_may_write = True
    assert comment("text", GITLAB_TOKEN="").out.startswith("created ")


def test_a_refusal_says_what_to_do_and_nothing_is_sent_without_a_place(
    comment: Any, gitlab: FakeGitLab
) -> None:
    wrong: list[tuple[tuple[str, ...], dict[str, str], str]] = [
        ((), {"CI_MERGE_REQUEST_IID": ""}, "which merge request"),
        ((), {"CI_MERGE_REQUEST_IID": "7/../8"}, "--pull NUMBER"),
        ((), {"CI_PROJECT_PATH": "../.."}, "not a project"),
        ((), {"CI_API_V4_URL": "http://gitlab.example.org/api/v4"}, "not an https address"),
        ((), {"GITLAB_TOKEN": "", "CI_JOB_TOKEN": ""}, "scope `api`"),
        (("--token-env", "NONE"), {}, "no token in $NONE"),
    ]
    for options, env, expected in wrong:
        done = comment("text", *options, **env)
        assert (done.code, expected in done.err) == (2, True), (env, done.err)
    assert not gitlab.calls
    for method, status, tree, expected in (
        ("POST", 403, {"message": "403 Forbidden"}, "role Reporter"),
        ("POST", 500, b"<html>", "Try again."),
        ("GET", 200, {"username": 5}, "unknown form"),
    ):
        gitlab.answer = {method: (status, tree)}
        done = comment("text")
        assert (done.code, expected in done.err) == (2, True), done.err
    gitlab.answer = {}
    done = comment("text", GITLAB_TOKEN="wrong")
    assert "not valid, or has expired" in done.err
    assert not gitlab.notes


def test_the_options_name_the_place_outside_of_a_job(comment: Any, gitlab: FakeGitLab) -> None:
    options = ("--api", gitlab.url, "--repo", "acme/tools/bot", "--pull", "7")
    done = comment("text", *options, CI_API_V4_URL="", CI_PROJECT_PATH="")
    assert (done.code, done.out) == (0, "created acme/tools/bot!7\n"), done.err
