"""The process of the tests: trusted code, untrusted values.

The tests see the solution's functions as callables that ask the other process. Each call returns a
plain value, an iterator, another such callable, or an Opaque that equals nothing, so the solution's
code never makes a comparison. This process, which runs no code of the solution, reports the verdict
when the last test has returned.
"""

from __future__ import annotations

import builtins
import os
import sys

from . import values
from .solution import described, line_of, load
from .suite import ItemTests, TestsError
from .supervisor import supervise
from .values import Gone, Handle

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from .processes import Job

Answer = tuple[str, str, int]
"""passed, failed or tests (the tests themselves are at fault), why, and how often the solution was
called.
"""


class SolutionError(Exception):
    """The solution raised something other than a built-in exception, ended its process, or sent a
    malformed message.
    """


def examiner(job: Job) -> None:
    """Supervise the tests alone."""
    supervise(job, _examine)


def together(job: Job) -> None:
    """Supervise solution and tests in one interpreter, as HumanEval runs them: for answers that are
    objects.

    A malicious solution can forge the verdict here, because it shares memory with the code that
    decides. These checks remain: the tests ran to their end, a token that only this module is given
    was sent after that, and the process ended with status 0. They protect against `os._exit(0)`, a
    printed PASSED, SystemExit, exit handlers and a child that reports; not against code that
    searches the frames for the token or patches what the tests use.
    """
    supervise(job, _examine_together)


def _examine(job: Job, trouble: int) -> None:
    os.close(trouble)
    word, why, calls = judge(
        *job["channel"], test=job["test"], support=job["support"], entry_point=job["entry_point"]
    )
    values.send(int(job["answer"]), values.encode([word, why[:4000], calls], _refuse))
    os._exit(0)


def _examine_together(job: Job, trouble: int) -> None:
    token = str(job["token"])
    os.close(trouble)
    word, why = judge_together(job["code"], job["test"], job["support"], job["entry_point"])
    sys.stdout.flush()
    values.send(int(job["answer"]), values.encode([word, why[:4000], token], _refuse))
    os._exit(0 if word == "passed" else 1)


def judge_together(code: str, test: str, support: str, entry_point: str) -> tuple[str, str]:
    """Load solution and tests in this process, run the tests, and return the verdict."""
    try:
        tests = ItemTests(support, test)
    except (SyntaxError, ValueError) as error:
        return "tests", f"the tests are not Python: {error}"
    try:
        module = load(code, "solution")
    except BaseException as error:
        return "failed", _unloaded(["unloaded", *described(error), line_of(error)])
    candidate = getattr(module, entry_point, None) if entry_point else None
    if entry_point and not callable(candidate):
        return "failed", f"the solution defines no function `{entry_point}`"
    namespace = {name: value for name, value in vars(module).items() if not name.startswith("__")}
    try:
        tests.run(namespace, candidate, entry_point)
    except BaseException as error:
        return explain(error, test)
    return "passed", "every test passed, in one process with the solution"


def judge(incoming: int, outgoing: int, *, test: str, support: str, entry_point: str) -> Answer:
    """Load the tests, let them call the solution, and return the verdict."""
    solution = _Solution(incoming, outgoing)
    try:
        tests = ItemTests(support, test)
    except (SyntaxError, ValueError) as error:
        return "tests", f"the tests are not Python: {error}", 0
    try:
        loaded = solution.hear()
    except (Gone, ValueError, TypeError):
        return "failed", "the solution ended its process while it was loaded", 0
    if loaded[0] != "loaded":
        return "failed", _unloaded(loaded), 0
    names = loaded[1] if len(loaded) == 2 and isinstance(loaded[1], dict) else {}
    if entry_point and not isinstance(names.get(entry_point), Function):
        return "failed", f"the solution defines no function `{entry_point}`", 0
    namespace: dict[str, Any] = {
        name: value for name, value in names.items() if _may_enter(name, entry_point)
    }
    try:
        tests.run(namespace, names.get(entry_point), entry_point)
    except BaseException as error:
        word, why = explain(error, test)
        return word, why + solution.remark(), solution.calls
    if solution.broken:  # even if the tests caught the error: it has answered nothing since
        return "failed", solution.broken, solution.calls
    if not solution.calls:
        return "tests", "the tests never called the solution", 0
    return "passed", f"every test passed; calls: {solution.calls:,}", solution.calls


