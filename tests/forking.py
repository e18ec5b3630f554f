"""The command without starting Python and loading the same modules anew each time: most of what a
short command costs.

Behind the fixture `assay` of conftest.py a command runs in one of four ways:

- The first command of each verb is started anew, once in the whole test run: only that proves that
  it finds what it needs in a Python that has loaded nothing. So is one whose environment Python
  reads only when it starts.
- The first command of each module of a verb's actions is forked from a parent that has loaded the
  packages of others and nothing of ours.
- Every other command runs in this process, with its own folder, environment, streams and
  descriptors 0 to 2.
- A command that must be a separate process (it serves) is forked from a parent that has loaded
  what the verbs load and has done nothing with it.

A test that is about the start of a process, its signals or its end asks for `assay_anew`, or starts
the command itself.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import IO, Any
from unittest.mock import patch

from assay.cli.verbs import VERBS
from assay.running.adapters import loading

PARENT = """
import asyncio, atexit, ctypes, difflib, email, faulthandler, gc, http.client, importlib, io, json, logging, os, pkgutil, platform, runpy, signal, socket
import sqlite3, ssl, sys, threading
from contextlib import suppress


def load(*names):
    gc.disable()
    for name in names:
        with suppress(ModuleNotFoundError):  # an extra that is not installed here
            importlib.import_module(name)
    gc.freeze()
    gc.enable()


load("aiohttp", "alembic.command", "jinja2", "jsonschema_rs", "msgspec", "numpy", "sqlalchemy.dialects.postgresql", "sqlalchemy.dialects.sqlite", "yaml", "zoneinfo")
asked = socket.socket(fileno=int(sys.argv[1]))
libc = ctypes.CDLL(None) if sys.platform == "linux" else None
end = os._exit  # `assay run` replaces the one in `os`


def become(message, streams):
    for number, (stream, name) in enumerate(zip(streams, ("stdin", "stdout", "stderr"))):
        os.dup2(stream, number)
        was = getattr(sys, name)
        how = {"encoding": was.encoding, "errors": was.errors, "line_buffering": name == "stderr", "write_through": was.write_through}
        made = io.TextIOWrapper(open(number, "rb" if name == "stdin" else "wb", closefd=False), **how)
        setattr(sys, name, made)
        setattr(sys, f"__{name}__", made)
    os.closerange(3, 1024)
    faulthandler.enable()
    if message["stays"]:
        os.setsid()
        if libc is not None:
            libc.prctl(1, signal.SIGKILL)  # a test run that is killed leaves nothing behind
    os.chdir(message["cwd"])
    os.environ.clear()
    os.environ.update(message["env"])
    sys.argv[:] = ["assay", *message["arguments"]]
    sys.path[0] = message["cwd"]
    try:
        if message["code"]:
            exec(compile(message["code"], "<code>", "exec"), {"__name__": "__main__"})
        else:
            runpy.run_module("assay", run_name="__main__", alter_sys=True)
    except SystemExit as said:
        return said.code or 0
    except BaseException:
        sys.excepthook(*sys.exc_info())
        return 1
    return 0


def answer(number):
    asked.sendall(json.dumps(number).encode() + b"\\n")


