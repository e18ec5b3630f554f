"""`assay measure patch` and `repair` on a real tree: what applies, what the tests show without the
patch and with it, and what a hostile patch cannot gain.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from assay.errors import InputError, NotEnoughEvidence
from assay.families.repair.patches import make_job, repair
from assay.records.evidence import Run
from assay.records.reading import read_record
from assay.sandbox.isolation import available
from assay.sandbox.limits import SandboxLimits
from assay.scoring.metrics.applying import apply_patch
from documents import run

pytestmark = pytest.mark.skipif(
    shutil.which("git") is None and os.environ.get("CI") != "true", reason="git is not installed"
)
PYTHON = "/usr/bin/python3" if os.path.exists("/usr/bin/python3") else "{python}"
COMMAND = f"{PYTHON} -I checks/check.py {{test}}"
CALC = "def add(a, b):\n    return a - b\n\n\ndef mul(a, b):\n    return a * b\n"
CHECK = """import sys

sys.path.insert(0, ".")
from calc import add, mul

CHECKS = {"add": lambda: add(2, 2) == 4, "add_zero": lambda: add(2, 0) == 2, "mul": lambda: mul(2, 3) == 6, "odd": lambda: mul(1, 1) == 2}
sys.exit(0 if CHECKS[sys.argv[1]]() else 1)
"""


@pytest.fixture
def walled() -> None:
    why = available()["bubblewrap"]
    if why and os.environ.get("CI") != "true":
        pytest.skip(f"bubblewrap is needed: {why}")


def git(folder: Path, *arguments: str) -> str:
    command = ["git", "-c", "user.name=n", "-c", "user.email=e@example.com", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A small git tree with a bug, and a check for each function."""
    folder = tmp_path / "repo"
    (folder / "checks").mkdir(parents=True)
    (folder / "calc.py").write_text(CALC)
    (folder / "checks" / "check.py").write_text(CHECK)
    git(folder, "init", "-q")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "first")
    return folder


def patch_of(tree: Path, **files: str | None) -> str:
    """The patch that git writes for these changes (`__` for a slash, `_py` for the ending); the
    tree is as before afterwards.
    """
    for name, text in files.items():
        path = tree / name.replace("__", "/").replace("_py", ".py")
        if text is None:
            path.unlink()
        else:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
    git(tree, "add", "-A")
    text = git(tree, "diff", "--cached")
    git(tree, "reset", "-q", "--hard")
    return text


def fix(tree: Path, *, more: str = "") -> str:
    return patch_of(tree, calc_py=CALC.replace("a - b", "a + b") + more)


def judged(tree: Path, patch: str, *, timeout: float = 20, **changes: Any) -> Any:
    fields = {
        "instance_id": "i",
        "tree": str(tree),
        "patch": patch,
        "test_command": COMMAND,
        "fail_to_pass": ["add"],
        "pass_to_pass": ["mul"],
        **changes,
    }
    return repair(make_job(fields), limits=SandboxLimits(wall_s=timeout), isolation="bubblewrap")


# --- patch


@pytest.mark.req("W-020")
def test_each_patch_is_tried_on_a_copy_and_the_tree_is_left_alone(
    assay: Any, tree: Path, tmp_path: Path
) -> None:
    (tmp_path / "good.diff").write_text(fix(tree))
    (tmp_path / "stale.diff").write_text(fix(tree).replace("a - b", "a / b"))
    done = assay(
        "measure",
        "patch",
        "--tree",
        "repo",
        "good.diff",
        "stale.diff",
        "--reference",
        "good.diff",
        "--json",
    )
    assert done.code == 0, done.err
    found = done.json()
    assert found["patches"]["good.diff"] == {
        "applies": True,
        "reason": None,
        "files": ["calc.py"],
        "similarity": 1.0,
    }
    stale = found["patches"]["stale.diff"]
    assert (stale["applies"], stale["files"]) == (False, ["calc.py"])
    assert stale["reason"].startswith("git says")
    assert 0 < stale["similarity"] < 1
    assert (found["applied"], found["n"]) == (1, 2)
    assert git(tree, "status", "--short") == ""
    assert (
        "1 of 2 apply cleanly"
        in assay("measure", "patch", "--tree", "repo", "good.diff", "stale.diff").out
    )


