"""One supervised run from outside: start it, read its pipes, stop it, and make sure that nothing of
it is left.

The word of the supervisor inside, which comes through a pipe of its own, says how a run ended. No
word means that it did not end well. What the code prints is kept up to a limit and decides nothing.
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
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from assay.errors import NotEnoughEvidence
from assay.sandbox import isolation as walls
from assay.sandbox.bootstrap import modules_for, start_command
from assay.sandbox.ending import READY, read_ending
from assay.sandbox.limits import MAX_REPORT_MB, OPEN_FILES, OUTPUT_FLOOD, Limits
from assay.sandbox.outcome import Isolation, Outcome, Stream

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import TracebackType
    from typing import Any

    from assay.sandbox.outcome import Kind

_STOP_S = 2.0
"""How long a stopped run may take to end by its supervisor, before it is killed from outside."""
_ENV = {
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "LANG": "C.UTF-8",
    "TZ": "UTC",
    "PYTHONDONTWRITEBYTECODE": "1",
    "MALLOC_ARENA_MAX": "2",
}


class Entry(NamedTuple):
    """A file (bytes), a symbolic link (text) or a folder (None) of the working folder."""

    path: str
    mode: int
    data: bytes | str | None


class Setup(NamedTuple):
    """What a run is given."""

    kind: str
    """The module of `inside` that runs it."""
    limits: Limits
    isolation: Isolation
    python: str
    job: Mapping[str, Any]
    entries: Sequence[Entry] = ()
    fixed: Sequence[walls.Fixed] = ()
    readable: Sequence[str] = ()
    env: Mapping[str, str] = {}
    stdin: bytes = b""
    channel: tuple[int, int] | None = None
    """Two open descriptors (read, write) to another box."""
    answers: bool = False
    """Whether the code that runs is trusted to give an answer through a pipe of its own."""


class _Kept:
    def __init__(self, limit: int) -> None:
        self.data, self.total, self.limit = bytearray(), 0, limit

    def add(self, part: bytes) -> None:
        self.total += len(part)
        self.data += part[: max(0, self.limit - len(self.data))]


class Box:
    """Use it in a `with` block: leaving it kills what is left and closes every pipe."""

    def __init__(self, setup: Setup) -> None:
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
        output = setup.limits.output_kb * 1024
        self._kept: dict[str, _Kept] = {name: _Kept(output) for name in ("stdout", "stderr")}
        self._kept |= {
            "report": _Kept((MAX_REPORT_MB + 1) * 2**20),
            "info": _Kept(4096),
            "answer": _Kept(64 * 1024),
        }
        self._reads: dict[int, str] = {}
        try:
            self._process = self._start()
        except BaseException:
            self._let_go()
            raise

    def __enter__(self) -> Box:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self._kill()
        finally:
            self._let_go()

    def _let_go(self) -> None:
        for one in self._ours:
            os.close(one)
        self._ours.clear()
        if self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)

    @property
    def answer(self) -> bytes:
        """What the trusted code inside said."""
        return bytes(self._kept["answer"].data)

    # --- start

    def _start(self) -> subprocess.Popen[bytes]:
        setup = self.setup
        given: list[int] = []
        standard: list[int] = []
        try:
            job_out, job_in = self._pipe(given, feeds=True)
            leash_out, self._leash = self._pipe(given, feeds=True)
            report = self._pipe_in(given, "report")
            answer = self._pipe_in(given, "answer") if setup.answers else -1
            outputs = {name: self._pipe_in(standard, name) for name in ("stdout", "stderr")}
            stdin_out, stdin_in = self._pipe(standard, feeds=True)
            channel = setup.channel or ()
            user = walls.choose_user()
            job = self._job(user) | {
                "report": report,
                "leash": leash_out,
                "answer": answer,
                "channel": list(channel),
            }
            command, cwd = self._command(given, job_out, user, job)
            job["highest"] = max(*given, *channel)
            self._feeds = {
                job_in: memoryview(
                    marshal.dumps({**job, "modules": modules_for(setup.kind, setup.python)})
                ),
                stdin_in: memoryview(setup.stdin),
            }
            return subprocess.Popen(  # our own supervisor  # noqa: S603
                command,
                stdin=stdin_out,
                stdout=outputs["stdout"],
                stderr=outputs["stderr"],
                pass_fds=[*given, *channel],
                cwd=cwd,
                env=_ENV,
                start_new_session=True,
                close_fds=True,
            )
        except OSError as error:
            raise self._cannot_start(str(error)) from error
        finally:
            for one in (*given, *standard):
                os.close(one)

    def _job(self, user: int) -> dict[str, Any]:
        limits, namespaced = self.setup.limits, self.setup.isolation == "bubblewrap"
        private = namespaced and not user
        tasks = limits.processes + (
            2 if private else 0
        )  # the namespace's first process and the supervisor are of the same user
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
        self, given: list[int], job_out: int, user: int, job: dict[str, Any]
    ) -> tuple[list[str], str]:
        setup = self.setup
        home = "/tmp"  # of the sandbox  # noqa: S108
        if setup.isolation == "process":
            if (
                setup.kind != "command"
            ):  # a command is another program; a solution imports from this interpreter's folders
                walls.check_reach(setup.python)
            home = self._make_folders(user, job)
        job["env"] = {**_ENV, "HOME": home, "TMPDIR": home, **setup.env}
        if setup.isolation == "process":
            return start_command(setup.python, setup.kind, job_out), "/"
        info = self._pipe_in(given, "info")
        size = sum(
            len(entry.data) if isinstance(entry.data, bytes) else 512 for entry in setup.entries
        )
        texts = {
            path: _memory(given, text.encode()) for path, text in walls.etc_texts(user).items()
        }
        readable = [*walls.interpreter(setup.python), *setup.readable]
        arguments = walls.wall_arguments(
            setup.limits, readable=readable, tree_bytes=size, fixed=setup.fixed, texts=texts
        )
        program = walls.filter_program()
        if program:
            arguments += ["--seccomp", str(_memory(given, program))]
        return [
            walls.find_bubblewrap(),
            *arguments,
            "--info-fd",
            str(info),
            "--",
            *start_command(setup.python, setup.kind, job_out),
        ], "/"

    def _make_folders(self, user: int, job: dict[str, Any]) -> str:
        """Without walls: a working folder, one for the report and one for the rest, on this
        machine's own disk.
        """
        self._folder = tempfile.mkdtemp(prefix="assay-sandbox-")
        os.chmod(self._folder, 0o711)  # others pass through, and cannot look around  # noqa: S103
        paths = {name: os.path.join(self._folder, name) for name in ("tree", "report", "tmp")}
        for path in paths.values():
            os.mkdir(path, 0o700)
            if user:
                os.chown(path, user, user)
        job["folder"] = paths["tree"]
        job["report_file"] = job["report_file"] and os.path.join(
            paths["report"], os.path.basename(job["report_file"])
        )
        job["argv"] = [one.replace(walls.REPORTS, paths["report"]) for one in job.get("argv", ())]
        return paths["tmp"]

    def _pipe(self, given: list[int], *, feeds: bool) -> tuple[int, int]:
        out, into = os.pipe()
        ours, theirs = (into, out) if feeds else (out, into)
        os.set_blocking(ours, False)
        self._ours.add(ours)
        given.append(theirs)
        return out, into

    def _pipe_in(self, given: list[int], name: str) -> int:
        out, into = self._pipe(given, feeds=False)
        self._reads[out] = name
        return into

    # --- attending

    def watched(self) -> dict[int, int]:
        """Open descriptors and what they wait for."""
        return dict.fromkeys(self._reads, selectors.EVENT_READ) | dict.fromkeys(
            self._feeds, selectors.EVENT_WRITE
        )

    def serve(self, one: int) -> None:
        """Read or write one descriptor that is ready."""
        try:
            if one in self._feeds:
                left = self._feeds[one]
                self._feeds[one] = left[os.write(one, left[: 1024 * 1024]) :] if left else left
                if not self._feeds[one]:
                    self._close(one)
            elif one in self._reads:
                part = os.read(one, 256 * 1024)
                if part:
                    self._keep(self._reads[one], part)
                else:
                    self._close(one)
        except BlockingIOError:
            return
        except OSError:  # the other end is gone
            self._close(one)

    def _keep(self, name: str, part: bytes) -> None:
        kept = self._kept[name]
        kept.add(part)
        if name == "info" and self._inner is None and b"}" in kept.data:
            try:
                self._inner = os.pidfd_open(json.loads(kept.data)["child-pid"])
                self._ours.add(self._inner)
            except (OSError, ValueError, KeyError):
                self._inner = None
        elif kept.total > kept.limit * OUTPUT_FLOOD:
            self.stop("output")

    def _close(self, one: int) -> None:
        self._feeds.pop(one, None)
        self._reads.pop(one, None)
        if one in self._ours:
            self._ours.discard(one)
            os.close(one)
        if not self._reads and self.ended is None:
            self.ended = time.monotonic()

    def stop(self, why: Kind | None) -> None:
        """Ask the supervisor to end everything; `why` is None where the run is simply over."""
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
            # There is no namespace that would take its processes along: the supervisor must do it.
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

    def outcome(self) -> Outcome:
        """How it ended. Raises NotEnoughEvidence SBX-002 where the sandbox itself did not start."""
        said = bytes(self._kept["report"].data)
        if not said.startswith(READY) and self.stopped_for is None:
            raise self._cannot_start(
                self._kept["stderr"].data.decode("utf-8", "replace").strip()
                or "no word from the supervisor"
            )
        stdout, stderr = (
            Stream(bytes(self._kept[name].data), self._kept[name].total)
            for name in ("stdout", "stderr")
        )
        ending = read_ending(
            said,
            self.setup.limits,
            stderr.data,
            stopped=self.stopped_for,
            over=self._stopped_at is not None,
        )
        return Outcome(
            status=ending.status,
            exit_code=ending.exit_code,
            signal=ending.signal,
            wall_s=(self.ended or time.monotonic()) - self.began,
            cpu_s=ending.cpu_s,
            peak_kb=ending.peak_kb,
            stdout=stdout,
            stderr=stderr,
            violations=ending.violations,
            isolation=self.setup.isolation,
            reason=ending.reason,
            report=ending.report,
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


def attend(boxes: Sequence[Box], *, until: Callable[[], bool], deadline: float) -> bool:
    """Serve the pipes of all boxes until the condition holds or time is up; True if it held."""
    with selectors.DefaultSelector() as selector:
        while not until():
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            now = {one: (box, event) for box in boxes for one, event in box.watched().items()}
            for one in [*selector.get_map()]:
                if one not in now:
                    selector.unregister(one)
            for one, (box, event) in now.items():
                if one not in selector.get_map():
                    selector.register(one, event, box)
            for key, _ in selector.select(min(left, 0.5)):
                key.data.serve(key.fd)
    return True


def end(box: Box, why: Kind | None, others: Sequence[Box] = ()) -> None:
    """Stop a box and serve its pipes until it has ended."""
    box.stop(why)
    if not attend(
        [box, *others], until=lambda: box.ended is not None, deadline=time.monotonic() + _STOP_S
    ):
        box._kill()
        attend(
            [box, *others], until=lambda: box.ended is not None, deadline=time.monotonic() + _STOP_S
        )


def _memory(given: list[int], data: bytes) -> int:
    """An open file that exists only in memory."""
    one = os.memfd_create("assay")
    given.append(one)
    os.write(one, data)
    os.lseek(one, 0, os.SEEK_SET)
    return one


def _tasks_of(user: int) -> int:
    """How many tasks this user has already: the limit of the system counts them all."""
    total = 0
    for name in os.listdir("/proc"):
        try:
            if name.isdigit() and os.stat(f"/proc/{name}").st_uid == user:
                total += len(os.listdir(f"/proc/{name}/task"))
        except OSError:
            continue
    return total
