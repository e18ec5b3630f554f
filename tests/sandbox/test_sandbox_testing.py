"""Only a test that was collected, ran and passed is passed: what the runners' own reports show, and
what a hostile patch cannot gain.
"""

from __future__ import annotations

import difflib
import hmac
import json
import os
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest

from assay.errors import InputError
from assay.families.repair.guards import find_test, guarded_paths
from assay.families.repair.patches import RUNNERS, Repair, find_runner, lay_out, make_job, repair
from assay.sandbox.box_setup import TreeEntry
from assay.sandbox.isolation import available
from assay.sandbox.limits import SandboxLimits
from assay.sandbox.running import read_junit
from assay.sandbox.testing import read_record, run_test
from assay.sandbox.trees import read_tree
from examples import CAMPAIGN

pytestmark = pytest.mark.skipif(
    shutil.which("git") is None and os.environ.get("CI") != "true", reason="git is not installed"
)
walled = pytest.mark.skipif(
    bool(available()["bubblewrap"]) and os.environ.get("CI") != "true",
    reason="bubblewrap is needed",
)

CALC = "def add(a, b):\n    return a - b\n\n\ndef mul(a, b):\n    return a * b\n"
FIXED = CALC.replace("a - b", "a + b")
PYTEST = (
    "from calc import add, mul\n\n\ndef test_add():\n    assert add(2, 3) == 5\n\n\ndef"
    " test_mul():\n    assert mul(2, 3) == 6\n"
)
UNITTEST = (
    "import unittest\n\nfrom calc import add, mul\n\n\nclass Calc(unittest.TestCase):\n    def"
    " test_add(self):\n        self.assertEqual(add(2, 3), 5)\n\n    def test_mul(self):\n       "
    " self.assertEqual(mul(2, 3), 6)\n"
)
TREE = {
    "calc.py": CALC,
    "tests/__init__.py": "",
    "tests/test_calc.py": PYTEST,
    "tests/test_cases.py": UNITTEST,
}
ADD, CASE = "tests/test_calc.py::test_add", "tests.test_cases.Calc.test_add"


KNOWN: dict[str, dict[str, Any]] = {}
"""The runs without a patch, by tree and command: as in a real run, they are made once."""


def judged(
    folder: Path,
    changes: dict[str, str | None],
    *,
    command: Any = "pytest",
    tree: dict[str, str] | None = None,
    **fields: Any,
) -> Repair:
    """What a patch with these changes comes to. None deletes a file."""
    original = TREE if tree is None else tree
    for name, text in original.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    lines: list[str] = []
    for name, text in changes.items():
        before = f"a/{name}" if name in original else "/dev/null"
        after = "/dev/null" if text is None else f"b/{name}"
        lines += difflib.unified_diff(
            original.get(name, "").splitlines(True), (text or "").splitlines(True), before, after
        )
    tests = {"fail_to_pass": [CASE if command == "unittest" else ADD], "pass_to_pass": []}
    job = make_job(
        {
            "instance_id": "i",
            "tree": str(folder),
            "patch": "".join(lines),
            "test_command": command,
            **tests,
            **fields,
        }
    )
    return repair(
        job,
        limits=SandboxLimits(wall_s=60, cpu_s=60),
        isolation="bubblewrap",
        known=KNOWN.setdefault(json.dumps([original, command]), {}),
    )


def passes(found: Repair) -> bool:
    assert found.applies, found.reason
    return found.instance().status() == "full"


# --- hostile patches

