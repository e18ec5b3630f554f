"""Patches of a workflow, judged for real: git applies them, the sandbox runs the tests, and what
cannot be found out fails closed.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from assay.errors import InputError
from assay.families.repair.repair import lacking, repair_of
from assay.files.json_files import Document
from assay.library.shelf import Shelf
from assay.records.reading import read_run
from assay.running.compatibility import PreparedSample, prepare
from assay.running.dataset import read_dataset
from assay.running.workflow import Repository, make_workflow, read_workflow
from assay.sandbox.isolation import available
from assay.services.grading import Grader
from checkout import ROOT
from commands import Running
from documents import run as a_run
from examples import CAMPAIGN

SAMPLE = ROOT / "src" / "assay" / "cli" / "examples" / "repair"
CALC = "def add(a, b):\n    return a - b\n\n\ndef mul(a, b):\n    return a * b\n"
FIXED = CALC.replace("a - b", "a + b")
TESTS = """import unittest

from calc import add, mul


class Calc(unittest.TestCase):
    def test_add(self):
        self.assertEqual(add(2, 3), 5)

    def test_zero(self):
        self.assertEqual(add(2, 0), 2)

    def test_mul(self):
        self.assertEqual(mul(2, 3), 6)

    def test_wrong(self):
        self.assertEqual(mul(1, 1), 2)
"""
ADD, ZERO, MUL, WRONG = (
    f"tests.test_calc.Calc.test_{name}" for name in ("add", "zero", "mul", "wrong")
)

pytestmark = pytest.mark.skipif(
    shutil.which("git") is None and os.environ.get("CI") != "true", reason="git is not installed"
)


@pytest.fixture
def walled() -> None:
    why = available()["bubblewrap"]
    if why and os.environ.get("CI") != "true":
        pytest.skip(f"bubblewrap is needed: {why}")


def git(folder: Path, *arguments: str) -> str:
    command = ["git", "-c", "user.name=n", "-c", "user.email=e@example.com", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A plain tree with a bug and its tests; no git repository."""
    folder = tmp_path / "project"
    (folder / "tests").mkdir(parents=True)
    (folder / "calc.py").write_text(CALC)
    (folder / "tests" / "__init__.py").write_text("")
    (folder / "tests" / "test_calc.py").write_text(TESTS)
    return folder


def patch(**files: str) -> str:
    """A patch of the project; `__` for a slash, `_py` for the ending."""
    import difflib

    old = {"calc.py": CALC, "tests/test_calc.py": TESTS}
    lines: list[str] = []
    for name, text in files.items():
        path = name.replace("__", "/").replace("_py", ".py")
        before = f"a/{path}" if path in old else "/dev/null"
        lines += difflib.unified_diff(
            old.get(path, "").splitlines(True), text.splitlines(True), before, f"b/{path}"
        )
    return "".join(lines)


FIX = patch(calc_py=FIXED)
LINK = (
    "diff --git a/l b/l\nnew file mode 120000\n--- /dev/null\n+++ b/l\n@@ -0,0 +1 @@\n+/etc\n\\ No"
    " newline at end of file\n"
)


def workflow_at(folder: Path, inputs: Any = ("issue",), **repository: Any) -> Any:
    tree = {
        "workflow": "w",
        "version": 1,
        "family": "code-repair",
        "inputs": inputs if isinstance(inputs, dict) else list(inputs),
        "outputs": ["patch"],
        "adapter": {"kind": "python", "target": "flow:answer"},
        "repository": {"path": "project", "timeout_s": 20, **repository},
    }
    return make_workflow(Document(tree, "w.yaml"), folder)


KNOWN: dict[Any, Any] = {}


def judged(
    project: Path,
    text: Any,
    *,
    inputs: Any = None,
    repository: dict[str, Any] | None = None,
    **row: Any,
) -> dict[str, Any]:
    """The evidence of one patch. It keeps the record of a run."""
    sample = PreparedSample(
        "s-1",
        inputs or {"issue": "add"},
        None,
        None,
        [],
        {"fail_to_pass": [ADD], "pass_to_pass": [MUL], **row},
    )
    measure: Any = repair_of(workflow_at(project.parent, **(repository or {})))
    # the runs without a patch are a property of the tree and the command: made once for all tests
    command = json.dumps(repository or {}, default=str)
    measure._known = lambda *tree: KNOWN.setdefault((command, *tree), {})
    made = measure(sample, {"outputs": {"patch": text}, "metadata": {}})
    assert (
        read_run(
            Document(a_run(tests=None, patch_applies=None, gates=None, metadata=None) | made, "x")
        )
        is not None
    )
    return made


def undetermined(made: dict[str, Any]) -> str:
    """The reason of evidence in which no test counts and the gate is open."""
    assert "tests" not in made
    assert made["gates"]["no_sandbox_violation"]["passed"] is None
    assert made["gates"]["no_sandbox_violation"]["reason"]
    return str(made["metadata"]["repair"]["tests_not_run"])


# --- what is measured


