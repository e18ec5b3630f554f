"""One supervised run, seen from outside: starts it, reads its pipes, stops it, and makes sure that
no process or file of it is left.

Only the supervisor inside reports, through its own pipe, how a run ended. A run without a report
has not passed. The code's output is kept up to a limit and decides nothing.
"""

from __future__ import annotations

import json
import marshal
import os
import selectors
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from assay.errors import NotEnoughEvidence
from assay.sandbox import isolation as walls
from assay.sandbox import seccomp
from assay.sandbox.bootstrap import modules_for, start_command
from assay.sandbox.box_setup import BoxSetup
from assay.sandbox.ending import READY, read_ending
from assay.sandbox.limits import MAX_REPORT_MB, OPEN_FILES, OUTPUT_FLOOD
from assay.sandbox.outcome import Kind, SandboxOutcome, Stream

_STOP_S = 2.0
"""How long the supervisor may take to end a stopped run before it is killed from outside."""
_ENV = {
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "LANG": "C.UTF-8",
    "TZ": "UTC",
    "PYTHONDONTWRITEBYTECODE": "1",
    "MALLOC_ARENA_MAX": "2",
}


class _Captured:
    def __init__(self, limit: int) -> None:
        self.data, self.total, self.limit = bytearray(), 0, limit

    def add(self, part: bytes) -> None:
        self.total += len(part)
        self.data += part[: max(0, self.limit - len(self.data))]