FORGED_XML = (
    '<testsuite name="pytest" errors="0" failures="0" skipped="0" tests="1"><testcase'
    ' classname="tests.test_calc" name="test_add"/></testsuite>'
)
LEAVES = "import os\nos._exit(0)\n"
GREEN = "def pytest_pyfunc_call(pyfuncitem): return True\n"
HOSTILE: dict[str, dict[str, str | None]] = {
    "edits the tests": {
        "tests/test_calc.py": PYTEST.replace("add(2, 3)", "5"),
        "tests/test_cases.py": UNITTEST.replace("add(2, 3)", "5"),
    },
    "deletes the tests": {"tests/test_calc.py": None, "tests/test_cases.py": None},
    "a package of the tests' name": {
        "tests/test_calc/__init__.py": "def test_add(): pass\n",
        "tests/test_cases/__init__.py": UNITTEST.replace("add(2, 3)", "5"),
    },
    "a module of the tests' folder's name": {
        "tests.py": "",
        "test_calc.py": "def test_add(): pass\n",
    },
    "conftest": {"conftest.py": GREEN, "tests/conftest.py": GREEN},
    "settings": {
        "pytest.ini": "[pytest]\naddopts = --collect-only\n",
        "tox.ini": "[pytest]\naddopts = --co\n",
        "setup.cfg": "[tool:pytest]\naddopts = --co\n",
        "pyproject.toml": "[tool.pytest.ini_options]\naddopts = '--co'\n",
    },
    "shadows the runner": dict.fromkeys(
        ("pytest.py", "_pytest/__init__.py", "unittest.py", "pluggy.py"), LEAVES
    ),
    "shadows the library": dict.fromkeys(
        ("json.py", "hmac.py", "tempfile.py", "inspect.py", "difflib/__init__.py", "tests/json.py"),
        LEAVES,
    ),
    "shadows the site": {
        "sitecustomize.py": LEAVES,
        "usercustomize.py": LEAVES,
        "x.pth": "import os; os._exit(0)\n",
    },
    "a package of the tests' folder": {
        "tests/__init__.py": "import calc, sys\ncalc.add = lambda a, b: 5\n"
    },
    "metadata with a plugin": {
        "evil.egg-info/entry_points.txt": "[pytest11]\nevil = calc\n",
        "evil.egg-info/PKG-INFO": "Name: evil\nVersion: 1\n",
    },
}
CODE = {
    "exits with 0": "import os\nos._exit(0)\n",
    "raises SystemExit": "raise SystemExit(0)\n",
    "exits when called": "import os\ndef add(a, b): os._exit(0)\n",
    "becomes another program": "import os\nos.execv('/bin/true', ['true'])\n",
    "kills itself": "import os\nos.kill(os.getpid(), 9)\n",
    "pytest.exit": "import pytest\ndef add(a, b): pytest.exit('done', 0)\n",
    "skips": "import unittest\ndef add(a, b): raise unittest.SkipTest('no')\n",
    "skips by pytest": "import pytest\ndef add(a, b): pytest.skip('no')\n",
    "skips the module": "import unittest\nraise unittest.SkipTest('no')\n",
    "xfails": "import pytest\ndef add(a, b): pytest.xfail('no')\n",
    "prints": "print('1 passed in 0.01s\\nOK')\n" + CALC,
    "forges the report": (
        "import os, glob\n"
        "def add(a, b):\n"
        "    for path in ('/sandbox/report/report.xml', *glob.glob('/sandbox/report/*')):\n"
        f"        open(path, 'w').write({FORGED_XML!r})\n"
        "    os._exit(0)\n"
    ),
    "rewrites the report": (
        "import os, time\n"
        "if os.fork() == 0:\n"
        "    path = '/sandbox/report/report.xml'\n"
        "    while not os.path.exists(path) or not os.path.getsize(path): pass\n"
        "    text = open(path).read().replace('failed', 'passed')\n"
        "    open(path, 'w').write(text)\n"
        "    os._exit(0)\n" + CALC
    ),
    "replaces the test's run": "import _pytest.python, unittest\n_pytest.python.Function.runtest = unittest.TestCase.run = lambda *a: None\n"
    + CALC,
    "replaces the assertions": (
        "import unittest, _pytest.python\nunittest.TestCase.assertEqual = lambda *a: None\n_pytest.python.Function.runtest = lambda s: None\n"
        + CALC
    ),
    "calls every report passed": (
        "import sys, unittest\nfrom _pytest.reports import TestReport\n"
        "made = TestReport.from_item_and_call.__func__\n"
        "def forged(cls, item, call):\n    call.excinfo = None\n    return made(cls, item, call)\n"
        "TestReport.from_item_and_call = classmethod(forged)\n"
        "unittest.TestResult.addFailure = unittest.TextTestResult.addFailure = lambda self, test, err: self.addSuccess(test)\n"
        + CALC
    ),
    "registers a plugin": (
        "import sys, unittest\n"
        "class Plugin:\n    def pytest_pyfunc_call(self, pyfuncitem): return True\n"
        "frame = sys._getframe()\n"
        "while frame:\n"
        "    config = getattr(frame.f_locals.get('self'), 'config', None)\n"
        "    if config is not None and hasattr(config, 'pluginmanager'):\n        config.pluginmanager.register(Plugin()); break\n"
        "    frame = frame.f_back\n" + CALC
    ),
    "replaces the test's module": (
        "import sys, types, unittest\n"
        "for name in list(sys.modules):\n"
        "    if name.rpartition('.')[2] in ('test_calc', 'test_cases'):\n"
        "        fake = types.ModuleType(name)\n"
        "        fake.__file__, fake.__spec__ = sys.modules[name].__file__, sys.modules[name].__spec__\n"
        "        fake.test_add = lambda: None\n"
        "        fake.Calc = type('Calc', (unittest.TestCase,), {'test_add': lambda self: None})\n"
        "        sys.modules[name] = fake\n" + CALC
    ),
    "imports through a hook": (
        "import sys\n"
        "class Hook:\n    def find_spec(self, name, path=None, target=None):\n        if 'test' in name: raise SystemExit(0)\n"
        "sys.meta_path.insert(0, Hook())\n" + CALC
    ),
    "exits late": "import atexit, os\natexit.register(os._exit, 0)\n" + CALC,
    "forks and leaves": "import os\ndef add(a, b):\n    if os.fork(): os._exit(0)\n    return 1\n",
    "turns off asserts": (
        "import sys\ndef add(a, b):\n    quiet = type('E', (Exception,), {'__init__': lambda *a: None})\n"
        "    sys._getframe(1).f_globals['AssertionError'] = quiet\n    return a - b\n"
    ),
    "traces the test away": "import sys\ndef add(a, b):\n    def trace(*a): return trace\n    sys.settrace(trace); sys.exit(0)\n",
    "swaps the test's code from a thread": (
        "import sys, threading, time\n"
        "def swap():\n"
        "    for _ in range(2000):\n"
        "        for module in list(sys.modules.values()):\n"
        "            test, case = getattr(module, 'test_add', None), getattr(module, 'Calc', None)\n"
        "            if hasattr(test, '__code__'): test.__code__ = (lambda: None).__code__\n"
        "            if case is not None: case.test_add = lambda self: None\n"
        "        time.sleep(0.0001)\n"
        "threading.Thread(target=swap, daemon=True).start()\ntime.sleep(0.05)\n" + CALC
    ),
    "calls failures skipped": "import unittest\nunittest.TestCase.failureException = unittest.SkipTest\n"
    + CALC,
    "edits the record on its way": "import json\nold = json.dumps\njson.dumps = lambda *a: old(*a).replace('failed', 'passed')\n"
    + CALC,
    "exits by a timer": (
        "import os, signal\nsignal.signal(signal.SIGALRM, lambda *a: os._exit(0))\nsignal.setitimer(signal.ITIMER_REAL, 0.001)\n"
        + CALC
    ),
    "exits when it is thrown away": "import os\nclass Bomb:\n    def __del__(self): os._exit(0)\nbomb = Bomb()\ndel bomb\n"
    + CALC,
    "sets the runner's variables": (
        "import os\nos.environ['PYTEST_ADDOPTS'] = '--collect-only'\nos.environ['PYTEST_PLUGINS'] = 'calc'\n"
        "pytest_plugins = ['calc']\ndef pytest_pyfunc_call(pyfuncitem): return True\n" + CALC
    ),
    "ends in a thread": "import os, threading\nthreading.Thread(target=os._exit, args=(0,)).start()\n"
    + CALC,
}
OF_PYTEST = {
    "conftest",
    "settings",
    "metadata with a plugin",
    "pytest.exit",
    "skips by pytest",
    "xfails",
    "registers a plugin",
    "sets the runner's variables",
}
"""Of no use against unittest."""
OF_ANY = {
    "exits with 0",
    "raises SystemExit",
    "exits when called",
    "becomes another program",
    "kills itself",
    "prints",
    "exits late",
    "forks and leaves",
    "exits by a timer",
    "exits when it is thrown away",
    "ends in a thread",
    "forges the report",
    "rewrites the report",
    "edits the record on its way",
    "imports through a hook",
    "traces the test away",
    "skips the module",
    "edits the tests",
    "deletes the tests",
    "shadows the library",
    "shadows the site",
}
"""On the process, its record and its files, whatever runs in it: tried with unittest."""


