"""A server to test against: in the process, or as a process of its own where the wire matters."""

from __future__ import annotations

import io
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
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
from commands import ASSAY, die_with_parent
from documents import run
from once import once
from postgres import new_ledger

API = "/api/v1"
ALL = ("read", "write", "judge", "baseline", "admin")


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


def _prepare(url: str) -> None:
    """Make the tables of a new ledger by copying them: a server as a process of its own makes them
    itself.
    """
    name = url.removeprefix("sqlite:///")
    path = Path(name)
    if "://" not in name and path.parent.is_dir() and not path.exists():
        path.write_bytes(new_ledger())


@contextmanager
def serving(url: str, **changes: Any) -> Iterator[Api]:
    """A server in this process, to which this machine may speak without a token."""
    _prepare(url)
    log = io.BytesIO()
    settings = ServerSettings(
        **{"db": url, "allow_anonymous": True, "token_cache_s": 0.0, **changes}
    )
    app = create_app(settings, log=Log(log))
    with TestClient(
        app, base_url="http://127.0.0.1", client=("127.0.0.1", 50000), raise_server_exceptions=False
    ) as client:
        yield Api(client, log)


@cache
def description() -> dict[str, Any]:
    """What a server says of its API, asked for once in a test run: making it takes as long as many
    requests.
    """

    def make(folder: Path) -> None:
        with serving(f"sqlite:///{folder}/ledger.db") as api:
            (folder / "openapi.json").write_bytes(api.get("/openapi.json").content)

    found: dict[str, Any] = json.loads((once("openapi", make) / "openapi.json").read_bytes())
    return found


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


def until(found: Any, *, seconds: float = 60, pause_s: float = 0.2) -> Any:
    """What a function returns once that is true. `pause_s` is the longest pause between calls."""
    end, pause = time.monotonic() + seconds, 0.02
    while not (said := found()):
        assert time.monotonic() < end, "it does not come true"
        time.sleep(pause)
        pause = min(1.3 * pause, pause_s)  # asking costs more than waiting
    return said


def is_running(pid: int) -> bool:
    """Whether a process is there and hasn't ended, though its parent may not have noticed yet."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Started:
    """A program that goes on, in a session of its own."""

    def __init__(
        self,
        command: list[str],
        *,
        out: IO[bytes] | None = None,
        cwd: Path | None = None,
        env: dict[str, str] | None = None,
    ) -> None:
        self._read, theirs = os.pipe()
        self._words = b""
        with open(theirs, "wb") as err:
            self._process = subprocess.Popen(
                command,
                stdout=out or subprocess.DEVNULL,
                stderr=err,
                cwd=cwd,
                env=env,
                start_new_session=True,
                preexec_fn=die_with_parent,
            )
        self.pid = self._process.pid

    def poll(self) -> int | None:
        """How it ended; None as long as it has not."""
        return self._process.poll()

    def wait(self, timeout: float = 60) -> int:
        """How it ended, once it has, and whoever else could say something in its place has too."""
        self.said(timeout)
        return self._process.wait(timeout)

    def said(self, timeout: float = 60) -> str:
        """What it says on standard error until its end."""
        if self._read < 0:
            return self._words.decode()
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


class Process:
    """`assay serve` as a process. `command` runs it with other limits."""

    def __init__(
        self, url: str, *more: str, port: int | None = None, command: Sequence[str] = (ASSAY,)
    ) -> None:
        self.port = port or free_port()
        arguments = ["--db", url, "--port", str(self.port), "--allow-anonymous", *more]
        self.started = Started([*command, "serve", *arguments])
        self._wait_or_end()

    def _wait_or_end(self) -> None:
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


SERVED = """
import json, sys
import msgspec
from assay.cli.serve import serve
from assay.server.settings import ServerSettings
settings, port = json.loads(sys.argv[1])
sys.exit(serve(msgspec.convert(settings, ServerSettings), port=port, workers=1))
"""


class Configured(Process):
    """A server with settings that `assay serve` has no options for, ready to take work."""

    def __init__(self, url: str, *, port: int | None = None, **changes: Any) -> None:
        settings = {
            "db": url,
            "allow_anonymous": True,
            "log_requests": False,
            **changes,
        }
        self.port = port or free_port()
        self.started = Started([sys.executable, "-c", SERVED, json.dumps([settings, self.port])])
        self._wait_or_end()


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