OUT = "--- a/../outside\n+++ b/../outside\n@@ -1 +1 @@\n-a\n+b\n"


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (OUT.encode(), "leads out of the tree"),
        (b"--- /etc/passwd\n+++ /etc/passwd\n@@ -1 +1 @@\n-a\n+b\n", "absolute"),
        (
            b"--- a/.git/config\n+++ b/.git/config\n@@ -1 +1 @@\n-a\n+b\n",
            "not one that a patch may change",
        ),
        (bytes(range(256)) * 8, "UTF-8"),
        (b"diff --git a/x b/x\nGIT binary patch\nliteral 3\nabc\n", "binary"),
        (b"\0" * 100, "NUL"),
        (b"", "not a unified diff"),
        (b"nothing of the kind\n", "not a unified diff"),
    ],
)
def test_a_hostile_or_broken_patch_does_not_apply_and_says_why(
    assay: Any, tree: Path, tmp_path: Path, data: bytes, reason: str
) -> None:
    (tmp_path / "bad.diff").write_bytes(data)
    done = assay("measure", "patch", "--tree", "repo", "bad.diff", "--json")
    assert done.code == 0, done.err
    entry = done.json()["patches"]["bad.diff"]
    assert entry["applies"] is False
    assert reason in entry["reason"]
    assert not (tmp_path / "outside").exists()


def test_what_cannot_be_measured_is_refused_by_name(assay: Any, tree: Path, tmp_path: Path) -> None:
    (tmp_path / "good.diff").write_text(fix(tree))
    (tmp_path / "junk").write_bytes(b"\xff\xfe")
    assert assay("measure", "patch", "--tree", "none", "good.diff").code == 3
    assert (
        "not a patch to compare with"
        in assay("measure", "patch", "--tree", "repo", "good.diff", "--reference", "junk").err
    )
    assert assay("measure", "patch", "--tree", "repo", "none.diff").code == 3
    assert assay("measure", "patch", "--tree", "repo", "good.diff", "good.diff").code == 2
    assert assay("measure", "patch", "--tree", "repo", "good.diff", "-o", "out.txt").code == 2
    empty = tmp_path / "bin"
    empty.mkdir()
    without = assay("measure", "patch", "--tree", "repo", "good.diff", env={"PATH": str(empty)})
    assert without.code == 4
    assert "git" in without.err


def test_a_patch_is_applied_to_the_files_it_names_and_nothing_is_followed(tree: Path) -> None:
    made = apply_patch(patch_of(tree, calc_py=None, new__deep_py="x = 1\n"), str(tree))
    assert made.applies.clean
    assert made.files["calc.py"] is None
    deep = made.files["new/deep.py"]
    assert deep is not None
    assert deep.data == b"x = 1\n"
    link = (
        "diff --git a/l b/l\nnew file mode 120000\n--- /dev/null\n+++ b/l\n@@ -0,0 +1 @@\n+/etc\n\\"
        " No newline at end of file\n"
    )
    linked = apply_patch(link, str(tree)).files["l"]
    assert linked is not None
    assert linked.data == "/etc"
    assert (tree / "calc.py").read_text() == CALC


# --- repair


def test_a_good_patch_is_resolved_and_its_evidence_grades_as_it_stands(
    assay: Any, tree: Path, tmp_path: Path, walled: None
) -> None:
    (tmp_path / "fix.diff").write_text(fix(tree))
    arguments = [
        "--tree",
        "repo",
        "--patch",
        "fix.diff",
        "--test-command",
        COMMAND,
        "--fail-to-pass",
        "add",
        "--pass-to-pass",
        "mul,add_zero",
    ]
    done = assay("measure", "repair", *arguments, "--id", "fix-1", "--json")
    assert done.code == 0, done.err
    found = done.json()
    entry = found["instances"]["fix-1"]
    assert (entry["status"], entry["fail_to_pass"], entry["pass_to_pass"]) == ("full", 1.0, 1.0)
    assert found["counts"]["resolved"] == 1
    assert found["sandbox"] == "bubblewrap"
    evidence = found["evidence"]
    assert evidence == entry["evidence"]
    assert evidence["patch_applies"] is True
    assert evidence["tests"] == {
        "fail_to_pass": {"passed": 1, "total": 1},
        "pass_to_pass": {"passed": 2, "total": 2},
    }
    assert evidence["gates"]["no_sandbox_violation"]["passed"] is True
    assert (
        entry["tests"]["add"]["before"]["passed"],
        entry["tests"]["add"]["after"]["passed"],
    ) == (False, True)
    whole = run(**evidence)
    assert isinstance(read_record(_document(whole), Run, "SCO-011"), Run)
    (tmp_path / "run.json").write_text(json.dumps(whole))
    graded = assay("grade", "run.json", "--json").json()["results"][0]
    assert graded["hard_gate_failures"] == []
    assert "full" in assay("measure", "repair", *arguments).out
    assert git(tree, "status", "--short") == ""


