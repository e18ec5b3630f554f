"""Evaluating a module without trusting it: the side of the caller.

A module runs in its own process (`worker`), because a built-in function can keep the engine busy
for hours and a fault of the engine must not take the caller down. One `Engine` keeps one such
process for many modules; one that dies or is killed is replaced. The messages for its answers are
here; `files` knows what a schema is.
"""

from __future__ import annotations

import json
import signal
from contextlib import suppress
from importlib import metadata
from threading import Lock
from types import TracebackType
from typing import Any, NamedTuple

from assay.errors import InputError
from assay.families.tools import ecma
from assay.families.tools.reading import limits
from assay.families.tools.source import Module, NotData, split_version
from assay.files.json_files import show_path
from assay.installing import install_hint
from assay.sandbox.worker import Died, Late, WorkerProcess

_PACKAGES = ("quickjs", "_quickjs", "tree_sitter", "tree_sitter_javascript")
_BOM = b"\xef\xbb\xbf"
_PLAIN = "A schema is plain data: write the value out."
_IN_NODE = "Does the file run in Node?"
_TOO_MUCH = {
    "memory": f"needs more than {limits.MEMORY // 2**20} MiB of memory.",
    "null": (
        f"threw `null`, which is what the engine does when {limits.MEMORY // 2**20} MiB of memory"
        " are used up."
    ),
    "stack": "nests or calls itself too deep for the engine.",
    "depth": f"nests more than {limits.MAX_DEPTH} deep",
    "cycle": "contains itself",
    "nodes": f"has more than {limits.MAX_NODES:,} values",
    "text": f"has more than {limits.MAX_TEXT // 2**20} Mi characters of text",
    "notes": f"has more than {limits.MAX_NOTES:,} places without data",
}


class Exported(NamedTuple):
    """What a module exports as its schema, and what its text shows."""

    main: dict[str, Any]
    tools_text: str
    modules: tuple[Module, ...]
    handlers: tuple[str, ...]
    addresses: tuple[str, ...]
    not_data: tuple[NotData, ...]


EXPORT = "Write: export const main = { namespace: '...', tools: { ... } }"


class NoSchema(InputError):
    """The file is readable but contains something else."""