class Box:
    """Use it in a `with` block: leaving it kills what is left and closes every pipe."""

    def __init__(self, setup: BoxSetup) -> None:
        setup.limits.check()
        walls.check_isolation(setup.isolation)
        self.setup = setup
        self.began = time.monotonic()
        self.ended: float | None = None
        self.stopped_for: Kind | None = None
        self._stopped_at: float | None = None
        self._folder = ""
        self._inner: int | None = None
        self._ours: set[int] = set()
        self._feeds: dict[int, memoryview] = {}
        self._reads: dict[int, str] = {}
        output = setup.limits.output_kb * 1024
        self._captured = {
            "stdout": _Captured(output),
            "stderr": _Captured(output),
            "report": _Captured((MAX_REPORT_MB + 1) * 2**20),
            "info": _Captured(4096),
            "answer": _Captured(64 * 1024),
        }
        try:
            self._process = self._start()
        except BaseException:
            self._release()
            raise

    def __enter__(self) -> Box:
        return self

    def __exit__(self, *failure: object) -> None:
        try:
            self._kill()
        finally:
            self._release()

    def _release(self) -> None:
        for pipe in self._ours:
            os.close(pipe)
        self._ours.clear()
        if self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)

    @property
    def answer(self) -> bytes:
        """The answer of the trusted code inside."""
        return bytes(self._captured["answer"].data)

    # --- start

    def _start(self) -> subprocess.Popen[bytes]:
        setup, user = self.setup, walls.choose_user()
        theirs: list[int] = []
        standard: list[int] = []
        try:
            job_out, job_in = self._pipe(theirs)
            leash_out, self._leash = self._pipe(theirs)
            job = self._job(user) | {
                "report": self._pipe_from(theirs, "report"),
                "leash": leash_out,
                "answer": self._pipe_from(theirs, "answer") if setup.answers else -1,
                "channel": list(setup.channel),
            }
            stdout, stderr = (self._pipe_from(standard, name) for name in ("stdout", "stderr"))
            stdin_out, stdin_in = self._pipe(standard)
            command = self._command(theirs, job_out, user, job)
            job["highest"] = max(*theirs, *setup.channel)
            job["modules"] = modules_for(setup.kind, setup.python)
            self._feeds = {
                job_in: memoryview(marshal.dumps(job)),
                stdin_in: memoryview(setup.stdin),
            }
            return subprocess.Popen(  # our own supervisor  # noqa: S603
                command,
                stdin=stdin_out,
                stdout=stdout,
                stderr=stderr,
                pass_fds=[*theirs, *setup.channel],
                cwd="/",
                env=_ENV,
                start_new_session=True,
                close_fds=True,
            )
        except OSError as error:
            raise self._cannot_start(str(error)) from error
        finally:
            for pipe in (*theirs, *standard):
                os.close(pipe)

    def _job(self, user: int) -> dict[str, Any]:
        limits, namespaced = self.setup.limits, self.setup.isolation == "bubblewrap"
        private = namespaced and not user
        # the namespace's first process and the supervisor are of the same user
        tasks = limits.processes + (2 if private else 0)
        if not namespaced and not user:
            tasks = limits.processes + _tasks_of(os.getuid())
        return {
            **self.setup.job,
            "namespaced": namespaced,
            "private": private,
            "user": user,
            "tasks": tasks,
            "most_tasks": limits.processes,
            "cpu_s": limits.cpu_s,
            "memory": limits.memory_mb * 2**20,
            "file": limits.file_mb * 2**20,
            "open_files": OPEN_FILES,
            "files": [tuple(entry) for entry in self.setup.entries],
            "report_bytes": MAX_REPORT_MB * 2**20,
            "folder": walls.WORK,
        }

    def _command(
        self, theirs: list[int], job_out: int, user: int, job: dict[str, Any]
    ) -> list[str]:
        setup = self.setup
        start = start_command(setup.python, setup.kind, job_out)
        if setup.isolation == "process":
            home = self._make_folders(user, job)
            job["env"] = {**_ENV, "HOME": home, "TMPDIR": home}
            return start
        job["env"] = {**_ENV, "HOME": "/tmp", "TMPDIR": "/tmp"}  # of the sandbox  # noqa: S108
        info = self._pipe_from(theirs, "info")
        files = [entry.data for entry in setup.entries]
        texts = walls.etc_texts(user).items()
        arguments = walls.wall_arguments(
            setup.limits,
            readable=[*walls.interpreter(setup.python), *setup.readable],
            tree_bytes=sum(len(data) if isinstance(data, bytes) else 512 for data in files),
            texts={path: _memory(theirs, text.encode()) for path, text in texts},
        )
        program = seccomp.program()  # empty if there is no filter for this machine
        if program:
            arguments += ["--seccomp", str(_memory(theirs, program))]
        return [walls.find_bubblewrap(), *arguments, "--info-fd", str(info), "--", *start]

    def _make_folders(self, user: int, job: dict[str, Any]) -> str:
        """Make folders on this machine's disk for a run without isolation: the working folder, one
        for the report, and a home. Returns the home.
        """
        if self.setup.kind != "command":
            # a command is another program; a solution imports from this interpreter's folders
            walls.check_reach(self.setup.python)
        self._folder = tempfile.mkdtemp(prefix="assay-sandbox-")
        os.chmod(self._folder, 0o711)  # others can enter it but not list it  # noqa: S103
        tree, reports, home = (
            os.path.join(self._folder, name) for name in ("tree", "report", "tmp")
        )
        for path in (tree, reports, home):
            os.mkdir(path, 0o700)
            if user:
                os.chown(path, user, user)
        job["folder"] = tree
        job["report_file"] = job["report_file"].replace(walls.REPORTS, reports)
        job["argv"] = [word.replace(walls.REPORTS, reports) for word in job.get("argv", ())]
        return home

    def _pipe(self, theirs: list[int]) -> tuple[int, int]:
        """A pipe to the box: its end and our end."""
        out, into = os.pipe()
        os.set_blocking(into, False)
        self._ours.add(into)
        theirs.append(out)
        return out, into

    def _pipe_from(self, theirs: list[int], name: str) -> int:
        """The write end of a pipe from the box. Its output is captured under the name."""
        out, into = os.pipe()
        os.set_blocking(out, False)
        self._ours.add(out)
        self._reads[out] = name
        theirs.append(into)
        return into

    # --- serving the pipes

    def watched(self) -> dict[int, int]:
        """Open descriptors and what they wait for."""
        return dict.fromkeys(self._reads, selectors.EVENT_READ) | dict.fromkeys(
            self._feeds, selectors.EVENT_WRITE
        )

    def serve(self, pipe: int) -> None:
        """Read or write one descriptor that is ready."""
        try:
            if pipe in self._feeds:
                left = self._feeds[pipe]
                self._feeds[pipe] = left = left[os.write(pipe, left[: 2**20]) :] if left else left
                over = not left
            else:
                part = os.read(pipe, 2**18)
                self._capture(self._reads[pipe], part)
                over = not part
        except BlockingIOError:
            return
        except OSError:  # the other end is gone
            over = True
        if over:
            self._close(pipe)

    def _capture(self, name: str, part: bytes) -> None:
        captured = self._captured[name]
        captured.add(part)
        if name == "info" and self._inner is None and b"}" in captured.data:
            with suppress(OSError, ValueError, KeyError):
                self._inner = os.pidfd_open(json.loads(captured.data)["child-pid"])
                self._ours.add(self._inner)
        elif captured.total > captured.limit * OUTPUT_FLOOD:
            self.stop("output")

    def _close(self, pipe: int) -> None:
        self._feeds.pop(pipe, None)
        self._reads.pop(pipe, None)
        if pipe in self._ours:
            self._ours.discard(pipe)
            os.close(pipe)
        if not self._reads and self.ended is None:
            self.ended = time.monotonic()

    def stop(self, why: Kind | None) -> None:
        """Ask the supervisor to end everything; `why` is None if the run is simply over."""
        if self._stopped_at is None:
            self.stopped_for, self._stopped_at = why, time.monotonic()
            self._close(self._leash)
        elif time.monotonic() - self._stopped_at > _STOP_S:
            self._kill()

    def _kill(self) -> None:
        """Kill from outside: the first process of the namespace, and with it all others; then wait
        until they are gone.
        """
        if self.setup.isolation == "process" and self._process.poll() is None:
            # Without a namespace, only the supervisor can end all of its processes.
            if self._leash in self._ours:
                self._close(self._leash)
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_STOP_S)
        if self._inner is not None:
            with suppress(OSError):
                signal.pidfd_send_signal(self._inner, signal.SIGKILL)
        if self._process.poll() is None:
            try:
                os.killpg(self._process.pid, signal.SIGKILL)
            except OSError:
                self._process.kill()
        self._process.wait()
        if self._inner is not None:
            with selectors.DefaultSelector() as selector:
                selector.register(self._inner, selectors.EVENT_READ)
                selector.select(_STOP_S)

    # --- outcome

    def outcome(self) -> SandboxOutcome:
        """How it ended. Raises NotEnoughEvidence SBX-002 if the sandbox itself did not start."""
        report = bytes(self._captured["report"].data)
        stdout, stderr = (
            Stream(bytes(self._captured[name].data), self._captured[name].total)
            for name in ("stdout", "stderr")
        )
        if not report.startswith(READY) and self.stopped_for is None:
            raise self._cannot_start(stderr.text.strip() or "no report from the supervisor")
        return SandboxOutcome(
            wall_s=(self.ended or time.monotonic()) - self.began,
            stdout=stdout,
            stderr=stderr,
            isolation=self.setup.isolation,
            **read_ending(
                report,
                self.setup.limits,
                stderr.data,
                stopped=self.stopped_for,
                over=self._stopped_at is not None,
            ),
        )

    def _cannot_start(self, why: str) -> NotEnoughEvidence:
        fix = (
            "`assay` needs user namespaces, or root: see `kernel.unprivileged_userns_clone` and"
            " AppArmor's rule for bwrap."
        )
        return NotEnoughEvidence(
            "SBX-002",
            f"the sandbox ({self.setup.isolation}) did not start: {why[:600]}.",
            fix=fix if self.setup.isolation == "bubblewrap" else "",
        )