def is_tried(name: str, command: str) -> bool:
    """Whether an attack is tried in the suite: `make campaign` tries each on each runner."""
    if CAMPAIGN:
        return True
    if command == "unittest":
        return name not in OF_PYTEST
    return name not in HOSTILE and name not in OF_ANY  # below, by a pytest that reads more


ATTACKS = [
    *(
        (name, command)
        for name in (*HOSTILE, *CODE)
        for command in ("pytest", "unittest")
        if is_tried(name, command)
    ),
    # a pytest that reads the project's own conftest and settings, against patches of files
    *((name, "{python} -m pytest -q {test}") for name in HOSTILE if CAMPAIGN or name not in OF_ANY),
]
HOSTILE |= {name: {"calc.py": text} for name, text in CODE.items()}


@walled
@pytest.mark.parametrize(("name", "command"), ATTACKS)
def test_a_hostile_patch_never_passes(name: str, command: str, tmp_path: Path) -> None:
    found = judged(tmp_path, HOSTILE[name], command=command)
    assert not passes(found), found.after
    [ended] = found.after.values()
    assert ended.reason
    assert ended.outcome.status != "passed"


# --- honest patches


@walled
@pytest.mark.parametrize(
    ("more", "command"),
    [
        ({}, "{python} -m pytest -q -x {test}"),
        ({}, "{python} -m unittest -v {test}"),
        ({"pyproject.toml": "[project]\nname = 'calc'\n", "README.md": "# calc\n"}, "pytest"),
        (
            {
                "tests/test_calc.py": PYTEST.replace("5", "5  # five"),
                "tests/test_new.py": "def test_new(): pass\n",
            },
            "pytest",
        ),
        (
            {
                "parts/__init__.py": "",
                "parts/types.py": "Number = int\n",
                "calc.py": "from parts.types import Number\n" + FIXED,
            },
            "unittest",
        ),
    ],
    ids=[
        "the fix",
        "the fix, unittest",
        "settings too",
        "tests too",
        "a module like the library's",
    ],
)
def test_an_honest_patch_passes_whatever_else_it_changes(
    command: str, more: dict[str, str | None], tmp_path: Path
) -> None:
    wanted = CASE if "unittest" in command else ADD
    found = judged(
        tmp_path,
        {"calc.py": FIXED, **more},
        command=command,
        fail_to_pass=[wanted],
        pass_to_pass=[wanted.replace("add", "mul")],
    )
    assert passes(found), found.after
    assert list(found.guarded) == [
        path for path in sorted(more) if path.startswith(("tests/", "pyproject"))
    ]


