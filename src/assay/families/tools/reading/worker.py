"""The process in which a module is parsed and evaluated: no files, no network, no environment, hard
limits.

It answers requests one after the other (`worker_process`): the bytes of a module come in, JSON goes
out. Every module gets its own engine. The parent kills this process when it takes too long,
because a built-in function can keep the engine from looking at its clock. The parent's side is
`engine`.
"""

from __future__ import annotations

import json
import os
import re
import time
from contextlib import suppress
from typing import Any, Protocol

from assay.families.tools.reading import limits
from assay.families.tools.reading.syntax import Parsed
from assay.families.tools.reading.tree import NoModule
from assay.families.tools.reading.walker import HOST, WALKER
from assay.sandbox.worker import serve

_LINE = re.compile(r"<input>:(?!1:)(\d+)")
"""The line of a place in a stack. Line 1 is that of the walker; the module begins on line 2."""
_BEYOND = {
    ("RangeError", "Maximum call stack size exceeded"): "stack",
    ("InternalError", "out of memory"): "memory",
    ("InternalError", "out of memory in regexp execution"): "memory",
    ("InternalError", "string too long"): "memory",
    ("", "null"): "null",  # no memory was left to make an error of
    ("", "[uninitialized]"): "memory",  # nor to note that
}
"""The names and messages of what the engine throws where a module needs more than it gets."""
_UNKNOWN = "the unknown name "
_NAMED = re.compile(rf"(?:{_UNKNOWN})?`([^`]+)`(?: of the import|$)")
_WARM_UP = (
    b"import { a } from 'a'\nexport const main = { a: [1, 'x'], f() {} }\nexport const handlers ="
    b" () => ({ b: { run: async () => import('c') } })\n"
)


class _Callable(Protocol):
    def __call__(self, *given: object) -> Any: ...


class _Context(Protocol):
    """The part of `quickjs.Context` that is used here; the package has no types."""

    def eval(self, code: str, /) -> Any: ...
    def execute_pending_job(self) -> bool: ...
    def set_memory_limit(self, limit: int, /) -> None: ...
    def set_time_limit(self, limit: float, /) -> None: ...
    def set_max_stack_size(self, limit: int, /) -> None: ...


def main() -> None:
    """Answer requests from standard input until it ends."""
    os.environ["TZ"] = "UTC"  # the local time of a date must not depend on the machine
    time.tzset()
    serve(
        lambda source: json.dumps(answer(source)).encode(),
        greeting=_greeting,
        cpu_s=limits.CPU_S,
        memory=limits.PROCESS_MEMORY,
        wall_s=limits.WALL_S + 1,
    )


def _greeting() -> bytes:
    """Evaluate one module before the restrictions apply: anything imported on first use is imported
    now, and a broken installation shows here.
    """
    return json.dumps({"works": answer(_WARM_UP).get("outcome") == "copied"}).encode()


# --- one module


def answer(source: bytes) -> dict[str, Any]:
    """The answer for one module in the parent's format: an `outcome` and its details."""
    try:
        module = Parsed(source)
    except NoModule as error:
        return {
            "outcome": "no module",
            "line": error.line,
            "column": error.column,
            "message": error.message,
        }
    except RecursionError:
        return {"outcome": "too much", "why": "stack", "path": []}
    target = module.target()
    if target is None:
        others = [
            *module.exports,
            *(f"{name} of '{_shown(specifier)}'" for name, specifier in module.passed_on.items()),
        ]
        return {
            "outcome": "no export",
            "exports": [*others[:20], *(["default"] if module.has_default else [])],
        }
    local = module.exports.get(target, target)
    origin = module.passed_on.get(target, module.imported.get(local))
    if origin is not None:
        passed = "what `export *` passes on from" if target == "*" else f"`{local}` of the import"
        return {
            "outcome": "used",
            "export": "main" if target == "*" else target,
            "what": f"{passed} '{_shown(origin)}'",
            "line": None,
        }
    outcome = _evaluate(module, local)
    if outcome["outcome"] == "copied":
        outcome |= {
            "asked": [list(module) for module in module.asked],
            "handlers": list(module.handlers),
            "addresses": module.addresses(local),
        }
    return {"export": target, **outcome}