def attend(boxes: Sequence[Box], *, until: Callable[[], bool], seconds: float) -> bool:
    """Serve the pipes of all boxes until the condition holds or time is up; True if it held."""
    deadline = time.monotonic() + seconds
    while not until():
        left = deadline - time.monotonic()
        if left <= 0:
            return False
        with selectors.DefaultSelector() as selector:
            for box in boxes:
                for pipe, event in box.watched().items():
                    selector.register(pipe, event, box)
            for key, _ in selector.select(min(left, 0.5)):
                key.data.serve(key.fd)
    return True


def end(box: Box, why: Kind | None, others: Sequence[Box] = ()) -> None:
    """Stop a box and serve its pipes until it has ended."""
    box.stop(why)
    boxes = [box, *others]
    if not attend(boxes, until=lambda: box.ended is not None, seconds=_STOP_S):
        box._kill()
        attend(boxes, until=lambda: box.ended is not None, seconds=_STOP_S)


def run_box(setup: BoxSetup) -> tuple[SandboxOutcome, bytes]:
    """Run to the end or to the time limit. Returns how it ended, and the answer from inside."""
    with Box(setup) as box:
        if not attend([box], until=lambda: box.ended is not None, seconds=setup.limits.wall_s):
            end(box, "timeout")
        return box.outcome(), box.answer


def _memory(theirs: list[int], data: bytes) -> int:
    """An open file that exists only in memory."""
    file = os.memfd_create("assay")
    theirs.append(file)
    os.write(file, data)
    os.lseek(file, 0, os.SEEK_SET)
    return file


def _tasks_of(user: int) -> int:
    """How many tasks this user has already: the limit of the system counts them all."""
    total = 0
    for name in os.listdir("/proc"):
        with suppress(OSError):
            if name.isdigit() and os.stat(f"/proc/{name}").st_uid == user:
                total += len(os.listdir(f"/proc/{name}/task"))
    return total
