"""A process for work that may have to be killed: native code that no thread can interrupt, or
untrusted code.

`WorkerProcess` is the caller's side: one process answers many requests, each four bytes of length
and the data, and is killed with its session. `serve` is the other side. The modules that use both
define the data: `tools.reading` and `records.schema_worker`.
"""

from __future__ import annotations

import os
import resource
import selectors
import signal
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable
from importlib.util import find_spec
from math import ceil
from pathlib import Path

_LENGTH = struct.Struct(">I")
_START = (
    "import sys; sys.path.extend(sys.argv[2:]); from importlib import import_module;"
    " import_module(sys.argv[1]).main()"
)
START_S = 120.0
"""Seconds for a process to start on a cold disk or a busy machine; no untrusted code runs yet."""


def exit_words(code: int) -> str:
    """How a process ended: its exit code, or the signal that killed it.

    >>> exit_words(7), exit_words(-9), exit_words(-99)
    ('exit code 7', 'signal SIGKILL', 'signal 99')
    """
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"signal {signal.Signals(-code).name}"
    except ValueError:
        return f"signal {-code}"


class Died(Exception):
    """The process ended without an answer. `code` is its exit code, or the signal as a negative
    number.
    """

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code

    @property
    def cause(self) -> str:
        """How it ended, in words."""
        return exit_words(self.code)


class Late(Exception):
    """The process did not answer in time."""


class WorkerProcess:
    """The process and its two pipes. `module` has a `main`; it gets no environment and only the
    named packages.
    """

    def __init__(self, module: str, packages: Iterable[str], *, start_s: float = START_S) -> None:
        self._owner = os.getpid()
        self.answered = 0
        self._process = subprocess.Popen(  # our own interpreter and our own code  # noqa: S603
            [
                sys.executable,
                "-I",
                "-S",
                "-B",
                "-X",
                "utf8",
                "-c",
                _START,
                module,
                *_places(packages),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            cwd="/",
            env={},
            start_new_session=True,
            close_fds=True,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._in, self._out = self._process.stdin.fileno(), self._process.stdout.fileno()
        os.set_blocking(self._in, False)
        os.set_blocking(self._out, False)
        try:
            self.greeting = self._receive(time.monotonic() + start_s)
        except BaseException:
            self.end()
            raise

    def is_usable(self) -> bool:
        """Whether it is alive and ours: after a fork, the pipes belong to the parent."""
        return self._owner == os.getpid() and self._process.poll() is None

    def ask(self, data: bytes, *, wall_s: float | None = None) -> bytes:
        """The answer to one request. Raises Died or Late; the process must then be ended."""
        deadline = None if wall_s is None else time.monotonic() + wall_s
        self._send(_LENGTH.pack(len(data)) + data, deadline)
        reply = self._receive(deadline)
        self.answered += 1
        return reply

    def kill(self) -> None:
        """Kill the whole session; callers waiting for an answer get Died. No-op in a fork."""
        if self._owner == os.getpid() and self._process.poll() is None:
            try:
                os.killpg(self._process.pid, signal.SIGKILL)
            except ProcessLookupError:
                self._process.kill()

    def end(self) -> None:
        """Kill the whole session and wait for it; in a fork, only close the pipes."""
        if self._owner == os.getpid():
            self.kill()
            self._process.wait()
        else:
            self._process.returncode = 0  # not our child, so there is nothing to wait for
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()

    def _send(self, data: bytes, deadline: float | None) -> None:
        left = memoryview(data)
        while left:
            self._wait(self._in, selectors.EVENT_WRITE, deadline)
            try:
                left = left[os.write(self._in, left) :]
            except BlockingIOError:
                continue
            except BrokenPipeError:
                raise self._death() from None

    def _receive(self, deadline: float | None) -> bytes:
        data = bytearray()
        wanted = _LENGTH.size
        while len(data) < wanted:
            self._wait(self._out, selectors.EVENT_READ, deadline)
            try:
                part = os.read(self._out, 1024 * 1024)
            except BlockingIOError:
                continue
            if not part:
                raise self._death()
            data += part
            if len(data) >= _LENGTH.size:
                wanted = _LENGTH.size + _LENGTH.unpack_from(data)[0]
        return bytes(data[_LENGTH.size :])

    def _wait(self, pipe: int, event: int, deadline: float | None) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(pipe, event)
            if not selector.select(
                None if deadline is None else max(0.0, deadline - time.monotonic())
            ):
                raise Late

    def _death(self) -> Died:
        try:
            return Died(self._process.wait(1))
        except subprocess.TimeoutExpired:  # its pipes are closed, so it can't be used
            return Died(0)


def _places(packages: Iterable[str]) -> list[str]:
    """The folders in which the process finds this package and the named ones."""
    folders = [str(Path(__file__).resolve().parents[2])]
    for name in packages:
        spec = find_spec(name)
        if spec is None or spec.origin is None:
            raise ModuleNotFoundError(f"the package {name} is missing", name=name)
        folder = os.path.dirname(spec.origin)
        folders.append(os.path.dirname(folder) if spec.submodule_search_locations else folder)
    return list(dict.fromkeys(folders))


# --- inside the process


def serve(
    answer: Callable[[bytes], bytes],
    *,
    greeting: Callable[[], bytes],
    cpu_s: float,
    memory: int,
    wall_s: float | None = None,
) -> None:
    """Answer requests from standard input until it ends. The system kills this process when one
    request takes too much time or memory.

    `greeting` runs before the process loses the right to open files, so it must import whatever is
    needed later.
    """
    incoming, outgoing = sys.stdin.buffer, sys.stdout.buffer
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    for what, limit in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, 0),
        (getattr(resource, "RLIMIT_NPROC", None), 0),
        (resource.RLIMIT_AS, memory),
    ):
        if what is not None:
            _limit(what, limit)
    first = greeting()
    _limit(resource.RLIMIT_NOFILE, 0)
    _send(outgoing, first)
    while True:
        head = incoming.read(_LENGTH.size)
        if len(head) < _LENGTH.size:
            return
        data = incoming.read(_LENGTH.unpack(head)[0])
        _start_clock(cpu_s, wall_s)
        _send(outgoing, answer(data))
        signal.setitimer(signal.ITIMER_REAL, 0)


def _send(outgoing: object, data: bytes) -> None:
    outgoing.write(_LENGTH.pack(len(data)) + data)  # type: ignore[attr-defined]
    outgoing.flush()  # type: ignore[attr-defined]


def _limit(what: int, limit: int) -> None:
    """Set a limit, unless the system doesn't support it."""
    _, hard = resource.getrlimit(what)
    limit = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
    try:
        resource.setrlimit(what, (limit, limit))
    except (OSError, ValueError):
        return


def _start_clock(cpu_s: float, wall_s: float | None) -> None:
    """Have the system kill this process when one request takes too long, even if the parent is gone
    or stopped.
    """
    if wall_s is not None:
        signal.setitimer(signal.ITIMER_REAL, wall_s)
    used = resource.getrusage(resource.RUSAGE_SELF)
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    soft = ceil(used.ru_utime + used.ru_stime + cpu_s)
    resource.setrlimit(
        resource.RLIMIT_CPU, (soft if hard == resource.RLIM_INFINITY else min(soft, hard), hard)
    )


def _end_with(parent: int) -> None:
    """Exit when the parent dies. If native code blocks the interpreter then, the time limit ends
    this process.
    """
    while os.getppid() == parent:
        time.sleep(0.2)
    os._exit(1)
