"""`assay view`: one browser of one user gets in, by an address that works once."""

from __future__ import annotations

import os
import signal
import tempfile
from pathlib import Path
from typing import Any

import pytest

from assay.cli.frame import load_command
from assay.cli.view import FOLDER, evaluate_viewed, sweep, temporary_folder
from assay.server.one_visitor import OneVisitor
from browsing import Window, browser
from viewing import viewing

__all__ = ["browser"]

TABLE = "id,question,output,expected,score\n1,When?,at ten,at ten,1\n2,<b>Where?</b>,here,there,0\n"
REFUSED = "belongs to the browser that opened the address"


def test_only_the_browser_that_opened_the_address_gets_in_and_nothing_is_left(
    tmp_path: Path,
) -> None:
    (tmp_path / "results.csv").write_text(TABLE, encoding="utf-8")
    with viewing(tmp_path, "results.csv") as viewer:
        assert viewer.said["opened"] is False, "there is no display"
        (kept,) = viewer.temporary.glob(f"{FOLDER}*")
        assert kept.stat().st_mode & 0o777 == 0o700
        secret = viewer.address.path
        for path in ("/", "/login", "/api/v1/runs", "/static/pages.css", "/open/", "/open/no"):
            status, text, headers = viewer.get(path)
            assert (status, REFUSED in text, headers["set-cookie"]) == (403, True, None), path
        assert viewer.get(secret, Host="attacker.example")[0] == 403
        assert viewer.get(secret, method="HEAD")[0] == 403, "looking at it does not use it up"
        status, text, headers = viewer.get(secret)
        cookie = headers["set-cookie"]
        assert (status, "HttpOnly" in cookie, "SameSite=strict" in cookie) == (200, True, True)
        assert f"url={viewer.said['page']}" in text
        assert viewer.get(secret)[0] == 403, "the address works once"
        own = cookie.partition(";")[0]
        status, text, _ = viewer.get("/", Cookie=own)
        assert status == 200
        assert "A temporary copy of a file" in text
        assert "Log in" not in text
        assert viewer.get(secret, Cookie=own)[0] == 200, "a reload of the first page"
        for site, status in (("none", 303), ("same-origin", 303), ("cross-site", 200)):
            answer = viewer.get(secret, Cookie=own, Sec_Fetch_Site=site)
            assert (answer[0], cookie) == (status, answer[2]["set-cookie"]), site
        assert viewer.get("/", Cookie=own, Host="attacker.example")[0] == 403
        assert viewer.get("/", Cookie=f"{own}x")[0] == 403
        for sent in ({}, {"Sec_Fetch_Site": "same-site"}, {"Origin": "http://127.0.0.1:1"}):
            assert viewer.get("/api/v1/runs", method="POST", Cookie=own, **sent)[0] == 403, sent
        assert viewer.end(signal.SIGTERM) == (
            0,
            "assay: note: assumed that higher is better: score\n",
        )
    assert list(viewer.temporary.iterdir()) == []


@pytest.mark.browser
def test_a_person_opens_the_ledger_and_ends_it_with_an_interrupt(
    tmp_path: Path, browser: Window, assay: Any
) -> None:
    (tmp_path / "results.csv").write_text(TABLE, encoding="utf-8")
    done = assay("import", "results.csv", "--name", "nightly", "--workflow", "bot@1")
    assert done.code == 0, done.err
    with viewing(tmp_path, "nightly", "--no-browser") as viewer:
        page = browser.tab()
        page.goto(viewer.said["address"])
        assert "/evaluations/ev-" in page.url
        assert page.locator(".brand img").evaluate("(image) => image.naturalWidth")
        assert page.get_by_text("Where?").count()
        page.get_by_role("link", name="Overview").click()
        page.wait_for_url(f"http://127.0.0.1:{viewer.address.port}/")
        assert "temporary" not in page.content()
        page.reload()
        assert page.locator("h1").inner_text() == "Overview"
        page.context.clear_cookies()
        page.reload()
        assert REFUSED in page.content()
        page.goto(viewer.said["address"])
        assert REFUSED in page.content()
        assert viewer.end(signal.SIGINT) == (0, "")
    assert list(viewer.temporary.iterdir()) == []


