"""The tests of an item as text: finds every test in it, and makes sure that each of them ran.

An ignored test would count as passed. So every name of the module or of a class that looks like a
test is watched, whatever it is bound to, and an item with a test that did not run is refused.
"""

from __future__ import annotations

import ast

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

_RAN, _BOUND, _SAID = "__ran__", "__bound__", "__said__"


class TestsError(Exception):
    """The tests are at fault, or need something that isn't possible here."""


def _is_test(name: str) -> bool:
    return name.startswith("test") or name in ("check", "runTest")


class ItemTests:
    """The tests of an item. Every test that their text defines must be entered, or the item is
    refused.
    """

    def __init__(self, support: str, test: str) -> None:
        tree = ast.parse(test, "<test>")
        self._left: dict[int, str] = {}
        self._acts = any(isinstance(node, ast.Assert | ast.Call) for node in ast.walk(tree))
        self._idle = [
            node.lineno
            for node in tree.body
            if _is_main(node)
            and any(isinstance(statement, ast.Assert) for statement in ast.walk(node))
        ]
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and _is_test(node.name):
                at = len(self._left)
                self._left[at] = f"`{node.name}` at line {node.lineno}"
                node.body.insert(0, _filled(ast.Expr(_call(_RAN, ast.Constant(at))), node.body[0]))
        for node, in_class in _outside_functions(tree, in_class=False):
            if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                if name := next(
                    (
                        target.id
                        for target in targets
                        if isinstance(target, ast.Name) and _is_test(target.id)
                    ),
                    "",
                ):
                    parts = (ast.Constant(name), ast.Constant(node.lineno), ast.Constant(in_class))
                    node.value = _filled(_call(_BOUND, node.value, *parts), node.value)
            elif (
                isinstance(node, ast.Expr)
                and isinstance(node.value, ast.Call)
                and isinstance(node.value.func, ast.Name)
                and _is_test(node.value.func.id)
            ):
                node.value = _filled(
                    _call(_SAID, node.value, ast.Constant(node.value.func.id)), node.value
                )
        self._count = len(self._left)
        self._programs = [compile(support, "<support>", "exec"), compile(tree, "<test>", "exec")]

    def run(self, namespace: dict[str, Any], candidate: object, entry_point: str) -> None:
        """Run the text, and what it only defines: `check(candidate)`, callables `test*`, and
        classes of unittest.
        """
        of_solution = set(map(id, namespace.values()))
        namespace["__name__"] = "test"
        namespace[_RAN] = lambda at: self._left.pop(at, None)
        namespace[_BOUND] = lambda value, *where: (
            value if id(value) in of_solution else self._watch(value, *where)
        )
        namespace[_SAID] = _finish
        for program in self._programs:
            exec(program, namespace)  # the caller's tests  # noqa: S102
            # The support can be the prompt of a benchmark, which defines the function without a
            # body.
            if entry_point and program is self._programs[0]:
                namespace[entry_point] = candidate
        own = {
            name: value
            for name, value in namespace.items()
            if id(value) not in of_solution and name not in (_RAN, _BOUND, _SAID)
        }
        check = own.get("check")
        if candidate is not None and callable(check):
            _finish(check(candidate), "check", strict=_is_expression(check))
        ran = {id(check)}
        for name, value in own.items():
            named = name.startswith("test") or getattr(value, "__name__", "").startswith("test")
            if not named or not _may_be_test(value) or id(value) in ran:
                continue
            ran.add(id(value))
            if not _required(value):
                _finish(value(), name, strict=_is_expression(value))
            elif _RAN not in getattr(
                getattr(value, "__code__", None), "co_names", ()
            ) and not hasattr(value, _BOUND):
                raise TestsError(
                    f"`{name}` was never run: it takes arguments that nothing provides"
                )
        cases = [
            value
            for value in own.values()
            if isinstance(value, type)
            and value.__module__ == "test"
            and hasattr(value, "countTestCases")
        ]
        lost = _run_cases(cases) if cases else ""
        if self._idle:
            raise TestsError(
                f"the asserts at line {self._idle[0]} only run as a script (`__main__`),"
                " and were never run"
            )
        if self._left:
            raise TestsError(f"{next(iter(self._left.values()))} was never run")
        if lost:
            raise TestsError(f"unittest looks at no result, and a test returns one: {lost}")
        if not self._acts:
            raise TestsError("the tests never called the solution: there is no test")

    def _watch(self, value: Any, name: str, line: int, in_class: bool) -> Any:
        """Wrap what the text binds to the name of a test, to see whether it is called. Data stays
        as it is.
        """
        if in_class and isinstance(value, classmethod | property):
            self._count += 1
            self._left[self._count] = f"`{name}` at line {line}"  # these can't be run here
            return value
        if not _may_be_test(value) or _RAN in getattr(
            getattr(value, "__code__", None), "co_names", ()
        ):
            return value
        import functools  # only tests that are not `def` need it

        if not in_class and not isinstance(
            value, type(_is_test) | type(self.run) | type(len) | functools.partial
        ):
            return value  # a callable object may be data
        at = self._count = self._count + 1
        self._left[at] = f"`{name}` at line {line}"

        @functools.wraps(value)
        def watched(*arguments: object, **named: object) -> object:
            self._left.pop(at, None)
            result = value(*arguments, **named)
            if not in_class:
                return result  # the caller checks the result
            _finish(result, name, strict=True)
            return None

        setattr(watched, _BOUND, _is_expression(value))
        return (
            watched
            if not in_class
            or (hasattr(type(value), "__get__") and not isinstance(value, staticmethod))
            else staticmethod(watched)
        )


