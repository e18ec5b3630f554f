"""The process of the solution: loads it, then answers calls until the pipe closes.

Nothing here is trusted: the solution shares this interpreter and may change all of it. It sends
bytes, which the other side decodes to plain values. No test, no expected value and no verdict is
ever in this process.
"""

from __future__ import annotations

import os
import sys
import types

from . import values
from .supervisor import supervise
from .values import CannotCross, Gone, Handle

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from .processes import Job


def solution(job: Job) -> None:
    """Supervise the serving of a solution."""
    supervise(job, _serve)


def load(code: str, name: str) -> types.ModuleType:
    """Run the code as a module of this name."""
    module = sys.modules[name] = types.ModuleType(name)
    exec(compile(code, f"<{name}>", "exec"), module.__dict__)  # running it is the purpose  # noqa: S102
    return module


def _serve(job: Job, trouble: int) -> None:
    os.close(trouble)
    server = _Server(*job["channel"])
    try:
        module = load(job["code"], "solution")
    except BaseException as error:
        server.say("unloaded", *described(error), line_of(error))
        os._exit(0)
    names = {
        name: value
        for name, value in vars(module).items()
        if not name.startswith("__") and not isinstance(value, types.ModuleType)
    }
    server.say("loaded", names)
    try:
        while True:
            server.answer(server.hear())
    except Gone:
        sys.stdout.flush()
    os._exit(0)


class _Server:
    def __init__(self, incoming: int, outgoing: int) -> None:
        self._incoming, self._outgoing = incoming, outgoing
        self._held: list[Any] = []

    def say(self, *message: object) -> None:
        values.send(self._outgoing, values.encode(list(message), self._hold))

    def hear(self) -> list[Any]:
        message = values.decode(values.receive(self._incoming), self._release)
        assert isinstance(message, list)
        return message

    def answer(self, message: list[Any]) -> None:
        word, target, arguments, named = message
        held = self._held[target]
        try:
            result = next(held) if word == "next" else held(*arguments, **named)
        except BaseException as error:
            if isinstance(error, Gone):
                raise
            self.say("raised", *described(error))
            return
        try:
            # Arguments go back too: the caller of a function that sorts in place must see that.
            self.say("value", result, list(arguments))
        except CannotCross as error:
            self.say("raised", ["CannotCross"], f"the solution returned {error}")

    def _hold(self, value: object) -> Handle:
        kind = "f" if callable(value) else "g" if hasattr(type(value), "__next__") else "o"
        self._held.append(value)
        return Handle(kind, len(self._held) - 1, type(value).__name__)

    def _release(self, handle: Handle) -> object:
        if handle.kind == "r":  # one that was returned
            return self._held[handle.number]
        call = _back_call(self, handle.number)
        return call if handle.kind == "f" else _back_iterator(call)


def _back_call(server: _Server, number: int) -> Callable[..., object]:
    """A function of the tests, as the solution sees it: the call goes back through the pipe."""

    def call(*arguments: object, **named: object) -> object:
        server.say("back", number, list(arguments), named)
        while True:
            message = server.hear()
            if message[0] == "returned":
                return message[1]
            if message[0] == "threw":
                raise _exception(message[1], message[2])
            server.answer(message)

    return call


def _back_iterator(call: Callable[..., object]) -> Iterator[object]:
    while True:
        try:
            yield call()
        except StopIteration:
            return


def _exception(names: list[str], text: str) -> BaseException:
    for name in names:
        kind = getattr(sys.modules["builtins"], name, None)
        if isinstance(kind, type) and issubclass(kind, BaseException):
            return kind(text)
    return RuntimeError(text)


def described(error: BaseException) -> tuple[list[str], str]:
    """The names of an exception's classes, nearest first, and its text."""
    try:
        text = str(error)[:2000]
    except BaseException:
        text = ""
    return [kind.__name__ for kind in type(error).__mro__][:20], text


def line_of(error: BaseException) -> int:
    """The line of the solution at which an exception was raised; 0 if there is none."""
    if isinstance(error, SyntaxError):
        return error.lineno or 0
    trace, line = error.__traceback__, 0
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == "<solution>":
            line = trace.tb_lineno
        trace = trace.tb_next
    return line
