"""`assay doctor`: whether the installation works, and which jobs can be done here, tried and not
only looked for.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

import assay as package
from assay.cli.doctor import JOBS, check_library, import_fault
from assay.library.lock import lock_of
from checkout import ROOT

NOT_FOR_USERS = {"dev", "docs", "bench", "peers"}


def test_every_extra_that_a_user_can_install_belongs_to_a_job() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    assert {needs.extra for needs in JOBS.values()} - {""} == set(extras) - NOT_FOR_USERS


def test_a_job_is_ok_only_where_its_modules_really_load(tmp_path: Path) -> None:
    (tmp_path / "openpyxl.py").write_text("print('noise')\nraise OSError('libfoo.so: no')\n")
    (tmp_path / "rich.py").write_text("import no_such_module_anywhere\n")
    (tmp_path / "mcp.py").write_text("class ClientSession: ...\n")
    (tmp_path / "zstandard.py").write_text("raise ModuleNotFoundError('no', name='zstandard')\n")
    (tmp_path / "vl_convert.py").write_text("import sys\nsys.exit(0)\n")
    (tmp_path / "duckdb.py").write_text("print('noise')\n")
    program = (
        f"import sys, json; sys.path.insert(0, {str(tmp_path)!r})\n"
        "from assay.cli.doctor import check_job\n"
        "print(json.dumps([check_job(name)._asdict() for name in sys.argv[1:]]))"
    )
    wanted = ("excel", "terminal", "mcp", "inspect", "charts", "parquet")
    done = subprocess.run(
        [sys.executable, "-c", program, *wanted], capture_output=True, text=True, check=True
    )
    jobs = {job["job"]: job for job in json.loads(done.stdout)}
    assert [job["ok"] for job in jobs.values()] == [False] * 5 + [True]
    assert "can't be imported (libfoo.so: no)" in jobs["excel"]["found"]
    assert "no_such_module_anywhere" in jobs["terminal"]["found"]
    assert jobs["mcp"]["found"].endswith("is too old")
    assert jobs["inspect"]["found"] == "zstandard is not installed"
    assert all(f"[{job['extra']}]" in job["fix"] for job in jobs.values() if not job["ok"])
    assert jobs["parquet"]["fix"] == ""
    listed = subprocess.run(
        [sys.executable, "-c", program.replace("(name)", "(name, tried=False)"), *wanted],
        capture_output=True,
        text=True,
        check=True,
    )
    assert all(job["ok"] for job in json.loads(listed.stdout)), "installed, and not tried"


def test_a_job_that_is_asked_for_and_cannot_be_done_is_exit_1(assay: Any, tmp_path: Path) -> None:
    absent = "raise ModuleNotFoundError(\"No module named 'aiohttp'\", name='aiohttp')"
    (tmp_path / "modules").mkdir()
    (tmp_path / "modules" / "aiohttp.py").write_text(absent)
    env = {"PATH": str(tmp_path), "PYTHONPATH": str(tmp_path / "modules")}
    wanted = [f"--for={job}" for job in ("run", "judge", "sandbox")]
    done = assay("doctor", *wanted, "--json", env=env)
    found = done.json()
    assert (done.code, found["ok"], found["version"]) == (1, False, package.__version__)
    assert all(set(check) == {"what", "ok", "found", "fix"} for check in found["checks"])
    checks = {check["what"]: check for check in found["checks"]}
    assert all(check["ok"] for check in found["checks"])
    count = len(lock_of().published)
    assert checks["bundled library"]["found"] == f"{count} items, {count} published and unchanged"
    assert checks["behaviour"]["found"] == (
        "scoringSystem/1.0.0, gradingSystem/1.0.0 (not checked: release grading: takes a second;"
        " `assay versions --check` does it); `assay versions` lists those of profiles and policies"
    )
    _, judge, sandbox = found["jobs"]
    assert [job["ok"] for job in found["jobs"]] == [True, False, False]
    assert judge["found"] == "aiohttp is not installed"
    assert judge["fix"].endswith("[judge]'")
    assert sandbox["found"] == "there is no `bwrap` on the path"
    assert sandbox["fix"].startswith("Install bubblewrap: apt-get install bubblewrap")
    shown = assay("doctor", "--for", "http", "--for", "judge", env=env).out
    assert "[run]'  # run is the extra for http\n" in shown
    assert "[judge]'\n" in shown
    wrong = assay("doctor", "--for", "server")
    assert (wrong.code, "'server'. Did you mean 'serve'? Choose from run," in wrong.err) == (
        2,
        True,
    )


def test_a_library_folder_that_is_not_there_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASSAY_LIBRARY", "/nowhere/at/all")
    found = check_library()
    assert (found["ok"], found["found"]) == (False, "/nowhere/at/all")


def test_a_package_that_left_a_namespace_behind_is_not_installed() -> None:
    assert import_fault("xml.left.behind.by", "opentelemetry-proto") == (
        "opentelemetry-proto is not installed"
    )


@pytest.mark.parametrize(("verb", "module"), [("serve", "uvicorn"), ("mcp", "anyio")])
def test_a_verb_without_its_extra_says_what_it_needs(
    verb: str, module: str, assay_process: Any, tmp_path: Path
) -> None:
    lacking = f"raise ModuleNotFoundError('it is not there', name={module!r})"
    (tmp_path / f"{module}.py").write_text(lacking)
    done = assay_process(verb, env={"PYTHONPATH": str(tmp_path)}, timeout=60)
    needs = f"assay: `assay {verb}` needs {module}, which is not installed. Run: "
    assert (done.code, needs in done.err) == (2, True), done.err
