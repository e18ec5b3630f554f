"""Reading every tool schema of a folder.

A folder is read whole: what could not be read is reported with its reason, what is not a schema is
named, nothing is dropped silently. Links that lead out of the folder are never followed.
"""

from __future__ import annotations

import os
import re
from itertools import islice
from typing import NamedTuple

from assay.errors import InputError
from assay.families.tools.reading import limits
from assay.families.tools.reading.engine import EXPORT, Engine, NoSchema
from assay.families.tools.reading.files import DATA, MODULES, file_bytes, schema_of
from assay.families.tools.source import ToolSchema

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
    or where the engine is not installed.
    """
    walked = _walk(path)
    with Engine() as engine:
        return _read_all(path, walked, engine)


_Found = tuple[str, str] | InputError | Skipped
"""A file and where it really is, or why it is not read."""


def _read_all(path: str, walked: list[_Found], engine: Engine) -> Folder:
    schemas: list[ToolSchema] = []
    unread = [outcome for outcome in walked if isinstance(outcome, InputError)]
    skipped = [outcome for outcome in walked if isinstance(outcome, Skipped)]
    for outcome in walked:
        if isinstance(outcome, InputError | Skipped):
            continue
        file, real = outcome
        try:
            schemas.append(schema_of(file, file_bytes(file, real), engine))
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
        if looked_at > limits.MAX_ENTRIES:
            raise InputError(
                "FMC-004",
                f"contains more than {limits.MAX_ENTRIES:,} names.",
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
        if files > limits.MAX_FILES:
            raise InputError(
                "FMC-004",
                f"contains more than {limits.MAX_FILES:,} schema files.",
                where=path,
                fix="Read it in parts.",
            )
    return [outcome for _, outcome in sorted(outcomes, key=lambda pair: pair[0])]


def _modules_below(folder: str) -> int:
    """How many files below a folder are named as modules, as far as one walk may go."""
    files = (name for _, _, names in os.walk(folder) for name in names)
    return sum(name.lower().endswith(MODULES) for name in islice(files, limits.MAX_ENTRIES))


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