def _document(tree: Any) -> Any:
    from assay.files.json_files import Document

    return Document(tree, "test")


@pytest.mark.usefixtures("walled")
def test_a_patch_that_breaks_something_else_resolves_nothing(tree: Path) -> None:
    found = judged(
        tree, patch_of(tree, calc_py=CALC.replace("a - b", "a + b").replace("a * b", "a"))
    )
    assert found.instance().status() == "no"
    assert found.evidence()["tests"] == {
        "fail_to_pass": {"passed": 1, "total": 1},
        "pass_to_pass": {"passed": 0, "total": 1},
    }


@pytest.mark.usefixtures("walled")
def test_a_patch_that_does_not_apply_runs_no_test_and_leaves_the_tests_without_evidence(
    tree: Path,
) -> None:
    for patch in (OUT, fix(tree).replace("a - b", "a / b"), "", "junk\n"):
        found = judged(tree, patch)
        assert found.instance().status() == "no"
        assert found.evidence()["patch_applies"] is False
        assert found.evidence()["tests"] is None
        assert found.evidence()["gates"]["no_sandbox_violation"]["passed"] is None
        assert found.before == found.after == {}
    assert judged(tree, "").instance().generated is False


@pytest.mark.usefixtures("walled")
def test_a_test_that_passes_without_the_patch_shows_nothing_and_one_that_failed_is_named(
    tree: Path,
) -> None:
    found = judged(tree, fix(tree), fail_to_pass=["add", "add_zero"], pass_to_pass=["mul", "odd"])
    assert found.invalid_before == {"fail_to_pass": ["add_zero"], "pass_to_pass": ["odd"]}
    assert found.after["add_zero"].passed
    assert found.evidence()["tests"] == {
        "fail_to_pass": {"passed": 1, "total": 2},
        "pass_to_pass": {"passed": 1, "total": 2},
    }
    assert found.instance().status() == "no"


@pytest.mark.usefixtures("walled")
def test_a_patch_cannot_edit_move_or_cover_tests_that_are_restored(tree: Path) -> None:
    rigged = "import sys\nsys.exit(0)\n"
    for patch in (
        patch_of(tree, checks__check_py=rigged),
        patch_of(tree, checks__check_py=rigged, checks__extra_py="x = 1\n"),
    ):
        # the script that the command names is restored even without --restore
        for held in (judged(tree, patch), judged(tree, patch, restore=["checks"])):
            assert held.evidence()["tests"]["fail_to_pass"]["passed"] == 0
            assert held.evidence()["tests"]["pass_to_pass"]["passed"] == 1
    moved = judged(tree, patch_of(tree, checks__check_py=None), restore=["checks/check.py"])
    assert moved.evidence()["tests"]["pass_to_pass"]["passed"] == 1
    linked = judged(tree, _link_for_folder(tree), restore=["checks"])
    assert linked.applies
    assert linked.evidence()["tests"] == {
        "fail_to_pass": {"passed": 0, "total": 1},
        "pass_to_pass": {"passed": 1, "total": 1},
    }


def _link_for_folder(tree: Path) -> str:
    """A patch that puts its own folder, through a link, in the place of the tests."""
    shutil.rmtree(tree / "checks")
    (tree / "rigged").mkdir()
    (tree / "rigged" / "check.py").write_text("import sys\nsys.exit(0)\n")
    (tree / "checks").symlink_to("rigged")
    git(tree, "add", "-A")
    text = git(tree, "diff", "--cached", "--no-renames")
    git(tree, "reset", "-q", "--hard")
    return text


