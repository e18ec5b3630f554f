"""`assay view` as a process, for the tests that start it."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit


class Viewer:
    """`assay view` as a process, with a folder of its own for temporary files."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.temporary = folder / "temporary"
        self.temporary.mkdir(exist_ok=True)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "assay", "view", "--json", *arguments],
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "TMPDIR": str(self.temporary), "DISPLAY": "", "BROWSER": ""},
        )
        assert self.process.stdout is not None
        text = b""
        while (line := self.process.stdout.readline()) not in (b"", b"}\n"):
            text += line
        if not line:
            raise AssertionError(self.process.communicate())
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
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()

    def end(self, number: signal.Signals) -> tuple[int, str]:
        self.process.send_signal(number)
        _, err = self.process.communicate(timeout=60)
        return self.process.returncode, err.decode()


@contextmanager
def viewing(folder: Path, *arguments: str) -> Iterator[Viewer]:
    viewer = Viewer(folder, *arguments)
    try:
        yield viewer
    finally:
        viewer.close()