@walled
def test_the_projects_conftest_and_settings_are_read_as_they_were_before_the_patch(
    tmp_path: Path,
) -> None:
    tree = {
        **TREE,
        "conftest.py": "import pytest\n\n\n@pytest.fixture\ndef five():\n    return 5\n",
        "pytest.ini": "[pytest]\nmarkers = quick\naddopts = --strict-markers\n",
        "tests/test_calc.py": (
            "import pytest\nfrom calc import add\n\n\n@pytest.mark.quick\ndef test_add(five):\n   "
            " assert add(2, 3) == five\n"
        ),
    }
    changes: dict[str, str | None] = {
        "conftest.py": tree["conftest.py"].replace("return 5", "return -1"),
        "pytest.ini": None,
    }
    command = "{python} -m pytest {test}"
    assert passes(judged(tmp_path, {"calc.py": FIXED, **changes}, tree=tree, command=command))
    found = judged(tmp_path, changes, tree=tree, command=command)
    assert not passes(found)
    assert found.guarded == ("conftest.py", "pytest.ini")


# --- what the report shows


def ended_alone(folder: Path, command: str, cases: str, test: str) -> Any:
    """How one test ends in a tree that is right: no run without a patch is needed for that."""
    for name, text in (("calc.py", FIXED), ("test_odd.py", cases)):
        (folder / name).write_text(text)
    runner = find_runner(RUNNERS[command])
    assert runner is not None
    entries = read_tree(str(folder))
    place = find_test(test, runner.kind, {entry.path for entry in entries})
    return run_test(entries, test, place, runner=runner, limits=SandboxLimits(wall_s=60, cpu_s=60))