def _evaluate(module: Parsed, target: str) -> dict[str, Any]:
    """All of the module if that works, else only what the target needs: a key read from
    `process.env` for a handler is not a fault of the schema.
    """
    missing = module.cannot_run(target)
    if missing is not None:
        return {"outcome": "used", "line": missing[0], "what": missing[1]}
    whole = module.program(target, whole=True)
    outcome = _run(module, target, whole)
    if outcome["outcome"] == "used" and not outcome["what"].startswith(
        _UNKNOWN
    ):  # no host may have it, and then the module does not load
        part = module.program(target, whole=False)
        outcome = outcome if part == whole else _run(module, target, part)
    probe = module.probes(target) if outcome["outcome"] == "copied" else None
    return outcome if probe is None else {"outcome": "used", "line": probe[0], "what": probe[1]}


def _run(module: Parsed, target: str, program: bytes) -> dict[str, Any]:
    # The engine is an optional extra, `flowmcp`.
    import quickjs  # type: ignore[import-untyped]

    context: _Context = quickjs.Context()
    context.set_memory_limit(limits.MEMORY)
    context.set_max_stack_size(limits.STACK)
    walker: _Callable = context.eval(WALKER)
    forbidden = {name: f"`{name}`" for name in HOST} | {
        name: f"`{name}` of the import '{_shown(at)}'" for name, at in module.imported.items()
    }
    forbidden[module.stand_in] = "`import()`"
    walker(
        "name",
        json.dumps(
            [[name, f"{_UNKNOWN}`{name}`"] for name in sorted(module.names - forbidden.keys())]
        ),
    )
    walker("forbid", json.dumps(list(forbidden.items())))
    context.set_time_limit(limits.RUN_S)
    try:
        code: _Callable = context.eval(
            f"(function () {{ 'use strict';\n{program.decode()}\n;return () => ({target});\n}})"
        )
    except quickjs.JSException as error:
        return _broken(str(error), compiling=True)
    try:
        outcome: dict[str, Any] = json.loads(walker("run", code))
        if outcome["outcome"] == "ran":
            late = _run_jobs(context)
            if late is not None:
                return late
            outcome = json.loads(walker("deliver"))
    except quickjs.JSException as error:
        return _broken(str(error), compiling=False)
    return _with_line(outcome, module, target)


def _run_jobs(context: _Context) -> dict[str, Any] | None:
    """Run what the module put off until after itself: an importer would see its effects. A job that
    is interrupted looks like a rejection, so time is taken.
    """
    import quickjs  # an optional extra, as above

    began = time.process_time()
    for _ in range(limits.MAX_JOBS):
        with suppress(quickjs.JSException):  # a rejection that nobody awaits
            if not context.execute_pending_job():
                return None
        if time.process_time() - began >= limits.RUN_S:
            return {"outcome": "too long"}
    return {"outcome": "endless"}


def _broken(text: str, *, compiling: bool) -> dict[str, Any]:
    """What the engine's own exception means; the text is the engine's, not the module's."""
    if "interrupted" in text:
        return {"outcome": "too long"}
    if "call stack size exceeded" in text or "stack overflow" in text:
        return {"outcome": "too much", "why": "stack", "path": []}
    if "out of memory" in text or text.strip() in ("", "null"):
        return {"outcome": "too much", "why": "memory", "path": []}
    if compiling:
        return {
            "outcome": "no syntax",
            "line": _line_of(text),
            "message": text.split("\n")[0].removeprefix("SyntaxError: "),
        }
    return {"outcome": "threw", "name": "", "message": text.split("\n")[0], "line": _line_of(text)}


def _with_line(outcome: dict[str, Any], module: Parsed, target: str) -> dict[str, Any]:
    thrown = (outcome["name"], outcome["message"]) if outcome["outcome"] == "threw" else None
    if thrown in _BEYOND:
        return {"outcome": "too much", "why": _BEYOND[thrown], "path": []}
    if "stack" in outcome:
        outcome["line"] = _line_of(outcome.pop("stack"))
    named = _NAMED.match(outcome["what"]) if outcome["outcome"] == "used" else None
    if named:
        outcome["line"] = module.first_line(named[1], target) or outcome["line"]
    return outcome


def _shown(specifier: str) -> str:
    return specifier.encode("utf-8", "replace").decode()[:200]


def _line_of(text: str) -> int | None:
    match = _LINE.search(text)
    return int(match[1]) - 1 if match else None