loading = []
while True:
    data, streams, _, _ = socket.recv_fds(asked, 1 << 20, 3)
    if not data:
        break
    message = json.loads(data)
    if "loads" in message:
        pid = os.fork()
        if pid == 0:
            loading.clear()
            asked.close()
            asked = socket.socket(fileno=streams[0])
            load(*message["loads"])
            for name in ("assay.cli", "assay.scoring.metrics", "assay.store"):
                load(*(found.name for found in pkgutil.iter_modules(importlib.import_module(name).__path__, name + ".")))
        else:
            loading.append(pid)
            os.close(streams[0])
        continue
    if "ended" in message:
        pid, status = os.waitpid(message["ended"], os.WNOHANG)
        answer(os.waitstatus_to_exitcode(status) if pid else None)
        continue
    pid = os.fork()
    if pid == 0:
        asked.close()
        code = become(message, streams)
        # all that an exit does but to take apart what was loaded, which costs more than the command
        threading._shutdown()
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        end(code)
    for stream in streams:
        os.close(stream)
    answer(pid)
    if not message["stays"]:
        answer(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
while loading:
    os.waitpid(loading.pop(), 0)
"""
PROGRAM = """#!{python} -IS
import json, os, socket, sys
wire = socket.socket(socket.AF_UNIX)
wire.connect("{address}")
message = {{"arguments": sys.argv[1:], "cwd": os.getcwd(), "env": dict(os.environ)}}
socket.send_fds(wire, [json.dumps(message).encode()], [0, 1, 2])
sys.exit(int(wire.makefile().read()))
"""
PYTHON = """
import runpy, sys
del sys.argv[0]
if sys.argv[0] == "-m":
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
else:
    runpy.run_path(sys.argv[0], run_name="__main__")
"""
# The tests start some thousand processes. Where Python writes no bytecode, each of them
# would compile what it loads, and so would each run the tests.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
AT_THE_START = (
    "PYTHON",
    "LC_",
    "LANG",
    "TZ",
    "LD_",
    "MALLOC_",
)  # what is read when a process starts, and not again
_BEGAN_WITH = {name: value for name, value in os.environ.items() if name.startswith(AT_THE_START)}
SMALL = 1 << 14  # what a pipe holds on any system though nobody reads it yet
FORKED = {"serve"}  # it has a process to lead
STARTED = {"demo", "doctor", "versions"}  # test_installing.py or `make test` starts them
TESTS = Path(__file__).resolve().parent
STAYS = (sys.prefix, sys.base_prefix, str(TESTS.parent / "src"))
_firsts: list[Path] = []


def share_firsts(folder: Path) -> None:
    """Have the processes of a test run tell each other here what was done for the first time."""
    folder.mkdir(exist_ok=True)
    _firsts[:] = [folder]


def is_first(*words: str) -> bool:
    """Whether no process of this test run has asked this before. A benchmark is not a test run: it
    takes a new process each time.
    """
    if not _firsts:
        return True
    try:
        (_firsts[0] / ("-".join(("first", *words)))).touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def once(name: str, make: Callable[[Path], None]) -> Path:
    """A folder that the first process of this test run to ask for it fills, for all of them."""
    folder = _firsts[0] / name
    with open(f"{folder}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            part = folder.with_suffix(".part")
            part.mkdir()
            make(part)
            part.rename(folder)
    return folder


class Result:
    """What a command said."""

    def __init__(self, code: int, out: bytes, err: bytes) -> None:
        self.code = code
        self.out = out.decode("utf-8", "replace")
        self.err = err.decode("utf-8", "replace")

    def json(self) -> Any:
        return json.loads(self.out)


def run_anew(
    arguments: list[str], *, stdin: bytes, cwd: Path, env: dict[str, str], timeout: float
) -> Result:
    """The command in a Python of its own."""
    command = [sys.executable, "-m", "assay", *arguments]
    done = subprocess.run(
        command,
        input=stdin,
        capture_output=True,
        cwd=cwd,
        env={**os.environ, **env},
        timeout=timeout,
        check=False,
    )
    return Result(done.returncode, done.stdout, done.stderr)


def _given(stack: ExitStack, stdin: bytes) -> int:
    """A descriptor to read this from: a pipe, as in a shell, unless it is too large for one."""
    if len(stdin) > SMALL:
        large = tempfile.TemporaryFile()  # noqa: SIM115
        stack.callback(large.close)
        large.write(stdin)
        large.seek(0)
        return large.fileno()
    given, theirs = os.pipe()
    stack.callback(os.close, given)
    os.write(theirs, stdin)
    os.close(theirs)
    return given


def run_here(
    arguments: list[str], *, stdin: bytes, cwd: Path, env: dict[str, str], timeout: float = 0
) -> Result:
    """The command in this process."""
    from assay.cli.main import run
    from assay.cli.process import Streams

    with ExitStack() as stack:
        out, err = (stack.enter_context(tempfile.TemporaryFile()) for _ in range(2))
        for number, stream in enumerate((_given(stack, stdin), out.fileno(), err.fileno())):
            kept = os.dup(number)
            stack.callback(os.close, kept)
            stack.callback(os.dup2, kept, number)
            os.dup2(stream, number)
        stack.enter_context(patch.multiple(sys, argv=["assay", *arguments], stdin=None))
        stack.enter_context(patch.multiple(sys, stdout=sys.stdout, stderr=sys.stderr))
        stack.enter_context(patch.dict(os.environ, env))
        stack.enter_context(contextlib.chdir(cwd))
        stack.callback(_set_aside_again, _set_aside(), [*sys.path])
        streams = Streams()
        code = streams.code(run(arguments))
        sys.stderr.flush()
        sys.stdin.close()
        for stream in (out, err):
            stream.seek(0)
        return Result(code, out.read(), err.read())


def _set_aside() -> dict[str, ModuleType]:
    """Take away the modules of a project's folder: the next command may find others there."""
    found = {
        name: sys.modules.pop(name)
        for name, module in _given_back.items()
        if sys.modules.get(name) is module
    }
    # A new module comes last. A process has thousands, and most commands load none.
    if len(_staying) != len(sys.modules) or next(reversed(_staying)) != next(reversed(sys.modules)):
        staying = {}
        for name, module in [*sys.modules.items()]:
            if _staying.get(name) is module or _stays(name, module):
                staying[name] = module
            else:
                found[name] = sys.modules.pop(name)
        _staying.clear()
        _staying.update(staying)  # and not what a thread has loaded meanwhile
    loading._loaded.clear()
    for place in [place for place in sys.path_importer_cache if not place.startswith(STAYS)]:
        del sys.path_importer_cache[place]  # a test writes its modules faster than a folder's clock
    return found


_staying: dict[str, ModuleType] = {}
"""The modules that the last command left."""
_given_back: dict[str, ModuleType] = {}
"""Those that it had set aside."""


def _stays(name: str, module: ModuleType) -> bool:
    place = getattr(module, "__file__", None) or next(iter(getattr(module, "__path__", ())), "")
    ours = name.partition(".")[0] == "assay" or os.path.dirname(place) == str(TESTS)
    return not place or ours or place.startswith(STAYS)


def _set_aside_again(before: dict[str, ModuleType], path: list[str]) -> None:
    """Forget what the command loaded, and give back what the test itself had."""
    sys.path[:] = path
    _set_aside()
    sys.modules.update(before)
    _given_back.clear()
    _given_back.update(before)


class Parent:
    """A process that becomes the command, once for each call, and has loaded nothing of ours;
    forked from one of these, it has loaded `more` and what the verbs load. It ends with the process
    that made it, however that ends.
    """

    def __init__(self, bare: Parent | None = None, *more: str) -> None:
        self._here, there = socket.socketpair()
        self._lock = threading.Lock()
        self._started: subprocess.Popen[bytes] | None = None
        with there:
            if bare:
                socket.send_fds(
                    bare._here, [json.dumps({"loads": more}).encode()], [there.fileno()]
                )
                return
            command = [sys.executable, "-c", PARENT, str(there.fileno())]
            self._started = subprocess.Popen(
                command, pass_fds=[there.fileno()], stdin=subprocess.DEVNULL, start_new_session=True
            )

    def run(
        self,
        arguments: list[str],
        *,
        stdin: bytes,
        cwd: Path,
        env: dict[str, str],
        timeout: float,
        code: str = "",
    ) -> Result:
        """The command, or this code, from its start to its end."""
        with ExitStack() as stack:
            out, err = (stack.enter_context(tempfile.TemporaryFile()) for _ in range(2))
            self._tell(
                arguments,
                [_given(stack, stdin), out.fileno(), err.fileno()],
                cwd=str(cwd),
                env={**os.environ, **env},
                stays=False,
                code=code,
            )
            pid = self._answer(timeout)
            try:
                code = self._answer(timeout)
            except TimeoutError:
                os.kill(pid, signal.SIGKILL)
                self._answer(timeout)
                raise
            for stream in (out, err):
                stream.seek(0)
            return Result(code, out.read(), err.read())

    def become(self, wire: socket.socket, code: str) -> None:
        """The command, or this code, in the place of the program that was started and connected here, with its
        streams; it ends with that program.
        """
        with wire:
            data, streams, _, _ = socket.recv_fds(wire, 1 << 20, 3)
            with self._lock:
                self._tell(streams=streams, stays=True, code=code, **json.loads(data))
                pid = self._answer(60)
            for stream in streams:
                os.close(stream)
            while (code := self.ended(pid)) is None:
                if select.select([wire], [], [], 0.02)[0]:
                    os.kill(pid, signal.SIGTERM)
                    return
            wire.sendall(str(code).encode())

    def start(
        self,
        arguments: list[str],
        *,
        err: IO[bytes],
        out: IO[bytes] | None = None,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        code: str = "",
    ) -> int:
        """The command, or this code, in a session of its own, and the number of its process; it
        says nothing but on these streams, and ends with this parent.
        """
        with self._lock, open(os.devnull, "r+b") as nothing:
            self._tell(
                arguments,
                [nothing.fileno(), (out or nothing).fileno(), err.fileno()],
                cwd=str(cwd or os.getcwd()),
                env=dict(os.environ if env is None else env),
                stays=True,
                code=code,
            )
            return int(self._answer(60))

    def ended(self, pid: int) -> int | None:
        """How what was started has ended; None as long as it has not. It can be asked until it says
        so.
        """
        with self._lock:
            self._here.sendall(json.dumps({"ended": pid}).encode())
            found: int | None = self._answer(60)
            return found

    def _tell(self, arguments: list[str], streams: list[int], **more: object) -> None:
        socket.send_fds(
            self._here, [json.dumps({"arguments": arguments, **more}).encode()], streams
        )

    def _answer(self, timeout: float) -> Any:
        self._here.settimeout(timeout)
        text = b""
        while not text.endswith(b"\n"):
            part = self._here.recv(1)
            assert part, "the parent of the commands has ended"
            text += part
        return json.loads(text)

    def close(self) -> None:
        self._here.close()
        if self._started:
            self._started.wait()


@cache
def parent() -> Parent:
    """What becomes a command or a server, once for each process of the test run."""
    others = "uvicorn", "pytest", "mcp", "mcp.server.mcpserver"
    made = Parent(bare_parent(), *others, "assay.server.app")
    atexit.register(made.close)
    return made


@cache
def bare_parent() -> Parent:
    """The same with nothing of ours loaded."""
    made = Parent()
    atexit.register(made.close)
    return made


@contextmanager
def program(path: Path, code: str = "") -> Iterator[None]:
    """Make this path a program that scripts can start until the `with` statement ends: `assay`, or
    this code, forked, which takes no notice of what Python reads from the environment when it
    starts.
    """
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"{folder}/calls")
        listener.listen()

        def answer() -> None:
            with contextlib.suppress(OSError):  # the listener is shut
                while True:
                    wire, _ = listener.accept()
                    threading.Thread(target=parent().become, args=[wire, code]).start()

        thread = threading.Thread(target=answer)
        thread.start()
        path.write_text(PROGRAM.format(python=sys.executable, address=f"{folder}/calls"))
        path.chmod(0o755)
        try:
            yield
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


