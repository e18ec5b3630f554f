"""What the tests share."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from _pytest.doctest import DoctestModule
from hypothesis import settings

from checkout import SHARED
from commands import ASSAY, Result, in_folder, run_process
from once import once, share

LONGEST_NAME = 60
collect_ignore = ["support/servers"]  # programs that tests start, some of them broken on purpose

settings.register_profile("suite", deadline=None, max_examples=10, derandomize=True)
settings.register_profile("campaign", deadline=None, max_examples=5000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "suite"))
# A shell lets what it starts in the background ignore interrupts, and so would every command that a
# test means to interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int | None:
    """How many processes `-n auto` is: two more than there are cores, because many tests wait for a
    clock, a kill or a stream, and leave theirs to others. On two cores, a third process leaves a
    fifth of the time unused and a fourth nothing.
    """
    if os.environ.get("PYTEST_XDIST_AUTO_NUM_WORKERS"):
        return None  # pytest-xdist reads it
    return 2 + (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    )


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """The name of a case is what it is given, shortened."""
    if isinstance(val, bytes) and not val.isascii():
        return argname  # what is packed differs from one process of a test run to the next
    if type(val) not in (str, bytes, int, list, tuple, dict) or not is_plain(val):
        return None
    try:
        text = str(val) if isinstance(val, str | int) else repr(val)
    except ValueError:  # a whole number of thousands of digits
        return argname
    text = text if len(text) <= LONGEST_NAME else f"{text[: LONGEST_NAME - 3]}..."
    return text.encode("unicode_escape").decode()


def is_plain(value: object) -> bool:
    """Whether every process of a test run shows this value alike."""
    if isinstance(value, list | tuple):
        return all(map(is_plain, value))
    if isinstance(value, dict):
        return all(map(is_plain, (*value, *value.values())))
    if isinstance(value, bytes):
        return value.isascii()
    return value is None or isinstance(value, str | int | float | Decimal)


class Examples:
    """Reads for doctests only the files that have one."""

    @pytest.hookimpl(wrapper=True)
    def pytest_collect_file(self, file_path: Path) -> Any:
        collectors = yield
        others = [made for made in collectors if not isinstance(made, DoctestModule)]
        has_none = len(others) < len(collectors) and b">>>" not in file_path.read_bytes()
        return others if has_none else collectors


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Examples())


@pytest.fixture
def shared() -> Path:
    """The folder with vectors and data beside the checkout; absent for a newcomer."""
    if not SHARED.is_dir():
        pytest.skip(
            "../shared is not beside this checkout: the conformance vectors and reference data are"
            " read in place"
        )
    return SHARED


@pytest.fixture(scope="session", autouse=True)
def _one_test_run(tmp_path_factory: pytest.TempPathFactory) -> None:
    """What its processes make once."""
    folder = tmp_path_factory.getbasetemp()
    share((folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder) / "once")


@pytest.fixture(scope="session", autouse=True)
def _own_settings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Settings of a user who trusts nothing yet, in place of those of whoever runs the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.mktemp("settings")))
        yield


@pytest.fixture(scope="session")
def demo() -> tuple[Result, Path]:
    """What the demo says where there is no key and no setting, and the folder it wrote; made once,
    to be read.
    """

    def make(folder: Path) -> None:
        env = {"PATH": os.environ.get("PATH", ""), "HOME": str(folder), "NO_COLOR": "1"}
        command = [ASSAY, "demo", "--out", "out"]
        done = subprocess.run(
            command, capture_output=True, text=True, cwd=folder, env=env, check=False
        )
        printed = [done.returncode, done.stdout, done.stderr]
        (folder / "printed.json").write_text(json.dumps(printed), encoding="utf-8")

    folder = once("demo", make)
    code, out, err = json.loads((folder / "printed.json").read_text(encoding="utf-8"))
    return Result(code, out.encode(), err.encode()), folder / "out"


@pytest.fixture
def assay(tmp_path: Path) -> Any:
    """Run the command in an empty folder, here or as a process: `assay("grade", "x.json")`. See
    commands.py.
    """
    return in_folder(tmp_path)


@pytest.fixture
def assay_process(tmp_path: Path) -> Any:
    """The same, always as a process."""
    return in_folder(tmp_path, run_process)
