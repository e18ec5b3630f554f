"""A server to test against: in the process, or as a process of its own where the wire matters."""

from __future__ import annotations

import io
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from starlette.testclient import TestClient

from assay.server.app import create_app
from assay.server.logs import Log
from assay.server.settings import Settings
from assay.store.access import create_token
from documents import run

API = "/api/v1"
ALL = ("read", "write", "judge", "admin")


class Api:
    """A client with a token of a project."""

    def __init__(self, client: TestClient, log: io.BytesIO) -> None:
        self.client = client
        self.log = log
        self.services = client.app.state.services  # type: ignore[attr-defined]
        self.secrets: list[str] = []

    def token(self, project: str = "default", scopes: tuple[str, ...] = ALL) -> dict[str, str]:
        """Headers with a new token."""
        made = create_token(self.services.ledger.database, project=project, name="test", scopes=scopes)
        self.secrets.append(made.text)
        return {"Authorization": f"Bearer {made.text}"}

    def get(self, path: str, **more: Any) -> Any:
        return self.client.get(API + path, **more)

    def post(self, path: str, body: Any = None, **more: Any) -> Any:
        return self.client.post(API + path, json=body, **more) if body is not None else self.client.post(API + path, **more)


@contextmanager
def serving(url: str, **changes: Any) -> Iterator[Api]:
    """A server in this process, to which this machine may speak without a token."""
    log = io.BytesIO()
    settings = Settings(**{"db": url, "allow_anonymous": True, "rate_per_s": 0.0, "token_cache_s": 0.0, **changes})
    app = create_app(settings, log=Log(log))
    with TestClient(app, base_url="http://127.0.0.1", client=("127.0.0.1", 50000), raise_server_exceptions=False) as client:
        yield Api(client, log)


def runs(n: int, *, family: str = "code-repair", start: int = 0, **changes: Any) -> list[dict[str, Any]]:
    """Runs that differ in their id and sample."""
    made = []
    for index in range(start, start + n):
        one = run(family, **changes)
        one["run_id"] = f"r-{index}"
        one["dataset"] = {**one["dataset"], "sample_id": f"s-{index}"}
        made.append(one)
    return made


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Process:
    """`assay serve` as a process."""

    def __init__(self, url: str, *more: str, port: int | None = None) -> None:
        self.port = port or free_port()
        command = [sys.executable, "-m", "assay", "serve", "--db", url, "--port", str(self.port), "--allow-anonymous", "--rate", "0", *more]
        self.started = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True)
        end = time.monotonic() + 60
        while True:
            try:
                if self.call("GET", "/ready")[0] == 200:
                    return
            except OSError:
                if self.started.poll() is not None:
                    assert self.started.stderr is not None
                    raise AssertionError(self.started.stderr.read().decode()) from None
            assert time.monotonic() < end, "the server does not start"
            time.sleep(0.05)

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}{API}"

    def call(self, method: str, path: str, body: Any = None, *, timeout: float = 30, headers: dict[str, str] | None = None) -> tuple[int, Any]:
        data = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        asked = urllib.request.Request(self.address + path, data=data, method=method, headers={"Content-Type": "application/json", **(headers or {})})
        try:
            with urllib.request.urlopen(asked, timeout=timeout) as answer:
                text = answer.read()
                return answer.status, json.loads(text) if text else None
        except urllib.error.HTTPError as error:
            text = error.read()
            return error.code, json.loads(text) if text else None

    def kill(self) -> None:
        """As a machine that loses its power."""
        os.killpg(self.started.pid, signal.SIGKILL)
        self.started.communicate()

    def end(self, *, timeout: float = 30) -> tuple[int, str]:
        """As an operator would: its exit code and its log."""
        self.started.terminate()
        try:
            _, log = self.started.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            self.kill()
            raise
        return self.started.returncode, log.decode()

    def __enter__(self) -> Process:
        return self

    def __exit__(self, *_error: object) -> None:
        if self.started.poll() is None:
            self.kill()


def frames(text: str) -> list[tuple[int, str, dict[str, Any]]]:
    """The events in a stream: id, kind and data."""
    found = []
    for block in text.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.split("\n") if ": " in line and not line.startswith(":"))
        if "data" in fields:
            found.append((int(fields["id"]), fields["event"], json.loads(fields["data"])))
    return found