def _may_enter(name: object, entry_point: str) -> bool:
    """Whether a name of the solution is visible to the tests: it must not replace a built-in, such
    as `len`.
    """
    return (
        isinstance(name, str)
        and not name.startswith("__")
        and (name == entry_point or not hasattr(builtins, name))
    )


def explain(error: BaseException, test: str) -> tuple[str, str]:
    """Whether solution or tests are at fault, and the line of the tests where it showed."""
    trace, line = error.__traceback__, 0
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == "<test>":
            line = trace.tb_lineno
        trace = trace.tb_next
    lines = test.splitlines()
    shown = lines[line - 1].strip()[:200] if 0 < line <= len(lines) else ""
    place = f"line {line} of the tests: " if line else ""
    if getattr(error, "of_solution", False):
        return "failed", (
            f"{place}`{shown}`: {error}"
            if isinstance(error, SolutionError)
            else f"{place}the solution raised {type(error).__name__}: {error}"
        )
    if isinstance(error, ImportError | TestsError):
        return "tests", f"{place}{type(error).__name__}: {error}"
    text = f": {error}" if str(error) else ""
    return (
        "failed",
        (
            f"{place}{type(error).__name__}{text} at `{shown}`"
            if shown
            else f"{place}{type(error).__name__}{text}"
        ),
    )


def _unloaded(message: list[Any]) -> str:
    try:
        _, names, text, line = message
        return (
            f"the solution cannot be loaded: {names[0]}{f' at line {line}' if line else ''}: {text}"
        )
    except (ValueError, TypeError, IndexError):
        return "the solution cannot be loaded"


def _refuse(value: object) -> Handle:
    raise values.CannotCross(f"a value of the type {type(value).__name__}")


# --- the solution, as the tests see it


class Opaque:
    """An object of the solution that has no plain form. It equals nothing, is neither true nor
    false, and has no attributes.
    """

    __slots__ = ("_name", "_number")

    def __init__(self, name: str, number: int) -> None:
        self._name = name
        self._number = number

    def __repr__(self) -> str:
        return f"<an object of the solution's type {self._name}>"

    def __bool__(self) -> bool:
        raise _of_solution(
            SolutionError(f"the solution returned {self!r}, which is not a plain value")
        )


class Function:
    """A function of the solution."""

    of_solution = True
    __slots__ = ("_number", "_solution")

    def __init__(self, solution: _Solution, number: int) -> None:
        self._solution = solution
        self._number = number

    def __call__(self, *arguments: object, **named: object) -> object:
        """Ask the other process."""
        return self._solution.ask("call", self._number, arguments, named)


class Values:
    """An iterator of the solution: each step is a request."""

    __slots__ = ("_number", "_solution")

    def __init__(self, solution: _Solution, number: int) -> None:
        self._solution = solution
        self._number = number

    def __iter__(self) -> Iterator[object]:
        return self

    def __next__(self) -> object:
        return self._solution.ask("next", self._number, (), {})


