"""Plugins: real packages with entry points, good ones and broken ones, and what a result says of
them.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import textwrap
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from assay import plugins
from assay.errors import ShelfError
from assay.formulas import FORMULAS
from assay.importers.known import KNOWN
from assay.judging.apis import JUDGE_APIS as JUDGES
from assay.library.shelf import load_file
from assay.plugins import loading, points
from assay.running.adapters import ADAPTERS
from assay.scoring.gates import GATES
from assay.scoring.metrics import MEASURES
from assay.scoring.profile import GateRef, make_plan
from assay.server import served
from assay.views.exporters import EXPORTERS
from checkout import ROOT
from commands import Result, run_process
from documents import run
from serving import serving

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

EXAMPLE = ROOT / "examples" / "plugin"
REGISTRIES = {
    "assay.formulas": FORMULAS,
    "assay.gates": GATES,
    "assay.measures": MEASURES,
    "assay.importers": KNOWN,
    "assay.judges": JUDGES,
    "assay.exporters": EXPORTERS,
    "assay.adapters": ADAPTERS,
    "assay.families": loading.ALL_FAMILIES,
}
GATE = """\
from assay.plugins import Gate, GateResult
def rule(run, params):
    {body}
CLEAN = Gate("acme.clean", "Clean", "profile", (("outputs",),), rule)
"""
PROFILE = """\
profile: clean
version: 1
title: Clean
family: clean
gates: [{id: acme.clean}]
criteria:
  - {id: right, label: Right, weight: 1, layer: 1, formula: ratio, measure: exact_match}