@pytest.mark.req("W-058")
@pytest.mark.usefixtures("walled")
def test_a_good_patch_feeds_every_gate_of_its_profile_by_what_happened(project: Path) -> None:
    made = judged(project, FIX, pass_to_pass=[MUL, ZERO])
    assert made["patch_applies"] is True
    assert made["tests"] == {
        "fail_to_pass": {"passed": 1, "total": 1},
        "pass_to_pass": {"passed": 2, "total": 2},
    }
    assert made["gates"]["no_sandbox_violation"] == {
        "passed": True,
        "reason": "the sandbox saw nothing in 3 runs",
    }
    assert set(made["metadata"]["repair"]) == {"tree"}
    graded = Grader(Shelf()).grade(
        Document(a_run(tests=None, patch_applies=None, gates=None, metadata=None) | made, "x")
    )
    assert list(graded.payload()["hard_gate_failures"]) == []
    assert (project / "calc.py").read_text() == CALC


@pytest.mark.usefixtures("walled")
def test_the_tests_that_fail_are_named_with_the_first_line_of_why(project: Path) -> None:
    made = judged(project, patch(calc_py=FIXED.replace("a * b", "a")))
    assert made["tests"] == {
        "fail_to_pass": {"passed": 1, "total": 1},
        "pass_to_pass": {"passed": 0, "total": 1},
    }
    assert made["metadata"]["repair"]["failed"] == {MUL: "AssertionError: 2 != 6"}


@pytest.mark.usefixtures("walled")
def test_a_patch_that_does_not_apply_says_why_and_no_test_runs(project: Path) -> None:
    made = judged(project, FIX.replace("a - b", "a / b"))
    assert made["patch_applies"] is False
    assert undetermined(made).startswith("git says: error: patch failed: calc.py")


@pytest.mark.usefixtures("walled")
def test_a_test_that_passed_before_the_patch_is_a_fault_of_the_sample_and_does_not_count(
    project: Path,
) -> None:
    made = judged(project, FIX, fail_to_pass=[ADD, ZERO], pass_to_pass=[MUL, WRONG])
    assert made["tests"] == {
        "fail_to_pass": {"passed": 1, "total": 2},
        "pass_to_pass": {"passed": 1, "total": 2},
    }
    faults = made["metadata"]["repair"]["faults_of_the_sample"]
    assert "does not count as passed" in faults[ZERO]
    assert faults[WRONG] == "failed without the patch too"


@pytest.mark.usefixtures("walled")
def test_a_test_that_does_not_exist_fails_and_never_passes(project: Path) -> None:
    made = judged(
        project,
        FIX,
        fail_to_pass=[ADD, f"{ADD}s", "tests.nowhere"],
        pass_to_pass=["tests.test_calc.Empty"],
    )
    assert made["tests"] == {
        "fail_to_pass": {"passed": 1, "total": 3},
        "pass_to_pass": {"passed": 0, "total": 1},
    }
    assert "has no attribute" in made["metadata"]["repair"]["failed"][f"{ADD}s"]
    assert made["metadata"]["repair"]["faults_of_the_sample"] == {
        "tests.test_calc.Empty": "failed without the patch too"
    }


@pytest.mark.usefixtures("walled")
def test_the_same_patch_leaves_the_same_evidence(project: Path) -> None:
    broken = patch(
        calc_py=CALC + "\n\nclass Odd:\n    pass\n\n\ndef add(a, b):\n    raise ValueError(Odd())\n"
    )
    first, second = judged(project, broken), judged(project, broken)
    assert first == second
    assert "0x..." in first["metadata"]["repair"]["failed"][ADD]


@pytest.mark.usefixtures("walled")
def test_pytest_and_a_command_of_ones_own_run_tests_too(project: Path) -> None:
    (project / "tests" / "test_more.py").write_text(
        "from calc import add\n\n\ndef test_add():\n    assert add(2, 3) == 5\n"
    )
    made = judged(
        project,
        FIX,
        repository={"command": "pytest"},
        fail_to_pass=["tests/test_more.py::test_add"],
        pass_to_pass=[],
    )
    assert made["tests"]["fail_to_pass"] == {"passed": 1, "total": 1}
    own = ["{python}", "-m", "unittest", "{test}"]
    assert judged(project, FIX, repository={"command": own})["tests"]["fail_to_pass"] == {
        "passed": 1,
        "total": 1,
    }


@pytest.mark.usefixtures("walled")
def test_a_patch_changes_neither_the_script_that_runs_the_tests_nor_the_tests(
    project: Path,
) -> None:
    (project / "run.sh").write_text('python3 -m unittest -q "$1"\n')
    rigged = '--- a/run.sh\n+++ b/run.sh\n@@ -1 +1 @@\n-python3 -m unittest -q "$1"\n+exit 0\n'
    rigged += patch(tests__test_calc_py=TESTS.replace("add(2, 3), 5", "5, 5"))
    own = {"command": ["sh", "run.sh", "{test}"]}
    made = judged(project, rigged, repository=own)
    assert made["tests"]["fail_to_pass"] == {"passed": 0, "total": 1}
    assert made["metadata"]["repair"]["left_out"] == ["run.sh", "tests/test_calc.py"]
    assert judged(project, FIX, repository=own)["tests"]["fail_to_pass"]["passed"] == 1


