"""A server to test against: in the process, or as a process of its own where the wire matters."""

from __future__ import annotations

import ctypes
import io
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import IO, Any

from starlette.testclient import TestClient

from assay.server.app import create_app
from assay.server.logs import Log
from assay.server.metrics import Metrics
from assay.server.settings import ServerSettings
from assay.store.access import create_token
from assay.store.ledger import open_ledger
from documents import run
from forking import Parent, can_be_forked, is_first, parent

API = "/api/v1"
ALL = ("read", "write", "judge", "admin")


class Api:
    """A client with a token of a project."""

    def __init__(self, client: TestClient, log: io.BytesIO) -> None:
        self.client = client
        self.log = log
        self.services = client.app.state.services
        self.secrets: list[str] = []

    def token(self, project: str = "default", scopes: tuple[str, ...] = ALL) -> dict[str, str]:
        """Headers with a new token."""
        made = create_token(
            self.services.ledger.database, project=project, name="test", scopes=scopes
        )
        self.secrets.append(made.text)
        return {"Authorization": f"Bearer {made.text}"}

    def get(self, path: str, **more: Any) -> Any:
        return self.client.get(API + path, **more)

    def post(self, path: str, body: Any = None, **more: Any) -> Any:
        return (
            self.client.post(API + path, json=body, **more)
            if body is not None
            else self.client.post(API + path, **more)
        )


def counted(metrics: Metrics, name: str) -> float:
    """The value of a counter or gauge without labels."""
    lines = metrics.text().decode().splitlines()
    return float(next(line.split()[1] for line in lines if line.startswith(f"assay_{name} ")))


@cache
def _new_ledger() -> bytes:
    """A ledger as a new one is: its tables are made, and hold nothing."""
    with tempfile.TemporaryDirectory() as folder:
        open_ledger(f"sqlite:///{folder}/ledger.db").close()
        assert os.listdir(folder) == ["ledger.db"]
        return Path(folder, "ledger.db").read_bytes()


def _prepare(url: str) -> None:
    """Make the tables of a new ledger by copying them: a server as a process of its own makes them
    itself.
    """
    name = url.removeprefix("sqlite:///")
    path = Path(name)
    if "://" not in name and path.parent.is_dir() and not path.exists():
        path.write_bytes(_new_ledger())


@contextmanager
def serving(url: str, **changes: Any) -> Iterator[Api]:
    """A server in this process, to which this machine may speak without a token."""
    _prepare(url)
    log = io.BytesIO()
    settings = ServerSettings(
        **{"db": url, "allow_anonymous": True, "rate_per_s": 0.0, "token_cache_s": 0.0, **changes}
    )
    app = create_app(settings, log=Log(log))
    with TestClient(
        app, base_url="http://127.0.0.1", client=("127.0.0.1", 50000), raise_server_exceptions=False
    ) as client:
        yield Api(client, log)


def runs(
    n: int, *, family: str = "code-repair", start: int = 0, **changes: Any
) -> list[dict[str, Any]]:
    """Runs that differ in their id and sample."""
    made = []
    for index in range(start, start + n):
        one = run(family, **changes)
        one["run_id"] = f"r-{index}"
        one["dataset"] = {**one["dataset"], "sample_id": f"s-{index}"}
        made.append(one)
    return made


def until(found: Any, *, seconds: float = 20) -> Any:
    """What a function comes to say that is true."""
    end = time.monotonic() + seconds
    while True:
        said = found()
        if said:
            return said
        assert time.monotonic() < end, "it does not come true"
        time.sleep(0.02)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


_libc = ctypes.CDLL(None) if sys.platform == "linux" else None
_PARENT_DEATH = 1


def _die_with_parent() -> None:
    """A test run that is killed leaves no server behind."""
    if _libc is not None:
        _libc.prctl(_PARENT_DEATH, signal.SIGKILL)


