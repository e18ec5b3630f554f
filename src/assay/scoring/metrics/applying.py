"""Whether a patch applies to a tree, and the files that it names afterwards.

git applies it to a copy of only those files, without any configuration; the tree is only read.
"""

from __future__ import annotations

import os
from typing import NamedTuple

from assay.scoring.metrics.patches import PatchError, parse_patch

MAX_FILE = 64 * 1024 * 1024
MAX_FILES = 1_000
GIT_SECONDS = 30.0


class Applies(NamedTuple):
    """Whether a patch applies, and why not."""

    clean: bool
    reason: str


class Patched(NamedTuple):
    """Whether a patch applies, and the files that it names afterwards."""

    applies: Applies
    files: dict[str, PatchedFile | None]
    """By path; None for a file that is gone. Empty if the patch does not apply."""


class PatchedFile(NamedTuple):
    """A file after a patch: its bytes, or the target of a symbolic link as text."""

    data: bytes | str
    executable: bool


def applies_cleanly(patch: str, tree: str) -> Applies:
    """Whether `git apply --check` accepts the patch on a copy of the files it names.

    The tree is never written to, nor read as a repository: a hostile `.git/config` in it could make
    git run programs. Paths have one prefix (`a/x`, `b/x`), as git writes them.
    """
    return _on_a_copy(patch, tree, ["--check"]).applies


def apply_patch(patch: str, tree: str) -> Patched:
    """Apply a patch to a copy of the files it names, as `applies_cleanly` does."""
    return _on_a_copy(patch, tree, [])


def _on_a_copy(patch: str, tree: str, options: list[str]) -> Patched:
    # imported late: it loads half of the standard library, and few commands apply a patch
    from tempfile import TemporaryDirectory

    try:
        files = parse_patch(patch)
        data = patch.encode("utf-8")
    except PatchError as error:
        return _refused(str(error))
    except UnicodeEncodeError:
        return _refused("the patch is not UTF-8 text")
    paths = list(dict.fromkeys(path for item in files for path in item.paths))
    if len(paths) > MAX_FILES:
        return _refused(f"the patch names {len(paths):,} files; {MAX_FILES:,} is the limit")
    if not os.path.isdir(tree):
        return _refused(f"there is no tree at {tree!r}")
    with TemporaryDirectory(prefix="assay-patch-") as home:
        copy = os.path.join(home, "tree")
        os.mkdir(copy)
        for path in paths:
            fault = _copy(tree, copy, path)
            if fault:
                return _refused(fault)
        applies = _git_apply(data if data.endswith(b"\n") else data + b"\n", copy, home, options)
        if not applies.clean or options:
            return Patched(applies, {})
        return Patched(applies, {path: _after(copy, path) for path in paths})


def _refused(reason: str) -> Patched:
    return Patched(Applies(False, reason), {})


def _after(copy: str, path: str) -> PatchedFile | None:
    """The file at a path after the patch. Links are not followed: the patch may have made them."""
    parts = path.split("/")
    for count in range(1, len(parts)):
        if os.path.islink(os.path.join(copy, *parts[:count])):
            return None  # git writes nothing through a link; the files below the folder are gone
    target = os.path.join(copy, path)
    if os.path.islink(target):
        return PatchedFile(os.readlink(target), False)
    if not os.path.isfile(target):
        return None
    with open(target, "rb") as stream:
        return PatchedFile(stream.read(), bool(os.stat(target).st_mode & 0o111))


def _copy(tree: str, copy: str, path: str) -> str:
    """Copy the file at a path of the tree, if any. Returns why it can't be copied, or ""."""
    source, target = tree, copy
    parts = path.split("/")
    for index, part in enumerate(parts):
        source, target = os.path.join(source, part), os.path.join(target, part)
        if os.path.islink(source):
            return f"'{path}' goes through a symbolic link"
        if os.path.isdir(source):
            os.makedirs(target, exist_ok=True)
        elif os.path.isfile(source):
            if os.path.getsize(source) > MAX_FILE:
                return f"'{'/'.join(parts[: index + 1])}' is larger than {MAX_FILE // 2**20} MiB"
            with open(source, "rb") as stream, open(target, "wb") as written:
                written.write(stream.read())
            # a patch may check the mode
            os.chmod(target, os.stat(source).st_mode & 0o777 | 0o600)
            return ""
        else:
            return "" if not os.path.exists(source) else f"'{path}' is not a regular file"
    return ""


def _git_apply(patch: bytes, copy: str, home: str, options: list[str]) -> Applies:
    import subprocess  # as above

    environment = {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": home,
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CEILING_DIRECTORIES": home,
        "LC_ALL": "C",
    }
    try:
        command = ["git", "apply", *options, "-p1", "-"]  # by the caller's PATH, without a shell
        done = subprocess.run(  # noqa: S603
            command,
            input=patch,
            cwd=copy,
            env=environment,
            capture_output=True,
            timeout=GIT_SECONDS,
            check=False,
        )
    except FileNotFoundError:
        return Applies(False, "git is not installed, so this can't be checked")
    except subprocess.TimeoutExpired:
        return Applies(False, f"git took longer than {GIT_SECONDS:g} s")
    if done.returncode == 0:
        return Applies(True, "git applies it cleanly")
    errors = done.stderr.decode("utf-8", "replace").strip().splitlines()
    return Applies(
        False, f"git says: {errors[0][:300]}" if errors else f"git ended with {done.returncode}"
    )