"""
GOOD = run("rag", expected={"answer": "because"}, scores=None)


def write_package(
    site: Path,
    code: str,
    entries: dict[str, dict[str, str]],
    *,
    package: str = "acme",
    distribution: str = "acme-evals",
    version: str = "1.0",
) -> None:
    """Put a package into a folder as an installer does."""
    (site / package).mkdir(parents=True, exist_ok=True)
    (site / package / "__init__.py").write_text(textwrap.dedent(code))
    info = site / f"{distribution.replace('-', '_')}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n"
    )
    (info / "entry_points.txt").write_text(
        "".join(
            f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in listed.items())
            for group, listed in entries.items()
        )
    )


def forget() -> None:
    for found in (
        loading.outsider,
        loading.families_installed,
        served.served,
        points.find_point,
        points.fingerprint,
    ):
        found.cache_clear()
    for name in [
        name for name in sys.modules if name.partition(".")[0] in ("acme", "assay_example")
    ]:
        del sys.modules[name]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Path]]:
    """Installs a package for this process."""
    site = tmp_path / "site"
    site.mkdir()
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    forget()

    def installed(code: str, entries: dict[str, dict[str, str]], **more: str) -> Path:
        write_package(site, code, entries, **more)
        forget()
        return site

    yield installed
    forget()


# --- names


def test_a_plugin_is_found_by_its_name_and_loaded_only_then(install: Callable[..., Path]) -> None:
    code = """\
        from assay.plugins import Measure
        FLUENCY = Measure("acme.fluency", "1", "Fluency", "", "", "zero_one", (), "", len)
    """
    install(code, {"assay.measures": {"acme.fluency": "acme:FLUENCY"}})
    assert "acme.fluency" not in list(MEASURES)
    assert MEASURES.get("latency") is not None
    assert "acme.other" not in MEASURES
    assert "acme.fluency" not in FORMULAS, "it is in another group"
    assert "acme" not in sys.modules
    assert MEASURES["acme.fluency"].title == "Fluency"
    assert "acme" in sys.modules
    assert MEASURES.near("acme.fluenci") == " Did you mean 'acme.fluency'?"
    assert "install the package" in MEASURES.near("beta.speed")


def test_a_plugin_cannot_shadow_a_shipped_name(install: Callable[..., Path]) -> None:
    shipped = {group: next(iter(registry)) for group, registry in REGISTRIES.items()}
    assert shipped.keys() == plugins.GROUPS.keys()
    install(
        "X = 'a plugin'",
        {group: {name: "acme:X", "fluency": "acme:X"} for group, name in shipped.items()},
    )
    for registry in REGISTRIES.values():
        assert not [name for name in registry if "." in name]
        assert registry[next(iter(registry))] != "a plugin"
        assert "fluency" not in registry, "a plugin's name has a dot"
    assert {plugin.fault[:20] for plugin in points.installed("assay.gates")} == {
        "it is not named pack"
    }


def test_what_is_wrong_with_a_plugin_is_an_error_that_names_it_and_its_package(
    install: Callable[..., Path],
) -> None:
    code = """\
        from assay.plugins import Gate, JudgeApi
        SAME = Gate("acme.another", "A", "profile", (("outputs",),), lambda run, params: None)
        VERDICT = Gate("acme.verdict", "A", "profile", (("outputs",),), None)
        NEEDY = Gate("acme.needy", "A", "profile", (), lambda run, params: None, ("claim",))
        NEITHER = JudgeApi("acme.neither", "Neither")
    """
    listed = {
        "acme.wrong": "acme:Gate",
        "acme.same": "acme:SAME",
        "acme.verdict": "acme:VERDICT",
        "acme.needy": "acme:NEEDY",
        "acme.absent": "acme:NOTHING",
        "acme.gone": "acme.gone:NOTHING",
        "other.posing": "acme:SAME",
        "acme.\u0430bc": "acme:SAME",
    }
    others = {
        "assay.judges": {"acme.neither": "acme:NEITHER"},
        "assay.adapters": {"acme.x": "acme:code"},
    }
    install(code + "\n        code = 3\n", {"assay.gates": listed, **others})
    for name, words in (
        ("acme.wrong", "is a type, not a Gate"),
        ("acme.same", "calls itself 'acme.another'"),
        ("acme.verdict", "has no rule"),
        ("acme.needy", "needs 'claim', which no run has"),
        ("acme.absent", "can't be loaded: AttributeError"),
        ("acme.gone", "can't be loaded: ModuleNotFoundError"),
        ("other.posing", "its name begins with 'other', and it is in the package 'acme'"),
        ("acme.\u0430bc", "it is not named package.name"),
    ):
        with pytest.raises(ShelfError, match=words) as raised:
            GATES.get(name)
        assert "Fix or uninstall acme-evals 1.0." in str(raised.value)
    with pytest.raises(ShelfError, match="needs a `dialect` or an `answer`"):
        JUDGES.get("acme.neither")
    with pytest.raises(ShelfError, match="is a int, not a function"):
        ADAPTERS.get("acme.x")


def test_a_plugin_that_breaks_at_import_or_is_there_twice_is_never_skipped(
    install: Callable[..., Path], tmp_path: Path
) -> None:
    entries = {"assay.gates": {"acme.clean": "acme:CLEAN"}}
    install("raise SystemExit(0)", entries)
    with pytest.raises(ShelfError, match=r"can't be loaded: SystemExit"):
        GATES.get("acme.clean")
    shutil.rmtree(tmp_path / "site")
    install("1 // 0", entries)
    with pytest.raises(ShelfError, match=r"'acme\.clean' .* can't be loaded: ZeroDivisionError"):
        GATES.get("acme.clean")
    install("1 // 0", entries, distribution="acme-fork", version="2")
    words = r"2 installed packages provide 'acme\.clean' .*: acme-evals 1\.0 and acme-fork 2\."
    with pytest.raises(ShelfError, match=words):
        GATES.get("acme.clean")


# --- promises


def test_a_gate_of_a_plugin_passes_only_by_saying_so(
    install: Callable[..., Path], tmp_path: Path
) -> None:
    (tmp_path / "clean.yaml").write_text(PROFILE)
    for body, passed in (
        ("return GateResult(True, 'fine')", True),
        ("return GateResult(False, 'dirty')", False),
        ("return GateResult(None, 'who knows')", None),
    ):
        shutil.rmtree(tmp_path / "site")
        install(GATE.format(body=body), {"assay.gates": {"acme.clean": "acme:CLEAN"}})
        assert GATES["acme.clean"].check(None, {}).passed is passed
    for body, words in (
        ("return True", "returned True, not a GateResult"),
        ("return GateResult('yes', 'fine')", "not a GateResult"),
        ("return GateResult(1, 'fine')", "not a GateResult"),
        ("return run.outputs['x']", "failed: AttributeError"),
        ("raise SystemExit(0)", "failed: SystemExit: 0"),
    ):
        shutil.rmtree(tmp_path / "site")
        install(GATE.format(body=body), {"assay.gates": {"acme.clean": "acme:CLEAN"}})
        with pytest.raises(ShelfError, match=words):
            GATES["acme.clean"].check(None, {})


def test_a_formula_of_a_plugin_gives_a_norm_or_an_error(install: Callable[..., Path]) -> None:
    code = """\
        from assay.plugins import Formula
        HALF = Formula("acme.half", "1", "Half", "", None, None, "", False, (), "", "",
            lambda raw, params: raw, lambda norm, raw, params: None)
        ODD = HALF._replace(id="acme.odd", invert=lambda norm, raw, params: object())
    """
    install(code, {"assay.formulas": {"acme.half": "acme:HALF", "acme.odd": "acme:ODD"}})
    half = FORMULAS["acme.half"]
    assert half.apply(500_000_000, {}) == 500_000_000
    for raw in (0.5, -1, 1_000_000_001, True, None, "1"):
        with pytest.raises(ShelfError, match="billionths"):
            half.apply(raw, {})
    assert half.invert(1, None, {}) is None
    with pytest.raises(ShelfError, match=r"returned <object .*, not a number"):
        FORMULAS["acme.odd"].invert(1, None, {})


@pytest.mark.parametrize(
    ("raw", "code_of_exit", "words"), [("85", 3, "above 1"), ("1.0000001", 0, "100.00")]
)
def test_a_score_off_the_scale_of_its_formula_is_not_a_perfect_one(
    here: Any, tmp_path: Path, install: Callable[..., Path], raw: str, code_of_exit: int, words: str
) -> None:
    """85 may mean 85 %; a scorer that returns it is refused too."""
    code = """\
        from assay.plugins import Measure
        SHARE = Measure("acme.share", "1", "Share", "", "", "zero_one", (("outputs",),), "",
            lambda run, params: {raw})
    """
    measured = PROFILE.replace("ratio, measure: exact_match", "zero_one, measure: acme.share")
    (tmp_path / "clean.yaml").write_text(measured.replace("{id: acme.clean}", ""))
    (tmp_path / "run.jsonl").write_text(json.dumps(GOOD) + "\n")
    shutil.rmtree(tmp_path / "site")
    install(code.format(raw=raw), {"assay.measures": {"acme.share": "acme:SHARE"}})
    done = here("grade", "run.jsonl", "--profile", "clean.yaml")
    assert (done.code, words in done.out + done.err) == (code_of_exit, True), done.err


def test_a_batch_names_the_formula_that_no_engine_has(
    here: Any, tmp_path: Path, install: Callable[..., Path]
) -> None:
    code = """\
        from assay.plugins import Formula
        HALF = Formula("acme.half", "1", "Half", "", None, None, "", False, (), "", "",
            lambda raw, params: raw, lambda norm, raw, params: None)
    """
    install(code, {"assay.formulas": {"acme.half": "acme:HALF"}})
    (tmp_path / "s.csv").write_text("run,tone\nr-1,1\n")
    tone = "{id: tone, label: Tone, weight: 1, layer: 2, formula: FORMULA}"
    for formula, words in (
        ("acme.half", "normalises 'tone' with acme.half, a plugin's formula, which has no trans"),
        ("acme.third", "acme.third"),
    ):
        (tmp_path / "p.yaml").write_text(
            "profile: p\nversion: 1\ntitle: P\nfamily: p\ngates: []\ncriteria:\n"
            f"  - {tone.replace('FORMULA', formula)}\n"
        )
        for engine in ("duckdb", "spark"):
            done = here("batch", "s.csv", "-o", "g.csv", "--profile", "p.yaml", "--engine", engine)
            assert (done.code, words in done.err) == (3, True), done.err
            assert ("BAT-001" in done.err) == (formula == "acme.half")
    assert not list(tmp_path.glob("g.*"))


def test_an_exporter_or_adapter_of_a_plugin_keeps_its_promise_or_is_named(
    here: Any, tmp_path: Path, install: Callable[..., Path]
) -> None:
    code = """\
        from assay.plugins import Exporter, Format
        class Text(Format):
            def piece(self, result):
                return result["run_id"]
        class Broken(Format):
            def piece(self, result):
                return b"x" + result["nothing"]
        TEXT = Exporter("acme.text", "Text", (".txt",), Text)
        BROKEN = Exporter("acme.broken", "Broken", (".txt",), Broken)
        NONE = Exporter("acme.none", "None", (".txt",), dict)
        def make(given, folder, where):
            return 3
    """
    names = {f"acme.{name}": f"acme:{name.upper()}" for name in ("text", "broken", "none")}
    install(code, {"assay.exporters": names, "assay.adapters": {"acme.make": "acme:make"}})
    (tmp_path / "runs.jsonl").write_text(json.dumps(GOOD) + "\n")
    for name, words in (
        ("acme.text", "returned 'r-1', not bytes"),
        ("acme.broken", "failed: KeyError: 'nothing'"),
        ("acme.none", "returned {}, not a Format"),
    ):
        done = here("report", "export", "runs.jsonl", "--to", name, "-o", "x.txt")
        assert (done.code, words in done.err) == (3, True), done.err
        assert "acme-evals 1.0" in done.err
    assert not (tmp_path / "x.txt").exists()
    with pytest.raises(ShelfError, match="not an Adapter"):
        ADAPTERS["acme.make"]({}, tmp_path, "here")


# --- missing


def test_a_profile_without_its_plugin_never_believes_the_run(
    assay: Any, tmp_path: Path, install: Callable[..., Path]
) -> None:
    """A gate that nobody computes must not become one whose verdict the run brings."""
    (tmp_path / "clean.yaml").write_text(PROFILE)
    boasting = {**GOOD, "gates": {"acme.clean": {"passed": True}}}
    (tmp_path / "runs.jsonl").write_text(json.dumps(boasting) + "\n")
    done = assay("grade", "runs.jsonl", "--profile", "clean.yaml")
    assert done.code == 3
    assert "A name with a dot is a plugin's" in done.err
    assert "verdict: true" not in done.err, "that would open the gate"
    site = install(
        GATE.format(body="return GateResult(True, 'fine')"),
        {"assay.gates": {"acme.clean": "acme:CLEAN"}},
    )
    profile = load_file("profiles", str(tmp_path / "clean.yaml"))
    make_plan(profile, why="here")
    shutil.rmtree(site)
    forget()
    with pytest.raises(ShelfError, match=r"no gate is named 'acme\.clean'"):
        make_plan(profile, why="here")
    assert profile.gates == [GateRef(id="acme.clean")]


def test_another_behaviour_is_another_fingerprint_and_another_system(
    install: Callable[..., Path], tmp_path: Path
) -> None:
    entries = {"assay.gates": {"acme.clean": "acme:CLEAN"}}
    code = GATE.format(body="return GateResult(True, 'fine')")
    (tmp_path / "clean.yaml").write_text(PROFILE)
    seen = []
    for body, version in ((code, "1.0"), (code, "1.0"), (code + "# more\n", "1.0"), (code, "1.1")):
        shutil.rmtree(tmp_path / "site")
        site = install(body, entries, version=version)
        plan = make_plan(load_file("profiles", str(tmp_path / "clean.yaml")), why="here")
        seen.append((plan.digests["plugin:gate/acme.clean"], plan.scoring_system))
    (site / "acme" / "deeper").mkdir()
    (site / "acme" / "deeper" / "words.yaml").write_text("words: [TODO]\n")
    (site / "acme" / ".cache").write_text("no part of it")
    forget()
    plan = make_plan(load_file("profiles", str(tmp_path / "clean.yaml")), why="here")
    seen.append((plan.digests["plugin:gate/acme.clean"], plan.scoring_system))
    assert seen[0] == seen[1]
    assert len({mark for mark, _ in seen}) == len({system for _, system in seen}) == 4


def test_a_baseline_under_another_behaviour_of_a_plugin_is_refused_like_another_profile(
    here: Any, tmp_path: Path, install: Callable[..., Path]
) -> None:
    """The profile's text is the same; what its gate does is not."""
    (tmp_path / "clean.yaml").write_text(PROFILE)
    (tmp_path / "assay.yaml").write_text("profile: clean.yaml\n")
    (tmp_path / "run.jsonl").write_text(json.dumps(GOOD) + "\n")
    code, entries = (
        GATE.format(body="return GateResult(True, 'fine')"),
        {"acme.clean": "acme:CLEAN"},
    )
    install(code, {"assay.gates": entries})
    assert here("baseline", "set", "old", "run.jsonl").code == 0
    here("import", "run.jsonl", "--name", "stored", "--profile", "clean.yaml")
    for name in ("old", "stored"):
        assert "scoringSystem/" not in here("gate", "run.jsonl", "--baseline", name).err
    shutil.rmtree(tmp_path / "site")
    install(code + "# kinder\n", {"assay.gates": entries})
    done = here("gate", "run.jsonl", "--baseline", "old")
    assert (done.code, "was stored under profile clean@1 (scoringSystem/" in done.err) == (3, True)
    for more in (("old", "--profile", "clean.yaml"), ("stored",)):
        assert "(scoringSystem/" in here("gate", "run.jsonl", "--baseline", *more).err


