"""Solutions that are right, wrong, broken or hostile; the verdict is never theirs."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest

from assay.errors import InputError
from assay.sandbox.inside.examiner import judge_together
from assay.sandbox.isolation import INSTALL, available
from assay.sandbox.limits import SandboxLimits
from assay.sandbox.outcome import verdict
from assay.sandbox.solutions import check_solution
from examples import CAMPAIGN

WHY_NOT = available()["bubblewrap"]
pytestmark = pytest.mark.skipif(
    bool(WHY_NOT) and os.environ.get("CI") != "true", reason=f"{WHY_NOT}. {INSTALL}"
)

SQUARE = (
    "def check(candidate):\n    assert candidate(2) == 4\n    assert candidate(-3) == 9\n    assert"
    " candidate(0) == 0\n"
)
QUICK = SandboxLimits(wall_s=0.8)

# --- five tasks of our own, in the form of HumanEval


def sections(name: str) -> dict[str, str]:
    """The parts of a fixture file, by the names they stand under."""
    parts = re.split(
        r"^=== (.+)$\n",
        (Path(__file__).parent / "fixtures" / name).read_text(encoding="utf-8"),
        flags=re.MULTILINE,
    )
    return dict(zip(parts[1::2], parts[2::2], strict=True))


TASKS = {name: tuple(text.split("---\n")) for name, text in sections("sandbox_tasks.txt").items()}


@pytest.mark.parametrize("name", TASKS)
def test_a_right_solution_passes(name: str) -> None:
    right, _, test = TASKS[name]
    result = check_solution(right, test, name)
    assert result.passed is True, result
    assert result.mode == "two-process"
    assert result.outcome.status == "passed"
    assert result.outcome.violations == ()


@pytest.mark.parametrize("name", TASKS)
def test_a_wrong_solution_fails_with_the_line_of_the_tests(name: str) -> None:
    _, wrong, test = TASKS[name]
    result = check_solution(wrong, test, name)
    assert result.passed is False, result
    assert "of the tests" in result.reason
    assert result.outcome.status == "failed"


@pytest.mark.parametrize("name", TASKS)
def test_the_same_tasks_pass_and_fail_in_one_process_and_the_result_says_so(name: str) -> None:
    right, wrong, test = TASKS[name]
    good, bad = (
        check_solution(right, test, name, mode="one-process"),
        check_solution(wrong, test, name, mode="one-process"),
    )
    assert (good.passed, bad.passed) == (True, False), (good, bad)
    assert good.mode == bad.mode == "one-process"


# --- forged results

FORGERIES = sections("sandbox_forgeries.txt")


@pytest.mark.parametrize("attack", FORGERIES)
def test_a_solution_cannot_forge_its_verdict(attack: str) -> None:
    result = check_solution(FORGERIES[attack], SQUARE, "square", limits=SandboxLimits(wall_s=4))
    assert result.passed is False, result
    assert result.outcome.status != "passed"


IN_ONE_PROCESS = [
    "prints that it passed",
    "ends its process with 0",
    "ends its process with 0 while it is loaded",
    "exits with 0",
    "exits with 0 while it is loaded",
    "exits in a thread",
    "registers an exit handler",
    "writes to every open descriptor",
    "closes every descriptor",
    "kills itself",
    "kills everything",
    "writes a verdict to every open descriptor",
    "raises KeyboardInterrupt",
]


@pytest.mark.parametrize("attack", IN_ONE_PROCESS)
def test_the_simple_forgeries_fail_in_one_process_too(attack: str) -> None:
    assert (
        check_solution(
            FORGERIES[attack], SQUARE, "square", mode="one-process", limits=SandboxLimits(wall_s=4)
        ).passed
        is False
    )


def test_one_process_is_forgeable_as_its_header_says_and_two_are_not() -> None:
    attack = (
        "class Any:\n    def __eq__(self, other): return True\ndef square(x):\n    return Any()\n"
    )
    assert check_solution(attack, SQUARE, "square", mode="one-process").passed is True
    assert check_solution(attack, SQUARE, "square").passed is False


def test_a_solution_that_ends_is_not_passed_by_tests_that_swallow_errors() -> None:
    test = (
        "def check(candidate):\n    try:\n        candidate(1)\n    except Exception:\n       "
        " pass\n"
    )
    assert check_solution("import os\ndef f(x): os._exit(0)", test, "f").passed is False


def test_a_solution_cannot_hand_the_tests_builtins_of_its_own() -> None:
    code = (
        "import sys\nv = sys.modules['inside.values']\nreal = v.encode\ndef square(x): return 1\ndef nothing(*a): return 0\n"
        "def encode(value, hold):\n    if value[0] == 'loaded':\n"
        "        value = ['loaded', {'square': square, 'abs': nothing, '__builtins__': {'abs': nothing, 'len': nothing}}]\n"
        "    return real(value, hold)\nv.encode = encode\n"
    )
    assert (
        check_solution(
            code, "def check(candidate):\n    assert abs(candidate(2) - 4) < 1e-6\n", "square"
        ).passed
        is False
    )


def test_a_solution_cannot_replace_the_helper_of_the_benchmark() -> None:
    support = "def poly(xs, x):\n    return sum(c * x ** i for i, c in enumerate(xs))\n"
    test = "def check(candidate):\n    assert abs(poly([1, 2], candidate([1, 2]))) < 1e-9\n"
    support += "def root(xs):\n    'A root of poly(xs), to be written.'\n"
    assert (
        check_solution(
            "def poly(*a): return 0\ndef root(xs): return 7\n", test, "root", support=support
        ).passed
        is False
    )
    assert (
        check_solution(
            "def poly(*a): return 0\ndef root(xs): return 7\n",
            test.replace("candidate([", "root(["),
            "root",
            support=support,
        ).passed
        is False
    )
    assert (
        check_solution(
            "def poly(*a): return 0\ndef root(xs): return -xs[0] / xs[1]\n",
            test,
            "root",
            support=support,
        ).passed
        is True
    )


DEAF = """
import signal, time
for s in range(1, 64):
    try: signal.signal(s, signal.SIG_IGN)
    except (OSError, ValueError): pass
