"""JUnit XML: what pytest writes of eight small tests that end in every way a test can."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

TESTS = """
import pytest

@pytest.fixture
def broken():
    raise OSError("no such service")

@pytest.fixture
def untidy():
    yield
    raise OSError("cannot clean up")

@pytest.mark.parametrize("text", ["a", "b<&>", "ü"])
def test_upper(text):
    assert text.upper().lower() == text

class TestSums:
    def test_wrong(self):
        assert 1 + 1 == 3, "sums < expected"

    def test_setup(self, broken):
        pass

    def test_untidy(self, untidy):
        pass

@pytest.mark.skip(reason="not here")
def test_skipped():
    pass

@pytest.mark.xfail(reason="known")
def test_known():
    assert False
"""


def make(folder: Path) -> list[dict[str, Any]]:
    (folder / "test_sums.py").write_text(TESTS)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:randomly"]
    done = subprocess.run(
        [*command, "--rootdir=.", "-c", "/dev/null", "--junitxml=pytest.xml", "test_sums.py"],
        cwd=folder,
        capture_output=True,
        text=True,
    )
    (folder / "test_sums.py").unlink()
    path = folder / "pytest.xml"
    text = re.sub(' hostname="[^"]*"', "", path.read_text())
    path.write_text(text.replace(f"{folder.resolve()}/", ""))
    counts = {word: int(n) for n, word in re.findall(r"(\d+) (\w+)", done.stdout.splitlines()[-1])}
    # the test that passed and couldn't clean up is counted as passed and as an error
    assert counts["passed"] == 4, done.stdout
    assert counts["error" if "error" in counts else "errors"] == 2, done.stdout
    return [
        {
            "version": f"pytest {version('pytest')}",
            "what": ".xml",
            "files": ["pytest.xml"],
            "totals": {"samples": 8, "passed": counts["passed"] - 1},
        }
    ]
