"""Runs one test of a tree with pytest or unittest, and signs a record of every step: the program
that an interpreter in the sandbox gets with `-c`.

Nothing is decided here: the caller reads the record, see `sandbox.testing`. The key of the
signature comes on standard input and is consumed before any code of the tree runs. The test runner
is imported before the tree is on the path, and test modules are made from bytes that were read
before that, so no module, compiled file or entry of `sys.modules` can replace them; a test that
passed must have been entered. At the end, tests that must fail run in the same process: if they
pass, the code under test changed the test runner or its assertions.
"""

from __future__ import annotations

import ast
import hmac
import importlib
import importlib.util
import inspect
import io
import json
import os
import pathlib
import sys
import tempfile
import types
import unittest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MUST_FAIL: dict[str, tuple[Any, ...]] = {
    "fail": ("no",),
    "assertEqual": (1, 2),
    "assertNotEqual": (1, 1),
    "assertTrue": (0,),
    "assertFalse": (1,),
    "assertIs": (1, 2),
    "assertIsNot": (1, 1),
    "assertIsNone": (1,),
    "assertIsNotNone": (None,),
    "assertIn": (1, []),
    "assertNotIn": (1, [1]),
    "assertIsInstance": (1, str),
    "assertNotIsInstance": (1, int),
    "assertRaises": (ValueError, int),
    "assertRaisesRegex": (ValueError, "x", int),
    "assertAlmostEqual": (1, 2),
    "assertNotAlmostEqual": (1, 1),
    "assertGreater": (1, 2),
    "assertGreaterEqual": (1, 2),
    "assertLess": (2, 1),
    "assertLessEqual": (2, 1),
    "assertRegex": ("a", "b"),
    "assertNotRegex": ("a", "a"),
    "assertCountEqual": ([1], [2]),
    "assertMultiLineEqual": ("a", "b"),
    "assertSequenceEqual": ([1], [2]),
    "assertListEqual": ([1], [2]),
    "assertTupleEqual": ((1,), (2,)),
    "assertSetEqual": ({1}, {2}),
    "assertDictEqual": ({1: 1}, {1: 2}),
}
"""Calls of unittest's assertions that must fail."""
MUST_FAIL_PYTEST = b"""
import pytest
def test_assert(): assert [] == [0]
def test_raise(): raise AssertionError
def test_error(): raise ValueError
def test_fail(): pytest.fail("no")
def test_raises():
    with pytest.raises(ValueError): pass
def test_approx(): assert 1 == pytest.approx(2)
"""


