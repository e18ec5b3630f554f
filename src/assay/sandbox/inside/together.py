"""Solution and tests in one interpreter, as HumanEval runs them: for answers that are objects.

A solution that sets out to can forge the verdict here, because it shares memory with what decides.
What is still asked for: the tests came to their end, a token that only this module is given was
sent after that, and the process ended with status 0. That holds against `os._exit(0)`, a printed
PASSED, SystemExit, exit handlers and a child that reports; not against code that searches the
frames for the token or patches what the tests use.
"""

from __future__ import annotations

import os
import sys

from . import values
from .examiner import explain
from .solution import _described, _line, add_packages, load
from .suite import Tests
from .supervisor import supervise
from .values import Handle

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .supervisor import Job


def main(job: Job) -> None:
    """Supervise solution and tests together."""
    supervise(job, _run)


def _run(job: Job, trouble: int) -> None:
    answer, token = int(job["answer"]), str(job["token"])
    if job["packages"]:
        add_packages()
    os.close(trouble)
    word, why = _judge(job["code"], job["test"], job["support"], job["entry_point"])
    sys.stdout.flush()
    values.send(answer, values.encode([word, why[:4000], token], _refuse))
    os._exit(0 if word == "passed" else 1)


def _judge(code: str, test: str, support: str, entry_point: str) -> tuple[str, str]:
    try:
        tests = Tests(support, test)
    except (SyntaxError, ValueError) as error:
        return "tests", f"the tests are not Python: {error}"
    try:
        module = load(code, "solution")
    except BaseException as error:
        line = _line(error)
        names, text = _described(error)
        return (
            "failed",
            (
                f"the solution cannot be loaded: {names[0]}{f' at line {line}' if line else ''}:"
                f" {text}"
            ),
        )
    candidate = getattr(module, entry_point, None) if entry_point else None
    if entry_point and not callable(candidate):
        return "failed", f"the solution defines no function `{entry_point}`"
    namespace = {name: value for name, value in vars(module).items() if not name.startswith("__")}
    try:
        tests.run(namespace, candidate, entry_point)
    except BaseException as error:
        return explain(error, test)
    return "passed", "every test held, in one process with the solution"


def _refuse(value: object) -> Handle:
    raise values.CannotCross(type(value).__name__)
