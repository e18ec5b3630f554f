"""How Assay is installed: the name, the texts that say so, the wheel and the sdist, and the command
in an environment that has the core and nothing else.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import tarfile
import zipfile
from pathlib import Path

import pytest

from assay.cli.doctor import JOBS
from assay.installing import checkout, install_command, install_hint, requirement
from checkout import ROOT
from installed import PROJECT, installed_wheel

EXTRAS = PROJECT["optional-dependencies"]
TEXTS = {".py", ".md", ".yml", ".yaml", ".sh", ".toml", ".cfg", ".html", ".css", ".txt", ""}


def files() -> list[Path]:
    """Every file of the project that people read, but the history of changes."""
    done = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False)
    if done.returncode:
        pytest.skip("this is not a git checkout")
    named = (ROOT / name for name in os.fsdecode(done.stdout).split("\0") if name)
    return [
        path
        for path in named
        if path.suffix in TEXTS and path.name != "CHANGELOG.md" and path.is_file()
    ]


# --- the texts


def test_every_text_installs_by_the_right_name_with_extras_that_exist() -> None:
    installing = re.compile(r"pip install((?: -[-\w]+)*) ([\"']?)([^\s\"'`;,)]+(?:\[[^\]]*\])?)")
    old_name = re.compile(r"[\"'`\s]assay(?:\[[a-z]|==|>=|~=)")
    seen = 0
    for path in files():
        name = str(path.relative_to(ROOT))
        text = path.read_text(encoding="utf-8")
        if name == "tests/ground/test_installing.py":
            continue
        if "src/assay" in name and path.suffix == ".py" and not name.endswith("installing.py"):
            assert "pip install" not in text, f"{name}: take it from assay.installing"
        elif not name.endswith("installing.py"):
            for _, _, what in installing.findall(text):
                assert not re.fullmatch(r"assay([\[=<>~@].*)?", what), f"{name}: pip install {what}"
        assert not old_name.search(text), f"{name}: {old_name.search(text)}"
        for listed in re.findall(r"assaykit\[([a-z][a-z,-]*)\]", text):
            assert set(listed.split(",")) <= set(EXTRAS), f"{name}: {listed}"
            seen += 1
        for listed in re.findall(r"install_(?:hint|command)\([\"']([a-z-]+)[\"']\)", text):
            assert listed in EXTRAS, f"{name}: {listed}"
    assert seen > 10


def test_the_name_in_the_project_file_is_the_one_that_is_printed() -> None:
    assert requirement() == PROJECT["name"]
    assert PROJECT["scripts"] == {"assay": "assay.__main__:main"}
    for needed in EXTRAS.values():
        assert not any(re.match(r"assay(?!kit)\b(?!-)", one) for one in needed)


def test_in_a_checkout_the_hint_works_from_any_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    assert install_hint("judge") == "pip install -e '.[judge]'"
    assert install_hint() == "pip install -e ."
    monkeypatch.chdir(tmp_path)
    assert install_hint("judge", "sign") == f"pip install -e '{ROOT}[judge,sign]'"
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert install_hint("judge") == f"pip install -e '{ROOT}[judge]'"


def test_another_project_with_our_folder_names_is_no_checkout_of_ours(tmp_path: Path) -> None:
    package = tmp_path / "src" / "assay"
    package.mkdir(parents=True)
    assert checkout(str(package)) is None
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "theirs"\n')
    assert checkout(str(package)) is None
    (tmp_path / "pyproject.toml").write_bytes(b"\xff\xfe")
    assert checkout(str(package)) is None
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "assaykit"\n')
    assert checkout(str(package)) == str(tmp_path)
    (tmp_path / "assay").mkdir()
    assert checkout(str(tmp_path / "lib" / "assay")) is None


# --- the distributions


HINTS = """
import json, sys
from importlib.metadata import distribution
from assay.installing import install_hint
noted = distribution("assaykit").locate_file("assaykit-%s.dist-info/direct_url.json" % sys.argv[1])
said, original = [install_hint("judge")], noted.read_text()
for text in json.loads(sys.argv[2]):
    noted.write_text(text)
    said.append(install_hint("judge"))
