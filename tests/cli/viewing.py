"""`assay view` as a process, for the tests that start it."""

from __future__ import annotations

import http.client
import json
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from commands import ASSAY
from serving import Started


class Viewer:
    """`assay view` as a process, with a folder of its own for temporary files."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.temporary = folder / "temporary"
        self.temporary.mkdir(exist_ok=True)
        env = {**os.environ, "TMPDIR": str(self.temporary), "DISPLAY": "", "BROWSER": ""}
        read, write = os.pipe()
        with open(write, "wb") as out:
            self.started = Started(
                [ASSAY, "view", "--json", *arguments],
                out=out,
                cwd=folder,
                env=env,
            )
        self._out = open(read, "rb")  # noqa: SIM115
        text = b""
        while (line := self._out.readline()) not in (b"", b"}\n"):
            text += line
        if not line:
            ended = self.started.wait(), self.started.said()
            self.close()
            raise AssertionError(ended)
        self.said = json.loads(text + line)
        self.address = urlsplit(self.said["address"])

    def get(self, path: str, **headers: str) -> tuple[int, str, Any]:
        assert self.address.port is not None
        asked = http.client.HTTPConnection("127.0.0.1", self.address.port, timeout=30)
        method = headers.pop("method", "GET")
        asked.request(method, path, headers={k.replace("_", "-"): v for k, v in headers.items()})
        answer = asked.getresponse()
        found = answer.status, answer.read().decode(), answer.headers
        asked.close()
        return found

    def close(self) -> None:
        if self.started.poll() is None:
            os.kill(self.started.pid, signal.SIGKILL)
            self.started.wait()
        self.started.close()
        self._out.close()

    def end(self, number: signal.Signals) -> tuple[int, str]:
        os.kill(self.started.pid, number)
        return self.started.wait(), self.started.said()


@contextmanager
def viewing(folder: Path, *arguments: str) -> Iterator[Viewer]:
    viewer = Viewer(folder, *arguments)
    try:
        yield viewer
    finally:
        viewer.close()
