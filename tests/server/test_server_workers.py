"""What the processes of one server have in common: one text of every profile, policy and rubric,
and one set of counters.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from assay.cli.frame import load_command
from assay.cli.release_settings import release_settings
from assay.errors import AssayError, ShelfError
from assay.library.lock import BUILTIN
from assay.library.shelf import Shelf, hold
from assay.server import workers
from assay.server.metrics import Metrics
from assay.server.settings import VARIABLE, ServerSettings, from_environment, to_environment
from documents import run
from serving import Configured, Process, runs, serving, until
from test_server_events import Watcher, head_of
from test_server_faults import posted_to_all

with_proc = pytest.mark.skipif(
    not Path("/proc/self/task").exists() or (os.cpu_count() or 1) < 2,
    reason="needs /proc and two processors",
)


def built_in(kind: str, name: str) -> str:
    return Path(BUILTIN, kind, f"{name}.yaml").read_text(encoding="utf-8")


@pytest.fixture
def library(tmp_path: Path) -> Path:
    """A team's own library: a profile that serves a family of its own, and a rubric."""
    made = tmp_path / "library"
    for kind in ("profiles", "rubrics", "policies"):
        (made / kind).mkdir(parents=True)
    profile = (
        built_in("profiles", "code-repair@1")
        .replace("profile: code-repair", "profile: mine")
        .replace("family: code-repair", "family: mine")
    )
    (made / "profiles" / "mine@1.yaml").write_text(profile.replace("alias: A\n", ""))
    (made / "rubrics" / "ours@1.yaml").write_text(
        built_in("rubrics", "code-repair@1").replace("rubric_id: code-repair", "rubric_id: ours")
    )
    return made


def change(file: Path) -> None:
    """The same name, another text."""
    words = file.read_text(encoding="utf-8")
    changed = re.sub(r"(?m)^title: .*$", "title: Another title", words)
    assert changed != words
    file.write_text(changed)


def rules_of(grade: dict[str, Any]) -> dict[str, str]:
    """The digests of what a run was graded by."""
    return {
        name: digest
        for name, digest in grade["digests"].items()
        if name not in ("run", "scorecard")
    }


class Posting:
    """Posts runs of the team's own family, alone and in a list."""

    def __init__(self, server: Process, query: str = "") -> None:
        self._server = server
        self._query = query
        self._n = 0

    def _run(self) -> dict[str, Any]:
        self._n += 1
        return run(run_id=f"r-{self._n}", workflow={"id": "w", "version": "1", "family": "mine"})

    def alone(self) -> dict[str, str]:
        status, answer = self._server.call("POST", f"/runs{self._query}", self._run())
        assert status == 201, answer
        return rules_of(answer["grade"])

    def listed(self) -> dict[str, str]:
        """By the worker itself."""
        status, answer = self._server.call("POST", f"/runs{self._query}", [self._run()])
        assert status == 201, answer
        return rules_of(answer["results"][0]["grade"])


def scraped(server: Process) -> dict[str, float]:
    """What the metrics say, by name and labels."""
    with urllib.request.urlopen(f"{server.address}/metrics", timeout=30) as answer:
        lines = answer.read().decode().splitlines()
    return {
        name: float(value)
        for name, _, value in (line.rpartition(" ") for line in lines if not line.startswith("#"))
    }


# --- one text


def test_a_server_that_is_started_again_takes_the_new_text(library: Path, tmp_path: Path) -> None:
    sent = run(workflow={"id": "w", "version": "1", "family": "mine"})
    found = []
    for _ in range(2):
        with serving(f"sqlite:///{tmp_path}/l.db", library=str(library)) as api:
            found.append(api.post("/runs", sent).json()["grade"]["digests"]["profile"])
        change(library / "profiles" / "mine@1.yaml") if len(found) == 1 else None
    assert found[0] != found[1]


def test_a_worker_holds_runs_to_the_same_numbers_as_a_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("assay.yaml").write_text(
        "project: bot\nprofile: rag\nrelease: {tolerance: 0.5}\n"
        'scorers: [{target: "checks:brevity", weight: 0.2}]\n'
    )
    Path("checks.py").write_text("def brevity(run):\n    return 1\n")
    release = release_settings(load_command("serve").parse("serve", []))
    assert [item.weight for item in release.additions.criteria] == [Decimal("0.2")]
    monkeypatch.setenv(VARIABLE, "")
    to_environment(ServerSettings(release=release))
    assert from_environment().release == release


def test_what_is_held_is_what_the_files_were_whatever_becomes_of_them(library: Path) -> None:
    plain = Shelf(str(library))
    names = {
        kind: [entry.id for entry in plain.entries(kind)]
        for kind in ("profiles", "policies", "rubrics")
    }
    loaded = {
        (kind, name): plain.load(kind, name) for kind, listed in names.items() for name in listed
    }
    held = hold(str(library))
    shutil.rmtree(library)
    shelf = Shelf(held=held)
    assert shelf.roots == plain.roots
    assert {kind: [entry.id for entry in shelf.entries(kind)] for kind in names} == names
    assert {key: shelf.load(*key) for key in loaded} == loaded
    assert shelf.lock(BUILTIN) == plain.lock(BUILTIN)
    assert shelf.profile_for_family("mine").id == "mine@1"
    with pytest.raises(ShelfError, match="no profile is named 'none'"):
        shelf.profile("none")