def test_what_cannot_be_shown_is_refused_before_anything_is_served(
    assay: Any, tmp_path: Path
) -> None:
    (tmp_path / "cards.json").write_text('{"schema": "assay.scorecard/1"}', encoding="utf-8")
    (tmp_path / "exam.json").write_text('{"schema": "assay.exam/1"}', encoding="utf-8")
    (tmp_path / "none.jsonl").write_text("", encoding="utf-8")
    (tmp_path / "half.json").write_text('{"schema": "assay.run/1", "run_id": "r', encoding="utf-8")
    (tmp_path / "text.txt").write_text("hello", encoding="utf-8")
    for words, code, said in (
        ((), 3, "To look at a file, name it: `assay view results.json`"),
        (("latest",), 4, "there is no ledger at .assay/ledger.db"),
        (("missing.json",), 3, "there is no such file"),
        (("cards.json",), 3, "contains scorecards"),
        (("exam.json",), 3, "exam.json: is a graded exam, which has no runs to show"),
        (("none.jsonl",), 4, "there is nothing to show"),
        (("half.json",), 3, "half.json"),
        (("text.txt",), 3, "Assay doesn't recognise this file"),
    ):
        done = assay("view", "--no-browser", *words, timeout=30)
        assert (done.code, said in done.err, done.out) == (code, True, ""), (words, done.err)
    assert not (tmp_path / ".assay").exists()


def test_the_next_view_deletes_what_a_killed_one_left(
    tmp_path: Path, assay: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    (temporary := tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        with temporary_folder() as folder:
            (Path(folder) / "ledger.db").touch()
            os.write(write, b"!")
            signal.pause()
    assert os.read(read, 1) == b"!"
    (kept,) = temporary.iterdir()
    (new := temporary / f"{FOLDER}new").mkdir()
    (target := tmp_path / "target").mkdir()
    (target / "file").touch()
    (link := temporary / f"{FOLDER}link").symlink_to(target)
    (theirs := temporary / f"{FOLDER}theirs").mkdir()
    (theirs / "file").touch()
    if os.getuid() == 0:
        os.chown(theirs, 65534, -1)
    sweep()
    assert (kept / "ledger.db").exists(), "that one is still running"
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    assert (kept / "ledger.db").exists()
    done = assay("view", "missing.json", env={"TMPDIR": str(temporary)})
    assert done.code == 3
    left = [link, new, theirs] if os.getuid() == 0 else [link, new]
    assert sorted(temporary.iterdir()) == left, "an empty one may be just made, and not yet locked"
    assert (target / "file").exists()


def test_every_address_is_new() -> None:
    made = {OneVisitor(None, port=1, page="/").address for _ in range(3)}
    assert len(made) == 3
    assert all(len(one.rpartition("/")[2]) >= 43 for one in made), "32 random bytes"


def test_grades_and_runs_are_shown_as_well_as_results(assay: Any, tmp_path: Path) -> None:
    (tmp_path / "results.csv").write_text(TABLE, encoding="utf-8")
    done = assay("import", "results.csv", "--no-store", "-o", "runs.jsonl")
    assert done.code == 0, done.err
    done = assay("grade", "runs.jsonl", "--profile", "runs.profile.yaml", "-o", "grades.json")
    assert done.code == 1, done.err
    for name in ("runs.jsonl", "grades.json"):
        target = argparse_of(tmp_path / name, tmp_path / "runs.profile.yaml")
        url = f"sqlite:///{tmp_path / name}.db"
        (evaluation,) = evaluate_viewed(target, str(tmp_path), url).evaluations
        assert (evaluation.totals.n, evaluation.totals.passed) == (2, 1), name


def argparse_of(path: Path, profile: Path) -> Any:
    return load_command("view").parse("view", [str(path), "--profile", str(profile)])
