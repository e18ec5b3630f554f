"""Unified diffs: parsing them, and how similar two are. `applying` applies them.

The parser reads what git and diff write, and trusts nothing: a hunk must contain as many lines as
it announces, and a path must stay inside the tree. Two patches are compared by the lines they add
and remove, file by file and in order; where a hunk begins, how much context it has, and white space
don't count. Similarity is not correctness: a good patch may look quite different, and a wrong one
may differ by a single character. Only tests show whether a patch works.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from assay.exact import Ratio
from assay.records.evidence import Run
from assay.scoring.metrics.measure import Measure, Undetermined
from assay.scoring.metrics.similarity import MAX_LENGTH, common_length

MAX_PATCH = 10 * 1024 * 1024

# Patterns are compiled when they are first used: most commands read no patch.
_HUNK = r"@@ -[0-9]+(?:,([0-9]{1,9}))? \+[0-9]+(?:,([0-9]{1,9}))? @@"
_MOVED = r"(?:rename|copy) (?:from|to) (.+)"
_ESCAPE = r"\\([abtnvfr\"\\]|[0-3][0-7]{2})"
_SIGNS = {
    "a": "\a",
    "b": "\b",
    "t": "\t",
    "n": "\n",
    "v": "\v",
    "f": "\f",
    "r": "\r",
    '"': '"',
    "\\": "\\",
}


class PatchError(ValueError):
    """A text that is not a usable unified diff, with the place and the reason."""


class FilePatch(NamedTuple):
    """What a patch does to one file."""

    path: str
    """Its path after the patch, or before it if the file is removed; without `a/` or `b/`."""
    paths: tuple[str, ...]
    """Every path the patch names for this file."""
    hunks: tuple[tuple[str, ...], ...]
    """The added and removed lines of each hunk, with their `+` or `-`."""


def parse_patch(text: str) -> list[FilePatch]:
    r"""The files of a unified diff, in order. Text before a file's header is skipped, as git does.

    >>> [
    ...     (found.path, found.hunks)
    ...     for found in parse_patch("--- a/x\n+++ b/x\n@@ -1 +1 @@\n-old\n+new\n")
    ... ]
    [('x', (('-old', '+new'),))]
    """
    if len(text) > MAX_PATCH:
        raise PatchError(f"the patch has {len(text):,} characters; {MAX_PATCH:,} is the limit")
    if "\0" in text:
        raise PatchError("the patch contains a NUL: it is binary")
    files: list[FilePatch] = []
    names: list[str] = []
    hunks: list[tuple[str, ...]] = []
    lines = text.removesuffix("\n").split("\n")
    at = 0

    def close() -> None:
        if names:
            present = [name for name in names if name != "/dev/null"]
            if not present:
                raise PatchError(f"line {at}: a file without a name")
            paths = tuple(dict.fromkeys(_checked(name) for name in present))
            files.append(FilePatch(paths[-1], paths, tuple(hunks)))
        names.clear()
        hunks.clear()

    while at < len(lines):
        line = lines[at].removesuffix("\r")
        at += 1
        if line.startswith(("GIT binary patch", "Binary files ")):
            raise PatchError(f"line {at}: a binary file; only text is compared")
        if line.startswith("diff --git "):
            close()
            names += _git_names(line[len("diff --git ") :])
        elif line.startswith("--- ") and at < len(lines) and lines[at].startswith("+++ "):
            if hunks or not names:
                close()
            names += [_name(line[4:]), _name(lines[at].removesuffix("\r")[4:])]
            at += 1
        elif names and (moved := re.fullmatch(_MOVED, line, re.DOTALL)):
            names.append("a/" + _unquoted(moved[1]))
        elif names and (head := re.match(_HUNK, line)):
            at, changed = _hunk(lines, at, int(head[1] or 1), int(head[2] or 1))
            hunks.append(changed)
    close()
    if not files:
        raise PatchError("there is no file in it: not a unified diff")
    return files


def _hunk(lines: list[str], at: int, removed: int, added: int) -> tuple[int, tuple[str, ...]]:
    changed = []
    start = at
    while removed or added:
        if at >= len(lines):
            raise PatchError(
                f"line {start}: the hunk is cut off, with {removed} old and {added} new lines to"
                " come"
            )
        line = lines[at]
        at += 1
        sign = line[:1]
        if sign == "-":
            removed -= 1
        elif sign == "+":
            added -= 1
        elif sign in (" ", "", "\r"):  # mailers strip the blank of an empty context line
            removed -= 1
            added -= 1
        elif sign != "\\":
            raise PatchError(f"line {at}: {line[:40]!r} is not a line of a hunk")
        if removed < 0 or added < 0:
            raise PatchError(f"line {at}: the hunk has more lines than it announces")
        if sign in ("-", "+"):
            changed.append(line.removesuffix("\r"))
    return at, tuple(changed)


def _unquoted(name: str) -> str:
    """A path as git writes it, without quotes and C escapes."""
    if len(name) < 2 or name[0] != '"' or name[-1] != '"':
        return name
    inner = re.sub(_ESCAPE, lambda match: _SIGNS.get(match[1]) or chr(int(match[1], 8)), name[1:-1])
    return (
        inner.encode("latin-1", "ignore").decode("utf-8", "replace")
        if all(ord(sign) < 256 for sign in inner)
        else inner
    )


def _name(field: str) -> str:
    return _unquoted(field.split("\t", 1)[0].rstrip())  # a tab begins the date


def _git_names(field: str) -> list[str]:
    """The two paths after `diff --git`: git writes the same one twice unless the file moved, and
    then says so in other lines too.
    """
    if field.startswith('"') or field.endswith('"'):
        names = re.findall(r'"(?:[^"\\]|\\.)*"|\S+', field)
        return [_unquoted(name) for name in names]
    half = len(field) // 2
    if field[half : half + 1] == " " and field[2:half] == field[half + 3 :]:
        return [field[:half], field[half + 1 :]]
    return (
        field.split(" ")
        if field.count(" ") == 1
        else [field[: field.find(" b/")], field[field.find(" b/") + 1 :]]
        if " b/" in field
        else []
    )


def _checked(name: str) -> str:
    """The path inside the tree, without git's prefix. Raises for one that leads out of the tree."""
    path = name[2:] if name.startswith(("a/", "b/")) else name
    parts = {part.lower() for part in path.split("/")}
    if name.startswith("/") or path.startswith("/") or re.match(r"[A-Za-z]:", path) or "\\" in path:
        raise PatchError(f"the path {name[:200]!r} is absolute, or not written with /")
    if parts & {"", ".", ".."}:
        raise PatchError(f"the path {name[:200]!r} leads out of the tree, or nowhere")
    if parts & {".git", "git~1"} or min(path) < " ":
        raise PatchError(f"the path {name[:200]!r} is not one that a patch may change")
    return path