class Started:
    """A command that goes on, in a session of its own: forked from a parent, or in a Python of its
    own.
    """

    def __init__(
        self,
        arguments: list[str],
        source: Parent | None,
        *,
        out: IO[bytes] | None = None,
        cwd: Path | None = None,
        env: dict[str, str] | None = None,
        code: str = "",
    ) -> None:
        self._read, theirs = os.pipe()
        self._words = b""
        self._code: int | None = None
        with open(theirs, "wb") as err:
            if source is None:
                command = [sys.executable, "-m", "assay", *arguments]
                own = subprocess.Popen(
                    command,
                    stdout=out or subprocess.DEVNULL,
                    stderr=err,
                    cwd=cwd,
                    env=env,
                    start_new_session=True,
                    preexec_fn=_die_with_parent,
                )
                self.pid, self._poll = own.pid, own.poll
            else:
                pid = source.start(arguments, err=err, out=out, cwd=cwd, env=env, code=code)
                self.pid, self._poll = pid, lambda: source.ended(pid)

    def poll(self) -> int | None:
        """How it ended; None as long as it has not."""
        if self._code is None:
            self._code = self._poll()
        return self._code

    def wait(self, timeout: float = 60) -> int:
        """How it ended, once it has, and whoever else could say something in its place has too."""
        self.said(timeout)
        end = time.monotonic() + timeout
        while (code := self.poll()) is None:
            assert time.monotonic() < end, "it does not end"
            time.sleep(0.002)
        return code

    def said(self, timeout: float = 60) -> str:
        """What it says on standard error until its end."""
        while select.select([self._read], [], [], timeout)[0]:
            part = os.read(self._read, 1 << 16)
            if not part:
                return self._words.decode()
            self._words += part
        raise TimeoutError("it does not end")

    def close(self) -> None:
        if self._read >= 0:
            os.close(self._read)
            self._read = -1


LOAD_NOTHING = {"--quiet", "--project", "--max-body"}
"""Options with which a server loads the same modules as without them."""


class Process:
    """`assay serve` as a process. The first one with its options is started anew, the others are
    forked: see forking.py. One that runs code of the test's is forked.
    """

    def __init__(self, url: str, *more: str, port: int | None = None, code: str = "") -> None:
        self.port = port or free_port()
        arguments = [
            "serve",
            "--db",
            url,
            "--port",
            str(self.port),
            "--allow-anonymous",
            "--rate",
            "0",
            *more,
        ]
        kind = sorted({word for word in arguments if word.startswith("--")} - LOAD_NOTHING)
        anew = not code and (is_first("serve", *kind) or not can_be_forked(os.environ))
        self.started = Started(arguments, None if anew else parent(), code=code)
        self.pid = self.started.pid
        try:
            self.wait()
        except BaseException:
            self.__exit__()
            raise

    def wait(self) -> None:
        """Until it can take work."""
        end = time.monotonic() + 60
        while True:
            try:
                if self.call("GET", "/ready")[0] == 200:
                    return
            except OSError:
                fault = self.fault()
                if fault is not None:
                    raise AssertionError(fault) from None
            assert time.monotonic() < end, "the server does not start"
            time.sleep(0.02)

    def fault(self) -> str | None:
        """What it said, where it has ended."""
        return (
            None
            if (code := self.started.poll()) is None
            else f"it ended with {code} and said {self.started.said()}"
        )

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}{API}"

    def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        timeout: float = 30,
        headers: dict[str, str] | None = None,
    ) -> tuple[int, Any]:
        data = (
            None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        )
        asked = urllib.request.Request(
            self.address + path,
            data=data,
            method=method,
            headers={"Content-Type": "application/json", **(headers or {})},
        )
        try:
            with urllib.request.urlopen(asked, timeout=timeout) as answer:
                text = answer.read()
                return answer.status, json.loads(text) if text else None
        except urllib.error.HTTPError as error:
            text = error.read()
            return error.code, json.loads(text) if text else None
        except OSError as error:
            error.add_note(f"the server: {self.fault() or 'it has not ended'}")
            raise

    def kill(self) -> None:
        """As a machine that loses its power."""
        os.killpg(self.pid, signal.SIGKILL)
        self.started.wait()

    def end(self, *, timeout: float = 30) -> tuple[int, str]:
        """As an operator would: its exit code and its log."""
        os.kill(self.pid, signal.SIGTERM)
        try:
            code = self.started.wait(timeout)
        except TimeoutError:
            self.kill()
            raise
        return code, self.started.said()

    def __enter__(self) -> Process:
        return self

    def __exit__(self, *_error: object) -> None:
        if self.started.poll() is None:
            self.kill()
        self.started.close()