class Engine:
    """Reads modules. Use it in a `with` block, so that its process ends with it; several threads
    may share one, and take turns.

    `wall_s` can only shorten the time that one module has.

    >>> with Engine() as engine:
    ...     engine.read(
    ...         b"export const main = { tools: { ping: { path: '/' + 1 } } }", file="ping.mjs"
    ...     ).main
    {'tools': {'ping': {'path': '/1'}}}
    """

    def __init__(self, *, wall_s: float = limits.WALL_S) -> None:
        self._wall_s = min(wall_s, limits.WALL_S)
        self._worker: WorkerProcess | None = None
        self._lock = Lock()

    def __enter__(self) -> Engine:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the process. The engine can be used again, and starts another."""
        with self._lock:
            self._drop()

    def read(self, source: bytes, *, file: str) -> Exported:
        """What the module exports as its schema. Raises InputError with a code `FMC-00n`; NoSchema
        if it exports neither `main` nor `schema`.
        """
        if len(source) > limits.MAX_SOURCE:
            raise too_large(file, limits.MAX_SOURCE)
        text = source.removeprefix(_BOM)
        _check_text(text, file)
        reply = self._ask(text, file)
        if reply["outcome"] == "no export":
            others = f", only {', '.join(reply['exports'])}" if reply["exports"] else ""
            raise NoSchema(
                "FMC-002", f"exports neither `main` nor `schema`{others}.", where=file, fix=EXPORT
            )
        if reply["outcome"] != "copied":
            raise _refusal(reply, file)
        main: dict[str, Any] = ecma.parse(reply["main"])
        modules = tuple(Module(*module) for module in reply["asked"])
        notes = tuple(
            NotData(show_path(tuple(note["path"])), note["kind"]) for note in reply["notes"]
        )
        return Exported(
            main,
            reply["tools"],
            modules + required_libraries(main),
            tuple(reply["handlers"]),
            tuple(reply["addresses"]),
            notes,
        )

    def _ask(self, source: bytes, file: str) -> dict[str, Any]:
        with self._lock:
            try:
                return self._once(source, file)
            except Late:
                raise _too_late(file, self._wall_s) from None
            except Died as death:
                if death.code == -signal.SIGXCPU:
                    raise InputError(
                        "FMC-003",
                        f"needs more than {limits.CPU_S} seconds of computing.",
                        where=file,
                        fix=_PLAIN,
                    ) from None
                if death.code == -signal.SIGALRM:
                    raise _too_late(file, limits.WALL_S) from None
            # Something ended it from outside, or it crashed. The second time it is the module's
            # doing.
            try:
                return self._once(source, file)
            except Late:
                raise _too_late(file, self._wall_s) from None
            except Died as death:
                raise InputError(
                    "FMC-004",
                    f"ended the engine ({death.cause}).",
                    where=file,
                    fix=f"It needs too much memory or breaks the engine. {_PLAIN}",
                ) from None

    def _once(self, source: bytes, file: str) -> dict[str, Any]:
        worker = self._worker
        if worker is not None and not (
            worker.is_usable() and worker.answered < limits.FILES_PER_WORKER
        ):
            self._drop()
            worker = None
        if worker is None:
            worker = self._worker = _start(file)
        try:
            reply: dict[str, Any] = json.loads(worker.ask(source, wall_s=self._wall_s))
            return reply
        except BaseException:
            # also when the caller interrupts: an answer that comes later would be taken for that of
            # the next module
            self._drop()
            raise

    def _drop(self) -> None:
        worker, self._worker = self._worker, None
        if worker is not None:
            worker.end()


def _start(file: str) -> WorkerProcess:
    try:
        worker = WorkerProcess(
            "assay.families.tools.reading.worker", _PACKAGES, start_s=limits.START_S
        )
    except ModuleNotFoundError as error:
        raise _not_installed(str(error), file) from None
    except (Died, Late):
        raise _not_installed("it does not start", file) from None
    if not json.loads(worker.greeting)["works"]:
        worker.end()
        raise _not_installed("it does not work", file)
    return worker


def required_libraries(main: dict[str, Any]) -> tuple[Module, ...]:
    """The libraries that a schema has its host hand to its handlers: names, `name@version`, or
    objects and mappings of the two.

    >>> [one[:3] for one in required_libraries({"requiredLibraries": ["ethers@6.1.0"]})]
    [('ethers', '6.1.0', 'requiredLibraries')]
    """
    stated = main.get("requiredLibraries")
    libraries: list[tuple[str, str | None]] = []
    for library in (
        stated if isinstance(stated, list) else [stated] if isinstance(stated, str) else []
    ):
        if isinstance(library, str):
            libraries.append(split_version(library))
        elif isinstance(library, dict) and isinstance(library.get("name"), str):
            version = library.get("version")
            libraries.append(
                (library["name"], version)
                if isinstance(version, str)
                else split_version(library["name"])
            )
        else:
            libraries.append((ecma.stringify(library)[:300], None))
    if isinstance(stated, dict):
        libraries += [
            (name, version if isinstance(version, str) else None)
            for name, version in stated.items()
        ]
    return tuple(
        Module(name, version, "requiredLibraries", None, True) for name, version in libraries
    )


# --- words


def too_large(file: str, limit: int) -> InputError:
    """The refusal of a file beyond a limit of bytes."""
    return InputError(
        "FMC-004",
        f"is larger than {limit // 2**20} MiB.",
        where=file,
        fix="A tool schema is a small text: split it.",
    )


def _check_text(text: bytes, file: str) -> None:
    try:
        text.decode()
    except UnicodeDecodeError as error:
        line = text.count(b"\n", 0, error.start) + 1
        raise InputError(
            "FMC-001", f"line {line}: is not UTF-8 text.", where=file, fix="Save it as UTF-8."
        ) from None
    place = text.find(b"\x00")
    if place >= 0:
        line, column = text.count(b"\n", 0, place) + 1, place - text.rfind(b"\n", 0, place)
        raise InputError(
            "FMC-001",
            f"line {line}, column {column}: contains a NUL byte, so it isn't text.",
            where=file,
            fix="Save it as plain text.",
        )


def _too_late(file: str, wall_s: float) -> InputError:
    return InputError(
        "FMC-003",
        f"was still running after {wall_s:g} seconds and was stopped.",
        where=file,
        fix=_PLAIN,
    )


def _not_installed(why: str, file: str) -> InputError:
    fix = install_hint("flowmcp")
    with suppress(metadata.PackageNotFoundError):
        older_version = metadata.version(
            "quickjs"
        )  # an older engine, whose modules have the same names
        why = f"quickjs {older_version} is installed in place of quickjs-ng"
        fix = f"pip uninstall -y quickjs quickjs-ng && {fix}"
    return InputError(
        "FMC-006",
        f"the engine that reads modules is not installed: {why}.",
        where=file,
        fix=f"Run: {fix}",
    )


_REFUSALS = {
    "no module": ("FMC-001", "line {line}, column {column}: {message}", _IN_NODE),
    "no syntax": (
        "FMC-001",
        "{at}the engine cannot read this: {message}.",
        f"{_IN_NODE} Syntax that is newer than ECMAScript 2025 is not read.",
    ),
    "no object": (
        "FMC-002",
        "its `{export}` is {kind}, not an object.",
        "Export an object: export const {export} = {{ ... }}",
    ),
    "too long": ("FMC-003", f"needs more than {limits.RUN_S} seconds of computing.", _PLAIN),
    "endless": (
        "FMC-003",
        f"puts off work without end: more than {limits.MAX_JOBS:,} promise reactions.",
        _PLAIN,
    ),
    "too much": ("FMC-004", "{what}", _PLAIN),
    "used": (
        "FMC-005",
        "{at}its `{export}` needs {what}, which a schema may not use while it is read.",
        _PLAIN,
    ),
    "threw": ("FMC-005", "{at}threw while its `{export}` was evaluated: {thrown}.", _PLAIN),
}
"""The code, the sentence and the remedy for each outcome of the worker but a copied object."""


def _refusal(reply: dict[str, Any], file: str) -> InputError:
    values = {"export": "main", **reply}
    values["at"] = f"line {reply['line']}: " if reply.get("line") else ""
    if reply["outcome"] == "no object":
        kind = reply["kind"]
        values["kind"] = kind if kind in ("undefined", "null", "a list") else f"a {kind}"
    elif reply["outcome"] == "too much":
        what = _TOO_MUCH[reply["why"]]
        where = f", at {show_path(tuple(reply['path']))}" if reply["path"] else ""
        is_whole = what.endswith(".")
        values["what"] = what if is_whole else f"its `{values['export']}` {what}{where}."
    elif reply["outcome"] == "threw":
        name = f"{reply['name']}: " if reply["name"] else ""
        thrown = f"{name}{reply['message'][:300].rstrip('.')}"
        values["thrown"] = thrown or "something without a message"
    code, message, fix = _REFUSALS[reply["outcome"]]
    return InputError(code, message.format(**values), where=file, fix=fix.format(**values))