# --- similarity


def patch_likeness(actual: str, expected: str) -> Ratio:
    r"""Compare two unified diffs: twice the changed lines that both have in order, file by file,
    over the changed lines of both.

    The score is symmetric: 1 for the same changes, whatever their hunks, and 0 if no changed line
    is shared. A file that only one of them touches counts in full against the score; so does a file
    that only one of them renames or changes the mode of.

    >>> patch = "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-old\n+new\n"
    >>> patch_likeness(patch, patch.replace("new", "other"))
    Ratio(num=2, den=4)
    """
    first, second = _by_path(parse_patch(actual)), _by_path(parse_patch(expected))
    shared = total = 0
    for path in first.keys() | second.keys():
        left, right = first.get(path, []), second.get(path, [])
        if not left and not right and path in first and path in second:
            shared, total = shared + 1, total + 2  # renamed, emptied or made executable by both
            continue
        shared += common_length(left, right)
        total += max(len(left), path in first) + max(len(right), path in second)
    return Ratio(2 * shared, total)


def _by_path(files: list[FilePatch]) -> dict[str, list[str]]:
    """The changed lines of each file, without white space; a blank line is not a change."""
    by_path: dict[str, list[str]] = {}
    for item in files:
        by_path.setdefault(item.path, []).extend(
            [
                line[0] + "".join(line[1:].split())
                for hunk in item.hunks
                for line in hunk
                if line[1:].strip()
            ]
        )
    if sum(map(len, by_path.values())) > MAX_LENGTH:
        raise PatchError(f"more than {MAX_LENGTH:,} lines are changed, too many to compare")
    return by_path


# --- the measure of one run


def _similarity(run: Run, params: Mapping[str, Any]) -> Any:
    name = params.get("output", "patch")
    wanted = run.expected.get(name) if isinstance(run.expected, dict) else None
    if not isinstance(wanted, str):
        raise Undetermined(f"the run has no `expected.{name}` to compare with")
    given = None if run.outputs is None else run.outputs.get(name)
    if not isinstance(given, str):
        raise Undetermined(f"the run has no `outputs.{name}`")
    if not given.strip():
        return 0  # it was asked for a patch and changed nothing
    try:
        score = patch_likeness(given, wanted)
        return score.num / score.den
    except ValueError as error:
        raise Undetermined(f"`{name}` cannot be compared: {error}") from None


PATCHES = (
    Measure(
        "patch_similarity",
        "1",
        "Likeness of the patch and the one expected",
        "share of changed lines",
        "higher is better",
        "zero_one",
        (("outputs.patch", "expected.patch"),),
        "undetermined",
        _similarity,
        params={"output": "patch"},
        citation=(
            "Dice coefficient over the longest common subsequence of changed lines, file by file"
        ),
        limits=(
            "Not correctness: another good fix looks different. White space does not count, not"
            " even Python's indentation. Up to 20,000 changed lines."
        ),
    ),
)
