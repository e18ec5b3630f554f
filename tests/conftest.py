"""What the tests share."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

ROOT = Path(__file__).resolve().parent.parent
SHARED = ROOT.parent / "shared"
collect_ignore = ["servers"]  # programs that tests start, some of them broken on purpose

settings.register_profile("suite", deadline=None, max_examples=100, derandomize=True)
settings.register_profile("campaign", deadline=None, max_examples=5000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "suite"))


@pytest.fixture
def shared() -> Path:
    """The folder with vectors and data beside the checkout; absent for a newcomer."""
    if not SHARED.is_dir():
        pytest.skip("../shared is not beside this checkout: the conformance vectors and reference data are read in place")
    return SHARED


class Result:
    """What a command said."""

    def __init__(self, done: subprocess.CompletedProcess[str]) -> None:
        self.code = done.returncode
        self.out = done.stdout
        self.err = done.stderr

    def json(self) -> Any:
        import json

        return json.loads(self.out)


@pytest.fixture
def assay(tmp_path: Path) -> Any:
    """Run the real command in an empty folder: `assay("grade", "x.json", stdin="...")`."""

    def run(*arguments: object, stdin: str | bytes | None = None, env: dict[str, str] | None = None, timeout: float = 120) -> Result:
        data = stdin.encode() if isinstance(stdin, str) else stdin
        done = subprocess.run(
            [sys.executable, "-m", "assay", *map(str, arguments)], input=data if data is not None else b"", capture_output=True, cwd=tmp_path,
            env={**os.environ, "NO_COLOR": "1", **(env or {})}, timeout=timeout, check=False,
        )  # fmt: skip
        text = subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace"))
        return Result(text)

    return run