class Forked:
    """A command, or code, in a process of its own that is forked, not started: it has loaded all it
    needs, and can be killed.
    """

    def __init__(self, *arguments: object, code: str = "", cwd: Path | None = None) -> None:
        given, theirs = os.pipe()
        self._err = tempfile.TemporaryFile()  # noqa: SIM115
        with open(theirs, "wb") as out:
            self.pid = parent().start(
                list(map(str, arguments)), err=self._err, out=out, cwd=cwd, code=code
            )
        self.stdout = open(given, encoding="utf-8")  # noqa: SIM115
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """How it has ended; None as long as it has not."""
        if self.returncode is None:
            self.returncode = parent().ended(self.pid)
        return self.returncode

    def communicate(self) -> tuple[str, str]:
        """What is left of its output and its errors, when it has ended."""
        out = self.stdout.read()
        while self.poll() is None:
            time.sleep(0.005)
        self.stdout.close()
        self._err.seek(0)
        err = self._err.read().decode("utf-8", "replace")
        self._err.close()
        return out, err

    def kill(self) -> str:
        """End it at once. What is left of its output."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        return self.communicate()[0]


def kind_of(arguments: list[str]) -> tuple[str, ...]:
    """A verb and the module of its action; a misspelt verb has no kind.

    >>> [
    ...     kind_of(words.split())
    ...     for words in ("tools status x", "gate base", "library list", "gat x", "--version")
    ... ]
    [('tools', 'tools_gate'), ('gate',), ('library', 'list'), (), ()]
    """
    verb, action = [*arguments[:2], "", ""][:2]
    if verb not in VERBS:
        return ()
    if action in VERBS[verb].actions:
        return (verb, VERBS[verb].actions[action][0])
    return (verb, action) if verb == "library" and action.isalpha() else (verb,)


def can_be_forked(env: Mapping[str, str]) -> bool:
    """Whether a process with this environment would start as this one did."""
    return {
        name: value for name, value in env.items() if name.startswith(AT_THE_START)
    } == _BEGAN_WITH


class Commands:
    """Runs commands: started anew where that proves something, in this process where they may, and
    else forked.
    """

    def __init__(self) -> None:
        self._one_at_a_time = threading.Lock()

    def run(
        self, arguments: list[str], *, stdin: bytes, cwd: Path, env: dict[str, str], timeout: float
    ) -> Result:
        can_be_told = sum(map(len, arguments)) < SMALL and can_be_forked({**os.environ, **env})
        kind = kind_of(arguments)
        first_of_verb, first_of_module = is_first(*kind[:1]), is_first(*kind)
        if STARTED.intersection(kind[:1]):
            first_of_verb = first_of_module = False
        if first_of_verb or not can_be_told or not self._one_at_a_time.acquire(blocking=False):
            return run_anew(arguments, stdin=stdin, cwd=cwd, env=env, timeout=timeout)
        try:
            if first_of_module:
                return bare_parent().run(arguments, stdin=stdin, cwd=cwd, env=env, timeout=timeout)
            is_main = threading.current_thread() is threading.main_thread()
            if is_main and FORKED.isdisjoint(arguments[:1]):
                return run_here(arguments, stdin=stdin, cwd=cwd, env=env)
            return parent().run(arguments, stdin=stdin, cwd=cwd, env=env, timeout=timeout)
        finally:
            self._one_at_a_time.release()
