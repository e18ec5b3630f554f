"""Sends the modules of `inside` into the sandbox: they are compiled here, sent through the job's
pipe, and run there from memory.
"""

from __future__ import annotations

import os
import sys
from functools import cache
from importlib.util import find_spec
from types import CodeType

_NEEDED = {
    "command": ("processes", "supervisor", "command"),
    "solution": ("values", "processes", "supervisor", "solution"),
    "examiner": ("values", "processes", "supervisor", "solution", "suite", "examiner"),
    "together": ("values", "processes", "supervisor", "solution", "suite", "examiner"),
}
"""The modules of each kind of run. The last one has a function with the name of the kind."""
_START = """
import marshal, os, sys
parts = []
while part := os.read({pipe}, 1 << 20):
    parts.append(part)
os.close({pipe})
job = marshal.loads(b"".join(parts))
package = sys.modules["inside"] = type(sys)("inside")
for name, code in job.pop("modules"):
    module = sys.modules["inside." + name] = type(sys)("inside." + name)
    module.__package__ = "inside"
    exec(code, module.__dict__)
    setattr(package, name, module)
del parts, part
module.{kind}(job)
"""


def start_command(python: str, kind: str, pipe: int) -> list[str]:
    """The command that starts the supervisor: a bare interpreter, without environment, site
    packages or the current folder.
    """
    return [python, "-I", "-S", "-B", "-X", "utf8", "-c", _START.format(kind=kind, pipe=pipe)]


def modules_for(kind: str, python: str) -> list[tuple[str, CodeType | str]]:
    """The modules that a kind of run needs, in order: compiled for our own interpreter, as text for
    any other.
    """
    same = os.path.realpath(python) == os.path.realpath(sys.executable)
    return [(name, _compiled(name) if same else program_text(name)) for name in _NEEDED[kind]]


@cache
def program_text(name: str) -> str:
    """The text of a module of `inside`."""
    spec = find_spec(f"assay.sandbox.inside.{name}")
    assert spec
    assert spec.origin
    with open(spec.origin, encoding="utf-8") as file:
        return file.read()


@cache
def _compiled(name: str) -> CodeType:
    return compile(program_text(name), f"<inside.{name}>", "exec", dont_inherit=True, optimize=0)