@pytest.mark.usefixtures("walled")
def test_a_file_that_the_runner_reads_on_its_own_is_kept_out_where_there_was_none(
    tree: Path,
) -> None:
    command = COMMAND.replace(
        " -I", ""
    )  # reads calc.py beside the check first, and so what a patch puts there
    rigged = patch_of(tree, checks__calc_py="add = mul = lambda a, b: {4: 4, 5: 6}[a + b]\n")
    assert judged(
        tree, rigged, test_command=command, pass_to_pass=[], restore=["checks/check.py"]
    ).applies
    held = judged(tree, rigged, test_command=command, restore=["checks/check.py", "checks/calc.py"])
    assert held.not_there == ("checks/calc.py",)
    assert held.evidence()["tests"]["fail_to_pass"]["passed"] == 0


@pytest.mark.usefixtures("walled")
@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("import time\ntime.sleep(600)\n", "timeout"),
        pytest.param(
            (
                "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nwhile True:\n "
                "   time.sleep(1)\n"
            ),
            "timeout",
            marks=pytest.mark.campaign,
        ),
        pytest.param(
            (
                "import os\nwhile True:\n    try:\n        os.fork()\n    except OSError:\n       "
                " pass\n"
            ),
            None,
            marks=pytest.mark.campaign,  # test_sandbox.py has a bomb
        ),
        ("print('1 passed')\nraise SystemExit(3)\n", None),
    ],
)
def test_code_that_sleeps_forks_or_will_not_end_fails_its_test_and_nothing_is_left(
    tree: Path, code: str, kind: str | None
) -> None:
    found = judged(tree, fix(tree, more=code), timeout=1, pass_to_pass=[])
    assert not found.after["add"].passed
    assert found.evidence()["tests"]["fail_to_pass"] == {"passed": 0, "total": 1}
    if kind is not None:
        assert [violation.kind for violation in found.after["add"].outcome.violations] == [kind]
        assert found.evidence()["gates"]["no_sandbox_violation"]["passed"] is False


@pytest.mark.usefixtures("walled")
def test_a_tree_that_hangs_without_the_patch_is_no_violation_of_the_patch(tree: Path) -> None:
    (tree / "calc.py").write_text("import time\ntime.sleep(600)\n")
    git(tree, "commit", "-qam", "hangs")
    found = judged(
        tree, patch_of(tree, calc_py=CALC.replace("a - b", "a + b")), timeout=2, pass_to_pass=[]
    )
    assert found.before["add"].outcome.status == "timeout"
    assert found.evidence()["gates"]["no_sandbox_violation"]["passed"] is True
    assert found.instance().status() == "full"


@pytest.mark.usefixtures("walled")
def test_the_history_of_the_tree_is_not_there_to_be_read(tree: Path) -> None:
    found = judged(tree, fix(tree, more="import os\nassert not os.path.exists('.git')\n"))
    assert found.instance().status() == "full"


@pytest.mark.usefixtures("walled")
def test_a_command_that_cannot_be_run_is_no_failed_test(tree: Path) -> None:
    with pytest.raises(NotEnoughEvidence) as raised:
        judged(tree, fix(tree), test_command="no-such-program {test}")
    assert raised.value.code == "SBX-002"


@pytest.mark.usefixtures("walled")
def test_an_option_that_is_given_twice_adds_its_tests(
    assay: Any, tree: Path, tmp_path: Path
) -> None:
    (tmp_path / "fix.diff").write_text(fix(tree))
    tests = [
        "--fail-to-pass",
        "odd",
        "--fail-to-pass",
        "add",
        "--pass-to-pass",
        "mul",
        "--pass-to-pass",
        "add_zero",
    ]
    done = assay(
        "measure",
        "repair",
        "--tree",
        "repo",
        "--patch",
        "fix.diff",
        "--test-command",
        COMMAND,
        *tests,
        "--restore",
        "checks",
        "--restore",
        "x",
        "--json",
    )
    assert done.code == 0, done.err
    (entry,) = done.json()["instances"].values()
    assert list(entry["tests"]) == ["odd", "add", "mul", "add_zero"]
    assert entry["status"] != "full"