class RunnerRecord:
    """What happened, step by step. It is also a pytest plugin."""

    def __init__(self, sources: dict[str, bytes]) -> None:
        self.sources = sources
        self.collected: list[str] = []
        self.steps: list[tuple[str, str, str]] = []
        """The test, the phase (setup, call, teardown) and its outcome."""
        self.faults: list[tuple[str, str]] = []
        """What went wrong outside of any test: a word and a reason."""
        self.must_fail: list[str] = []
        """Tests of our own, which run after the others."""
        self.defined: set[str] = set()
        self.entered: set[str] = set()
        """Functions that the test modules define as tests, and those that the current test has
        entered.
        """

    def fault(self, word: str, reason: object) -> None:
        """Record what went wrong, with the end of a long reason."""
        self.faults.append((word, str(reason)[-500:]))

    def pytest_pycollect_makemodule(self, module_path: Any, parent: Any) -> Any:
        """Make a module of tests from the bytes that were read first."""
        import pytest

        if str(module_path) not in self.sources:
            return None
        source, record = self.sources[str(module_path)], self

        class Loaded(pytest.Module):
            made: Any = None

            def _getobj(self) -> Any:
                if self.made is None:
                    self.made = load(str(module_path), source, record)
                return self.made

        return Loaded.from_parent(parent, path=module_path)

    def pytest_collectreport(self, report: Any) -> None:
        """Record a file that could not be read, or was skipped."""
        if report.outcome != "passed":
            self.fault(report.outcome, getattr(report, "longreprtext", "") or report.nodeid)

    def pytest_deselected(self, items: Any) -> None:
        """Record tests that an option left out."""
        for item in items:
            self.fault("deselected", item.nodeid)

    def pytest_collection_finish(self, session: Any) -> None:
        """Record the tests that will run, and add those that must fail."""
        self.collected = [item.nodeid for item in session.items]
        for item in session.items:
            self.check(item.nodeid, getattr(item, "obj", None), getattr(item, "cls", None))
        path = pathlib.Path(tempfile.mkdtemp(), "must_fail.py")
        self.sources[str(path)] = MUST_FAIL_PYTEST
        ours = list(session.genitems(self.pytest_pycollect_makemodule(path, session)))
        self.must_fail = [item.nodeid for item in ours]
        session.items += ours

    def pytest_runtest_logstart(self) -> None:
        """Start another test."""
        self.entered.clear()

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Record a phase of a test."""
        outcome = str(report.outcome)
        if hasattr(report, "context") and outcome == "passed":
            return  # a subtest; the test has its own report
        if hasattr(report, "wasxfail"):
            outcome = "xfailed" if outcome == "skipped" else "xpassed"
        if report.when == "call":
            outcome = self.confirm(report.nodeid.rpartition("::")[2].partition("[")[0], outcome)
        self.steps.append((report.nodeid, str(report.when), outcome))

    def confirm(self, function: str, outcome: str) -> str:
        """The outcome; a test that passed without being entered never ran."""
        return (
            "never ran"
            if outcome == "passed" and function in self.defined - self.entered
            else outcome
        )

    def check(self, name: str, function: Any, case: Any) -> None:
        """Record a coroutine or generator of a plain TestCase: unittest creates it but never runs
        it.
        """
        lazy = (
            inspect.iscoroutinefunction(function)
            or inspect.isgeneratorfunction(function)
            or inspect.isasyncgenfunction(function)
        )
        if (
            lazy
            and isinstance(case, type)
            and issubclass(case, unittest.TestCase)
            and not issubclass(case, unittest.IsolatedAsyncioTestCase)
        ):
            self.fault(
                "never run",
                f"{name} is a coroutine or a generator, and its class does not run those",
            )


OUTCOMES = {
    "startTest": "started",
    "addSuccess": "passed",
    "addFailure": "failed",
    "addError": "errored",
    "addSkip": "skipped",
    "addExpectedFailure": "xfailed",
    "addUnexpectedSuccess": "xpassed",
    "addSubTest": "failed",
}
"""The methods of a unittest result, and the outcome each one records."""


def result_class(record: RunnerRecord) -> type[unittest.TextTestResult]:
    """A result of unittest that writes the record."""

    def noting(name: str, outcome: str) -> Any:
        def note(self: Any, test: Any, *more: Any) -> None:
            if name == "startTest":
                record.entered.clear()
            if name != "addSubTest" or more[-1] is not None:  # a passed part decides nothing
                record.steps.append(
                    (test.id(), "call", record.confirm(test.id().rpartition(".")[2], outcome))
                )
            getattr(unittest.TextTestResult, name)(self, test, *more)

        return note

    return type(
        "Result",
        (unittest.TextTestResult,),
        {name: noting(name, outcome) for name, outcome in OUTCOMES.items()},
    )


def load(path: str, source: bytes, record: RunnerRecord, *, root: str = "") -> types.ModuleType:
    """A test module from its bytes, in which every test records that it was entered.

    Its name is relative to `root`, or else to the first folder above it that is not a package.
    """
    tree = ast.parse(source, path)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith(
            "test"
        ):
            record.defined.add(node.name)
            entered = ast.Expr(
                ast.Call(ast.Name("__entered__", ast.Load()), [ast.Constant(node.name)], [])
            )
            node.body.insert(
                int(ast.get_docstring(node) is not None),
                ast.fix_missing_locations(ast.copy_location(entered, node.body[0])),
            )
    folder, name = os.path.split(path)
    parts = [] if name == "__init__.py" else [name.removesuffix(".py")]
    while (folder != root) if root else os.path.isfile(os.path.join(folder, "__init__.py")):
        folder, name = os.path.split(folder)
        parts.insert(0, name)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    above = [importlib.import_module(".".join(parts[:count])) for count in range(1, len(parts))]
    within = [os.path.dirname(path)] if os.path.basename(path) == "__init__.py" else None
    spec = importlib.util.spec_from_file_location(
        ".".join(parts), path, submodule_search_locations=within
    )
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    module.__dict__["__entered__"] = record.entered.add
    exec(compile(tree, path, "exec", dont_inherit=True), module.__dict__)  # the caller's tests  # noqa: S102
    if above:
        setattr(above[-1], parts[-1], module)
    return module


def run_pytest(record: RunnerRecord, arguments: list[str]) -> int:
    """Run pytest in this process, with the record as its plugin."""
    import pytest

    ours = ["-q", "-p", "no:cacheprovider", "--assert=plain", "-o", "xfail_strict=true"]
    return int(
        pytest.main([*ours, "--rootdir", os.getcwd(), *arguments, "--maxfail=0"], plugins=[record])
    )


def run_unittest(record: RunnerRecord, suite: unittest.TestSuite, stream: Any = None) -> None:
    """Run a suite of unittest and then assertions that must fail; the result writes the record."""
    for test in _flat(suite):
        record.collected.append(test.id())
        record.check(
            test.id(), getattr(test, getattr(test, "_testMethodName", ""), None), type(test)
        )
    calls = {
        f"test_{name}": lambda self, name=name, given=given: getattr(self, name)(*given)
        for name, given in MUST_FAIL.items()
    }
    ours = unittest.TestLoader().loadTestsFromTestCase(
        type("MustFail", (unittest.TestCase,), {"__module__": "must_fail", **calls})
    )
    record.must_fail += [test.id() for test in _flat(ours)]
    unittest.TextTestRunner(stream=stream, resultclass=result_class(record)).run(
        unittest.TestSuite([suite, ours])
    )


def _flat(suite: Any) -> list[Any]:
    return (
        [inner for test in suite for inner in _flat(test)]
        if isinstance(suite, unittest.BaseTestSuite)
        else [suite]
    )


def _load_suite(record: RunnerRecord, path: str, rest: str) -> unittest.TestSuite:
    module = load(path, record.sources[path], record, root=os.getcwd())
    loader = unittest.TestLoader()
    return loader.loadTestsFromName(rest, module) if rest else loader.loadTestsFromModule(module)


def _sources(path: str) -> dict[str, bytes]:
    paths = (
        [path]
        if os.path.isfile(path)
        else [
            os.path.join(at, name)
            for at, _, names in os.walk(path)
            for name in names
            if name.endswith(".py")
        ]
    )
    sources = {}
    for one in paths:
        with open(one, "rb") as stream:
            sources[one] = stream.read()
    return sources


def main() -> None:
    """Arguments: pytest or unittest, the report, the file (or folder) of the test, then its name in
    there or the arguments for pytest.
    """
    kind, report, file, *rest = sys.argv[1:]
    del sys.argv[1:]  # not for the tests
    signed = hmac.new(os.read(0, 4096), digestmod="sha256")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    process, root, path = os.getpid(), os.getcwd(), os.path.abspath(file)
    for name in [name for name in os.environ if name.startswith(("PYTEST", "PYTHON"))]:
        del os.environ[name]
    if "--disable-plugin-autoload" in rest:  # an option from pytest 8.4 on, a variable in all
        rest = [argument for argument in rest if argument != "--disable-plugin-autoload"]
        os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    if kind == "pytest":
        importlib.import_module("pytest")
    # Compiled files of the tree are not read. The test runner was imported before this.
    sys.pycache_prefix = os.devnull
    record, code = RunnerRecord(_sources(path)), 1
    sys.path.insert(0, root)
    try:
        if not record.sources:
            record.fault("never collected", f"there is no {file}")
        elif kind == "pytest":
            code = run_pytest(record, rest)
            if code not in (0, 1, 5):
                record.fault("ended early", f"pytest ended with {code}")
            run_unittest(record, unittest.TestSuite(), io.StringIO())
        else:
            run_unittest(record, _load_suite(record, path, *rest))
    except BaseException as error:
        record.fault("ended early", f"{type(error).__name__}: {error}")
        importlib.import_module("traceback").print_exc()
    if code == 1:  # the tests that must fail cause it too, so the others decide
        seen = {outcome for name, _, outcome in record.steps if name not in record.must_fail}
        code = int(bool(record.faults) or not seen <= {"started", "passed", "skipped", "xfailed"})
    body = json.dumps(
        {name: getattr(record, name) for name in ("collected", "steps", "faults", "must_fail")}
    ).encode()
    signed.update(body)
    if os.getpid() == process:  # not in a fork that the code made
        with open(report, "wb") as stream:
            stream.write(signed.hexdigest().encode() + b"\n" + body)
    sys.stdout.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