def test_the_test_setup_that_a_run_records_is_what_decides_whether_a_patch_passes(
    project: Path,
) -> None:
    def setup(**repository: Any) -> str:
        return str(workflow_at(project.parent, **repository).spec.repository.testing)

    assert setup(timeout_s=9, base="main") == setup()
    assert setup(restore=["a", "b"]) == setup(restore=["b", "a"])
    changes: list[dict[str, Any]] = [
        {},
        {"command": ["true", "{test}"]},
        {"restore": ["tests"]},
        {"fail_to_pass": [MUL]},
        {"pass_to_pass": "few"},
        {"test_patch": "none"},
    ]
    assert len({setup(**change) for change in changes}) == len(changes)


# --- trees


@pytest.mark.usefixtures("walled")
def test_what_a_workflow_writes_to_the_project_changes_no_test(project: Path) -> None:
    """The project is read before the first run: an agent may work in it."""
    measure: Any = repair_of(workflow_at(project.parent))
    idle = patch(calc_py=CALC + "DONE = True\n")
    eased = TESTS.replace("add(2, 3), 5", "hasattr(__import__('calc'), 'DONE'), True")
    (project / "tests" / "test_calc.py").write_text(eased)
    row = {"fail_to_pass": [ADD], "pass_to_pass": [MUL]}
    sample = PreparedSample("s-1", {"issue": "add"}, None, None, [], row)
    made = measure(sample, {"outputs": {"patch": idle}, "metadata": {}})
    assert made["tests"]["fail_to_pass"] == {"passed": 0, "total": 1}


def committed(project: Path) -> str:
    """The project as a git repository whose newest revision has the bug mended already; the name of
    the older one.
    """
    git(project, "init", "-q")
    git(project, "add", ".")
    git(project, "commit", "-qm", "with the bug")
    first = git(project, "rev-parse", "HEAD").strip()
    (project / "calc.py").write_text(FIXED)
    git(project, "commit", "-qam", "mended")
    return first


@pytest.mark.usefixtures("walled")
def test_a_revision_is_patched_where_one_is_named_by_the_file_or_by_the_sample(
    project: Path,
) -> None:
    first = committed(project)
    assert (
        judged(project, FIX)["patch_applies"] is False
    )  # the files as they stand are mended already
    for made in (
        judged(project, FIX, repository={"base": first}),
        judged(project, FIX, base=first[:12]),
        judged(project, FIX, base="HEAD~1"),
    ):
        assert made["metadata"]["repair"]["base"] == first
        assert made["tests"]["fail_to_pass"] == {"passed": 1, "total": 1}
    assert (
        judged(project, FIX, base="HEAD", repository={"base": first})["patch_applies"] is False
    )  # the sample's own comes first
    assert git(project, "status", "--short") == ""


@pytest.mark.usefixtures("walled")
def test_a_revision_and_a_plain_tree_with_the_same_files_are_the_same_tree(project: Path) -> None:
    (project / "run.sh").write_text("true\n")
    (project / "run.sh").chmod(0o755)
    (project / "link").symlink_to("calc.py")
    plain = judged(project, FIX)["metadata"]["repair"]["tree"]
    (project / "tests" / "__pycache__").mkdir()
    (project / "tests" / "__pycache__" / "x.pyc").write_bytes(b"x")
    assert (
        judged(project, FIX)["metadata"]["repair"]["tree"] == plain
    )  # what Python compiled is not a part of it
    shutil.rmtree(project / "tests" / "__pycache__")
    first = committed(project)
    made = judged(project, FIX, base=first)
    assert made["tests"]["fail_to_pass"]["passed"] == 1
    (project / "calc.py").write_text(CALC)
    assert judged(project, FIX)["metadata"]["repair"]["tree"] == plain


@pytest.mark.parametrize(
    ("base", "reason"),
    [
        ("nothing", "there is no revision 'nothing'"),
        ("--output=/tmp/x", "not the name of a revision"),
        ("HEAD;id", "not the name of a revision"),
        ("", "it must be a string"),
        (7, "it must be a string"),
    ],
)
def test_a_revision_that_is_none_is_a_fault_of_the_sample(
    project: Path, base: Any, reason: str
) -> None:
    committed(project)
    made = judged(project, FIX, base=base)
    assert reason in undetermined(made)
    assert "patch_applies" not in made


def test_a_revision_of_a_plain_tree_is_refused(project: Path) -> None:
    assert "is not a git repository" in undetermined(judged(project, FIX, base="HEAD"))


@pytest.mark.usefixtures("walled")
def test_a_hostile_repository_runs_no_program_when_it_is_read(
    project: Path, tmp_path: Path
) -> None:
    first = committed(project)
    trap = f"touch {tmp_path}/sprung"
    for setting in (
        "core.fsmonitor",
        "core.pager",
        "filter.x.smudge",
        "filter.x.process",
        "core.sshCommand",
        "uploadpack.packObjectsHook",
        "alias.ls-tree",
    ):
        git(project, "config", setting, f"!{trap}" if setting.startswith("alias") else trap)
    (project / ".git" / "info").mkdir(exist_ok=True)
    (project / ".git" / "info" / "attributes").write_text("* filter=x\n")
    assert judged(project, FIX, base=first)["tests"]["fail_to_pass"]["passed"] == 1
    assert not (tmp_path / "sprung").exists()