noted.unlink()
said += [install_hint("judge"), install_hint()]
noted.write_text(original)
print(json.dumps(said))
"""


def test_the_wheel_works_in_an_environment_with_nothing_but_the_core(tmp_path: Path) -> None:
    installed = installed_wheel()
    wheel, sdist = installed.wheel, installed.sdist

    # what is in them: every file of the package, and nothing else
    source = {
        f"assay/{path.relative_to(ROOT / 'src' / 'assay')}"
        for path in (ROOT / "src" / "assay").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    version = wheel.name.split("-")[1]
    assert wheel.name == f"assaykit-{version}-py3-none-any.whl"
    with zipfile.ZipFile(wheel) as opened:
        packed = {name for name in opened.namelist() if ".dist-info/" not in name}
        about = opened.read(f"assaykit-{version}.dist-info/METADATA").decode()
    assert packed == source
    assert "\nName: assaykit\n" in about
    assert sdist.name == f"assaykit-{version}.tar.gz"
    with tarfile.open(sdist) as opened_sdist:
        names = [one.name.partition("/")[2] for one in opened_sdist.getmembers() if one.isfile()]
    assert {name.removeprefix("src/") for name in names if name.startswith("src/assay/")} == source
    rest = {name for name in names if not name.startswith("src/assay/")}
    assert {"pyproject.toml", "README.md", "LICENSE", "PKG-INFO"} <= rest
    assert not [name for name in rest if name.startswith("tests")]

    # installed into an empty environment, with the packages of the core and none of an extra
    env = {"PATH": f"{installed.bin}:/usr/bin:/bin", "HOME": str(tmp_path), "NO_COLOR": "1"}

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        (tmp_path / "empty").mkdir(exist_ok=True)
        return subprocess.run(
            list(arguments),
            cwd=tmp_path / "empty",
            env=env,
            capture_output=True,
            text=True,
            check=False,
        )

    demo = run("assay", "demo")
    assert demo.returncode == 0, demo.stderr
    assert (tmp_path / "empty" / "demo" / "report.html").stat().st_size > 10_000
    hint = f"pip install 'assaykit[flowmcp] @ {wheel.as_uri()}'"
    assert hint in demo.stdout, demo.stdout
    doctor = run("assay", "doctor")
    assert doctor.returncode == 0, doctor.stdout
    needed, jobs = doctor.stdout.split("Jobs that need more than the core, installed or not:\n")
    assert all(line.startswith("[ok  ] ") for line in needed.splitlines() if line)
    assert "not checked: flowmcp scoring: needs publicsuffixlist: pip" in needed
    assert re.findall(r"^\[(?:ok|--) *\] ([\w-]+) ", jobs, re.MULTILINE) == list(JOBS)
    assert "[FAIL]" not in jobs
    ready = set(re.findall(r"^\[ok  \] ([\w-]+) ", jobs, re.MULTILINE))
    assert {"run"} <= ready <= {"run", "sandbox"}, "what is missing is not ok, and fails nothing"
    assert f"  {hint}\n" in jobs

    # the hint fits where the copy came from
    noted = [
        '{"url": "https://example.org/a.git", "vcs_info": {"vcs": "git", "commit_id": "4c1"}}',
        '{"url": "file:///nowhere/assay", "dir_info": {}}',
        '{"url": "https://example.org/assaykit-1.zip", "archive_info": {}}',
        "{oops",
        "[]",
        '{"url": 7}',
    ]
    said = run("python", "-c", HINTS, version, json.dumps(noted))
    assert said.returncode == 0, said.stderr
    plain = install_command("judge")
    assert json.loads(said.stdout) == [
        f"pip install 'assaykit[judge] @ {wheel.as_uri()}'",
        "pip install 'assaykit[judge] @ git+https://example.org/a.git@4c1'",
        plain,
        "pip install 'assaykit[judge] @ https://example.org/assaykit-1.zip'",
        plain,
        plain,
        plain,
        plain,
        "pip install assaykit",
    ]
