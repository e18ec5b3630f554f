"""The two trees that a patch is judged in: without it and with it, both with the hidden tests.

The tree is read once and never written to. `guards` lists the files that a patch can't change.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from tempfile import TemporaryDirectory
from typing import NamedTuple

from assay.errors import InputError
from assay.running.guards import find_test, guarded_paths, is_within
from assay.running.patch_jobs import PatchJob, find_runner
from assay.sandbox.box_setup import TreeEntry
from assay.sandbox.trees import read_tree
from assay.scoring.metrics.applying import PatchedFile, apply_patch
from assay.scoring.metrics.patches import PatchError, parse_patch

Patched = Mapping[str, PatchedFile | None]

LEFT_OUT = (".git",)
"""Not copied: the history of a tree may contain the answer."""
_COMPILED = "__pycache__"


class Trees(NamedTuple):
    """The tree without the patch and with it; both are empty if the patch does not apply."""

    applies: bool
    reason: str
    before: list[TreeEntry] = []
    after: list[TreeEntry] = []
    not_there: tuple[str, ...] = ()
    """Paths to restore where nothing was: nothing is there after the patch either."""
    guarded: tuple[str, ...] = ()
    """Paths that the patch changes but that are restored: see `guards`."""


def read_files(folder: str) -> list[TreeEntry]:
    """The files of a tree, without its history and without compiled Python code, which changes when
    a module is imported.
    """
    return [
        entry
        for entry in read_tree(folder, leave_out=LEFT_OUT)
        if _COMPILED not in entry.path.split("/")
    ]


def lay_out(job: PatchJob, entries: Sequence[TreeEntry], *, readable: Sequence[str] = ()) -> Trees:
    """The two trees that the tests run in. Raises InputError SCO-038 if the hidden tests do not
    apply, which is not the patch's fault.
    """
    try:
        hidden = _patched(job.hidden, entries) if job.hidden.strip() else {}
        before = _with_files(entries, hidden)
    except PatchError as error:
        raise InputError(
            "SCO-038",
            f"the hidden tests do not apply to the tree: {error}.",
            where=job.instance_id,
            fix="Create them for this tree.",
        ) from None
    if not job.patch.strip():
        return Trees(False, "there is no patch")
    try:
        changes = _patched(job.patch, entries)
        changed = _with_files(entries, changes)
    except PatchError as error:
        return Trees(False, str(error))
    paths = {entry.path for entry in before}
    runner = find_runner(job.command)
    kinds = ["pytest", "unittest"] if runner is None else [runner.kind]
    places = {(kind, find_test(test, kind, paths)[0]) for test in job.tests for kind in kinds}
    # a patch can't bring the file of a required test; another command may give tests other names
    files = {
        file
        for kind, file in places
        if file in paths or (kind == "pytest" and (runner or os.path.splitext(file)[1]))
    }
    guarded = guarded_paths(
        changes, before, files, words=job.command, any_command=runner is None, readable=readable
    )
    originals = _with_originals(changed, entries, (*job.restore, *guarded, *hidden))
    try:
        # the hidden tests come over the original files, whatever the patch did to these
        after = _with_files(originals, hidden)
    except PatchError as error:
        return Trees(False, f"it conflicts with the hidden tests: {error}")
    not_there = tuple(
        path for path in job.restore if not any(is_within(entry.path, path) for entry in entries)
    )
    return Trees(
        True, "", before, after, not_there, tuple(path for path in guarded if path not in hidden)
    )


def _patched(patch: str, entries: Iterable[TreeEntry]) -> Patched:
    """The files that a patch makes of a tree. git gets the files that the patch names, and nothing
    else. Raises PatchError where it does not apply.
    """
    named = {path for item in parse_patch(patch) for path in item.paths}
    needed = {folder for path in named for folder in (path, *_above(path))}
    with TemporaryDirectory(prefix="assay-tree-") as folder:
        for entry in sorted(entries, key=lambda entry: entry.path):
            if entry.path not in needed:
                continue
            target = os.path.join(folder, entry.path)
            os.makedirs(target if entry.data is None else os.path.dirname(target), exist_ok=True)
            if isinstance(entry.data, str):
                os.symlink(entry.data, target)  # never followed: what leads through it is refused
            elif entry.data is not None:
                with open(target, "xb") as stream:
                    stream.write(entry.data)
                os.chmod(target, entry.mode)
        made = apply_patch(patch, folder)
    if not made.applies.clean:
        raise PatchError(made.applies.reason)
    return made.files


def _above(path: str) -> list[str]:
    """The folders above a path."""
    parts = path.split("/")
    return ["/".join(parts[:count]) for count in range(1, len(parts))]


def _with_files(entries: Iterable[TreeEntry], files: Patched) -> list[TreeEntry]:
    """The tree with the files of a patch in it. Raises PatchError where it cannot be."""
    kept = {entry.path: entry for entry in entries if entry.path not in files}
    for path, file in files.items():
        if file is None:
            continue
        if any(other.startswith(f"{path}/") for other in kept):
            raise PatchError(f"'{path}' is a folder")
        kept[path] = TreeEntry(path, 0o755 if file.executable else 0o644, file.data)
    return list(kept.values())


def _with_originals(
    entries: Iterable[TreeEntry], originals: Iterable[TreeEntry], paths: Sequence[str]
) -> list[TreeEntry]:
    """The tree with what was originally at these paths, and nothing else there; a path where
    nothing was is empty again.

    A file that the patch put in place of a parent folder is removed too.
    """

    def is_restored(entry: TreeEntry) -> bool:
        return any(is_within(entry.path, path) for path in paths)

    above = {folder for path in paths for folder in _above(path)}
    kept = [
        entry
        for entry in entries
        if not is_restored(entry) and not (entry.path in above and entry.data is not None)
    ]
    return [*kept, *filter(is_restored, originals)]