ODD = """import pytest, unittest
from calc import add

def test_skip(): pytest.skip("no")
@pytest.mark.xfail
def test_xfail(): assert False
@pytest.mark.xfail(strict=False)
def test_xpass(): assert add(2, 3) == 5
@pytest.fixture
def broken(): raise ValueError("setup")
def test_setup(broken): pass
@pytest.fixture
def late():
    yield
    raise ValueError("teardown")
def test_teardown(late): assert add(2, 3) == 5
async def test_async(): assert add(2, 3) == 5
class T(unittest.TestCase):
    async def test_lazy(self): self.fail()
    @unittest.skip("no")
    def test_skipped(self): pass
    @unittest.expectedFailure
    def test_expected(self): self.fail()
    @unittest.expectedFailure
    def test_unexpected(self): self.assertEqual(add(2, 3), 5)
    def test_parts(self):
        for part in (1, 2):
            with self.subTest(part=part): self.assertEqual(add(part, 0), 1)
    def test_good_parts(self):
        for part in (1, 2):
            with self.subTest(part=part): self.assertEqual(add(part, 3), part + 3)
"""


OF_UNITTEST = (
    ("T::test_skipped", "skipped"),
    ("T::test_expected", "xfailed"),
    ("T::test_unexpected", ""),
    ("Nowhere::test_a", ""),
)


@walled
@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("test_skip", "skipped"),
        ("test_xfail", "xfailed"),
        ("test_xpass", "xpassed"),
        ("test_setup", "errored in setup"),
        ("test_teardown", "errored in teardown"),
        ("test_async", ""),
        ("T::test_lazy", "never run"),
        ("T::test_parts", "failed"),
        ("test_nowhere", ""),
        *(OF_UNITTEST if CAMPAIGN else ()),
    ],
)
def test_a_test_of_pytest_that_did_not_run_and_pass_has_not_passed(
    tmp_path: Path, name: Any, word: Any
) -> None:
    after = ended_alone(tmp_path, "pytest", ODD, f"test_odd.py::{name}")
    assert not after.passed
    assert word in after.reason


@walled
@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("test_lazy", "never run"),
        ("test_skipped", "skipped"),
        ("test_expected", "xfailed"),
        ("test_unexpected", "xpassed"),
        ("test_parts", "failed"),
        ("test_nowhere", "errored"),
        ("", "skipped"),
    ],
)
def test_a_test_of_unittest_that_did_not_run_and_pass_has_not_passed(
    tmp_path: Path, name: str, word: str
) -> None:
    cases = "import unittest\nfrom calc import add\n" + ODD[ODD.index("class T(") :]
    if not name:
        cases = cases.replace("    async def test_lazy(self): self.fail()\n", "")
    after = ended_alone(tmp_path, "unittest", cases, f"test_odd.T.{name}".rstrip("."))
    assert not after.passed
    assert word in after.reason or not name


@walled
@pytest.mark.parametrize(
    ("command", "test"),
    [("pytest", "test_odd.py::T::test_good_parts"), ("unittest", "test_odd.T.test_good_parts")],
)
def test_a_test_with_parts_that_all_hold_passes(command: str, test: str, tmp_path: Path) -> None:
    cases = "import unittest\nfrom calc import add\n" + ODD[ODD.index("class T(") :]
    assert passes(
        judged(
            tmp_path,
            {"calc.py": FIXED},
            tree={"calc.py": CALC, "test_odd.py": cases},
            command=command,
            fail_to_pass=[test],
        )
    )


REPORTING = """import sys
from calc import CASES, add

cases = "".join(
    f'<testcase name="{a}-{b}">{"" if add(a, b) == c else "<failure/>"}</testcase>'
    for a, b, c in CASES
)
open(sys.argv[1], "w").write(f"<testsuite>{cases}</testsuite>")
sys.exit("<failure" in cases)
"""