def test_a_tree_made_by_hand_that_leads_out_is_refused(project: Path, tmp_path: Path) -> None:
    committed(project)
    (tmp_path / "out").mkdir()
    link = subprocess.run(
        ["git", "hash-object", "-w", "--stdin"],
        cwd=project,
        input=str(tmp_path / "out"),
        capture_output=True,
        text=True,
        check=True,
    )
    blob = git(project, "hash-object", "-w", "calc.py").strip()
    inner = subprocess.run(
        ["git", "mktree"],
        cwd=project,
        input=f"100644 blob {blob}\tcalc.py\n",
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    raw = b"".join(
        mode + b" x\0" + bytes.fromhex(name)
        for mode, name in ((b"120000", link.stdout.strip()), (b"40000", inner))
    )  # a link and a folder of one name
    tree = subprocess.run(
        ["git", "hash-object", "-w", "-t", "tree", "--literally", "--stdin"],
        cwd=project,
        input=raw,
        capture_output=True,
        check=True,
    )
    commit = git(project, "commit-tree", tree.stdout.decode().strip(), "-m", "x").strip()
    assert "which is a file" in undetermined(
        judged(project, "--- a/x/calc.py\n+++ b/x/calc.py\n@@ -1 +1 @@\n-a\n+b\n", base=commit)
    )
    assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.usefixtures("walled")
def test_a_sample_may_name_its_own_tree_below_the_path_and_nowhere_else(
    project: Path, tmp_path: Path
) -> None:
    (tmp_path / "all").mkdir()
    project.rename(tmp_path / "all" / "one")
    (tmp_path / "all" / "out").symlink_to("/etc")
    repository = {"path": "all", "path_from": "repo"}
    assert (
        judged(project, FIX, repository=repository, repo="one")["tests"]["fail_to_pass"]["passed"]
        == 1
    )
    for name in ("..", "../project", "/etc", "out", "nowhere", ".", "one/calc.py"):
        assert "is not a folder below 'all'" in undetermined(
            judged(project, FIX, repository=repository, repo=name)
        )
    assert "has no field 'repo'" in undetermined(judged(project, FIX, repository=repository))


# --- tests that the workflow does not see

HIDDEN = patch(
    tests__test_calc_py=TESTS.replace(
        "    def test_zero",
        "    def test_secret(self):\n        self.assertEqual(add(7, 8), 15)\n\n    def test_zero",
    )
)
SECRET = "tests.test_calc.Calc.test_secret"


@pytest.mark.usefixtures("walled")
def test_hidden_tests_are_laid_over_the_tree_after_the_patch_and_only_in_the_sandbox(
    project: Path,
) -> None:
    made = judged(project, FIX, fail_to_pass=[SECRET], test_patch=HIDDEN)
    assert made["tests"]["fail_to_pass"] == {"passed": 1, "total": 1}
    assert judged(project, FIX, fail_to_pass=[SECRET])["tests"]["fail_to_pass"] == {
        "passed": 0,
        "total": 1,
    }
    assert (project / "tests" / "test_calc.py").read_text() == TESTS


@pytest.mark.usefixtures("walled")
def test_a_patch_of_the_files_that_the_hidden_tests_bring_changes_nothing(project: Path) -> None:
    rigged = TESTS.replace("add(2, 3), 5", "5, 5").replace(
        "import unittest\n", "import unittest, os\nos._exit(0)\n"
    )
    for text in (
        patch(tests__test_calc_py=rigged),
        patch(calc_py=CALC + "# no\n", tests__test_calc_py=rigged),
    ):
        made = judged(project, text, fail_to_pass=[SECRET], test_patch=HIDDEN)
        assert made["tests"] == {
            "fail_to_pass": {"passed": 0, "total": 1},
            "pass_to_pass": {"passed": 1, "total": 1},
        }
    moved = (
        "diff --git a/tests/test_calc.py b/tests/other.py\nsimilarity index 100%\nrename from"
        " tests/test_calc.py\nrename to tests/other.py\n"
    )
    assert (
        judged(project, FIX + moved, fail_to_pass=[SECRET], test_patch=HIDDEN)["tests"][
            "fail_to_pass"
        ]["passed"]
        == 1
    )


@pytest.mark.parametrize(
    "hidden",
    [
        "junk",
        HIDDEN.replace("import unittest", "import nothing").replace("add(2, 3)", "add(9, 9)"),
        7,
        "--- a/../x\n+++ b/../x\n",
    ],
)
def test_hidden_tests_that_do_not_apply_are_a_fault_of_the_sample_and_not_of_the_patch(
    project: Path, hidden: Any
) -> None:
    made = judged(project, FIX, test_patch=hidden)
    assert undetermined(made)
    assert "patch_applies" not in made


@pytest.mark.usefixtures("walled")
def test_a_patch_cannot_change_tests_that_are_restored(project: Path) -> None:
    rigged = patch(tests__test_calc_py=TESTS.replace("add(2, 3)", "5"))
    made = judged(project, rigged)
    assert made["tests"]["fail_to_pass"]["passed"] == 0
    assert made["metadata"]["repair"]["left_out"] == ["tests/test_calc.py"]
    assert (
        judged(project, rigged, repository={"restore": ["tests"]})["tests"]["fail_to_pass"][
            "passed"
        ]
        == 0
    )


@pytest.mark.parametrize(
    "inputs", [["fail_to_pass"], {"x": {"from": "pass_to_pass"}}, {"x": "test_patch"}]
)
def test_an_input_that_would_show_the_tests_is_refused_before_anything_runs(
    project: Path, inputs: Any
) -> None:
    with pytest.raises(InputError, match="would show the workflow the tests") as refused:
        repair_of(workflow_at(project.parent, inputs))
    assert refused.value.code == "RUN-003"


@pytest.mark.parametrize(
    "inputs",
    [
        {"issue": [ADD]},
        {"issue": {"deep": [[ADD]]}},
        {"issue": "x", "more": HIDDEN},
        {"issue": f"It fails.\n\n{HIDDEN}\nRepair it."},
        {"issue": "x", "more": json.dumps([ADD])},
    ],
)
def test_a_workflow_that_was_shown_its_tests_by_the_dataset_gets_no_evidence_from_them(
    project: Path, inputs: Any
) -> None:
    made = judged(project, FIX, inputs=inputs, test_patch=HIDDEN, fail_to_pass=json.dumps([ADD]))
    assert "showed the workflow a test" in undetermined(made)


# --- hostile patches


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("--- a/../../outside\n+++ b/../../outside\n@@ -0,0 +1 @@\n+x\n", "leads out of the tree"),
        ("--- /dev/null\n+++ b/../outside\n@@ -0,0 +1 @@\n+x\n", "leads out of the tree"),
        ("--- /etc/passwd\n+++ /etc/passwd\n@@ -1 +1 @@\n-a\n+b\n", "absolute"),
        (
            "--- /dev/null\n+++ b/.git/hooks/post-checkout\n@@ -0,0 +1 @@\n+x\n",
            "not one that a patch may change",
        ),
        ("diff --git a/x b/x\nGIT binary patch\nliteral 3\nabc\n", "binary"),
        ("a\0b", "NUL"),
        ("", "there is no patch"),
        ("   \n", "there is no patch"),
        ("I could not do it.", "not a unified diff"),
        ("+" * 100_000_000, "is the limit"),
        (
            "".join(f"--- /dev/null\n+++ b/f{n}\n@@ -0,0 +1 @@\n+x\n" for n in range(2000)),
            "is the limit",
        ),
        (["--- a/x"], "is list, not a string"),
        (7, "is int, not a string"),
        (
            LINK + "--- /dev/null\n+++ b/l/x\n@@ -0,0 +1 @@\n+x\n",
            "git says",
        ),
    ],
    ids=[
        "out",
        "new file out",
        "absolute",
        "git folder",
        "binary",
        "nul",
        "empty",
        "blank",
        "prose",
        "100 MB",
        "files",
        "list",
        "number",
        "through a link",
    ],
)
def test_a_patch_that_is_none_or_leads_out_is_refused_and_says_why(
    project: Path, tmp_path: Path, text: Any, reason: str
) -> None:
    before = sorted(str(path) for path in tmp_path.rglob("*"))
    made = judged(project, text)
    assert made["patch_applies"] is False
    assert reason in undetermined(made)
    assert sorted(str(path) for path in tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    "run", [{"status": "timeout"}, {"outputs": {"other": 1}}, {"outputs": {"patch": None}}]
)
def test_without_a_patch_nothing_is_known_and_nothing_passes(project: Path, run: Any) -> None:
    after = repair_of(workflow_at(project.parent))
    sample = PreparedSample(
        "s-1", {"issue": "x"}, None, None, [], {"fail_to_pass": [ADD], "pass_to_pass": []}
    )
    made = after(sample, run)
    assert "gave no output 'patch'" in undetermined(made)
    assert "patch_applies" not in made


