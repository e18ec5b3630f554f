"""The wheel of this checkout, built and installed once for a test run: an environment with the
packages of the core and none of an extra.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tomllib
import venv
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

import pytest

from checkout import ROOT
from once import once

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


class Installed(NamedTuple):
    """The distributions, and the folder of the programs of the environment."""

    wheel: Path
    sdist: Path
    bin: Path


def installed_wheel() -> Installed:
    """Build and install, unless another test has done so."""
    setuptools = metadata.version("setuptools")
    if int(setuptools.split(".")[0]) < 77:
        pytest.skip(f"building needs setuptools 77 or newer, and this is {setuptools}: make test")

    def make(folder: Path) -> None:
        # Programs of an environment name its folder, and this one is about to be renamed.
        place = folder.with_name("wheel-environment")
        place.mkdir()
        wheel, sdist = _build(place)
        venv.EnvBuilder(symlinks=True).create(place / "env")
        python = place / "env" / "bin" / "python"
        install = [str(Path(sys.executable).with_name("uv")), "pip", "install", "--no-deps"]
        done = subprocess.run(
            [*install, "--no-index", "--python", str(python), str(wheel)],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        (site,) = (place / "env" / "lib").glob("python*/site-packages")
        _link_core(site)
        made = [str(wheel), str(sdist), str(python.parent)]
        (folder / "made.json").write_text(json.dumps(made))

    made = json.loads((once("wheel", make) / "made.json").read_text())
    return Installed(*map(Path, made))


def _build(folder: Path) -> tuple[Path, Path]:
    """Build the wheel and the sdist in a copy of what they are made of."""
    tree = folder / "tree"
    tree.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE", "MANIFEST.in"):
        shutil.copy(ROOT / name, tree)
    ignored = shutil.ignore_patterns("__pycache__", "*.egg-info", "*.pyc")
    shutil.copytree(ROOT / "src", tree / "src", ignore=ignored)
    (tree / "tests").mkdir()
    (tree / "tests" / "test_none.py").write_text("")
    program = (
        "from setuptools import build_meta as b; b.build_wheel('../dist'); b.build_sdist('../dist')"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tree, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    (wheel,) = (folder / "dist").glob("*.whl")
    (sdist,) = (folder / "dist").glob("*.tar.gz")
    return wheel, sdist


def _link_core(site: Path) -> None:
    """Put the packages of the core into an environment, with all they need, as links."""
    from packaging.requirements import Requirement

    left, done = [Requirement(one) for one in PROJECT["dependencies"]], set()
    while left:
        wanted = left.pop()
        if wanted.name in done or (wanted.marker and not wanted.marker.evaluate({"extra": ""})):
            continue
        done.add(wanted.name)
        found = metadata.distribution(wanted.name)
        for top in {path.parts[0] for path in found.files or () if path.parts[0] != ".."}:
            target = site / top
            if not target.exists() and top != "__pycache__":
                target.symlink_to(str(found.locate_file(top)))
        left += [Requirement(one) for one in found.requires or ()]
