"""Reading tool schemas from files and folders: FlowMCP modules, the same as data, and what an MCP
server answered to `tools/list`.

A folder is read whole: what could not be read is reported with its reason, what is not a schema is
named, nothing is dropped silently. Links that lead out of the folder are never followed. A module
is read in a worker process by `module`, because its parser is native code. Whether a schema is
valid: `validation`.
"""

from __future__ import annotations

import json
import os
import re
import signal
import stat
from itertools import islice
from threading import Lock
from types import TracebackType
from typing import Any, NamedTuple

from assay.errors import InputError
from assay.families.tools import ecma
from assay.families.tools.declaration import check_declaration
from assay.families.tools.module import CPU_S, EXPORT, WALL_S
from assay.families.tools.source import Module, NotData, ToolSchema, split_version
from assay.files.inputs import open_input
from assay.files.json_files import Document, json_fault, show_path
from assay.files.yaml_files import parse_yaml
from assay.installing import install_hint
from assay.sandbox.worker import Died, Late, WorkerProcess

MAX_SOURCE = 2 * 1024 * 1024
"""Bytes of one module. The largest public schemas are near 110 KB; a larger file is refused before
it is read.
"""
MAX_DATA = 16 * 1024 * 1024
"""Bytes of one JSON file: a snapshot of a server with hundreds of tools holds all their schemas.
YAML has its own limit in `assay.files.yaml_files`.
"""
START_S = 30.0
"""Seconds for the worker to start: a cold disk, a busy machine. No module is read yet."""
FILES_PER_WORKER = 500
"""Modules that one worker reads before a fresh one takes over, so that nothing that leaks adds
up.
"""
MAX_FILES = 5_000
"""Schema files of one folder; the public collection has fewer than 1,000."""
MAX_ENTRIES = 200_000
"""Names examined in one folder tree, so that passing `/` by mistake ends soon."""
MODULES = (".mjs", ".js")
DATA = (".json", ".yaml", ".yml")
_NAMESPACE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
_BASE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_BOM = b"\xef\xbb\xbf"
_PLAIN = "A schema is plain data: write the value out."
_PACKAGES = ("tree_sitter", "tree_sitter_javascript")


def read_schema(path: str) -> ToolSchema:
    """The tool schema in one file.

    Raises InputError: `FMC-00n` for what the file holds, `FIL-00n` where it cannot be opened or
    isn't JSON or YAML.
    """
    return schema_of(path, source_of(path))


def source_of(path: str) -> bytes:
    """The bytes of one file, as a schema is made of them; none of them where there are too many."""
    try:
        return _file_bytes(path, os.path.realpath(path))
    except ValueError:  # a NUL or a lone surrogate: no system has such a name
        raise InputError("FIL-001", "cannot be the name of a file.", where=path) from None


def from_tools_list(
    tools: list[dict[str, Any]],
    *,
    name: str,
    version: str,
    instructions: str | None,
    path: str,
    source: bytes,
    declaration: Any = None,
) -> ToolSchema:
    """The schema of an MCP server from what it answered to `tools/list`, all pages together.

    >>> from_tools_list(
    ...     [{"name": "add", "inputSchema": {"type": "object"}}],
    ...     name="My Sums",
    ...     version="1",
    ...     instructions=None,
    ...     path="sums",
    ...     source=b"",
    ... ).schema_id
    'my-sums/tools'
    """
    by_name: dict[str, Any] = {}
    for index, tool in enumerate(tools):
        tool_name = tool.get("name") if isinstance(tool, dict) else None
        if not isinstance(tool_name, str) or not tool_name:
            raise InputError(
                "FMC-008",
                f"tools[{index}] has no name.",
                where=path,
                fix="Every tool of a `tools/list` answer is an object with a name.",
            )
        if tool_name in by_name:
            # Which of the two a client would call is open, so neither can be graded.
            raise InputError(
                "FMC-008",
                f"two tools are named '{tool_name[:100]}'.",
                where=path,
                fix="Tool names are unique in one server.",
            )
        by_name[tool_name] = {key: value for key, value in tool.items() if key != "name"}
    namespace = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
    if not namespace:
        raise InputError(
            "FMC-007",
            f"the server's name {name[:100]!r} has no letter or digit to make a folder's name of.",
            where=path,
            fix="Name it in `serverInfo`.",
        )
    namespace = f"mcp-{namespace}" if namespace[0].isdigit() else namespace
    main = {
        "namespace": namespace,
        "name": name,
        "version": version,
        "description": instructions or "",
        "tools": by_name,
    }
    if declaration is not None:
        stated = check_declaration(Document(declaration, path, None, None))
        main["declaration"] = stated.document()
        if isinstance(stated.about, str):
            main["resources"] = {"about": stated.about}
    plain = _plain(main, path)
    return ToolSchema(
        "mcp", path, namespace, "tools", plain, ecma.stringify(plain["tools"]), source
    )


