"""The JavaScript around a module, `data/walker.js`: what it takes away before the module runs, and
how it copies the exported object to plain data.

It takes hold of every function it needs before the module runs, and afterwards touches only objects
without a prototype: whatever the module does to `JSON`, `Array.prototype` or `Object.prototype`
changes nothing here. It changes what users of the module see, so each change of a built-in is
noted, and so is each place where reading a property, listing the keys and writing JSON differ.
Accessors are never called. All of it is joined to one line: the engine gives line 1 no number, so
that the lines of an error are those of the module, which begins on line 2. Where an accessor was
read, the engine does not know.
"""

from __future__ import annotations

import os

from assay.tools.reading import limits

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
    path = os.path.join(os.path.dirname(os.path.dirname(__file__)), "data", "walker.js")
    with open(path, encoding="utf-8") as stream:
        text = stream.read()
    for name in ("MAX_NOTES", "MAX_TEXT", "MAX_NODES", "MAX_DEPTH"):
        text = text.replace(name, str(getattr(limits, name)))
    return " ".join(text.split("\n"))


WALKER = _walker()
"""An expression whose value is a function of a task: ("forbid", JSON of names and what they are),
("name", the same for names that are forbidden unless the engine has them: a host may), ("run",
function), ("deliver"). The last two give JSON.
"""
