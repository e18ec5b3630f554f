"""The tree of a revision of a git repository, read object by object.

Nothing is checked out and none of the repository's configuration is executed: no hook, no
filter, no helper, no fetch of missing objects. The repository itself is only read.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator

from assay.errors import InputError
from assay.sandbox.box_setup import TreeEntry
from assay.sandbox.limits import MAX_TREE_FILES, MAX_TREE_MB
from assay.sandbox.trees import check_paths

GIT_SECONDS = 120.0
_REVISION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/@^~{}+-]{0,199}")
_ENTRY = re.compile(rb"(\d{6}) (\w+) ([0-9a-f]{40,64}) +(\d+|-)\t(.+)", re.DOTALL)
# A repository's own settings may name programs to run, and an object that is missing may be fetched
# from anywhere.
_SETTINGS = (
    "core.fsmonitor=false",
    f"core.hooksPath={os.devnull}",
    "protocol.allow=never",
    "core.pager=cat",
)


def read_revision(folder: str, revision: str) -> tuple[str, list[TreeEntry]]:
    """The commit of a revision, by its full name, and its files. Raises InputError SCO-038 if there
    is no such revision, or if its tree is too large or not one that git would make.
    """
    if not _REVISION.fullmatch(revision):
        raise InputError(
            "SCO-038",
            f"{revision[:80]!r} is not the name of a revision.",
            where=folder,
            fix="Name a commit, a tag or a branch.",
        )
    commit = _git(
        folder,
        "rev-parse",
        "--verify",
        "--quiet",
        "--end-of-options",
        f"{revision}^{{commit}}",
        what=f"there is no revision {revision!r}",
    )
    name = commit.decode("ascii", "replace").strip()
    listed = list(_listed(folder, name))
    check_paths([path for _, _, path, _ in listed])
    files = {path for mode, _, path, _ in listed if mode != "160000"}
    for path in files:
        parts = path.split("/")
        if any("/".join(parts[:count]) in files for count in range(1, len(parts))):
            # such a tree was forged: if the parent is a link, the file would be written elsewhere
            raise InputError(
                "SCO-038",
                f"the revision {revision!r} has a file below {path.rpartition('/')[0]!r}, which is"
                " a file.",
                where=folder,
            )
    size = sum(size for *_, size in listed)
    if size > MAX_TREE_MB * 2**20 or len(listed) > MAX_TREE_FILES:
        fix = "It is copied into memory: use a smaller repository."
        raise InputError(
            "SCO-038",
            f"the revision {revision!r} has more than {MAX_TREE_MB} MB or"
            f" {MAX_TREE_FILES:,} files.",
            where=folder,
            fix=fix,
        )
    data = iter(_contents(folder, [blob for mode, blob, _, _ in listed if mode != "160000"]))
    return name, [
        _entry(mode, path, b"" if mode == "160000" else next(data)) for mode, _, path, _ in listed
    ]


def _entry(mode: str, path: str, data: bytes) -> TreeEntry:
    if mode == "160000":  # another repository, which is not here
        return TreeEntry(path, 0o755, None)
    if mode == "120000":
        return TreeEntry(path, 0o777, os.fsdecode(data))
    return TreeEntry(path, 0o755 if mode == "100755" else 0o644, data)


def _listed(folder: str, commit: str) -> Iterator[tuple[str, str, str, int]]:
    """Mode, object, path and size of each file of a commit."""
    for line in _git(
        folder, "ls-tree", "-r", "-z", "-l", "--full-tree", commit, what="the tree cannot be read"
    ).split(b"\0"):
        if line:
            match = _ENTRY.fullmatch(line)
            if match is None or match[2] not in (b"blob", b"commit"):
                raise InputError(
                    "SCO-038",
                    f"git lists something other than a file: {line[:80]!r}.",
                    where=folder,
                )
            yield (
                match[1].decode(),
                match[3].decode(),
                os.fsdecode(match[5]),
                0 if match[4] == b"-" else int(match[4]),
            )


def _contents(folder: str, blobs: list[str]) -> Iterator[bytes]:
    """The bytes of objects, in their order."""
    if not blobs:
        return
    output = _git(
        folder,
        "cat-file",
        "--batch",
        what="a file cannot be read",
        stdin="".join(f"{blob}\n" for blob in blobs).encode(),
    )
    at = 0
    for blob in blobs:
        end = output.find(b"\n", at)
        head = output[at:end].split()
        if end < 0 or len(head) != 3 or head[1] != b"blob":
            raise InputError(
                "SCO-038",
                f"the object {blob} is missing.",
                where=folder,
                fix="Clone the whole repository, not a part of it.",
            )
        start, size = end + 1, int(head[2])
        yield output[start : start + size]
        at = start + size + 1


def _git(folder: str, *arguments: str, what: str, stdin: bytes = b"") -> bytes:
    environment = {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": os.devnull,
        "LC_ALL": "C",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_OPTIONAL_LOCKS": "0",
    }
    settings = [
        word
        for setting in (*_SETTINGS, f"safe.directory={os.path.realpath(folder)}")
        for word in ("-c", setting)
    ]
    command = ["git", *settings, "-C", folder, *arguments]
    try:
        done = subprocess.run(  # noqa: S603
            command,
            input=stdin,
            env=environment,
            capture_output=True,
            timeout=GIT_SECONDS,
            check=False,
        )
    except FileNotFoundError:
        raise InputError(
            "SCO-038", f"{what}: git is not installed.", where=folder, fix="Install git."
        ) from None
    except subprocess.TimeoutExpired:
        raise InputError(
            "SCO-038", f"{what}: git took longer than {GIT_SECONDS:g} s.", where=folder
        ) from None
    if done.returncode != 0:
        errors = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise InputError(
            "SCO-038", f"{what}{f': git says {errors[0][:300]!r}' if errors else ''}.", where=folder
        )
    return done.stdout
