"""The command as a process: closed, full and abandoned streams, and signals in the middle of the
work.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from assay.cli.process import INTERRUPTED, PIPE
from assay.cli.verbs import VERBS
from commands import ASSAY
from documents import run as evidence
from documents import scorecard
from examples import CAMPAIGN
from judges import here, put_items
from servers.scripted_judge import scripted_judge
from serving import is_running, until
from test_contract import doubling
from test_run_cli import project, sample

__all__ = ["here"]
needs_proc = pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="needs /proc")
COMMAND = [ASSAY]

STREAMS = {
    "out null": ">/dev/null",
    "out closed": ">&-",
    "out full": ">/dev/full",
    "reader gone": "",
    "err closed": "2>&- >/dev/null",
    "err full": "2>/dev/full >/dev/null",
    "in closed": "<&- >/dev/null",
    "all closed": "<&- >&- 2>&-",
}


def end(folder: Path, argv: list[str], case: str) -> tuple[int, str]:
    """How a command that a shell starts with these streams ends, and what it says."""
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = subprocess.run(
            ["sh", "-c", f'exec "$@" {STREAMS[case]}', "sh", ASSAY, *argv],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=writer,
            stderr=subprocess.PIPE,
            timeout=60,
            check=False,
        )
    finally:
        os.close(writer)
    words = done.stderr.decode()
    assert "Traceback" not in words, (argv, case, words)
    return done.returncode, words


def chosen(place: int, *steps: int) -> list[str]:
    """All streams for the first case; for each other one in the suite, some of them in turn."""
    if CAMPAIGN or place == 0:
        return list(STREAMS)
    return [list(STREAMS)[(place + step) % len(STREAMS)] for step in steps]


def test_every_verb_takes_closed_full_and_abandoned_streams(tmp_path: Path) -> None:
    cases = [
        ([verb, *more], case)
        for place, verb in enumerate(VERBS)
        for more, steps in ((["--help"], (0, 3)), (["--no-such-option"], (5,)))
        for case in chosen(place, *steps)
    ]
    for argv, case in cases:
        code, words = end(tmp_path, argv, case)
        if "--help" not in argv:
            assert code == 2, (argv, case, words)
        else:
            assert code == {"out full": 2, "reader gone": PIPE}.get(case, 0), (argv, case, words)


def test_the_exit_code_is_that_of_the_result_and_a_pass_that_was_not_delivered_is_none(
    tmp_path: Path,
) -> None:
    (tmp_path / "good.json").write_text(json.dumps(scorecard({"norm": 1})))
    (tmp_path / "poor.json").write_text(json.dumps(scorecard({"norm": 0})))
    (tmp_path / "bad.json").write_text("{")
    results = {"good.json": 0, "poor.json": 1, "bad.json": 3, "none.json": 3}
    cases = [
        (["grade", file, *more], case)
        for place, file in enumerate(results)
        for more, steps in ((["--json"], (0, 3, 5)), ([], (1, 4, 7)))
        for case in chosen(place, *steps)
    ]
    for argv, case in cases:
        code, words = end(tmp_path, argv, case)
        result = results[argv[1]]
        undelivered = {"out full": 2, "reader gone": PIPE}.get(case, 0)
        assert code == (result or undelivered), (argv, case, words)


@pytest.mark.parametrize("name", ["out.json", "out.parquet"])
def test_a_file_that_cannot_be_written_is_no_pass(tmp_path: Path, name: str) -> None:
    good = [{**scorecard({"norm": 1}), "run_id": f"r-{number}"} for number in range(400)]
    (tmp_path / "good.json").write_text(json.dumps(good))

    def no_room() -> None:
        import resource

        resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))

    done = subprocess.run(
        [*COMMAND, "grade", "good.json", "-o", name],
        cwd=tmp_path,
        capture_output=True,
        preexec_fn=no_room,
        check=False,
    )
    assert done.returncode == 2
    assert b"cannot be written: File too large." in done.stderr  # the file, or a temporary one
    assert b"Traceback" not in done.stderr
    assert not (tmp_path / name).exists()


# --- signals


@contextmanager
def started(folder: Path, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        [*COMMAND, *arguments],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.PIPE,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def ended(process: subprocess.Popen[bytes], number: signal.Signals) -> str:
    """What a command says that gets a signal; it and all that it started are gone."""
    children = below(process.pid)
    process.send_signal(number)
    _, err = process.communicate(timeout=120)
    until(lambda: not any(map(is_running, children)))
    assert process.returncode not in (0, 1)
    assert b"Traceback" not in err
    return err.decode()


def below(pid: int) -> list[int]:
    found = []
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in map(int, path.read_text().split()):
            found += [child, *below(child)]
    return found


def computed(pid: int) -> int:
    """Ticks of computing; below zero when the process is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return -1
    return -1 if fields[0] in "ZX" else int(fields[11]) + int(fields[12])


def wait_until(holds: Any) -> None:
    for _ in range(12_000):
        if holds():
            return
        time.sleep(0.01)
    raise AssertionError("it never came to that")


@needs_proc
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM] if CAMPAIGN else [signal.SIGINT])
def test_a_signal_ends_a_command_in_the_middle_of_native_work_with_its_processes(
    tmp_path: Path, number: signal.Signals
) -> None:
    runs = [
        {**evidence("dag-review"), "run_id": f"r-{index}", "output_schema": doubling(40)}
        for index in range(100)
    ]
    (tmp_path / "runs.jsonl").write_text("".join(json.dumps(one) + "\n" for one in runs))
    with started(tmp_path, "grade", "runs.jsonl", "-o", "out.json") as process:
        wait_until(
            lambda: any(computed(child) > 50 for child in below(process.pid))
        )  # it evaluates a schema
        assert "assay: interrupted; nothing was written." in ended(process, number)
        assert process.returncode == INTERRUPTED
    assert os.listdir(tmp_path) == ["runs.jsonl"]