@pytest.mark.usefixtures("walled")
@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("import time\ntime.sleep(600)\n", "timeout"),
        pytest.param(
            (
                "import os\nwhile True:\n    try:\n        os.fork()\n    except OSError:\n       "
                " pass\n"
            ),
            None,
            marks=pytest.mark.campaign,  # test_sandbox.py has a bomb
        ),
        (
            (
                "import socket\ntry:\n    socket.socket(2, 2).sendto(b'x', ('192.0.2.7',"
                " 9))\nexcept OSError:\n    pass\n"
            ),
            "network",
        ),
        ("import os, time\nif os.fork() == 0:\n    time.sleep(600)\n    os._exit(0)\n", "leftover"),
    ],
    ids=["sleep", "fork bomb", "network", "left behind"],
)
def test_code_that_takes_more_than_it_may_is_contained_and_fails_the_gate(
    project: Path, code: str, kind: str | None
) -> None:
    made = judged(
        project, patch(calc_py=FIXED + code), repository={"timeout_s": 1}, pass_to_pass=[]
    )
    gate = made["gates"]["no_sandbox_violation"]
    assert gate["passed"] is False
    assert kind is None or f"{kind}:" in gate["reason"]
    assert made["tests"]["fail_to_pass"]["passed"] == (1 if kind in ("network", "leftover") else 0)


