"""Prints how many modules and functions of Assay a job executes: a gate on two files, and the page
of an evaluation. It fails nothing; fewer is easier to read.
"""

from __future__ import annotations

import io
import sys
import tempfile
import threading
from collections.abc import Callable
from contextlib import chdir, redirect_stderr, redirect_stdout
from inspect import CO_OPTIMIZED
from pathlib import Path
from types import FrameType
from typing import Any

SOURCE = str(Path(__file__).parent.parent / "src" / "assay")
RELEASE = Path(SOURCE) / "cli" / "examples" / "release"


class Watch:
    """Notes the functions that are called in every thread. What an import runs does not count."""

    def __init__(self) -> None:
        self.found: set[tuple[str, str, int]] = set()
        self.on = False
        threading.setprofile(self._note)
        sys.setprofile(self._note)

    def _note(self, frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        called = self.on and event == "call" and code.co_flags & CO_OPTIMIZED  # a function
        if called and code.co_filename.startswith(SOURCE):
            self.found.add((code.co_filename, code.co_qualname, code.co_firstlineno))

    def report(self, name: str, job: Callable[[], object]) -> None:
        """Run a job and print what it executed."""
        self.found, self.on = set(), True
        with redirect_stdout(io.TextIOWrapper(io.BytesIO())), redirect_stderr(io.StringIO()):
            job()
        self.on = False
        modules = sorted({file for file, _, _ in self.found})
        print(f"{name}: {len(modules)} modules, {len(self.found)} functions")
        if "--list" in sys.argv:
            for module in modules:
                calls = sum(file == module for file, _, _ in self.found)
                print(f"  {calls:4} {Path(module).relative_to(SOURCE)}")


def main() -> None:
    """Run both jobs in an empty folder; `--list` also names the modules."""
    from starlette.testclient import TestClient

    from assay.cli.main import run
    from assay.server.app import create_app
    from assay.server.logs import Log
    from assay.server.settings import ServerSettings
    from assay.store.access import create_token

    sides = [str(RELEASE / name) for name in ("candidate.jsonl", "baseline.jsonl")]
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        watch = Watch()
        watch.report("assay gate", lambda: run(["gate", sides[0], "--baseline", sides[1]]))
        quiet = io.TextIOWrapper(io.BytesIO())
        with redirect_stdout(quiet), redirect_stderr(io.StringIO()):
            run(["import", sides[0], "--name", "one", "--store", "l.db"])
        app = create_app(ServerSettings(db="sqlite:///l.db"), log=Log(io.BytesIO()))
        with TestClient(app) as client:
            database = app.state.services.ledger.database
            token = create_token(database, project="default", name="ci", scopes=("read",)).text
            headers = {"Authorization": f"Bearer {token}", "Accept": "text/html"}
            address = client.get("/evaluations/one", headers=headers).url.path
            watch.report("page of an evaluation", lambda: client.get(address, headers=headers))


if __name__ == "__main__":
    main()