@walled
@pytest.mark.parametrize("fixed", [True, False])
def test_a_case_that_vanishes_from_the_report_of_a_command_has_not_passed(
    tmp_path: Path, fixed: bool
) -> None:
    old = "CASES = [(2, 3, 5), (2, 2, 4)]\n" + CALC
    new = old.replace("a - b", "a + b") if fixed else "CASES = [(3, 3, 0)]\n" + CALC
    found = judged(
        tmp_path,
        {"calc.py": new},
        tree={"calc.py": old, "report.py": REPORTING},
        command="{python} report.py {report} {test}",
        fail_to_pass=["all"],
    )
    assert passes(found) is fixed
    assert fixed or "was there without the patch" in found.after["all"].reason


@walled
def test_a_case_that_a_patch_makes_vanish_has_not_passed(tmp_path: Path) -> None:
    tree = {
        "calc.py": "CASES = [(2, 3, 5), (2, 2, 4)]\n" + CALC,
        "test_cases.py": (
            "import pytest\nfrom calc import CASES, add\n\n\n@pytest.mark.parametrize('a, b, c',"
            " CASES)\ndef test_add(a, b, c):\n    assert add(a, b) == c\n"
        ),
    }
    fewer = "CASES = [(3, 3, 0)]\n" + CALC
    found = judged(
        tmp_path, {"calc.py": fewer}, tree=tree, fail_to_pass=["test_cases.py::test_add"]
    )
    assert not passes(found)
    assert "was there without the patch" in found.after["test_cases.py::test_add"].reason
    assert passes(
        judged(
            tmp_path,
            {"calc.py": tree["calc.py"].replace("a - b", "a + b")},
            tree=tree,
            fail_to_pass=["test_cases.py::test_add"],
        )
    )


def signed(record: Any, key: bytes = b"k") -> bytes:
    body = json.dumps(record).encode()
    return hmac.new(key, body, "sha256").hexdigest().encode() + b"\n" + body


@pytest.mark.parametrize(
    "record",
    [
        {},
        [],
        None,
        {"collected": 3},
        {"collected": [], "faults": [], "must_fail": [], "steps": []},
    ],
)
def test_a_record_that_is_not_signed_or_is_none_shows_nothing(record: Any) -> None:
    for data in (b"", b"\n{}", b"x\n{}", FORGED_XML.encode(), signed({}, b"other")):
        assert "forged" in read_record(data, key=b"k", test="t", kind="pytest").fault
    assert read_record(signed(record), key=b"k", test="t", kind="unittest").fault


@pytest.mark.parametrize(
    ("case", "word"),
    [
        ("", ""),
        ("<skipped/>", "skipped"),
        ('<skipped type="pytest.xfail"/>', "skipped"),
        ("<failure/>", "failed"),
        ("<error/>", "errored"),
        ('</testcase><testcase classname="a" name="b">', "reported twice"),
    ],
)
def test_a_junit_report_passes_only_tests_that_ran_and_passed_once(case: str, word: str) -> None:
    assert (
        word
        in read_junit(
            '<testsuites><testsuite><testcase classname="a"'
            f' name="b">{case}</testcase></testsuite></testsuites>'.encode()
        ).fault
    )
    assert bool(word) is bool(
        read_junit(
            f'<testsuite><testcase classname="a" name="b">{case}</testcase></testsuite>'.encode()
        ).fault
    )


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"OK",
        b"<testsuite/>",
        b"<testsuite",
        b'<!DOCTYPE x [<!ENTITY a "b">]><testsuite>&a;</testsuite>',
    ],
)
def test_a_junit_report_without_tests_or_that_is_none_passes_nothing(data: bytes) -> None:
    assert read_junit(data).fault


# --- what is guarded