def test_a_file_that_is_given_by_its_path_is_held_too_and_no_other_is_read(library: Path) -> None:
    path = library / "policies" / "ours@1.yaml"
    path.write_text(built_in("policies", "workflow@1").replace("policy: workflow", "policy: ours"))
    held = hold(files=[str(path)])
    words = path.read_text(encoding="utf-8")
    path.write_text(words.replace("pass_threshold: 70", "pass_threshold: 90"))
    assert Shelf(held=held).policy(str(path)).pass_threshold == 70
    with pytest.raises(AssayError, match="could not be read when the server started"):
        Shelf(held=held).rubric(str(library / "rubrics" / "ours@1.yaml"))


def test_a_published_version_that_says_something_else_is_refused_of_what_is_held_too(
    library: Path,
) -> None:
    (library / "profiles" / "rag@1.yaml").write_text(
        built_in("profiles", "rag@1").replace("weight: 0.", "weight: 0.0")
    )
    with pytest.raises(ShelfError, match="published and has changed"):
        Shelf(held=hold(str(library))).profile("rag@1")


def test_files_that_are_faulty_keep_no_server_from_starting_and_no_older_version_is_taken_for_them(
    library: Path, tmp_path: Path
) -> None:
    newest = library / "profiles" / "mine@2.yaml"
    sent = run(workflow={"id": "w", "version": "1", "family": "mine"})
    for make in (
        lambda: newest.write_text("profile: [\n"),
        newest.mkdir,
        lambda: newest.symlink_to(tmp_path / "nowhere"),
        lambda: os.mkfifo(newest),
        lambda: (library / "published.lock").write_text("{"),
    ):
        make()
        with serving(f"sqlite:///{tmp_path}/l.db", library=str(library)) as api:
            assert api.post("/runs?profile=code-repair", run()).status_code in (200, 201)
            assert api.post("/runs", sent).status_code >= 400
            assert api.get("/library/profiles/mine").status_code >= 400
        if newest.is_dir():
            newest.rmdir()
        else:
            newest.unlink(missing_ok=True)


# --- several workers


def workers_of(server: Process) -> list[int]:
    """The processes that answer."""
    found = []
    for one in (
        Path(f"/proc/{server.started.pid}/task/{server.started.pid}/children").read_text().split()
    ):
        command = Path(f"/proc/{one}/cmdline").read_bytes()
        if b"spawn_main" in command:
            found.append(int(one))
    return found


def shared_of(worker: int) -> Path:
    """The folder that a worker shares with the others."""
    found = dict(
        one.partition(b"=")[::2]
        for one in Path(f"/proc/{worker}/environ").read_bytes().split(b"\0")
    )
    return Path(json.loads(found[b"ASSAY_SERVER_SETTINGS"])["shared"])


@contextmanager
def only(server: Process, chosen: int) -> Iterator[None]:
    """One worker answers, and the others stand still meanwhile."""
    others = [one for one in workers_of(server) if one != chosen]
    for one in others:
        os.kill(one, signal.SIGSTOP)
    try:
        yield
    finally:
        for one in others:
            os.kill(one, signal.SIGCONT)


def grades_in(found: dict[str, float]) -> float:
    return sum(value for name, value in found.items() if name.startswith("assay_grades_total"))


def kill(server: Process, chosen: list[int]) -> None:
    """Kill some of the workers; there are as many again when this returns."""
    before = workers_of(server)
    for one in chosen:
        os.kill(one, signal.SIGKILL)
    until(lambda: len({*workers_of(server)} - {*chosen}) == len(before))
    server.wait()


def test_a_worker_that_starts_while_metrics_are_read_fails_no_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(workers.COUNTERS, str(tmp_path))
    starting = tmp_path / "counter_1.db"
    starting.touch()  # as prometheus-client makes it, before it has a size
    timer = threading.Timer(0.05, starting.unlink)
    timer.start()
    assert Metrics().text() == b""
    timer.join()
    assert not starting.exists()