# --- one file


def schema_of(path: str, source: bytes, reader: ModuleReader | None = None) -> ToolSchema:
    """The tool schema that the bytes of a file hold; raises NoSchema where they hold another.
    Nothing is opened: the path says what the file is called, and in which folders it lies. Without
    a reader, one is started for a module and ended again.
    """
    base, extension = os.path.splitext(os.path.basename(path))
    extension = extension.lower()
    if extension in MODULES:
        return _from_module(path, base, source, reader)
    if extension not in DATA:
        known = ", ".join((*MODULES, *DATA))
        raise InputError(
            "FMC-008",
            f"a file named *{extension} is not a tool schema.",
            where=path,
            fix=f"These are read: {known}.",
        )
    tree = _json(source, path) if extension == ".json" else parse_yaml(source, path).tree
    declaration = None
    # `server.declare` puts a declaration before the pages. An answer of a server is an object, so
    # no server declares itself.
    if (
        isinstance(tree, list)
        and len(tree) > 1
        and isinstance(tree[0], dict)
        and tree[0].keys() == {"declaration"}
    ):
        declaration, tree = tree[0]["declaration"], tree[1:]
    pages = _pages(tree, path)
    if pages is not None:
        tools, about = pages
        stated = about.get("serverInfo")
        info: dict[str, Any] = stated if isinstance(stated, dict) else {}
        name, version, instructions = (
            info.get("name"),
            info.get("version"),
            about.get("instructions"),
        )
        return from_tools_list(
            tools,
            name=name if isinstance(name, str) else base,
            version=version if isinstance(version, str) else "",
            instructions=instructions if isinstance(instructions, str) else None,
            path=os.path.abspath(path),
            source=source,
            declaration=declaration,
        )
    main = _plain(_main_of(tree, path), path)
    return ToolSchema(
        "flowmcp",
        os.path.abspath(path),
        _namespace(main, path),
        _base(base, path),
        main,
        ecma.stringify(main["tools"]),
        source,
        required_libraries(main),
    )


def _from_module(path: str, base: str, source: bytes, reader: ModuleReader | None) -> ToolSchema:
    if reader is None:
        with ModuleReader() as own:
            return _from_module(path, base, source, own)
    module = reader.read(source, file=path)
    namespace = _namespace(module.main, path)
    where = os.path.abspath(path)
    return ToolSchema(
        "flowmcp",
        where,
        namespace,
        _base(base, path),
        module.main,
        module.tools_text,
        source,
        module.modules,
        module.handlers,
        module.addresses,
        module.not_data,
    )


def _namespace(main: dict[str, Any], path: str) -> str:
    stated = main.get("namespace")
    if isinstance(stated, str):
        if not _NAMESPACE.fullmatch(stated):
            message = f"the namespace {stated[:100]!r} cannot be the name of a folder."
            raise InputError(
                "FMC-007",
                message,
                where=path,
                fix="Use letters, digits, - and _, beginning with a letter or digit.",
            )
        return stated
    folder = os.path.basename(os.path.dirname(os.path.abspath(path)))
    if not _NAMESPACE.fullmatch(folder):
        message = f"it states no namespace, and its folder's name {folder[:100]!r} cannot be one."
        raise InputError("FMC-007", message, where=path, fix="State one: namespace: '...'")
    return folder


def _base(base: str, path: str) -> str:
    if not _BASE.fullmatch(base) or ".." in base:
        message = f"the file's name {base[:100]!r} cannot be part of a schema's id."
        raise InputError(
            "FMC-007",
            message,
            where=path,
            fix="Use letters, digits, single dots, - and _, beginning with a letter or digit.",
        )
    return base


def _json(source: bytes, path: str) -> Any:
    if not source.strip():
        raise InputError("FIL-005", "the file is empty.", where=path)
    try:
        return ecma.parse(source.decode())
    except UnicodeDecodeError:
        raise InputError(
            "FIL-002", "is not UTF-8 text.", where=path, fix="JSON here is UTF-8."
        ) from None
    except ValueError as error:
        fault = json_fault(error, source, file=path, line=None)
        raise InputError(
            fault.code, fault.message, where=path, fix=fault.fix, faults=[fault]
        ) from None