class _Solution:
    """The other end of the pipe."""

    def __init__(self, incoming: int, outgoing: int) -> None:
        self._incoming, self._outgoing = incoming, outgoing
        self._lent: list[Callable[..., object]] = []
        self._opaque: set[str] = set()
        self.calls = 0
        self.broken = ""

    def remark(self) -> str:
        """A note for the user about answers that could not be compared."""
        if not self._opaque:
            return ""
        kinds = ", ".join(sorted(self._opaque)[:5])
        return (
            f" (the solution returned objects that have no plain form, of the types {kinds}; if"
            " that is the task, ask for one process)"
        )

    def hear(self) -> list[Any]:
        message = values.decode(values.receive(self._incoming), self._release)
        if not isinstance(message, list) or not message:
            raise ValueError("no message")
        return message

    def ask(
        self, word: str, number: int, arguments: tuple[object, ...], named: dict[str, object]
    ) -> object:
        self.calls += 1
        try:
            self._say(word, number, list(arguments), named)
            while True:
                message = self.hear()
                if message[0] != "back":
                    break
                self._call_back(message)
            if message[0] == "raised" and (name := _control(message[1], word)):
                # An exception of this kind would end a loop or the process of the tests instead of
                # failing them, so they never see it.
                self.broken = (
                    f"the solution raised {name}, which would end a loop or the process of the"
                    " tests"
                )
                raise _of_solution(SolutionError(self.broken))
            return self._result(message, arguments)
        except Gone:
            self.broken = "the solution ended its process"
            raise _of_solution(SolutionError(self.broken)) from None
        except (
            ValueError,
            TypeError,
            IndexError,
            AttributeError,
            RecursionError,
            MemoryError,
        ) as error:
            if getattr(error, "of_solution", False):
                raise
            self.broken = f"the solution broke the form of the pipe ({type(error).__name__})"
            raise _of_solution(SolutionError(self.broken)) from None

    def _say(self, *message: object) -> None:
        try:
            body = values.encode(list(message), self._lend)
        except values.CannotCross as error:
            raise TestsError(
                f"the tests hand over {error}, which cannot cross; ask for one process"
            ) from None
        values.send(self._outgoing, body)

    def _result(self, message: list[Any], arguments: tuple[object, ...]) -> object:
        if message[0] == "raised":
            raise _raised(message[1], message[2])
        if message[0] != "value":
            raise ValueError("no result")
        for given, now in zip(arguments, message[2], strict=True):
            _update(given, now)
        result: object = message[1]
        return result

    def _call_back(self, message: list[Any]) -> None:
        _, number, arguments, named = message
        try:
            result = self._lent[number](*arguments, **named)
        except Exception as error:
            self._say("threw", [kind.__name__ for kind in type(error).__mro__], str(error))
            return
        self._say("returned", result)

    def _lend(self, value: object) -> Handle:
        if isinstance(value, Function | Values | Opaque):
            return Handle("r", value._number, "")
        kind = "f" if callable(value) else "g" if hasattr(type(value), "__next__") else ""
        if not kind:
            return _refuse(value)
        self._lent.append(value if callable(value) else value.__next__)  # type: ignore[attr-defined]
        return Handle(kind, len(self._lent) - 1, "")

    def _release(self, handle: Handle) -> object:
        if handle.kind == "f":
            return Function(self, handle.number)
        if handle.kind == "g":
            return Values(self, handle.number)
        self._opaque.add(handle.name[:60])
        return Opaque(handle.name[:60], handle.number)


def _update(argument: object, now: object) -> None:
    """Apply what the solution did to an argument in place."""
    if isinstance(argument, list | bytearray) and type(argument) is type(now):
        argument[:] = now
    elif isinstance(argument, dict | set) and type(argument) is type(now):
        argument.clear()
        argument.update(now)


def _control(names: list[str], word: str) -> str:
    """The name of an exception that controls loops, generators or the process; '' if it is another
    one. Only a step of an iterator may end with StopIteration.
    """
    own = {
        "StopIteration",
        "StopAsyncIteration",
        "GeneratorExit",
        "SystemExit",
        "KeyboardInterrupt",
    } - ({"StopIteration"} if word == "next" else set())
    return next((name for name in names if name in own), "")


def _raised(names: list[str], text: str) -> BaseException:
    """The solution's exception as the nearest built-in one. Only names cross the pipe: no class of
    the solution, and none that a test runner takes for a skip.
    """
    if names[0] == "CannotCross":
        return _of_solution(SolutionError(text))
    for name in names:
        kind = getattr(builtins, name, None)
        if isinstance(kind, type) and issubclass(kind, Exception) and kind is not Exception:
            try:
                return _of_solution(kind(text))
            except TypeError:  # such as UnicodeDecodeError, which takes five parts
                continue
    return _of_solution(SolutionError(f"the solution raised {names[0]}: {text}"))


def _of_solution(error: BaseException) -> BaseException:
    error.of_solution = True  # type: ignore[attr-defined]
    return error