def square(x):
    while True: time.sleep(1)
"""

# --- limits


@pytest.mark.parametrize(
    ("code", "kind", "status"),
    [
        ("def square(x):\n    while True: pass\n", "timeout", "timeout"),
        ("import time\ndef square(x):\n    time.sleep(99)\n", "timeout", "timeout"),
        (DEAF, "timeout", "timeout"),
        ("def square(x):\n    while True: print('x' * 100000)\n", "output", "output"),
        *(
            [
                ("while True: pass\n", "timeout", "timeout"),
                (
                    "import os\ndef square(x):\n    while True:\n        try: os.fork()\n        except OSError: pass\n",
                    "timeout",
                    "timeout",
                ),
            ]
            if CAMPAIGN
            else ()  # test_sandbox.py has a bomb
        ),
    ],
)
def test_a_solution_that_does_not_stop_is_stopped_and_seen(
    code: str, kind: str, status: str
) -> None:
    result = check_solution(code, SQUARE, "square", limits=QUICK)
    assert result.passed is False
    assert result.outcome.status == status
    assert kind in {one.kind for one in result.outcome.violations}
    assert verdict([result.outcome])["passed"] is False


@pytest.mark.campaign  # test_sandbox.py limits it in one box
def test_computing_time_is_limited_apart_from_the_clock() -> None:
    result = check_solution(
        "def square(x):\n    while True: pass\n",
        SQUARE,
        "square",
        limits=SandboxLimits(wall_s=10, cpu_s=1),
    )
    assert result.passed is False
    assert [one.kind for one in result.outcome.violations] == ["cpu"]
    assert result.outcome.status == "timeout"


def test_a_memory_bomb_is_an_error_in_its_own_process_and_fails() -> None:
    result = check_solution(
        "def square(x):\n    return len(bytearray(10 ** 11))\n",
        SQUARE,
        "square",
        limits=SandboxLimits(memory_mb=200),
    )
    assert result.passed is False
    assert "MemoryError" in result.reason


def test_memory_of_many_processes_is_counted_together() -> None:
    code = (
        "import os, time\ndef square(x):\n    for _ in range(8):\n        if os.fork() == 0:\n            b = bytearray(os.urandom(1)) * (60 * 2 ** 20)\n"
        "            time.sleep(60)\n    time.sleep(60)\n"
    )
    result = check_solution(code, SQUARE, "square", limits=SandboxLimits(memory_mb=200))
    assert result.passed is False
    assert result.outcome.status == "memory"


def test_values_without_end_fail_the_solution_and_not_the_caller() -> None:
    code = "def square(x):\n    while True: yield 'x' * 100000\n"
    result = check_solution(
        code,
        "def check(candidate):\n    assert list(candidate(1)) == []\n",
        "square",
        limits=SandboxLimits(wall_s=6, memory_mb=200),
    )
    assert result.passed is False


def test_a_daemon_that_outlives_the_solution_is_killed_and_seen() -> None:
    code = (
        "import os, time\ndef square(x):\n    if os.fork() == 0:\n        os.setsid()\n        if os.fork() == 0:\n            time.sleep(300)\n"
        "        os._exit(0)\n"
        "    os.wait()\n    return x * x\n"
    )
    result = check_solution(code, SQUARE, "square")
    assert result.passed is True
    assert [one.kind for one in result.outcome.violations] == ["leftover"]
    assert result.outcome.status == "violation"
    assert verdict([result.outcome])["passed"] is False


def test_an_attempt_at_the_network_is_seen_even_if_the_answer_is_right() -> None:
    code = "import socket\ntry:\n    socket.create_connection(('203.0.113.7', 80), timeout=1)\nexcept OSError:\n    pass\ndef square(x):\n    return x * x\n"
    result = check_solution(code, SQUARE, "square")
    assert result.passed is True
    assert [one.kind for one in result.outcome.violations] == ["network"]


# --- clear reasons


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("def square(x:\n    return x\n", "cannot be loaded: SyntaxError at line 1"),
        (
            "import no_such_module\ndef square(x): return x\n",
            "cannot be loaded: ModuleNotFoundError at line 1: No module named 'no_such_module'",
        ),
        ("def cube(x): return x ** 3\n", "defines no function `square`"),
        ("square = 4\n", "defines no function `square`"),
        ("def square(x): raise KeyError('nothing')\n", "the solution raised KeyError: "),
        (
            "class Odd(ArithmeticError): pass\ndef square(x): raise Odd('odd')\n",
            "the solution raised ArithmeticError: odd",
        ),
        (
            "class Odd(Exception): pass\ndef square(x): raise Odd('odd')\n",
            "the solution raised Odd: odd",
        ),
        ("import os\ndef square(x): os._exit(0)\n", "the solution ended its process"),
        (
            "def square(x): return x\n",
            "line 2 of the tests: AssertionError at `assert candidate(2) == 4`",
        ),
        ("def square(): return 1\n", "the solution raised TypeError: "),
        (
            "class Box: pass\ndef square(x): return Box()\n",
            "objects that have no plain form, of the types Box; if that is the task, ask for one process",
        ),
        ("def square(x):\n    a = []\n    a.append(a)\n    return a\n", "nests more than 100 deep"),
        ("", "defines no function `square`"),
        ("def square(x): return 'x' * 20_000_000\n", "more than 16 MiB"),
    ],
)
def test_a_failure_says_what_happened(code: str, said: str) -> None:
    result = check_solution(code, SQUARE, "square")
    assert result.passed is False
    assert said in result.reason


@pytest.mark.parametrize(
    ("test", "said"),
    [
        ("def check(candidate:\n", "the tests are not Python"),
        ("import no_such_module\n", "No module named"),
        ("x = 1\n", "the tests never called the solution"),
        (
            "def check(candidate):\n    candidate(object())\n",
            "the tests hand over a value of the type object",
        ),
    ],
)
def test_tests_that_are_at_fault_leave_the_verdict_open(test: str, said: str) -> None:
    result = check_solution("def square(x): return x * x\n", test, "square")
    assert result.passed is None
    assert said in result.reason


@pytest.mark.parametrize(
    ("code", "test", "entry", "fix"),
    [
        ("x", "", "f", "at least one"),
        ("x", "y", "not a name", "Name a function"),
        ("a\0b", "y", "f", "short texts"),
        ("\ud800", "y", "f", "surrogates"),
        ("x" * 2_000_000, "y", "f", "short texts"),
    ],
)
def test_what_cannot_be_a_solution_is_refused(code: str, test: str, entry: str, fix: str) -> None:
    with pytest.raises(InputError, match=fix) as refused:
        check_solution(code, test, entry)
    assert refused.value.code == "SBX-003"


@pytest.mark.parametrize(
    "wrong",
    [
        SandboxLimits(wall_s=0),
        SandboxLimits(memory_mb=-1),
        SandboxLimits(cpu_s=10**9),
        SandboxLimits(wall_s=float("nan")),
    ],
)
def test_a_limit_of_nothing_or_of_everything_is_refused(wrong: Any) -> None:
    with pytest.raises(InputError, match="there is no 'unlimited'"):
        check_solution("def f(): pass", "f()", "f", limits=wrong)


# --- what crosses


def test_plain_values_cross_both_ways_unchanged() -> None:
    values = [
        "None",
        "True",
        "0",
        "-1",
        "10 ** 400",
        "-0.0",
        "1e308",
        "float('inf')",
        "1+2j",
        "''",
        "'é\\n\\x00日本\\U0001f600'",
        "'\\ud800'",
        "b'\\x00\\xff'",
        "[]",
        "[1, [2, (3,)], {'a': {1, 2}}]",
        "()",
        "{(1, 2): [3], None: 4}",
        "frozenset({1})",
        "set()",
        "range(1, 9, 2)",
        "bytearray(b'a')",
    ]
    checks = "".join(
        f"    got = candidate({value})\n    assert got == ({value}, type({value}).__name__), got\n"
        f"    assert repr(got[0]) == repr({value})\n"
        for value in values
    )
    result = check_solution(
        "def echo(x): return (x, type(x).__name__)\n", f"def check(candidate):\n{checks}", "echo"
    )
    assert result.passed is True, result.reason


def test_subclasses_cross_as_what_they_are_based_on() -> None:
    code = (
        "from collections import Counter, namedtuple, defaultdict, OrderedDict\nfrom enum import IntEnum\nPoint = namedtuple('Point', 'x y')\n"
        "class Colour(IntEnum):\n    RED = 1\ndef f():\n    d = defaultdict(list)\n    d[1].append(2)\n"
        "    own = {'__eq__': lambda *a: True, '__hash__': str.__hash__}\n"
        "    return [Point(1, 2), Counter('aab'), d, OrderedDict(a=1), Colour.RED, str.__new__(type('S', (str,), own), 'x')]\n"
    )
    test = (
        "def check(candidate):\n    got = candidate()\n    assert got == [(1, 2), {'a': 2, 'b': 1},"
        " {1: [2]}, {'a': 1}, 1, 'x']\n    assert got[5] != 'y'\n"
    )
    assert check_solution(code, test, "f").passed is True


def test_functions_and_iterators_cross_in_both_directions() -> None:
    code = (
        "def compose(f, g):\n    return lambda x: f(g(x))\ndef apply(f, xs):\n    return [f(x) for x in xs]\ndef catches(f):\n    try:\n        f()\n"
        "    except ZeroDivisionError:\n        return 'caught'\n"
    )
    test = (
        "assert compose(lambda x: x + 1, lambda x: x * 2)(5) == 11\nassert apply(str.upper, iter(['a', 'é'])) == ['A', 'É']\n"
        "assert catches(lambda: 1 / 0) == 'caught'\nassert compose(compose(abs, int), float)('-2') == 2\n"
    )
    result = check_solution(code, test)
    assert result.passed is True, result.reason


def test_what_a_solution_does_to_its_arguments_is_seen() -> None:
    test = (
        "def check(candidate):\n    xs, d = [3, 1, 2], {}\n    assert candidate(xs, d) is None\n   "
        " assert xs == [1, 2, 3] and d == {'n': 3}\n"
    )
    assert (
        check_solution("def f(xs, d):\n    xs.sort()\n    d['n'] = len(xs)\n", test, "f").passed
        is True
    )


def test_objects_are_handed_back_and_compared_only_in_one_process() -> None:
    code = (
        "class Stack:\n    def __init__(self): self.items = []\n    def push(self, x):"
        " self.items.append(x)\n    def pop(self): return self.items.pop()\n"
    )
    test = "s = Stack()\ns.push(1)\nassert s.pop() == 1\n"
    apart, together = check_solution(code, test), check_solution(code, test, mode="one-process")
    assert apart.passed is False
    assert "ask for one process" in apart.reason
    assert together.passed is True
    assert (
        check_solution(
            "class T: v = 3\ndef make(): return T()\ndef read(t): return t.v\n",
            "assert read(make()) == 3\n",
        ).passed
        is True
    )


def test_unittest_classes_and_plain_test_functions_are_run() -> None:
    test = (
        "import unittest\nclass T(unittest.TestCase):\n    def test_a(self):\n        self.assertEqual(square(3), 9)\n    def test_b(self):\n"
        "        with self.assertRaises(TypeError):\n            square('x')\n"
    )
    assert check_solution("def square(x): return x * x\n", test).passed is True
    assert check_solution("def square(x): return 9\n", test).passed is False
    assert (
        check_solution(
            "def square(x): return 9\n", "def test_square():\n    assert square(2) == 4\n"
        ).passed
        is False
    )
    assert (
        check_solution(
            "def square(x): return x * x\n", "def test_square():\n    assert square(2) == 4\n"
        ).passed
        is True
    )
    skipped = (
        "import unittest\nclass T(unittest.TestCase):\n    @unittest.skip('no')\n    def"
        " test_a(self):\n        square(1)\n"
    )
    assert check_solution("def square(x): return 9\n", skipped).passed is not True


def test_what_a_solution_prints_is_kept_up_to_the_limit_and_counted() -> None:
    result = check_solution(
        "def square(x):\n    print('é' * 4000)\n    return x * x\n",
        SQUARE,
        "square",
        limits=SandboxLimits(output_kb=1),
    )
    assert result.passed is True
    assert len(result.outcome.stdout.data) == 1024
    assert result.outcome.stdout.total == 3 * 8001
    assert result.outcome.stdout.dropped == 3 * 8001 - 1024


def test_installed_packages_are_not_importable() -> None:
    code, test = (
        "import msgspec\ndef f(): return msgspec.json.encode([1])\n",
        "def check(f): assert f() == b'[1]'\n",
    )
    assert "No module named 'msgspec'" in check_solution(code, test, "f").reason


def test_a_verdict_is_the_same_whatever_ran_before() -> None:
    for _ in range(2):
        assert check_solution(FORGERIES["kills everything"], SQUARE, "square").passed is False
        assert check_solution("def square(x): return x * x\n", SQUARE, "square").passed is True


# --- tests that are easily ignored

HIDDEN_ASSERT = "assert square(3) == 9"
MODES = ["one-process", pytest.param("two-process", marks=pytest.mark.campaign)]
"""The same code of ours finds the tests and runs them in both."""


def passed(code: str, test: str, mode: str) -> tuple[bool | None, str]:
    """The verdict of each mode: behind walls in two processes, and of what one process runs there."""
    if mode == "two-process":
        found = check_solution(code, test, "square")
        return found.passed, found.reason
    word, why = judge_together(code, test, "", "square")
    return {"passed": True, "failed": False, "tests": None}[word], why


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "test",
    [
        f"async def test_a():\n    {HIDDEN_ASSERT}\n",
        f"def test_a(x=1):\n    {HIDDEN_ASSERT}\n",
        f"def test_a(*x, **y):\n    {HIDDEN_ASSERT}\n",
        "test_a = lambda: square(3) == 9\n",
        (
            "import functools\ndef same(a, b): assert square(a) == b\ntest_a ="
            " functools.partial(same, 3, 9)\n"
        ),
        "class Same:\n    def __call__(self): assert square(3) == 9\ntest_a = Same()\n",
        (
            "def twice(f):\n    def inner(): f(); f()\n    return inner\n@twice\ndef test_a():\n   "
            " assert square(3) == 9\n"
        ),
        f"if square:\n    def test_a():\n        {HIDDEN_ASSERT}\n",
        f"def test_a():\n    {HIDDEN_ASSERT}\nrenamed = test_a\ndel test_a\n",
        (
            "import unittest\nclass T(unittest.IsolatedAsyncioTestCase):\n    async def"
            f" test_a(self):\n        {HIDDEN_ASSERT}\n"
        ),
        f"def same(a, b):\n    def test_a():\n        {HIDDEN_ASSERT}\n    test_a()\nsame(1, 2)\n",
        (
            "def test_a(a, b):\n    assert square(a) == b\nfor case in ((3, 9), (2, 4)):\n   "
            " test_a(*case)\n"
        ),
        f"async def check(candidate):\n    {HIDDEN_ASSERT}\n",
        (
            "test_cases = [(3, 9)]\ntest_same = lambda a, b: square(a) == b\nfor a, b in"
            " test_cases: assert test_same(a, b)\n"
        ),
        "test_same = lambda a, b: square(a) == b\ntest_same(3, 9)\n",
        "test_a = lambda: int(square(3) == 9)\n",
        "import unittest\nclass T(unittest.TestCase):\n    test_a = lambda self: square(3) == 9\n",
        (
            "import unittest\nclass T(unittest.TestCase):\n    def runTest(self):\n       "
            f" {HIDDEN_ASSERT}\n"
        ),
        (
            "test_big = lambda x: x > 5\ntest_a = lambda: list(filter(test_big, [square(3), 1])) =="
            " [9]\n"
        ),
        (
            "import unittest\nclass T(unittest.TestCase):\n    def other(self):\n       "
            f" {HIDDEN_ASSERT}\n    test_a = other\n"
        ),
    ],
)
def test_a_test_of_any_form_is_run(test: str, mode: Any) -> None:
    right, why = passed("def square(x): return x * x\n", test, mode)
    assert right is True, why
    assert passed("def square(x): return 1\n", test, mode)[0] is False


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("test", "said"),
    [
        ("def test_a():\n    yield square(3)\n    assert False\n", "yields"),
        ("def test_a(fixture):\n    assert False\n", "`test_a` at line 1 was never run"),
        (
            "class TestA:\n    def test_a(self):\n        assert False\n",
            "`test_a` at line 2 was never run",
        ),
        (
            "def outer():\n    def test_a():\n        assert False\n",
            "`test_a` at line 2 was never run",
        ),
        (
            "if not square:\n    def test_a():\n        assert False\n",
            "`test_a` at line 2 was never run",
        ),
        (
            "def test_a():\n    assert False\ndef test_a():\n    pass\n",
            "`test_a` at line 1 was never run",
        ),
        (
            "def drop(f): return lambda: None\n@drop\ndef test_a():\n    assert False\n",
            "`test_a` at line 3 was never run",
        ),
        (
            (
                "import unittest\nclass T(unittest.TestCase):\n    async def test_a(self):\n       "
                " assert False\n"
            ),
            "`test_a` at line 3 was never run",
        ),
        (
            (
                "import unittest\nclass T(unittest.TestCase):\n    @unittest.skip('no')\n    def"
                " test_a(self): pass\n    def test_b(self): square(1)\n"
            ),
            "was skipped",
        ),
        (
            (
                "import unittest\nclass T(unittest.TestCase):\n    @unittest.expectedFailure\n   "
                " def test_a(self): assert square(1) == 2\n"
            ),
            "expected to fail",
        ),
        ("if __name__ == '__main__':\n    assert square(3) == 10\n", "never run"),
        ("x = 1\n", "there is no test"),
        (
            "test_more = lambda candidate: candidate(2) == 5\n",
            "`test_more` at line 1 was never run",
        ),
        (
            (
                "import functools\ndef same(a, b): assert a == b\ntest_a = functools.partial(same,"
                " 2)\n"
            ),
            "`test_a` at line 3 was never run",
        ),
        (
            "class TestA:\n    test_a = lambda self: square(2) == 5\n",
            "`test_a` at line 2 was never run",
        ),
        (
            "class TestA:\n    test_a = classmethod(lambda self: square(2) == 5)\n",
            "`test_a` at line 2 was never run",
        ),
        (
            "test_a = lambda: square(2) == 5\ntest_a = lambda: True\n",
            "`test_a` at line 1 was never run",
        ),
        ("class A:\n    def runTest(self): assert False\n", "`runTest` at line 2 was never run"),
        (
            (
                "import unittest\nclass A(unittest.TestCase):\n    def runTest(self): assert"
                " False\n    def test_a(self): pass\n"
            ),
            "`runTest` at line 3 was never run",
        ),
        ("test_a, b = lambda x: square(2) == 5, 1\n", "`test_a` was never run: it takes arguments"),
        (
            (
                "import unittest\nclass A(unittest.TestCase):\n    def test_a(self): return"
                " square(2) == 5\n"
            ),
            "a test returns one",
        ),
    ],
    ids=[
        "yields",
        "fixture",
        "class",
        "nested",
        "condition",
        "twice",
        "dropped",
        "coroutine",
        "skipped",
        "xfail",
        "main",
        "none",
        "lambda",
        "partial",
        "lambda of a class",
        "classmethod",
        "lambda twice",
        "runTest",
        "runTest of a case",
        "pair",
        "returned",
    ],
)
def test_a_test_that_cannot_be_run_refuses_the_item_and_is_never_ignored(
    test: str, said: str, mode: Any
) -> None:
    item = test if "x = 1" in test else f"{test}square(1)\n"
    verdict, why = passed("def square(x): return x * x\n", item, mode)
    assert verdict is None, why
    assert said in why


def test_tests_that_need_the_entry_point_are_refused_without_one() -> None:
    result = check_solution(
        "def square(x): return 1\n",
        "square(1)\ndef check(candidate):\n    assert candidate(3) == 9\n",
    )
    assert result.passed is None
    assert "`check` at line 2 was never run" in result.reason


def test_tests_that_a_solution_brings_are_not_taken_for_those_of_the_item() -> None:
    result = check_solution(
        "def square(x): return x * x\ndef test_mine(x): assert False\ndef test_other(): assert"
        " False\n",
        "assert square(3) == 9\n",
    )
    assert result.passed is True, result.reason


@pytest.mark.parametrize(
    "code",
    [
        (
            "def square(x): return 1\ndef check(c): pass\ndef test_a(): pass\nimport"
            " unittest\nclass T(unittest.TestCase):\n    def test_a(self): pass\n"
        ),
        (
            "import os\nfor fd in range(3, 64):\n    try: os.write(fd, bytes(7) +"
            " b'\\x12l3:s6:passeds0:i1;')\n    except OSError: pass\ndef square(x): return 1\n"
        ),
        "__ran__ = print\n__builtins__ = {}\n__name__ = 'test'\ndef square(x): return 1\n",
        "def square(x): raise StopIteration\n",
        "import unittest\ndef square(x): raise unittest.SkipTest('no')\n",
        "import asyncio\ndef square(x): raise asyncio.CancelledError\n",
        "async def square(x): return 9\n",
        "import os\nos.fork()\ndef square(x): return 1\n",
    ],
    ids=[
        "brings tests",
        "writes verdicts",
        "names of the runner",
        "stops",
        "skips",
        "cancels",
        "waits",
        "forks",
    ],
)
@pytest.mark.parametrize(
    "test",
    [
        "def check(candidate):\n    assert candidate(3) == 9\n",
        (
            "import unittest\nclass T(unittest.TestCase):\n    def test_a(self):"
            " self.assertEqual(square(3), 9)\n"
        ),
        "async def test_a():\n    assert square(3) == 9\n",
    ],
    ids=["check", "unittest", "async"],
)
def test_a_solution_cannot_pass_by_what_it_is_named_raises_or_writes(code: str, test: str) -> None:
    assert check_solution(code, test, "square").passed is not True


@pytest.mark.parametrize(
    "kind",
    [
        "StopIteration",
        "StopAsyncIteration",
        "GeneratorExit",
        "SystemExit",
        "KeyboardInterrupt",
        "type('Own', (StopIteration,), {})",
    ],
)
@pytest.mark.parametrize(
    "test",
    [
        "for got, want in zip(map(square, [1, 2]), [1, 4]):\n    assert got == want\n",
        "try:\n    assert square(2) == 4\nexcept BaseException:\n    pass\n",
    ],
)
def test_a_solution_cannot_end_a_loop_of_the_tests(kind: str, test: str) -> None:
    result = check_solution(f"def square(x): raise {kind}\n", test, "square")
    assert result.passed is False, result
    assert "would end a loop or the process of the tests" in result.reason


def test_an_iterator_of_a_solution_ends_as_any_other() -> None:
    assert (
        check_solution(
            "def squares(n):\n    for x in range(n): yield x * x\n",
            "assert list(squares(3)) == [0, 1, 4]\n",
            "squares",
        ).passed
        is True
    )