@pytest.mark.parametrize(
    "path",
    [
        "conftest.py",
        "pkg/conftest.py",
        "CONFTEST.PY",
        "conftest/__init__.py",
        "pytest.ini",
        "pkg/tox.ini",
        ".pytest.ini",
        "pytest.toml",
        "pytest.py",
        "pytest/__init__.py",
        "_pytest/__init__.py",
        "json.py",
        "json/__init__.py",
        "src/unittest/mock.py",
        "unittest.pyi",
        "hypothesis.py",
        "assay.py",
        "x.pth",
        "tests/a.txt",
        "tests/test_a/__init__.py",
        "tests/deep/x.py",
        "tests",
        "tests.py",
        "test_a.py",
        "pkg/__pycache__/x.cpython-311.pyc",
        "a.egg-info/entry_points.txt",
        "sitecustomize/__init__.py",
        "pkg/part/__init__.py",
        "pkg/test_b.py",
        "pkg/test_b/__init__.py",
        "pkg/part/json.py",
    ],
)
def test_a_path_that_could_decide_what_runs_is_guarded(path: str) -> None:
    assert _guarded(path) == (path,)


@pytest.mark.parametrize(
    "path",
    [
        "pkg/types.py",
        "pkg/json/__init__.py",
        "calc.py",
        "pkg/test/client.py",
        "docs/conf.py",
        "pkg/__init__.py",
        "new.py",
        "dataclasses.py",
    ],
)
def test_a_path_of_the_code_is_not_guarded(path: str) -> None:
    assert _guarded(path) == ()


def _guarded(path: str) -> tuple[str, ...]:
    there = (
        "calc.py",
        "dataclasses.py",
        "pkg/__init__.py",
        "pkg/test/client.py",
        "tests/test_a.py",
        "pkg/test_b.py",
        "pkg/part/test_c.py",
    )
    return guarded_paths(
        [path],
        [TreeEntry(one, 0o644, b"") for one in there],
        {"tests/test_a.py", "pkg/test_b.py", "pkg/part/test_c.py"},
    )


@pytest.mark.parametrize(
    ("command", "path"),
    [
        ("./run.sh {test}", "run.sh"),
        ("sh -c './run.sh {test}'", "run.sh"),
        ("sh new.sh {test}", "new.sh"),
        (".venv/bin/python -m pytest {test}", ".venv/bin/python"),
        ("make check T={test}", "Makefile"),
        ("make check T={test}", "GNUmakefile"),
        ("npm test -- -t {test}", "package.json"),
        ("go test -run {test} ./...", "pkg/add_test.go"),
        ("node run.js {test}", "src/add.test.ts"),
        ("node run.js {test}", "lib/__tests__/add.js"),
        ("mvn test -Dtest={test}", "src/test/java/AddTest.java"),
        ("mvn test -Dtest={test}", "core/AddTest.java"),
        ("python3 -m bin.check {test}", "bin/check.py"),
        ("python3 -m bin.check {test}", "src/bin/check/__main__.py"),
        ("python3 bin/tool {test}", "bin/json.py"),
        (".venv/bin/python -m pytest --config-file=bin/any.cfg {test}", "bin/any.cfg"),
        (".venv/bin/python -m pytest -p bin.plugin {test}", "bin/plugin.py"),
        ("npx jest {test}", "jest.config.js"),
    ],
)
def test_what_a_command_runs_and_files_named_like_tests_are_guarded(
    command: str, path: str
) -> None:
    assert _guarded_by(command, path) == (path,)


@pytest.mark.parametrize(
    ("command", "path"),
    [
        ("sh tests/check.sh bin/tool {test}", "bin/tool"),
        ("sh -c 'cd src && ./check {test}'", "src/calc.py"),
        ("pytest {test}", "package.json"),
        ("pytest {test}", "pkg/add_test.go"),
        ("./run.sh {test}", "django/test/client.py"),
        ("./run.sh {test}", "core/Latest.java"),
        ("./run.sh {test}", "contest.py"),
        ("./run.sh {test}", "bin/json.py"),
        (".venv/bin/python -m pytest --cov=src/calc.py {test}", "src/calc.py"),
    ],
)
def test_what_a_command_tests_is_not_guarded(command: str, path: str) -> None:
    assert _guarded_by(command, path) == ()


