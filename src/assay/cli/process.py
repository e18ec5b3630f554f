"""The command as a process: its standard streams, and how a signal ends it.

Streams never turn a failure into anything else: a gate that rejects exits 1 whatever became of its
output. A pass that standard output did not take, because the disk is full or the reader went away,
was not delivered and is not exit 0. A stream that was closed from the start doesn't count. SIGTERM
and Ctrl-C interrupt the work, which cleans up after itself. If it hasn't ended a moment later,
because a thread or native code blocks it, it is killed with every process that it started.
"""

from __future__ import annotations

import errno
import io
import os
import select
import signal
import sys
import threading
import time

from assay.errors import ExitCode

TYPE_CHECKING = False  # the help needs no `typing`, which takes as long to load as all the rest
if TYPE_CHECKING:
    from typing import Any

INTERRUPTED = 130
PIPE = 141
"""The exit code that a shell reports for a program ended by SIGPIPE."""
GRACE_S = 1.2
"""Seconds for the work to clean up after itself."""
MOMENT_S = 0.2
"""Seconds in which the thread that hears signals gets its turn."""
_end = os._exit  # `assay run` replaces the one in `os`


class _Stream(io.RawIOBase):
    """A file descriptor whose writes never raise; it remembers whether one failed."""

    def __init__(self, descriptor: int) -> None:
        super().__init__()
        self._descriptor = descriptor
        self.fault: OSError | None = None

    def write(self, data: Any) -> int:
        if self.fault is not None:
            return len(data)
        try:
            return os.write(self._descriptor, data)
        except BlockingIOError:
            select.select([], [self._descriptor], [])
            return 0
        except OSError as error:
            self.fault = error
            return len(data)

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._descriptor

    def isatty(self) -> bool:
        return os.isatty(self._descriptor)


class Streams:
    """Standard input, output and error, made safe to use."""

    def __init__(self) -> None:
        for number in range(
            3
        ):  # else the next file that is opened would be taken for a stream that is closed
            try:
                os.fstat(number)
            except OSError:
                os.open(os.devnull, os.O_RDWR)
        if sys.stdin is None:
            sys.stdin = open(0, closefd=False)  # for as long as the process lives  # noqa: SIM115
        self._out, self._err = _Stream(1), _Stream(2)
        sys.stdout = _text(self._out, like=sys.stdout, line_buffering=self._out.isatty())
        sys.stderr = _text(self._err, like=sys.stderr, line_buffering=True)

    def code(self, code: int) -> int:
        """The exit code of a command whose result has this one."""
        sys.stdout.flush()
        fault = self._out.fault
        if fault is None:
            return code
        if fault.errno == errno.EPIPE:
            return code or PIPE
        sys.stderr.write(
            f"assay: standard output: cannot be written: {os.strerror(fault.errno or 0)}. Make"
            " room, or write to a file with -o. [FIL-008]\n"
        )
        return code or ExitCode.MISUSE


def _text(raw: _Stream, *, like: Any, line_buffering: bool) -> io.TextIOWrapper:
    encoding = getattr(like, "encoding", None) or "utf-8"
    return io.TextIOWrapper(
        io.BufferedWriter(raw), encoding=encoding, errors="replace", line_buffering=line_buffering
    )


# --- signals


def hear_signals() -> None:
    """Interrupt the work on SIGTERM as on Ctrl-C, and end the process where that does not."""
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _interrupt)
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(
        writing, warn_on_full_buffer=False
    )  # written to at once, also while the main thread is in native code
    threading.Thread(target=_watch, args=(reading,), daemon=True, name="assay-signals").start()


def _interrupt(_number: int, frame: Any) -> None:
    """What Ctrl-C does at this moment: an event loop cancels its work in order."""
    handler = signal.getsignal(signal.SIGINT)
    if not callable(handler):  # ignored, as for a command in the background
        raise KeyboardInterrupt
    handler(signal.SIGINT, frame)


def _watch(reading: int) -> None:
    owner = os.getpid()
    while signals := os.read(reading, 64):
        if {signal.SIGINT, signal.SIGTERM} & set(signals) and os.getpid() == owner and _is_ours():
            _asked.set()
            time.sleep(GRACE_S)
            dropped = _drop_unfinished()
            if not _told.is_set():
                tell(_left_by_verb() if dropped else "")
            end_children()
            _end(INTERRUPTED)


def _drop_unfinished() -> bool:
    files = sys.modules.get("assay.files.atomic")  # not loaded: nothing was begun
    return files is not None and files.drop_unfinished()


def _left_by_verb() -> str:
    from assay.cli.verbs import VERBS

    return next((VERBS[word].left for word in sys.argv[1:] if word in VERBS), "")


def _is_ours() -> bool:
    """Whether a signal interrupts the work. A server has its own way to end, and finishes what it
    has accepted.
    """
    return signal.getsignal(signal.SIGTERM) is _interrupt


_asked = threading.Event()
_told = threading.Event()


def was_interrupted() -> bool:
    """Whether a signal ended the work, whatever error a library made of it: DuckDB raises a plain
    RuntimeError.
    """
    return _is_ours() and _asked.wait(MOMENT_S)


def tell(left: str) -> None:
    """Print once that the command was interrupted, and what is left of its work."""
    _told.set()
    text = f"\nassay: interrupted{f'; {left}' if left else ''}.\n"
    try:
        os.write(2, text.encode())
    except OSError:
        return


def end_interrupted() -> None:
    """End the process at once: what an interrupt cut short, as an import of DuckDB, would be
    reported as leaked.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    _end(INTERRUPTED)


def end_children() -> None:
    """Kill every process that this one started, and those that they did."""
    for pid in _descendants(os.getpid()):
        try:
            os.kill(pid, signal.SIGKILL)
        except OSError:
            continue


def _descendants(pid: int) -> list[int]:
    children: dict[int, list[int]] = {}
    try:
        names = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return []
    for name in names:
        try:
            with open(f"/proc/{name}/stat", "rb") as stream:
                children.setdefault(int(stream.read().rsplit(b")", 1)[1].split()[1]), []).append(
                    name
                )
        except (OSError, ValueError, IndexError):
            continue
    processes, left = [], [pid]
    while left:
        below = children.get(left.pop(), [])
        processes += below
        left += below
    return processes
