"""`assay report comment`: one comment on a pull request, updated in place, against a server that
behaves like GitHub's API.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from github import BOT, TOKEN, FakeGitHub

MARKER = "<!-- assay:gate -->"
SHA = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def github() -> Iterator[FakeGitHub]:
    with FakeGitHub() as server:
        yield server


@pytest.fixture
def comment(assay: Any, github: FakeGitHub, tmp_path: Path) -> Any:
    """Post a text as a job of a pull request does."""
    event = tmp_path / "event.json"
    event.write_text(json.dumps({"pull_request": {"number": 7, "head": {"sha": SHA}}}))
    job = {
        "GITHUB_EVENT_PATH": str(event),
        "GITHUB_API_URL": github.url,
        "GITHUB_REPOSITORY": "acme/bot",
        "GITHUB_TOKEN": TOKEN,
    }

    def post(text: str, *options: str, **env: str) -> Any:
        (tmp_path / "decision.md").write_text(text, encoding="utf-8")
        done = assay("report", "comment", "decision.md", *options, env={**job, **env})
        assert TOKEN not in done.out + done.err
        return done

    return post


def test_the_comment_is_created_once_and_then_updated_in_place(
    comment: Any, github: FakeGitHub
) -> None:
    github.add("Looks good to me", {"login": "ada", "type": "User"})
    done = comment("## Assay: reject\n")
    assert (done.code, done.out) == (0, f"created {github.comments[1]['html_url']}\n"), done.err
    posted = github.comments[1]["body"]
    assert posted.startswith(f"{MARKER}\n## Assay: reject\n")
    assert f"commit {SHA[:10]}</sub>" in posted
    done = comment("## Assay: promote\n", "--json")
    assert done.json() == {
        "action": "updated",
        "id": 101,
        "url": github.comments[1]["html_url"],
        "repository": "acme/bot",
        "pull": 7,
    }
    assert "## Assay: promote" in github.comments[1]["body"]
    assert len(github.comments) == 2
    before = len(github.methods)
    assert comment("## Assay: promote\n").out.startswith("unchanged ")
    assert github.methods[before:] == ["GET", "GET"]
    assert comment("## Nightly\n", "--key", "nightly").out.startswith("created ")
    assert len(github.comments) == 3


def test_a_comment_of_somebody_else_with_our_marker_is_never_ours(
    comment: Any, github: FakeGitHub
) -> None:
    """Its author could turn the verdict that we write into it."""
    github.add(f"{MARKER}\n## Assay: promote", {"login": "mallory", "type": "User"})
    assert comment("## Assay: reject").out.startswith("created ")
    github.login = "release-bot"
    github.add(f"{MARKER}\nx", {"login": "release-bot", "type": "User"})
    assert comment("## Assay: hold").out.startswith("updated ")
    assert [one["body"].split("\n")[1] for one in github.comments] == [
        "## Assay: promote",
        "## Assay: reject",
        "## Assay: hold",
    ]


def test_the_comment_is_found_on_any_page(comment: Any, github: FakeGitHub) -> None:
    for number in range(250):
        github.add(f"remark {number}", {"login": "ada", "type": "User"})
    github.add(f"see {MARKER} above", BOT)
    github.add(f"{MARKER}\nold", BOT)
    assert comment("new").out.startswith("updated ")
    assert len(github.comments) == 252
    assert [path.rpartition("=")[2] for method, path in github.calls if "page" in path] == [
        *("1", "2", "3")
    ]


def test_a_refusal_says_what_to_do_and_is_not_a_success(comment: Any, github: FakeGitHub) -> None:
    cases: list[tuple[str, int, Any, str]] = [
        (
            "POST",
            403,
            {"message": "Resource not accessible"},
            "permissions: {pull-requests: write}",
        ),
        ("POST", 404, {"message": "Not Found"}, "from a fork"),
        ("POST", 302, {}, "answered 302"),
        ("POST", 500, b"<html>", "Try again."),
        ("POST", 201, b"<html>", "answered 201"),
        ("POST", 201, [], "unknown form"),
        ("POST", 422, {"message": f"no {TOKEN}\x1b[2K"}, "answered 422: no ***"),
        ("GET", 200, {"login": 5}, "unknown form"),
        ("GET", 301, {}, "answered 301"),
    ]
    for method, status, tree, expected in cases:
        github.answer = {method: (status, tree)}
        done = comment("text")
        assert done.code == 2, (method, status)
        assert expected in done.err, done.err
        assert "CLI-002" in done.err
        assert "\x1b" not in done.err
    github.answer = {}
    assert not github.comments
    assert not [path for _, path in github.calls if path.endswith("elsewhere")], "no redirect"
    done = comment("text", GITHUB_TOKEN="wrong")
    assert (done.code, "not valid, or has expired" in done.err) == (2, True)
    done = comment("text", "--api", "http://127.0.0.1:1")
    assert (done.code, "can't be reached" in done.err) == (2, True)


def test_without_a_token_a_place_or_a_text_nothing_is_sent(
    comment: Any, github: FakeGitHub, tmp_path: Path
) -> None:
    wrong: list[tuple[tuple[str, ...], dict[str, str], int, str]] = [
        ((), {"GITHUB_TOKEN": ""}, 2, '`env: {GITHUB_TOKEN: "${{ github.token }}"}`'),
        (("--token-env", "BOT_KEY"), {}, 2, "no token in $BOT_KEY"),
        ((), {"GITHUB_TOKEN": "two words"}, 2, "Copy it again"),
        ((), {"GITHUB_TOKEN": "line\nbreak: x"}, 2, "Copy it again"),
        ((), {"GITHUB_EVENT_PATH": ""}, 2, "--pull NUMBER"),
        ((), {"GITHUB_EVENT_PATH": "/nowhere"}, 2, "--pull NUMBER"),
        (("--pull", "0"), {}, 2, "--pull"),
        ((), {"GITHUB_REPOSITORY": ""}, 2, "--repo OWNER/NAME"),
        (("--repo", "acme/bot/../../user"), {}, 2, "not a repository"),
        (("--repo", "../.."), {}, 2, "not a repository"),
        (("--api", "http://api.example.org"), {}, 2, "not an https address"),
        (("--api", "file://localhost/etc"), {}, 2, "not an https address"),
        (("--api", "https://[x"), {}, 2, "not an https address"),
        (("--key", "a -->"), {}, 2, "letters, digits"),
    ]
    for options, env, code, expected in wrong:
        done = comment("text", *options, **env)
        assert (done.code, expected in done.err) == (code, True), (options, env, done.err)
        assert "two words" not in done.err
        assert "break: x" not in done.err
    assert comment("  \n").code == 3
    assert not github.calls


def test_the_pull_request_is_named_by_option_or_ref_too(comment: Any, github: FakeGitHub) -> None:
    assert comment("a", GITHUB_EVENT_PATH="", GITHUB_REF="refs/pull/7/merge").code == 0
    assert comment("b", "--pull", "7", GITHUB_EVENT_PATH="").code == 0
    assert len(github.comments) == 1


def test_a_text_that_is_too_long_is_cut_at_a_line(comment: Any, github: FakeGitHub) -> None:
    assert comment("".join(f"| `row {number}` |\n" for number in range(9000))).code == 0
    body = github.comments[0]["body"]
    assert 60_000 < len(body) <= 65_536
    assert "` |\n\n**Cut here: the whole text is too long for a comment.**" in body


def test_a_real_process_posts(assay_anew: Any, github: FakeGitHub, tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("text")
    options = ("--repo", "acme/bot", "--pull", "7", "--api", github.url)
    done = assay_anew("report", "comment", "a.md", *options, env={"GITHUB_TOKEN": TOKEN})
    assert (done.code, len(github.comments)) == (0, 1), done.err