@pytest.mark.usefixtures("walled")
def test_code_that_writes_outside_writes_nothing_and_sees_nothing(
    project: Path, tmp_path: Path
) -> None:
    code = f"""
import os
for path in ({str(tmp_path / "outside")!r}, {str(project / "calc.py")!r}, "/usr/outside", "/outside", "../../outside", "/etc/outside"):
    try:
        open(path, "w").write("x")
        wrote = True
    except OSError:
        wrote = False
    assert not wrote, path
assert not os.path.exists({str(tmp_path)!r})
"""
    made = judged(project, patch(calc_py=FIXED + code))
    assert made["tests"]["fail_to_pass"]["passed"] == 1, made
    assert not (tmp_path / "outside").exists()
    assert (project / "calc.py").read_text() == CALC


@pytest.mark.usefixtures("walled")
def test_a_patch_that_ends_the_tests_does_not_pass_them(project: Path) -> None:
    """One of many such patches: the others are in test_sandbox_testing."""
    text = patch(calc_py=CALC.replace("return a - b", "import os\n    os._exit(0)"))
    assert judged(project, text)["tests"]["fail_to_pass"] == {"passed": 0, "total": 1}


@pytest.mark.usefixtures("walled")
def test_a_link_that_a_patch_makes_leads_nowhere_outside(project: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("s3cret")
    link = LINK.replace("+/etc", f"+{tmp_path}/secret")
    made = judged(
        project,
        patch(calc_py=FIXED + "import os\nassert os.path.islink('l') and not os.path.exists('l')\n")
        + link,
    )
    assert made["tests"]["fail_to_pass"]["passed"] == 1


# --- what is missing


def test_without_walls_no_code_runs_and_nothing_passes(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    only_git = tmp_path / "bin"
    only_git.mkdir()
    (only_git / "git").symlink_to(str(shutil.which("git")))
    monkeypatch.setenv("PATH", str(only_git))
    made = judged(project, patch(calc_py=FIXED + f"open({str(tmp_path / 'ran')!r}, 'w')\n"))
    assert made["patch_applies"] is True
    assert "apt-get install bubblewrap" in undetermined(made)
    assert "apt-get install bubblewrap" in made["gates"]["no_sandbox_violation"]["reason"]
    assert judged(project, FIX.replace("a - b", "a / b"))["patch_applies"] is False
    assert not (tmp_path / "ran").exists()
    monkeypatch.setenv("PATH", str(tmp_path / "nowhere"))
    made = judged(project, FIX)
    assert "patch_applies" not in made
    assert undetermined(made) == lacking()
    assert "apt-get install git" in lacking()


@pytest.mark.usefixtures("walled")
def test_a_command_that_cannot_be_run_leaves_the_tests_without_evidence(project: Path) -> None:
    made = judged(project, FIX, repository={"command": ["no-such-program", "{test}"]})
    assert "could not be run" in undetermined(made)
    assert "patch_applies" not in made


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"fail_to_pass": None}, "no field 'fail_to_pass'"),
        ({"fail_to_pass": "junk"}, "not a list of tests"),
        ({"fail_to_pass": {"a": 1}}, "fail_to_pass: must be a list"),
        ({"fail_to_pass": [ADD, 7]}, "must be a string"),
        ({"fail_to_pass": [ADD], "pass_to_pass": [ADD]}, "listed twice"),
        ({"fail_to_pass": ["--help"]}, "is an option"),
        ({"fail_to_pass": [], "pass_to_pass": []}, "there are no tests"),
    ],
)
def test_a_sample_whose_tests_make_no_sense_is_told_and_not_counted(
    project: Path, row: dict[str, Any], reason: str
) -> None:
    made = judged(project, FIX, **row)
    assert reason in undetermined(made)


@pytest.mark.usefixtures("walled")
def test_tests_may_be_listed_in_the_file_or_as_json_text(project: Path) -> None:
    for made in (
        judged(project, FIX, fail_to_pass=json.dumps([ADD]), pass_to_pass="[]"),
        judged(
            project,
            FIX,
            fail_to_pass=7,
            pass_to_pass=7,
            repository={"fail_to_pass": [ADD], "pass_to_pass": []},
        ),
    ):
        assert made["tests"] == {
            "fail_to_pass": {"passed": 1, "total": 1},
            "pass_to_pass": {"passed": 0, "total": 0},
        }