def test_without_walls_it_refuses_and_limits_alone_are_marked(
    assay: Any, tree: Path, tmp_path: Path
) -> None:
    (tmp_path / "fix.diff").write_text(fix(tree))
    only_git = tmp_path / "bin"
    only_git.mkdir()
    (only_git / "git").symlink_to(str(shutil.which("git")))
    arguments = [
        "measure",
        "repair",
        "--tree",
        "repo",
        "--patch",
        "fix.diff",
        "--test-command",
        COMMAND,
        "--fail-to-pass",
        "add",
        "--json",
    ]
    refused = assay(*arguments, env={"PATH": str(only_git)})
    assert refused.code == 4
    assert "bubblewrap" in refused.err
    if available()["process"] or PYTHON == "{python}":
        pytest.skip("limits without walls are not available here")
    done = assay(*arguments, "--sandbox", "process", env={"PATH": str(only_git)})
    if done.code == 4:
        pytest.skip(done.err)
    assert done.code == 0, done.err
    assert done.json()["sandbox"] == "process"
    assert done.json()["evidence"]["gates"]["no_sandbox_violation"]["passed"] is None


@pytest.mark.usefixtures("walled")
def test_instances_of_a_file_take_from_the_options_what_they_lack(
    assay: Any, tree: Path, tmp_path: Path
) -> None:
    rows: list[dict[str, Any]] = [
        {"instance_id": "good", "patch": fix(tree), "fail_to_pass": ["add"]},
        {"instance_id": "bad", "patch": OUT, "fail_to_pass": ["add"]},
        {"instance_id": "none", "patch": "", "fail_to_pass": ["add"]},
    ]
    (tmp_path / "jobs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    done = assay(
        "measure",
        "repair",
        "jobs.jsonl",
        "--tree",
        "repo",
        "--test-command",
        COMMAND,
        "--pass-to-pass",
        "mul",
        "--json",
    )
    assert done.code == 0, done.err
    found = done.json()
    assert {name: entry["status"] for name, entry in found["instances"].items()} == {
        "good": "full",
        "bad": "no",
        "none": "no",
    }
    assert (
        found["counts"]["all"],
        found["counts"]["generated"],
        found["counts"]["applied"],
        found["counts"]["resolved"],
    ) == (3, 2, 1, 1)
    assert "evidence" not in found


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"fail_to_pass": [], "pass_to_pass": []}, "no tests"),
        ({"pass_to_pass": ["add"]}, "listed twice"),
        ({"fail_to_pass": ["--version"]}, "an option"),
        ({"test_command": "run the tests"}, r"no \{test\}"),
        ({"test_command": "run 'unended {test}"}, "cannot be read"),
        ({"restore": ["../outside"]}, "not a relative path"),
        ({"restore": "checks"}, "must be a list"),
        ({"fail_to_pass": "add"}, "must be a list"),
        ({"tree": ""}, "is blank"),
        ({"patch": None}, "must be a string"),
    ],
)
def test_a_job_that_makes_no_sense_is_refused_before_anything_runs(
    changes: dict[str, Any], message: str
) -> None:
    fields = {
        "instance_id": "i",
        "tree": "t",
        "patch": "",
        "test_command": COMMAND,
        "fail_to_pass": ["add"],
        "pass_to_pass": [],
        **changes,
    }
    with pytest.raises(InputError, match=message):
        make_job(fields)


def test_a_tree_with_a_pipe_or_a_missing_one_is_refused(tree: Path) -> None:
    with pytest.raises(InputError):
        judged(tree / "none", fix(tree))
    os.mkfifo(tree / "pipe")
    with pytest.raises(InputError, match="pipe"):
        judged(tree, "")


def test_the_help_says_what_a_hostile_patch_can_still_do(assay: Any) -> None:
    said = assay("measure", "repair", "--help").out
    assert "A hostile patch can still cheat" in said
    assert "end that process with 0" in said


@pytest.mark.usefixtures("walled")
def test_our_own_interpreter_can_run_the_tests(tree: Path) -> None:
    assert (
        judged(tree, fix(tree), test_command="{python} -I checks/check.py {test}")
        .instance()
        .status()
        == "full"
    )
