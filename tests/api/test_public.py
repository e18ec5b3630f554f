"""The public names, how little is loaded for them, and the fixed fixtures whose results may not
move.

`python tests/api/test_public.py` writes tests/api/golden/grades.json anew. Do that only with a change that
is meant to move scores or letters.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import assay
from assay.canon import plain
from assay.family import SHIPPED
from assay.files.json_files import Unread, stream_documents
from assay.library.shelf import Shelf
from assay.services.grading import Grader
from documents import FAMILIES, run, scorecard

EXAMPLES = Path(assay.__file__).parent / "cli" / "examples"
GOLDEN = Path(__file__).resolve().parent / "golden" / "grades.json"


def _loaded(code: str, cwd: Path) -> set[str]:
    """The modules that a piece of code loads beside those that Python starts with; the code's own
    output is dropped.
    """
    whole = (
        f"import sys\nbase = set(sys.modules)\n{code}\nsys.stderr.write('loaded: ' + '"
        " '.join(sorted(set(sys.modules) - base)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", whole], capture_output=True, text=True, cwd=cwd, check=False
    )
    assert done.returncode == 0, done.stderr
    return set(done.stderr.rpartition("loaded: ")[2].split())


def _command(*arguments: str, code: int = 0) -> str:
    return (
        f"sys.argv = ['assay', *{list(arguments)!r}]\nfrom assay.__main__ import main\nassert"
        f" main() == {code}"
    )


# --- the names


def test_what_is_named_in_all_is_what_can_be_imported() -> None:
    space: dict[str, Any] = {}
    exec("from assay import *", space)
    assert {name for name in space if not name.startswith("__")} == set(assay.__all__)
    assert sorted([*assay.__all__, "__version__"]) == dir(assay)
    assert assay.__all__ == sorted(assay.__all__, key=lambda name: (name.islower(), name))
    for name in assay.__all__:
        assert getattr(assay, name).__name__ == name
    for name in ("Grader", "payload", "Shelf", "nothing", "_HOME"):
        with pytest.raises(AttributeError, match=f"no attribute '{name}'"):
            getattr(assay, name)


def test_the_public_functions_lead_from_a_run_to_an_explanation() -> None:
    card = assay.score(run("rag"))
    assert isinstance(card, assay.Scorecard)
    grade = assay.grade(card)
    assert isinstance(grade, assay.Grade)
    assert (grade.grade, grade.passed) == ("A", True)
    explanation = assay.explain(grade)
    assert isinstance(explanation, assay.Explanation)
    assert explanation.sentences[0].startswith("Grade A, passed")
    assert assay.score(run("rag"), profile="C").profile.id == "rag@1"
    assert assay.ExitCode.PASSED == 0


@pytest.mark.parametrize("wrong", [{}, [], None, 3, "run", {"schema": "assay.run/1"}])
@pytest.mark.parametrize("function", [assay.score, assay.grade])
def test_a_wrong_object_is_an_error_of_the_product_for_both_functions(
    wrong: Any, function: Any
) -> None:
    with pytest.raises(assay.AssayError):
        function(wrong)


def test_an_unknown_policy_profile_or_rubric_is_an_error_with_the_near_miss() -> None:
    with pytest.raises(assay.AssayError, match="Did you mean 'workflow'"):
        assay.grade(scorecard({"norm": 1}), policy="workfow")
    with pytest.raises(assay.AssayError, match="Did you mean 'tool-use'"):
        assay.score(run("rag"), profile="tool-us")
    with pytest.raises(assay.AssayError, match="Did you mean 'dag-review'"):
        assay.score(run("rag"), rubric="dag-reviw")


# --- how little is loaded


def test_importing_the_package_loads_nothing_but_itself(tmp_path: Path) -> None:
    assert {
        name
        for name in _loaded("import assay", tmp_path)
        if name.split(".")[0] not in sys.stdlib_module_names
    } == {"assay"}


@pytest.mark.parametrize("argument", ["--version", "-V", "--help", "-h", "help"])
def test_version_and_help_load_the_standard_library_and_the_tables_of_verbs(
    argument: str, tmp_path: Path
) -> None:
    loaded = {
        name
        for name in _loaded(_command(argument), tmp_path)
        if name.split(".")[0] not in sys.stdlib_module_names
    }
    assert loaded == {
        "assay",
        "assay.__main__",
        "assay.cli",
        "assay.cli.main",
        "assay.cli.process",
        "assay.cli.verbs",
        "assay.errors",
        "assay.families",
        *(f"assay.families.{name}" for name in SHIPPED),
        "assay.family",
    }


def test_version_and_help_load_no_heavy_part_of_the_standard_library(tmp_path: Path) -> None:
    loaded = _loaded(_command("--version"), tmp_path) | _loaded(_command("--help"), tmp_path)
    assert not loaded & {
        "argparse",
        "asyncio",
        "decimal",
        "email",
        "http",
        "inspect",
        "json",
        "logging",
        "multiprocessing",
        "socket",
        "subprocess",
        "typing",
    }


def test_grading_one_scorecard_loads_no_validator_no_pool_and_no_numerics(tmp_path: Path) -> None:
    (tmp_path / "one.json").write_text(json.dumps(scorecard({"norm": 1}, hard_gates={"g": True})))
    loaded = _loaded(_command("grade", "one.json"), tmp_path)
    assert "assay.grading.grade" in loaded
    heads = {name.split(".")[0] for name in loaded}
    assert not heads & {
        "jsonschema_rs",
        "multiprocessing",
        "statistics",
        "numpy",
        "scipy",
        "asyncio",
        "email",
        "http",
        "urllib",
        "html",
    }
    assert not loaded & {
        "assay.records.contract",
        "assay.views.report",
        "assay.release.summary",
        "assay.stats.intervals",
    }


# --- fixed fixtures


def _kept(result: dict[str, Any]) -> dict[str, Any]:
    """What of a result is behaviour and not wording."""
    names = (
        "run_id",
        "grade",
        "provisional_grade",
        "passed",
        "reason",
        "grade_reason",
        "weighted_score",
        "weighted_score_adjusted",
        "pass_threshold",
        "hard_gate_failures",
        "floor_failures",
        "layers",
        "profile",
        "rubric",
        "policy",
        "scoringSystem",
        "gradingSystem",
        "digests",
    )
    criterion = (
        "name",
        "raw_score",
        "formula_id",
        "weight",
        "norm",
        "adjusted_norm",
        "contribution",
        "critical_floor",
        "floor_failed",
    )
    placement = ("margin_to_next_grade", "to_lose_grade", "smallest_gain", "smallest_loss")
    return {name: result[name] for name in names} | {
        "gates": {name: gate["status"] for name, gate in result["hard_gates"].items()},
        "criteria": [{name: item[name] for name in criterion} for item in result["criteria"]],
        "placement": {name: result["placement"][name] for name in placement},
    }


def _golden() -> list[dict[str, Any]]:
    grader = Grader(Shelf())
    found = []
    for path in sorted(EXAMPLES.glob("*.jsonl")):
        for document in stream_documents(str(path)):
            assert not isinstance(document, Unread)
            found.append(_kept(plain(grader.grade(document).payload())))
    return found


@pytest.mark.req("W-086")
def test_the_bundled_examples_have_the_results_that_were_checked_in() -> None:
    wanted = json.loads(GOLDEN.read_text())
    found = _golden()
    assert [one["run_id"] for one in found] == [one["run_id"] for one in wanted]
    for one, other in zip(found, wanted, strict=True):
        assert one == other
    assert len(wanted) == 15
    assert {one["grade"] for one in wanted} == set("ABCDF")


@pytest.mark.req("W-086")
@pytest.mark.parametrize("family", FAMILIES)
def test_a_good_run_of_each_family_is_an_a_and_its_bare_shell_is_an_f(
    family: str, tmp_path: Path, assay: Any
) -> None:
    shell = {
        key: value
        for key, value in run(family).items()
        if key in ("schema", "run_id", "workflow", "dataset", "status")
    }
    (tmp_path / "good.json").write_text(json.dumps(run(family)))
    (tmp_path / "shell.json").write_text(json.dumps({**shell, "run_id": "shell"}))
    good = assay("grade", "good.json", "--json")
    result = good.json()["results"][0]
    assert (good.code, result["grade"], result["weighted_score"], result["passed"]) == (
        0,
        "A",
        100,
        True,
    )
    assert {gate["status"] for gate in result["hard_gates"].values()} == {"pass"}
    bare = assay("grade", "shell.json", "--json")
    result = bare.json()["results"][0]
    assert (bare.code, result["grade"], result["weighted_score"], result["passed"]) == (
        1,
        "F",
        0,
        False,
    )
    assert {name for name, gate in result["hard_gates"].items() if gate["status"] == "pass"} == {
        "overall_status_success"
    }


if __name__ == "__main__":
    GOLDEN.write_text(json.dumps(_golden(), indent=1, ensure_ascii=False) + "\n")