@with_proc
def test_several_workers_grade_by_one_text_and_tell_the_sums_of_all_though_one_dies(
    library: Path, tmp_path: Path
) -> None:
    url = f"sqlite:///{tmp_path}/l.db"
    with Process(url, "--workers", "2", "--quiet", "--library", str(library)) as server:
        until(lambda: len(workers_of(server)) == 2)
        folder = shared_of(workers_of(server)[0])
        assert folder.stat().st_mode & 0o077 == 0, "it is nobody else's"
        posting = Posting(server)
        rules = [posting.alone()]
        change(library / "profiles" / "mine@1.yaml")
        running = workers_of(server)
        for worker in running:
            with only(server, worker):
                rules += [posting.alone() for _ in range(2)]
        assert rules == rules[:1] * 5
        until(lambda: grades_in(scraped(server)) == 5)
        asked: list[float] = []

        def more(worker: int) -> bool:
            """Whether this worker tells of more requests than were told of before; what the other
            has counted may be a second old.
            """
            with only(server, worker):
                found = scraped(server)
            assert grades_in(found) == 5
            assert found["assay_request_seconds_count"] == sum(
                value for name, value in found.items() if name.startswith("assay_requests_total")
            )
            asked.append(found["assay_request_seconds_count"])
            assert asked == sorted(asked), "whoever is asked, a counter never goes back"
            return len(asked) == 1 or asked[-1] > asked[-2]

        for worker in running * 2:
            until(lambda one=worker: more(one))
        assert len(set(asked)) >= 4, "each time it has grown"
        dying, living = running
        with only(server, dying):
            assert server.call("POST", "/runs/live", head_of(run(run_id="watched")))[0] == 201
            Watcher(server, "watched").until("workflow_start")
        until(lambda: scraped(server).get("assay_watchers") == 1)
        last = scraped(server)
        kill(server, [dying])
        found = scraped(server)
        assert grades_in(found) == 5, "what a worker counted stays"
        assert all(found[name] >= value for name, value in last.items() if "_total" in name)
        assert found.get("assay_watchers", 0) == 0, "nobody watches a worker that is dead"
        (new,) = {*workers_of(server)} - {living}
        with only(server, new):
            assert posting.alone() == rules[0], "a worker that starts later grades by the same text"
        with Configured(url) as other:  # workers and servers share a ledger and store a run once
            new = posted_to_all([server, other, server], runs(10, start=100))
        assert sorted(new) == [False] * 20 + [True] * 10
        assert server.end()[0] in (0, -15)
        assert not folder.exists()


def test_counters_keep_their_names_and_a_dead_worker_forgets_only_its_gauges(
    tmp_path: Path,
) -> None:
    """Three processes that count, as workers do; the first is asked after the others died."""
    count = (
        "import sys; from assay.server.metrics import Metrics; m = Metrics(); n = int(sys.argv[1]);"
        " m.request('GET', '/runs', 200, 0.002 * n); m.count('commits', n); m.letter('A');"
        " m.watchers.inc(n); sys.stdout.write(m.text().decode())"
    )
    for number in (1, 2, 3):
        said = subprocess.run(
            [sys.executable, "-c", count, str(number)],
            env={**os.environ, workers.COUNTERS: str(tmp_path)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
    for line in (
        'assay_requests_total{method="GET",route="/runs",status="200"} 3.0\n',
        'assay_request_seconds_bucket{le="0.0025"} 1.0\n',
        'assay_request_seconds_bucket{le="+Inf"} 3.0\n',
        "assay_request_seconds_sum 0.012\n",
        'assay_grades_total{grade="A"} 3.0\n',
        "assay_commits_total 6.0\n",
        "assay_watchers 3.0\n",
    ):
        assert line in said, said
    assert "pid=" not in said


def test_a_worker_that_was_killed_is_not_counted_even_before_its_parent_notices(
    tmp_path: Path,
) -> None:
    count = (
        "import time; from assay.server.metrics import Metrics; m = Metrics(); m.watchers.inc(5);"
        " m.count('commits'); print(m.text().decode(), end='', flush=True); time.sleep({})"
    )

    def start(seconds: int) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-c", count.format(seconds)],
            env={**os.environ, workers.COUNTERS: str(tmp_path)},
            stdout=subprocess.PIPE,
            text=True,
        )

    with start(60) as dying:
        assert dying.stdout is not None
        assert "assay_watchers 5.0\n" in iter(dying.stdout.readline, "")
        dying.kill()
        os.waitid(os.P_PID, dying.pid, os.WEXITED | os.WNOWAIT)  # it stays a zombie
        with start(0) as living:
            found, _ = living.communicate()
    assert "assay_watchers 5.0\n" in found
    assert "assay_commits_total 2.0\n" in found


def test_only_several_workers_get_a_folder_and_one_that_finds_no_library_there_does_not_start(
    library: Path, tmp_path: Path
) -> None:
    settings = ServerSettings(db=f"sqlite:///{tmp_path}/l.db", library=str(library))
    with workers.shared_folder(settings, workers=1) as alone:
        assert alone == settings
    with workers.shared_folder(settings, workers=2) as given:
        assert given.shared is not None
        folder = Path(given.shared)
        assert workers.library_of(given) == workers.library_of(settings)
        (folder / workers.LIBRARY).unlink()
        with pytest.raises(AssayError, match="that the server's workers share can't be read"):
            workers.library_of(given)
    assert not folder.exists()