@needs_proc
@pytest.mark.parametrize(
    "number", [signal.SIGINT, signal.SIGTERM] if CAMPAIGN else [signal.SIGTERM]
)
@pytest.mark.usefixtures("here")
def test_a_signal_ends_a_command_that_waits_for_a_judge(
    tmp_path: Path, number: signal.Signals
) -> None:
    put_items(tmp_path, 20)
    asked = (
        "judge",
        "rubric",
        "items.jsonl",
        "--rubric",
        "plain.yaml",
        "--model",
        "m-1",
        "--base-url",
    )
    with scripted_judge(latency_s=600) as judge, started(tmp_path, *asked, judge.url) as process:
        wait_until(lambda: judge.stats().requests > 0 or process.poll() is not None)
        assert process.poll() is None, process.communicate()
        assert "interrupted" in ended(process, number)


def test_an_interruption_from_inside_a_workflow_leaves_no_traceback(tmp_path: Path) -> None:
    (tmp_path / "flow.py").write_text(
        "import os, signal, time\n\n\ndef answer(question):\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n    time.sleep(1)\n"
    )
    (tmp_path / "flow.yaml").write_text(
        "workflow: flow\nversion: 1\nfamily: rag\ninputs: [question]\noutputs: [answer]\n"
        'adapter: {kind: python, target: "flow:answer"}\n'
    )
    # the second signal interrupts the event loop itself
    samples = "".join(f'{{"id": "{name}", "question": "why"}}\n' for name in "abcd")
    (tmp_path / "d.jsonl").write_text(samples)
    words = [*COMMAND, "run", "flow.yaml", "--dataset", "d.jsonl"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == INTERRUPTED, done.stderr
    assert "assay: interrupted; finished runs are in the journal" in done.stderr
    assert "Traceback" not in done.stderr


@needs_proc
def test_a_signal_ends_a_run_whose_workflow_blocks_the_event_loop(tmp_path: Path) -> None:
    (tmp_path / "flow.py").write_text(
        "import pathlib, time\n\n\nasync def answer(question):\n"
        '    pathlib.Path("began").touch()\n    time.sleep(600)\n'
    )
    (tmp_path / "flow.yaml").write_text(
        "workflow: flow\nversion: 1\nfamily: rag\ninputs: [question]\noutputs: [answer]\n"
        'adapter: {kind: python, target: "flow:answer"}\n'
    )
    (tmp_path / "d.jsonl").write_text('{"id": "a", "question": "why"}\n')
    with started(tmp_path, "run", "flow.yaml", "--dataset", "d.jsonl") as process:
        wait_until(lambda: (tmp_path / "began").exists() or process.poll() is not None)
        assert "assay: interrupted" in ended(process, signal.SIGINT)
        assert process.returncode == INTERRUPTED


@needs_proc
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_command_whose_main_thread_does_not_hear_it(
    tmp_path: Path, number: signal.Signals
) -> None:
    """Native code that lets other threads run, a thread that never ends: both would keep the
    process forever.
    """
    code = """
import ctypes, sys, threading, time, types
from assay.__main__ import main
from assay.files.atomic import atomic_write

def run(options):
    threading.Thread(target=time.sleep, args=(600,)).start()
    with atomic_write("out.json") as stream:
        stream.write(b"half")
        stream.flush()
        print("ready", file=sys.stderr, flush=True)
        while True:
            ctypes.CDLL(None).usleep(900_000_000)

verb = types.SimpleNamespace(parse=lambda verb, argv: None, runs=[], run=run)
sys.modules["assay.cli.grade"] = types.SimpleNamespace(COMMANDS={"grade": verb})
sys.argv = ["assay", "--debug", "grade"]
sys.exit(main())
"""
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        assert process.stderr is not None
        assert process.stderr.readline() == b"ready\n"
        assert len(os.listdir(tmp_path)) == 1
        assert "interrupted; nothing was written" in ended(process, number)
        assert process.returncode == INTERRUPTED
        assert os.listdir(tmp_path) == []
    finally:
        process.kill()
        process.communicate()


@needs_proc
@pytest.mark.parametrize(
    ("number", "verb"),
    [
        (number, verb)
        for number in (signal.SIGINT, signal.SIGTERM)
        for verb in (["grade", "-"], ["run", "--dataset", "samples.jsonl", "--work", "w"])
        if CAMPAIGN or (number == signal.SIGINT) == (verb[0] == "run")
    ],
)
def test_a_signal_ends_a_command_that_waits(
    tmp_path: Path, verb: list[str], number: signal.Signals
) -> None:
    project(
        tmp_path, [sample("s", "one")], adapter={"kind": "command", "command": ["sleep", "600"]}
    )
    with started(tmp_path, *verb) as process:
        wait_until(
            lambda: len(os.listdir(f"/proc/{process.pid}/task")) > 1 or process.poll() is not None
        )  # it hears signals
        if verb[0] == "run":
            wait_until(lambda: below(process.pid) or process.poll() is not None)
        assert process.poll() is None, process.communicate()
        assert "interrupted" in ended(process, number)