NURSERY = """
import json, os, signal, sys
import msgspec, uvicorn
import assay.server.app
from assay.cli.serve import serve
from assay.server.settings import ServerSettings
born = []
for line in sys.stdin:
    asked = json.loads(line)
    pid = os.fork()
    if pid == 0:
        os.setsid()
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(os.open(asked["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644), 2)
        code = 70
        try:
            code = serve(msgspec.convert(asked["settings"], ServerSettings), port=asked["port"], workers=1)
        finally:
            os._exit(int(code))
    born = [one for one in born if os.waitpid(one, os.WNOHANG)[0] == 0] + [pid]
    sys.stdout.write(f"{pid}\\n")
    sys.stdout.flush()
for pid in born:
    try:
        os.killpg(pid, signal.SIGKILL)
    except OSError:
        pass
    os.waitpid(pid, 0)
"""


class Nursery:
    """Bears servers as processes of their own without starting Python anew for each: a kill must
    cost less than what it proves.

    It ends, and with it every server, when the process that made it ends, however that ends.
    """

    def __init__(self) -> None:
        self.started = subprocess.Popen(
            [sys.executable, "-c", NURSERY],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def bear(self, url: str, *, folder: Path, port: int | None = None, **changes: Any) -> Born:
        """A server, ready to take work."""
        made = Born(self, url, folder, port or free_port(), changes)
        made.wait()
        return made

    def close(self) -> None:
        self.started.communicate()

    def __enter__(self) -> Nursery:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()


class Born(Process):
    """A server that a nursery bore."""

    def __init__(
        self, nursery: Nursery, url: str, folder: Path, port: int, changes: dict[str, Any]
    ) -> None:
        self.port = port
        self.log = folder / f"server-{port}-{time.monotonic_ns()}.log"
        settings = {
            "db": url,
            "allow_anonymous": True,
            "rate_per_s": 0.0,
            "log_requests": False,
            **changes,
        }
        assert nursery.started.stdin is not None
        assert nursery.started.stdout is not None
        nursery.started.stdin.write(
            json.dumps({"settings": settings, "port": port, "log": str(self.log)}) + "\n"
        )
        nursery.started.stdin.flush()
        self.pid = int(nursery.started.stdout.readline())

    def _lives(self) -> bool:
        try:
            with open(f"/proc/{self.pid}/stat", encoding="utf-8") as file:
                return file.read().rpartition(")")[2].split()[0] not in "ZX"
        except OSError:
            return False

    def fault(self) -> str | None:
        return None if self._lives() else self.log.read_text(encoding="utf-8")

    def kill(self) -> None:
        os.killpg(self.pid, signal.SIGKILL)
        while self._lives():
            time.sleep(0.001)

    def end(self, *, timeout: float = 30) -> tuple[int, str]:
        os.kill(self.pid, signal.SIGTERM)
        end = time.monotonic() + timeout
        while self._lives():
            assert time.monotonic() < end, "the server does not end"
            time.sleep(0.01)
        return 0, self.log.read_text(encoding="utf-8")

    def __exit__(self, *_error: object) -> None:
        if self._lives():
            self.kill()


def frames(text: str) -> list[tuple[int, str, dict[str, Any]]]:
    """The events in a stream: id, kind and data."""
    found = []
    for block in text.split("\n\n"):
        fields = dict(
            line.split(": ", 1)
            for line in block.split("\n")
            if ": " in line and not line.startswith(":")
        )
        if "data" in fields:
            found.append((int(fields["id"]), fields["event"], json.loads(fields["data"])))
    return found