@pytest.mark.parametrize(
    ("repository", "reason"),
    [
        ({"path": "nowhere"}, "no such folder"),
        ({"command": ["run", "them"]}, r"no \{test\}"),
        ({"command": "pytset"}, "pytset"),
        ({"restore": ["../outside"]}, "not a relative path"),
        ({"timeout_s": 0}, "timeout_s"),
        ({"timeout_s": "soon"}, "number"),
        ({"readable": ["nowhere"]}, "readable"),
        ({"fail_to_pass": ["a", "a"]}, "listed twice"),
        ({"pth": "x"}, "pth"),
    ],
)
def test_a_repository_that_makes_no_sense_is_refused_before_anything_runs(
    project: Path, repository: dict[str, Any], reason: str
) -> None:
    with pytest.raises(InputError, match=reason):
        repair_of(workflow_at(project.parent, **repository))


# --- through `assay run`

FLOW = """import json, os


def answer(inputs):
    with open(os.environ["SEEN"], "a") as file:
        file.write(json.dumps(inputs) + "\\n")
    return {"patch": inputs["answer"]}
"""
WORKFLOW = """workflow: w
version: 1
family: code-repair
inputs: [issue, answer]
outputs: [patch]
adapter: {kind: python, target: "flow:answer"}
repository: {path: project, timeout_s: 30, restore: [tests]}
"""