def _guarded_by(command: str, path: str) -> tuple[str, ...]:
    words = shlex.split(command)
    there = ("run.sh", ".venv/bin/python", "bin/tool", "tests/check.sh", "src/calc.py")
    return guarded_paths(
        [path],
        [TreeEntry("src", 0o755, None), *(TreeEntry(one, 0o644, b"") for one in there)],
        (),
        words=words,
        any_command=find_runner(words) is None,
    )


@pytest.mark.parametrize(
    ("test", "path", "command", "guarded"),
    [
        ("tests/test_new.py::test_add", "tests/test_new.py", "pytest", True),
        ("checks/new.rb", "checks/new.rb", "ruby {test}", True),
        ("tests", "tests/data.txt", "pytest", True),
        ("pkg", "pkg/test_part.py", "pytest", True),
        ("linked/test_a.py::test_add", "suite/test_a.py", "pytest", True),
        ("tests/test_link.py::test_add", "suite/cases.py", "pytest", True),
        ("tests/test_calc.py::test_add", "suite/settings.py", "pytest", True),
        ("pkg", "pkg/part.py", "pytest", False),
        ("pkg", "pkg/part.go", "go test ./{test}", False),
        ("slugs", "slugs.py", "./run.sh {test}", False),
        ("tests/test_calc.py::test_add", "pkg/linked.py", "pytest", False),
    ],
)
def test_the_file_of_a_required_test_is_guarded_wherever_it_is(
    test: str, path: str, command: str, guarded: bool
) -> None:
    """Also one that isn't there yet, a folder, and what a link leads to, but not the code."""
    files = ("tests/test_calc.py", "pkg/part.py", "suite/test_a.py", "suite/cases.py")
    links = {
        "linked": "suite",
        "tests/test_link.py": "../suite/cases.py",
        "conftest.py": "suite/settings.py",
        "tests/linked.py": "../pkg/linked.py",
    }
    tree = [
        TreeEntry("pkg", 0o755, None),
        *(TreeEntry(one, 0o644, b"") for one in files),
        *(TreeEntry(one, 0o777, to) for one, to in links.items()),
    ]
    added = f"--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+1\n"
    changed = f"--- a/{path}\n+++ b/{path}\n@@ -0,0 +1 @@\n+1\n"
    job = make_job(
        {
            "instance_id": "i",
            "tree": "/",
            "patch": changed if path in files else added,
            "test_command": command,
            "fail_to_pass": [test],
        }
    )
    trees = lay_out(job, tree)
    assert (trees.applies, trees.guarded) == (True, (path,) if guarded else ())


def test_a_test_is_found_by_its_name() -> None:
    there = {"tests/test_a.py", "pkg/__init__.py"}
    assert find_test("tests.test_a.Case.test_b", "unittest", there) == (
        "tests/test_a.py",
        "Case.test_b",
    )
    assert find_test("pkg.Case", "unittest", there) == ("pkg/__init__.py", "Case")
    assert find_test("./tests/test_a.py::Case::test_b", "pytest", there) == (
        "tests/test_a.py",
        "Case::test_b",
    )
    assert find_test("tests.nowhere.Case", "unittest", there)[0] not in there


@pytest.mark.parametrize(
    "command",
    [
        "sh -c 'pytest {test}'",
        "{python} -c 'import pytest; pytest.main()' {test}",
        "{python} -m pytest -k={test}",
        "tox -e pytest {test}",
    ],
)
def test_a_command_that_hides_the_report_of_its_runner_is_refused(command: str) -> None:
    with pytest.raises(InputError, match="hides its report"):
        make_job(
            {
                "instance_id": "i",
                "tree": "t",
                "patch": "",
                "test_command": command,
                "fail_to_pass": ["a"],
            }
        )


def test_a_runner_is_found_in_a_command_with_its_interpreter_and_options() -> None:
    own = find_runner(
        (
            "/srv/venv/bin/python3",
            "-X",
            "dev",
            "-m",
            "pytest",
            "-q",
            "--junitxml={report}",
            "{test}",
        )
    )
    assert own == ("pytest", "/srv/venv/bin/python3", ("-X", "dev"), ("-q",))
    ours = find_runner(("pytest", "{test}"))
    assert ours is not None
    assert ours.options == ("--disable-plugin-autoload",)
    assert find_runner(("make", "{test}")) is None