def _plain(tree: Any, path: str) -> Any:
    """The data as a JavaScript engine holds it: numbers are doubles, keys that are list indexes
    come first.
    """
    try:
        return ecma.parse(ecma.stringify(tree))
    except ValueError as error:
        raise InputError(
            "FMC-001",
            f"contains a value that no JavaScript engine can represent: {error}.",
            where=path,
        ) from None


def _main_of(tree: Any, path: str) -> Any:
    for candidate in (
        tree,
        *((tree.get("main"), tree.get("schema")) if isinstance(tree, dict) else ()),
    ):
        if isinstance(candidate, dict) and isinstance(candidate.get("tools"), dict):
            return candidate
    raise NoSchema(
        "FMC-008",
        "has no `tools`, so it is not a tool schema.",
        where=path,
        fix="A FlowMCP schema has `tools` as an object, a `tools/list` answer as a list.",
    )


def _pages(tree: Any, path: str) -> tuple[list[dict[str, Any]], dict[str, Any]] | None:
    """The tools of all pages of a `tools/list` answer and the rest of it; None for
    anything else.
    """
    parts = tree if isinstance(tree, list) else [tree]
    tools: list[dict[str, Any]] = []
    about: dict[str, Any] = {}
    seen, cursor, broken = 0, None, False
    for part in parts:
        page = part.get("result", part) if isinstance(part, dict) else None
        if not isinstance(page, dict):
            return None
        if isinstance(part.get("error"), dict) and "jsonrpc" in part:
            raise InputError(
                "FMC-008",
                f"contains an error from the server: {str(part['error'].get('message'))[:200]}.",
                where=path,
                fix="Ask it again.",
            )
        if isinstance(page.get("tools"), list):
            tools += page["tools"]
            seen, cursor = seen + 1, page.get("nextCursor")
        elif "tools" in page:
            broken = True
        about |= {
            key: value
            for page_part in (part, page)
            for key, value in page_part.items()
            if key in ("serverInfo", "instructions")
        }
    if not seen:
        return None
    if broken:
        raise InputError(
            "FMC-008",
            "contains a page whose `tools` is not a list.",
            where=path,
            fix="Fetch that page again.",
        )
    if cursor:
        # Grading the first page would pass a server whose other tools nobody has seen.
        raise InputError(
            "FMC-008",
            "ends in the middle: the last page names a `nextCursor`.",
            where=path,
            fix="Fetch the other pages and put all in a list.",
        )
    return tools, about


def _file_bytes(path: str, real: str) -> bytes:
    """The bytes of a regular file, none of them where there are too many. A link in the place of
    the last name is not followed: `real` has none.
    """
    limit = MAX_DATA if real.lower().endswith(DATA) and path.lower().endswith(DATA) else MAX_SOURCE
    try:
        handle = os.open(
            real, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0)
        )
    except FileNotFoundError:
        with open_input(path):  # its error knows the near miss
            raise InputError("FIL-001", "cannot be read.", where=path) from None
    except OSError as error:
        raise InputError("FIL-001", f"cannot be read: {error.strerror}.", where=path) from None
    try:
        state = os.fstat(handle)
        if stat.S_ISDIR(state.st_mode):
            raise InputError(
                "FIL-001",
                "is a directory.",
                where=path,
                fix="Name a file in it, or read it as a folder.",
            )
        if not stat.S_ISREG(state.st_mode):
            raise InputError("FIL-001", "is not a regular file.", where=path)
        if state.st_size > limit:
            raise _too_large(path, limit)
        with os.fdopen(handle, "rb", closefd=False) as stream:
            data = stream.read(limit + 1)
    except OSError as error:
        raise InputError("FIL-001", f"cannot be read: {error.strerror}.", where=path) from None
    finally:
        os.close(handle)
    if len(data) > limit:  # it grew while it was read, or its size is not known
        raise _too_large(path, limit)
    return data


# --- modules


class Exported(NamedTuple):
    """What a module exports as its schema, and what its text shows."""

    main: dict[str, Any]
    tools_text: str
    modules: tuple[Module, ...]
    handlers: tuple[str, ...]
    addresses: tuple[str, ...]
    not_data: tuple[NotData, ...]


class NoSchema(InputError):
    """The file is readable but contains something else."""