# --- the example package


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example, built as a wheel and installed into a folder; no network."""
    folder = tmp_path_factory.mktemp("example")
    shutil.copytree(EXAMPLE, folder / "plugin")
    done = subprocess.run(
        [sys.executable, "-c", "from setuptools import build_meta as b; b.build_wheel('../dist')"],
        cwd=folder / "plugin",
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (wheel,) = (folder / "dist").glob("*.whl")
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(folder / "site")
    return folder / "site"


@pytest.fixture
def here(tmp_path: Path) -> Callable[..., Result]:
    """The command, which finds what a test has installed for it."""

    def command(*words: str) -> Result:
        path = os.pathsep.join(place for place in sys.path if Path(place).name == "site")
        env = {"NO_COLOR": "1", "PYTHONPATH": path}
        return run_process(list(words), cwd=tmp_path, env=env)

    return command


@pytest.fixture
def with_example(
    example: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, here: Callable[..., Result]
) -> Iterator[Callable[..., Result]]:
    """The command where the example is installed, in a folder with its files."""
    monkeypatch.syspath_prepend(str(example))
    forget()
    for name in ("profile.yaml", "workflow.yaml", "tickets.tsv"):
        shutil.copy(EXAMPLE / name, tmp_path)
    yield here
    forget()


def test_the_library_lists_every_plugin_with_its_origin(
    with_example: Any, install: Callable[..., Path]
) -> None:
    install("1 // 0", {"assay.gates": {"acme.clean": "acme:CLEAN", "\u202ebad.x": "acme:CLEAN"}})
    listed = with_example("library", "list", "--json").json()
    for group in plugins.GROUPS:
        kind = listed[group.partition(".")[2]]
        (mine,) = [one for one in kind if one["id"].startswith("assay_example.")]
        assert mine["title"]
        assert mine["origin"] == {"distribution": "assay-plugin-example", "version": "1.0.0"}
    done = with_example("library", "list", "gates")
    assert done.code == 0
    assert "a placeholder  (plugin of assay-plugin-example 1.0.0)" in done.out
    assert "acme.clean" in done.out
    assert "broken: the plugin 'acme.clean' (assay.gates) can't be loaded: Zero" in done.out
    assert "\u202e" not in done.out
    done = with_example("library", "show", "gates", "assay_example.no_placeholder", "--json")
    assert done.json()["plugin"] == "assay-plugin-example 1.0.0"
    assert done.json()["fingerprint"].startswith("sha256:")


def test_every_plugin_of_the_example_does_its_job(
    with_example: Any, tmp_path: Path, assay_process: Any, example: Path
) -> None:
    tickets = (
        "tickets.tsv",
        "--from",
        "assay_example.tickets",
        "--profile",
        "profile.yaml",
        "--no-store",
        "-o",
        "runs.jsonl",
    )
    done = with_example("import", *tickets)
    assert (done.code, "lines without three cells" in done.out + done.err) == (0, True)
    runs = [json.loads(line) for line in (tmp_path / "runs.jsonl").read_text().splitlines()]
    for one in runs:
        assert any(name.startswith("importer/assay_example.tickets ") for name in one["checks"])
    done = with_example("grade", "runs.jsonl", "--profile", "profile.yaml", "-o", "grades.json")
    graded = json.loads((tmp_path / "grades.json").read_text())["results"]
    assert [one["passed"] for one in graded] == [True, False, False]
    assert [*graded[0]["digests"]][1:4] == [
        "plugin:gate/assay_example.no_placeholder",
        "plugin:measure/assay_example.brevity",
        "plugin:formula/assay_example.stars",
    ]
    target = ("--to", "assay_example.digest", "-o", "digest.txt")
    done = with_example("report", "export", "runs.jsonl", "--profile", "profile.yaml", *target)
    assert done.code == 0, done.err
    assert (tmp_path / "digest.txt").read_text().endswith("1 of 3 passed\n")

    (tmp_path / "samples.jsonl").write_text('{"id": "s-1", "question": "why"}\n')
    words = ("--dataset", "samples.jsonl", "--profile", "profile.yaml", "--no-store", "--work", "w")
    assay_process("run", "workflow.yaml", *words, env={"PYTHONPATH": str(example)})
    ran = json.loads((tmp_path / "w" / "runs.jsonl").read_text())
    assert ran["outputs"] == {"answer": "because"}
    assert "plugin:adapter/assay_example.canned" in ran["metadata"]["plugins"]

    (tmp_path / "rag.jsonl").write_text(json.dumps({**run("rag"), "scores": {}}) + "\n")
    words = ("--rubric", "rag", "--model", "m-1", "-o", "judged.jsonl")
    done = with_example("judge", "rubric", "rag.jsonl", "--api", "assay_example.house", *words)
    assert done.code == 0, done.err
    scores = json.loads((tmp_path / "judged.jsonl").read_text())["scores"]
    assert {one["raw"] for one in scores.values()} == {1}
    assert {one["source"]["answered_by"] for one in scores.values()} == {"m-1"}


def test_grades_of_another_version_of_a_plugin_are_not_compared_as_they_are(
    with_example: Any, tmp_path: Path
) -> None:
    words = (
        "tickets.tsv",
        "--from",
        "assay_example.tickets",
        "--profile",
        "profile.yaml",
        "--no-store",
        "-o",
        "runs.jsonl",
    )
    with_example("import", *words)
    with_example("grade", "runs.jsonl", "--profile", "profile.yaml", "-o", "grades.json")
    gate = ("gate", "grades.json", "--baseline", "grades.json", "--profile", "profile.yaml")
    assert "another version" not in with_example(*gate).err
    grades = (tmp_path / "grades.json").read_text()
    mark = json.loads(grades)["results"][0]["digests"]["plugin:measure/assay_example.brevity"]
    (tmp_path / "grades.json").write_text(grades.replace(mark, "sha256:" + 64 * "0"))
    done = with_example(*gate)
    assert done.code == 3
    assert "another version of 'assay_example.brevity'" in done.err


def test_runs_by_another_version_of_an_importer_do_not_replace_those_of_the_baseline(
    with_example: Any, tmp_path: Path
) -> None:
    words = ("tickets.tsv", "--from", "assay_example.tickets", "--profile", "profile.yaml")
    with_example("import", *words, "--no-store", "-o", "runs.jsonl")
    runs = (tmp_path / "runs.jsonl").read_text()
    (check,) = json.loads(runs.partition("\n")[0])["checks"]
    (tmp_path / "new.jsonl").write_text(runs.replace(check, "importer/assay_example.tickets 0"))
    gate = ("gate", "new.jsonl", "--baseline", "runs.jsonl", "--profile", "profile.yaml")
    done = with_example(*gate)
    assert done.code == 4, "no pair is left"
    assert "checked for different things by another tool" in done.out
    (tmp_path / "new.jsonl").write_text(runs)
    assert "checked for different things" not in with_example(*gate).out


def test_a_judge_of_a_plugin_that_fails_leaves_the_score_missing(
    here: Any, tmp_path: Path, install: Callable[..., Path]
) -> None:
    code = """\
        from assay.plugins import JudgeApi
        async def answer(request):
            raise RuntimeError("the house is on fire")
        HOUSE = JudgeApi("acme.house", "House", answer=answer)
    """
    install(code, {"assay.judges": {"acme.house": "acme:HOUSE"}})
    (tmp_path / "rag.jsonl").write_text(json.dumps({**run("rag"), "scores": {}}) + "\n")
    words = ("--rubric", "rag", "--model", "m-1", "--retries", "0", "-o", "judged.jsonl")
    done = here("judge", "rubric", "rag.jsonl", "--api", "acme.house", *words)
    assert done.code != 0
    assert "the house is on fire" in done.out + done.err


def test_scores_by_another_version_of_a_judge_or_with_another_prompt_are_by_another_judge(
    here: Any, tmp_path: Path, install: Callable[..., Path]
) -> None:
    code = (EXAMPLE / "assay_example" / "judge.py").read_text().replace("assay_example", "acme")
    entries = {"assay.judges": {"acme.house": "acme:HOUSE"}}
    words = ("--rubric", "rag", "--model", "m-1", "--api", "acme.house", "--no-journal")
    for name, more, *options in (
        ("old", ""),
        ("same", ""),
        ("new", "# kinder\n"),
        ("shown", "", "--with-reference"),
    ):
        shutil.rmtree(tmp_path / "site")
        install(code + more, entries)
        answered = {**run("rag"), "run_id": name, "scores": {}, "expected": {"answer": "so"}}
        (tmp_path / f"{name}.jsonl").write_text(json.dumps(answered) + "\n")
        here("judge", "rubric", f"{name}.jsonl", *words, *options, "-o", f"{name}-judged.jsonl")
    for name, other in (("same", ""), ("new", "acme.house+"), ("shown", "rubric/1+reference")):
        done = here("gate", f"{name}-judged.jsonl", "--baseline", "old-judged.jsonl")
        assert (done.code == 3, other in done.err) == (other != "", True), done.err


def test_an_installed_family_adds_a_verb_and_a_page(with_example: Any, tmp_path: Path) -> None:
    (tmp_path / "answer.txt").write_text("one two three")
    done = with_example("words", "answer.txt")
    assert (done.code, done.out) == (0, "3 words\n")
    assert with_example("words", "answer.txt", "--json").json() == {"words": 3}
    assert "count the words of a file" in with_example("help").out
    assert "assay words answer.txt" in with_example("words", "--help").out
    assert "Did you mean 'words'?" in with_example("wrods").err
    with serving(f"sqlite:///{tmp_path}/ledger.db") as api:
        shown = api.client.get("/words", headers={"Accept": "text/html"})
        assert (shown.status_code, "Words of default." in shown.text) == (200, True)
        assert 'href="/words"' in shown.text


def test_a_family_that_takes_a_shipped_verb_or_breaks_never_hides_it(
    install: Callable[..., Path], here: Callable[..., Result]
) -> None:
    code = """\
        from assay.plugins import Family, Verb
        MINE = Family("acme.mine", verbs={"everyday": {"grade": Verb("acme.verbs", "wave it through")}})
    """
    install(code, {"assay.families": {"acme.mine": "acme:MINE"}})
    assert "wave it through" not in here("help").out
    wrong = here("wrods")
    assert (wrong.code, "has the verb 'grade', which is taken" in wrong.err) == (3, True)
    assert "Grade runs" in here("grade", "--help").out


def test_everything_a_plugin_is_made_of_can_be_imported_from_one_place() -> None:
    for name in plugins.TYPES:
        assert getattr(plugins, name) is not None
    with pytest.raises(AttributeError):
        _ = plugins.nothing
    assert os.path.isfile(EXAMPLE / "README.md")