def written(project: Path, rows: list[dict[str, Any]]) -> None:
    (project.parent / "flow.py").write_text(FLOW)
    (project.parent / "w.yaml").write_text(WORKFLOW)
    (project.parent / "d.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def rows_of(*patches: str, **more: Any) -> list[dict[str, Any]]:
    return [
        {
            "id": f"s-{number}",
            "issue": "add() takes away",
            "answer": text,
            "fail_to_pass": [SECRET],
            "pass_to_pass": [MUL],
            "test_patch": HIDDEN,
            **more,
        }
        for number, text in enumerate(patches, 1)
    ]


@pytest.mark.usefixtures("walled")
def test_a_run_grades_what_its_repository_says_and_shows_the_workflow_no_test(
    assay: Any, project: Path, tmp_path: Path
) -> None:
    written(project, rows_of(FIX, FIX.replace("a - b", "a / b"), expected={"note": "CANARY"}))
    done = assay(
        "run",
        "w.yaml",
        "--dataset",
        "d.jsonl",
        "--work",
        "work",
        "--now",
        "2026-11-15T10:00:00Z",
        "--json",
        env={"SEEN": str(tmp_path / "seen")},
    )
    assert done.code == 1, done.err
    first, second = done.json()["results"]
    assert first["hard_gates"]["tests_fail_to_pass_all_green"]["status"] == "pass"
    assert first["hard_gates"]["no_sandbox_violation"]["status"] == "pass"
    assert second["hard_gates"]["patch_applies_cleanly"]["status"] == "fail"
    assert second["hard_gates"]["no_sandbox_violation"]["status"] == "undetermined"
    seen = (tmp_path / "seen").read_text()
    assert len(seen.splitlines()) == 2
    for secret in ("test_secret", "test_mul", "CANARY", "add(7, 8)"):
        assert secret not in seen


def test_a_repository_that_is_not_there_is_exit_3_and_nothing_runs(
    assay: Any, project: Path, tmp_path: Path
) -> None:
    written(project, rows_of(FIX))
    shutil.rmtree(project)
    done = assay(
        "run",
        "w.yaml",
        "--dataset",
        "d.jsonl",
        "--work",
        "work",
        env={"SEEN": str(tmp_path / "seen")},
    )
    assert done.code == 3
    assert "no such folder" in done.err
    assert not (tmp_path / "seen").exists()


def _processes(marker: str) -> list[str]:
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            line = (
                Path(f"/proc/{name}/cmdline")
                .read_bytes()
                .replace(b"\0", b" ")
                .decode("utf-8", "replace")
            )
        except OSError:
            continue
        if marker in line and int(name) != os.getpid():
            found.append(line)
    return found


@pytest.mark.usefixtures("walled")
def test_a_run_that_is_killed_in_the_sandbox_leaves_no_process_and_resumes_to_the_same_bytes(
    assay: Any, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    marker = f"test_marker_{os.getpid()}_{time.monotonic_ns()}"
    slow = (
        TESTS.replace("import unittest\n", "import time, unittest\n")
        + f"\n    def {marker}(self):\n        time.sleep(0.4)\n        self.assertEqual(add(2, 3),"
        " 5)\n"
    )
    (project / "tests" / "test_calc.py").write_text(slow)
    rows = [
        {**row, "fail_to_pass": [f"tests.test_calc.Calc.{marker}"], "test_patch": None}
        for row in rows_of(FIX, patch(calc_py=FIXED + "# x\n"))
    ]
    written(project, rows)
    monkeypatch.setenv("SEEN", str(tmp_path / "seen"))
    command = [
        "run",
        "w.yaml",
        "--dataset",
        "d.jsonl",
        "--name",
        "n",
        "--now",
        "2026-11-15T10:00:00Z",
        "--concurrency",
        "1",
    ]
    whole = assay(*command, "--work", "whole")
    assert whole.code == 1, whole.err
    process = Running(*command, "--work", "killed", cwd=tmp_path)
    journal = tmp_path / "killed" / "journal.jsonl"
    until = time.monotonic() + 60
    while time.monotonic() < until:
        lines = journal.read_bytes().count(b"\n") if journal.exists() else 0
        if lines >= 2 and _processes(
            marker
        ):  # the header and one finished sample, and a test of the next one
            break
        time.sleep(0.02)
    else:
        pytest.fail("the run was never half-way")
    process.end_at_once()
    until = time.monotonic() + 60
    while _processes(marker) and time.monotonic() < until:
        time.sleep(0.05)
    assert _processes(marker) == []
    again = assay("run", "--resume", "killed")
    assert again.code == whole.code, again.err
    assert (tmp_path / "killed" / "runs.jsonl").read_bytes() == (
        tmp_path / "whole" / "runs.jsonl"
    ).read_bytes()
    assert json.loads((tmp_path / "whole" / "runs.jsonl").read_text().splitlines()[0])["tests"][
        "fail_to_pass"
    ] == {"passed": 1, "total": 1}


def test_a_run_is_not_resumed_when_the_project_has_changed(
    assay: Any, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(project, [{**row, "test_patch": None} for row in rows_of("not a patch")])
    monkeypatch.setenv("SEEN", str(tmp_path / "seen"))
    begun = assay("run", "w.yaml", "--dataset", "d.jsonl", "--work", "w", "--no-store")
    assert assay("run", "--resume", "w").code == begun.code
    (project / "tests" / "test_calc.py").write_text(TESTS.replace("add(2, 3), 5", "5, 5"))
    done = assay("run", "--resume", "w")
    assert done.code == 2
    assert "another version of the project: sha256:" in done.err


# --- the sample


@pytest.mark.usefixtures("walled")
def test_every_issue_of_the_sample_is_resolved_by_the_patch_that_was_merged(project: Path) -> None:
    workflow = read_workflow(str(SAMPLE / "workflow.yaml"))
    after = repair_of(workflow)
    samples = prepare(workflow, read_dataset(str(SAMPLE / "dataset.yaml")))
    assert len(samples) == 6
    for sample in samples if CAMPAIGN else samples[5:]:
        made = after(sample, {"outputs": {"patch": sample.row["reference"]}, "metadata": {}})
        assert made["patch_applies"] is True, sample.sample_id
        assert all(tally["passed"] == tally["total"] > 0 for tally in made["tests"].values()), (
            sample.sample_id,
            made,
        )
        assert made["gates"]["no_sandbox_violation"]["passed"] is True
        assert set(made["metadata"]["repair"]) == {"tree"}, made


@pytest.mark.req("W-058")
@pytest.mark.usefixtures("walled")
def test_the_sample_passes_and_fails_for_the_reasons_that_it_was_made_for(
    assay: Any, tmp_path: Path
) -> None:
    arguments = [
        "--dataset",
        SAMPLE / "dataset.yaml",
        "--now",
        "2026-11-15T10:00:00Z",
        "--name",
        "n",
        "--json",
    ]
    done = assay("run", SAMPLE / "workflow.yaml", *arguments, "--work", "one", "--concurrency", 2)
    assert done.code == 1, done.err
    failures = {
        result["dataset"]["sample_id"]: set(result["hard_gate_failures"])
        for result in done.json()["results"]
    }
    unknown = {
        "tests_fail_to_pass_all_green",
        "tests_pass_to_pass_threshold_met",
        "no_sandbox_violation",
    }
    assert failures == {
        "shed-1": set(),
        "shed-2": set(),
        "shed-3": {"tests_pass_to_pass_threshold_met"},
        "shed-4": {"patch_applies_cleanly", *unknown},
        "shed-5": {"no_sandbox_violation"},
        "shed-6": {"tests_fail_to_pass_all_green"},
    }
    runs = [json.loads(line) for line in (tmp_path / "one" / "runs.jsonl").read_text().splitlines()]
    assert [step["name"] for step in runs[1]["steps"]] == [
        "iteration-1",
        "iteration-2",
    ]  # the first edit does not compile, and the bot sees it
    assert all(set(run["scores"]) == {"judge_quality"} for run in runs)
    assert not any("scorer_errors" in run["metadata"] for run in runs)
    for number in (1, 6) if CAMPAIGN else ():
        assay(
            "run", SAMPLE / "workflow.yaml", *arguments, "--work", number, "--concurrency", number
        )
        assert (tmp_path / "one" / "runs.jsonl").read_bytes() == (
            tmp_path / str(number) / "runs.jsonl"
        ).read_bytes()


def test_the_files_shown_in_the_how_to_are_read_as_they_stand(
    project: Path, tmp_path: Path
) -> None:
    text = (ROOT / "docs" / "how-to" / "repair-code.md").read_text()
    blocks = dict(re.findall(r'```(?:yaml|jsonl) title="(\S+)"\n(.*?)```', text, re.DOTALL))
    for name, block in blocks.items():
        (tmp_path / name).write_text(block.replace("my-project", "project"))
    workflow = read_workflow(str(tmp_path / "workflow.yaml"))
    assert repair_of(workflow) is not None
    [sample] = prepare(workflow, read_dataset(str(tmp_path / "issues.jsonl")))
    assert sample.inputs == {"issue": "parse('') raises IndexError; it should return None."}
    for name in Repository.__struct_fields__:
        assert f"`{name}`" in text, name
