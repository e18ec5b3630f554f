"""The JavaScript around a module, `data/walker.js`: what it takes away before the module runs, and
how it copies the exported object to plain data.

It takes hold of every function it needs before the module runs, and afterwards touches only objects
without a prototype: whatever the module does to `JSON`, `Array.prototype` or `Object.prototype`
changes nothing here. It changes what users of the module see, so each change of a built-in is
noted, and so is each place where reading a property, listing the keys and writing JSON differ.
Accessors are never called, and nothing is stored in a list that inherits from `Array.prototype`:
the engine's own `JSON.stringify` does that, so it only writes strings here. All of it is joined to
one line, so that every other line of an error is one of the module, which begins on line 2.

The engine is newer than many hosts. `data/language.json` lists the properties of built-ins that
every host has, owner by owner. Any other global is removed, and reading any other property refuses
the module. An engine that lacks one that is listed, or has one that can't be taken away, is not
used.
"""

from __future__ import annotations

import os

from assay.families.tools.reading import limits

HOST = (
    "process",
    "global",
    "window",
    "self",
    "document",
    "navigator",
    "location",
    "Deno",
    "Bun",
    "require",
    "module",
    "exports",
    "__dirname",
    "__filename",
    "fetch",
    "XMLHttpRequest",
    "WebSocket",
    "EventSource",
    "setTimeout",
    "setInterval",
    "setImmediate",
    "queueMicrotask",
    "Buffer",
    "performance",
    "crypto",
    "Intl",
    "WebAssembly",
    "URL",
    "URLSearchParams",
    "TextEncoder",
    "TextDecoder",
    "structuredClone",
    "atob",
    "btoa",
    "AbortController",
    "Blob",
    "File",
    "FormData",
    "Headers",
    "Request",
    "Response",
    "Event",
    "EventTarget",
    "Worker",
    "MessageChannel",
    "BroadcastChannel",
    "std",
    "os",
    "print",
    "scriptArgs",
    "bjson",
    "gc",
    "Temporal",
    "WeakRef",
    "FinalizationRegistry",
    "SharedArrayBuffer",
    "Atomics",
    "Proxy",
    "__date_clock",
    "InternalError",
    "eval",
    "Function",
)
"""Names that a host has and this engine has not, or that answer differently from run to run or from
engine to engine. Asking for one, also with `typeof`, refuses the module: otherwise it could
describe itself one way to the gate and another way to its users.
"""


def _walker() -> str:
    """The script with its limits filled in, on one line."""
    data = os.path.join(os.path.dirname(os.path.dirname(__file__)), "data")
    with open(os.path.join(data, "walker.js"), encoding="utf-8") as stream:
        text = stream.read()
    with open(os.path.join(data, "language.json"), encoding="utf-8") as stream:
        text = text.replace("LANGUAGE", stream.read())
    for name in ("MAX_NOTES", "MAX_TEXT", "MAX_NODES", "MAX_DEPTH"):
        text = text.replace(name, str(getattr(limits, name)))
    return " ".join(text.split("\n"))


WALKER = _walker()
"""An expression whose value is a function of a task: ("forbid", JSON of names and what they are),
("name", the same for names that are forbidden unless the engine has them: a host may), ("run",
function), ("deliver"). The last two give JSON.
"""