class ModuleReader:
    """Reads modules. Use it in a `with` block, so that its process ends with it; several threads
    may share one, and take turns. `wall_s` can only shorten the time that one module has.

    >>> with ModuleReader() as reader:
    ...     reader.read(
    ...         b"export const main = { tools: { ping: { path: '/' + 'v1' } } }", file="ping.mjs"
    ...     ).main
    {'tools': {'ping': {'path': '/v1'}}}
    """

    def __init__(self, *, wall_s: float = WALL_S) -> None:
        self._wall_s = min(wall_s, WALL_S)
        self._worker: WorkerProcess | None = None
        self._lock = Lock()

    def __enter__(self) -> ModuleReader:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the process. The reader can be used again, and starts another."""
        with self._lock:
            self._drop()

    def read(self, source: bytes, *, file: str) -> Exported:
        """What the module exports as its schema. Raises InputError with a code `FMC-00n`; NoSchema
        if it exports neither `main` nor `schema`.
        """
        if len(source) > MAX_SOURCE:
            raise _too_large(file, MAX_SOURCE)
        text = source.removeprefix(_BOM)
        _check_text(text, file)
        reply = self._ask(text, file)
        if "refused" in reply:
            code, message, fix = reply["refused"]
            raise (InputError if reply["is_schema"] else NoSchema)(
                code, message, where=file, fix=fix
            )
        main = _plain(reply["main"], file)
        return Exported(
            main,
            ecma.stringify(main.get("tools", {})),
            tuple(Module(*module) for module in reply["asked"]) + required_libraries(main),
            tuple(reply["handlers"]),
            tuple(reply["addresses"]),
            tuple(NotData(show_path(tuple(path)), kind) for path, kind in reply["notes"]),
        )

    def _ask(self, source: bytes, file: str) -> dict[str, Any]:
        with self._lock:
            for last in (False, True):
                # What ended the first one may have come from outside; the second time it is the
                # module's doing.
                try:
                    return self._once(source, file)
                except Late:
                    raise _too_late(file, self._wall_s) from None
                except Died as death:
                    if death.code == -signal.SIGXCPU:
                        message = f"needs more than {CPU_S} seconds of computing."
                        raise InputError("FMC-003", message, where=file, fix=_PLAIN) from None
                    if death.code == -signal.SIGALRM:
                        raise _too_late(file, WALL_S) from None
                    if last:
                        raise InputError(
                            "FMC-004",
                            f"ended the parser ({death.cause}).",
                            where=file,
                            fix=f"It needs too much memory or breaks the parser. {_PLAIN}",
                        ) from None
            raise AssertionError

    def _once(self, source: bytes, file: str) -> dict[str, Any]:
        worker = self._worker
        if worker is not None and not (worker.is_usable() and worker.answered < FILES_PER_WORKER):
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
        worker = WorkerProcess(f"{__package__}.module", _PACKAGES, start_s=START_S)
    except ModuleNotFoundError as error:
        raise _not_installed(str(error), file) from None
    except (Died, Late):
        raise _not_installed("it does not start", file) from None
    if not json.loads(worker.greeting):
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


def _too_large(file: str, limit: int) -> InputError:
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
    return InputError(
        "FMC-006",
        f"the parser that reads modules is not installed: {why}.",
        where=file,
        fix=f"Run: {install_hint('flowmcp')}",
    )


# --- folders

_ENV = re.compile(r"\.env(?:rc)?(?![a-z])")
"""`.env`, `.env.local`, `.env2` and `.envrc`, but not `.envoy.json`."""
SKIPPED_FOLDERS = frozenset(("node_modules", "_gradings"))
SKIPPED_FILES = frozenset(
    (
        "package.json",
        "package-lock.json",
        "tsconfig.json",
        "index.json",
        "prompts.json",
        "scores.json",
        "state.json",
    )
)
"""Files of the tools around a schema, and of the grading itself."""


class Skipped(NamedTuple):
    """A file or folder that was not read because it is not a tool schema."""

    path: str
    reason: str


class Folder(NamedTuple):
    """All that a folder holds, each part sorted by path."""

    schemas: tuple[ToolSchema, ...]
    unread: tuple[InputError, ...]
    """One for each file that could not be read, `where` naming it. A gate that finds one has not
    seen the whole folder.
    """
    skipped: tuple[Skipped, ...]


def read_folder(path: str) -> Folder:
    """Every tool schema in a folder and the folders below it. Raises InputError if there is none,
    or where the parser is not installed.
    """
    walked = _walk(path)
    with ModuleReader() as reader:
        return _read_all(path, walked, reader)


_Found = tuple[str, str] | InputError | Skipped
"""A file and where it really is, or why it is not read."""


def _read_all(path: str, walked: list[_Found], reader: ModuleReader) -> Folder:
    schemas: list[ToolSchema] = []
    unread = [outcome for outcome in walked if isinstance(outcome, InputError)]
    skipped = [outcome for outcome in walked if isinstance(outcome, Skipped)]
    for outcome in walked:
        if isinstance(outcome, InputError | Skipped):
            continue
        file, real = outcome
        try:
            schemas.append(schema_of(file, _file_bytes(file, real), reader))
        except NoSchema as error:
            skipped.append(Skipped(file, error.message))
        except InputError as error:
            if error.code == "FMC-006":
                raise  # no module of any folder can be read
            if (
                os.path.basename(file).startswith(".")
                and file.lower().endswith(DATA)
                and error.code.startswith("FIL")
            ):
                skipped.append(
                    Skipped(file, "is hidden, and no JSON or YAML.")
                )  # the settings of an editor often are not
            else:
                unread.append(error)
    if not schemas and not unread:
        named = f" {len(skipped)} were looked at." if skipped else ""
        raise InputError(
            "FMC-008", f"there is no tool schema in this folder.{named}", where=path, fix=EXPORT
        )
    return Folder(
        tuple(schemas), tuple(sorted(unread, key=lambda error: error.where)), tuple(sorted(skipped))
    )


def _walk(path: str) -> list[_Found]:
    """Every name in the tree that matters, sorted by path. Links to folders are not followed, so
    there are no cycles.
    """
    try:
        root = os.path.realpath(path)
    except ValueError:
        raise InputError("FIL-001", "cannot be the name of a folder.", where=path) from None
    if not os.path.isdir(root):
        raise InputError(
            "FIL-001",
            "there is no such folder." if not os.path.exists(root) else "is not a folder.",
            where=path,
        )
    looked_at, files = 0, 0
    open_folders = [path]
    outcomes: list[tuple[str, _Found]] = []
    while open_folders:
        folder = open_folders.pop()
        try:
            with os.scandir(folder) as entries:
                names = sorted(entries, key=lambda entry: entry.name)
        except OSError as error:
            outcomes.append(
                (
                    folder,
                    InputError(
                        "FIL-001", f"the folder cannot be read: {error.strerror}.", where=folder
                    ),
                )
            )
            continue
        looked_at += len(names)
        if looked_at > MAX_ENTRIES:
            raise InputError(
                "FMC-004",
                f"contains more than {MAX_ENTRIES:,} names.",
                where=path,
                fix="Name the folder of the schemas itself.",
            )
        for entry in names:
            if entry.is_dir(follow_symlinks=False):
                if not entry.name.startswith(".") and entry.name not in SKIPPED_FOLDERS:
                    open_folders.append(entry.path)
                elif (unseen := _modules_below(entry.path)) > 0:
                    outcomes.append(
                        (
                            entry.path,
                            Skipped(
                                entry.path,
                                f"is a folder that is not read; modules in it: {unseen:,}.",
                            ),
                        )
                    )
                continue
            outcome = _judge(entry, root)
            if outcome is not None:
                files += 1
                outcomes.append((entry.path, outcome))
        if files > MAX_FILES:
            raise InputError(
                "FMC-004",
                f"contains more than {MAX_FILES:,} schema files.",
                where=path,
                fix="Read it in parts.",
            )
    return [outcome for _, outcome in sorted(outcomes, key=lambda pair: pair[0])]


def _modules_below(folder: str) -> int:
    """How many files below a folder are named as modules, as far as one walk may go."""
    files = (name for _, _, names in os.walk(folder) for name in names)
    return sum(name.lower().endswith(MODULES) for name in islice(files, MAX_ENTRIES))


def _judge(entry: os.DirEntry[str], root: str) -> _Found | None:
    """What to do with a name that is not a folder; None if it is not one of our files."""
    is_named_so = entry.name.lower().endswith((*MODULES, *DATA)) and entry.name not in SKIPPED_FILES
    try:
        real = os.path.realpath(entry.path, strict=True)
    except OSError:
        return (
            InputError(
                "FMC-009", "is a link that leads nowhere.", where=entry.path, fix="Remove it."
            )
            if is_named_so
            else None
        )
    is_folder = entry.is_symlink() and os.path.isdir(real)
    if (
        (entry.name.startswith(".") or entry.name in SKIPPED_FOLDERS)
        if is_folder
        else not is_named_so
    ):
        return None
    if os.path.commonpath((root, real)) != root:
        fix = "Copy what it leads to, or read it by its own name."
        return InputError(
            "FMC-009", "is a link out of the folder; it is not followed.", where=entry.path, fix=fix
        )
    if is_folder:
        return Skipped(entry.path, "is a link to a folder of this tree.")
    names = [os.path.basename(path).lower() for path in (entry.path, real)]
    # it may hold secrets; a module is code, whatever its name
    if any(_ENV.match(name) and not name.endswith(MODULES) for name in names):
        return Skipped(entry.path, "is an .env file, which is never read.")
    return entry.path, real
