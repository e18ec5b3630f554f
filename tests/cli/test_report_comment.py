"""Comments on pull requests and merge requests: the body that `assay report comment` writes, and how
the action and the GitLab job post it with `gh` and `glab`.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from assay import __version__
from code_hosts import CodeHost
from test_ci_action import GITLAB, Done, environment, step, work

__all__ = ["work"]
MARKER = "<!-- assay:gate -->"
SHA = "0123456789abcdef0123456789abcdef01234567"
TOKEN = "secret-token-of-the-job"
FOOTER = f"<sub>Assay {__version__} · commit {SHA[:10]}</sub>"


# --- the body


@pytest.fixture
def body(assay: Any, tmp_path: Path) -> Any:
    def write(text: str, *options: str) -> Any:
        (tmp_path / "decision.md").write_text(text, encoding="utf-8")
        return assay("report", "comment", "decision.md", *options)

    return write


def test_the_body_has_its_marker_the_text_and_the_commit(body: Any, tmp_path: Path) -> None:
    done = body("\n## Assay: reject\n\n", "--commit", SHA, "-o", "comment.md")
    assert (done.code, done.out) == (0, ""), done.err
    assert (tmp_path / "comment.md").read_text() == f"{MARKER}\n## Assay: reject\n\n{FOOTER}\n"
    assert body("text", "--key", "nightly").out == (
        f"<!-- assay:nightly -->\ntext\n\n<sub>Assay {__version__}</sub>\n"
    )
    assert body("text", "--commit", "", "--json").json() == {
        "body": f"{MARKER}\ntext\n\n<sub>Assay {__version__}</sub>\n"
    }


def test_a_text_that_is_too_long_is_cut_at_a_line(body: Any, tmp_path: Path) -> None:
    rows = "".join(f"| `row {number}` |\n" for number in range(9000))
    assert body(rows, "-o", "comment.md").code == 0
    text = (tmp_path / "comment.md").read_text()
    assert 60_000 < len(text) <= 65_536
    assert "` |\n\n**Cut here: the whole text is too long for a comment.**" in text


@pytest.mark.parametrize(
    ("text", "options", "code", "expected"),
    [
        ("  \n", (), 3, "is empty"),
        ("text", ("--key", "a -->"), 2, "letters, digits"),
        ("text", ("--key", ""), 2, "letters, digits"),
        ("text", ("--commit", "HEAD"), 2, "write its SHA"),
        ("text", ("-o", "comment.html"), 2, ".html"),
    ],
)
def test_what_can_not_be_a_body_is_refused(
    body: Any, text: str, options: tuple[str, ...], code: int, expected: str
) -> None:
    done = body(text, *options)
    assert (done.code, expected in done.err) == (code, True), done.err


# --- GitHub

OWN = (
    "[.comments[] | select(.viewerDidAuthor and (.body | startswith($ENV.ASSAY_CI_MARKER)))]"
    ' | last | .url // "" | sub(".*-"; "")'
)
FIND = ["pr", "view", "7", "--repo", "acme/bot", "--json", "comments", "--jq", OWN]


@pytest.fixture
def gh(work: Path) -> CodeHost:
    return CodeHost(work.parent / "bin", "gh")


def post(work: Path, text: str = "## Assay: hold", **more: str) -> Done:
    """The comment step of the action, after the gate has left its text."""
    (work.parent / "assay-comment.md").write_text(text)
    job = {
        "RUNNER_TEMP": str(work.parent),
        "GITHUB_REPOSITORY": "acme/bot",
        "GITHUB_SERVER_URL": "https://github.com",
        "HEAD": SHA,
    }
    given: dict[str, Any] = {"comment": "gate", "token": TOKEN, **job, **more}
    done = step("Comment on the pull request", work, **given)
    assert done.code == 0, "a comment never fails a build"
    assert TOKEN not in done.out + done.err
    assert not list(work.parent.rglob("pwned*"))
    return done


def test_the_first_comment_is_created_from_a_file(work: Path, gh: CodeHost) -> None:
    gh.answer((("comment",), "https://github.com/acme/bot/pull/7#issuecomment-101", 0))
    done = post(work, "## Assay: `touch pwned` $(touch pwned)")
    find, create = gh.calls
    file = str(work.parent / "assay-body.md")
    assert find.words == FIND
    assert create.words == ["pr", "comment", "7", "--repo", "acme/bot", "--body-file", file]
    assert create.body == f"{MARKER}\n## Assay: `touch pwned` $(touch pwned)\n\n{FOOTER}\n"
    assert (find.stdin, create.stdin) == ("", "")
    assert create.env["GH_TOKEN"] == create.env["GH_ENTERPRISE_TOKEN"] == TOKEN
    assert create.env["GH_HOST"] == "github.com"
    assert "#issuecomment-101" in done.out


def test_a_later_run_updates_the_comment(work: Path, gh: CodeHost) -> None:
    gh.answer((("view",), "101", 0))
    post(work)
    find, update = gh.calls
    file = str(work.parent / "assay-body.md")
    assert find.words == FIND
    assert update.words == [
        *("api", "--method", "PATCH", "repos/acme/bot/issues/comments/101"),
        *("--field", f"body=@{file}", "--jq", ".html_url"),
    ]
    assert update.body == f"{MARKER}\n## Assay: hold\n\n{FOOTER}\n"


def test_a_server_of_ones_own_gets_the_comment(work: Path, gh: CodeHost) -> None:
    post(work, GITHUB_SERVER_URL="https://git.example.org")
    assert [call.env["GH_HOST"] for call in gh.calls] == ["git.example.org"] * 2


@pytest.mark.parametrize("failing", ["view", "comment"])
def test_a_token_that_may_not_write_warns_and_changes_no_outcome(
    work: Path, gh: CodeHost, failing: str
) -> None:
    gh.answer(((failing,), "HTTP 403: Resource not accessible by integration", 1))
    done = post(work)
    assert "::warning title=Assay::" in done.out
    assert len(gh.calls) == (1 if failing == "view" else 2), "an unread list creates nothing"
    assert not done.outputs


@pytest.mark.parametrize("name", ["x; touch pwned", "$(touch pwned)", "a -->", "*", "a\nb"])
def test_the_name_of_a_comment_is_never_a_command(work: Path, gh: CodeHost, name: str) -> None:
    assert "::warning title=Assay::" in post(work, comment=name).out
    assert not gh.calls


def test_without_a_pull_request_or_without_gh_there_is_no_comment(work: Path, gh: CodeHost) -> None:
    assert "no pull request" in post(work, PULL="").out
    assert not gh.calls
    (work.parent / "bin" / "gh").write_text("#!/nowhere\n")
    assert "::warning title=Assay::" in post(work).out


# --- GitLab

NOTES = "projects/42/merge_requests/7/notes"
API = ["api", "--hostname", "gitlab.example.org"]


@pytest.fixture
def glab(work: Path) -> CodeHost:
    return CodeHost(work.parent / "bin", "glab")


def note(work: Path, **more: str) -> subprocess.CompletedProcess[str]:
    """What the template runs after the gate."""
    job = {
        "CI_MERGE_REQUEST_IID": "7",
        "CI_PROJECT_ID": "42",
        "CI_SERVER_HOST": "gitlab.example.org",
        "CI_COMMIT_SHA": SHA,
        "GITLAB_TOKEN": TOKEN,
    }
    script = "\n".join(GITLAB[".assay"]["after_script"])
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=work,
        env={**environment(work), **job, **more},
        capture_output=True,
        text=True,
        check=False,
    )
    assert TOKEN not in done.stdout + done.stderr
    assert not list(work.parent.rglob("pwned*"))
    return done


def told(name: str, *notes: tuple[int, str, str]) -> tuple[Any, ...]:
    """The account of the token, and notes by id, author and text, one list for each page."""
    pages = [
        json.dumps([{"id": number, "author": {"username": who}, "body": text}])
        for number, who, text in notes
    ]
    listed = "".join(pages) or "[]"
    return (("user",), json.dumps({"username": name}), 0), (("--paginate",), listed, 0)


def test_the_first_note_is_created_from_a_file(work: Path, glab: CodeHost) -> None:
    (work / "assay.md").write_text("## Assay: `touch pwned` $(touch pwned)\n")
    glab.answer(*told("bot", (1, "mallory", f"{MARKER}\n## Assay: promote"), (2, "bot", "hello")))
    done = note(work)
    account, listed, create = glab.calls
    assert account.words == [*API, "user"]
    assert listed.words == [*API, "--paginate", f"{NOTES}?per_page=100"]
    assert create.words[:-1] == [*API, "--method", "POST", NOTES, "--field"]
    assert create.words[-1].startswith("body=@/")
    assert create.body == f"{MARKER}\n## Assay: `touch pwned` $(touch pwned)\n\n{FOOTER}\n"
    assert create.env["GITLAB_TOKEN"] == TOKEN
    assert "was not written" not in done.stderr


def test_a_later_pipeline_updates_the_note(work: Path, glab: CodeHost) -> None:
    (work / "assay.md").write_text("## Assay: hold\n")
    mine = (301, "bot", f"{MARKER}\n## Assay: reject")
    glab.answer(*told("bot", (1, "mallory", f"{MARKER}\n## Assay: promote"), mine))
    note(work)
    *_, update = glab.calls
    assert update.words[:-1] == [*API, "--method", "PUT", f"{NOTES}/301", "--field"]
    assert update.body == f"{MARKER}\n## Assay: hold\n\n{FOOTER}\n"


def test_a_pipeline_without_a_report_replaces_an_older_verdict(work: Path, glab: CodeHost) -> None:
    glab.answer(*told("bot"))
    note(work)
    assert glab.calls[-1].body.startswith(f"{MARKER}\n## Assay: no result\n")


@pytest.mark.parametrize(
    ("answer", "code"),
    [("", 0), ("{oops", 0), ('{"message": "403 Forbidden"}', 0), ("[5]", 0), ("[]", 1)],
)
def test_a_list_that_cannot_be_read_creates_no_note(
    work: Path, glab: CodeHost, answer: str, code: int
) -> None:
    (work / "assay.md").write_text("## Assay: hold\n")
    user, _ = told("bot")
    glab.answer(user, (("--paginate",), answer, code))
    assert "was not written" in note(work).stderr
    assert len(glab.calls) == 2


def test_without_a_merge_request_a_token_or_glab_there_is_no_note(
    work: Path, glab: CodeHost
) -> None:
    for missing in ("CI_MERGE_REQUEST_IID", "GITLAB_TOKEN"):
        note(work, **{missing: ""})
    assert not glab.calls
    (work.parent / "bin" / "glab").unlink()
    apt = CodeHost(work.parent / "bin", "apt-get")
    apt.answer((("install",), "E: Unable to locate package glab", 100))
    assert "was not written" in note(work).stderr
    assert [call.words for call in apt.calls] == [
        ["update", "-qq"],
        ["install", "-y", "-qq", "glab"],
    ]