def _filled(made: Any, place: ast.AST) -> Any:
    return ast.fix_missing_locations(ast.copy_location(made, place))


def _call(name: str, *arguments: ast.expr) -> ast.Call:
    return ast.Call(ast.Name(name, ast.Load()), list(arguments), [])


def _outside_functions(node: ast.AST, *, in_class: bool) -> Iterator[tuple[ast.AST, bool]]:
    """The statements of the module and of its classes, each with whether it is in a class."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt | ast.excepthandler | ast.match_case):
            yield child, in_class
            if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                yield from _outside_functions(
                    child, in_class=in_class or isinstance(child, ast.ClassDef)
                )


def _may_be_test(value: Any) -> bool:
    return (
        callable(value)
        and not isinstance(value, type)
        and not getattr(type(value), "of_solution", False)
    )


def _is_expression(value: Any) -> bool:
    """Whether the result of a test is its verdict: always for a lambda, and for an object to be on
    the safe side.
    """
    return bool(getattr(value, _BOUND, getattr(value, "__name__", "<lambda>") == "<lambda>"))


def _is_main(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and any(
        isinstance(node_inside, ast.Name) and node_inside.id == "__name__"
        for node_inside in ast.walk(node.test)
    )


def _required(function: Any) -> bool:
    """Whether it has required parameters."""
    import inspect  # takes 5 ms, which most tests don't need

    try:
        return any(
            parameter.default is parameter.empty
            and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
            for parameter in inspect.signature(function).parameters.values()
        )
    except (TypeError, ValueError):
        return True


def _finish(result: Any, name: str, *, strict: bool = False) -> None:
    """Check the result of a test; a coroutine is run first. A test that returns False has failed;
    one that yields can't be run here.

    With `strict`, for a test that is not a `def`, 0 and an empty text or list fail as well. None
    never fails.
    """
    if hasattr(type(result), "__await__"):
        import asyncio  # heavy, and rarely needed

        async def wait() -> Any:
            return await result

        result = asyncio.run(wait())
    if hasattr(type(result), "__next__") or hasattr(type(result), "__anext__"):
        raise TestsError(f"`{name}` yields: only a test runner with fixtures can run it")
    if result is False or (strict and result is not None and not result):
        raise AssertionError(f"`{name}` returned {result!r}")


def _run_cases(cases: list[Any]) -> str:
    """Run unittest classes. Returns unittest's warning about a test that returned a value, which
    unittest ignores; '' if there is none.
    """
    import unittest  # slow to load, but the tests have loaded it already
    import warnings

    suite = unittest.TestSuite(
        unittest.defaultTestLoader.loadTestsFromTestCase(case) for case in cases
    )
    result = unittest.TestResult()
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        suite.run(result)
    for case, text in [*result.failures, *result.errors]:
        raise AssertionError(f"{case}: {text.strip().splitlines()[-1]}")
    if result.unexpectedSuccesses or not result.wasSuccessful():
        raise AssertionError("a test that is expected to fail passed")
    for case, _ in [*result.skipped, *result.expectedFailures]:
        raise TestsError(f"{case} was skipped, or is expected to fail, and so shows nothing")
    if not result.testsRun:
        raise TestsError("the test classes contain no test")
    return next(
        (str(warning.message) for warning in warned if "return a value" in str(warning.message)), ""
    )
