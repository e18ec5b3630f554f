"""Patches: likeness that sees files and hunks and not white space, and a real git that says whether
one applies.
"""

from __future__ import annotations

import difflib
import random
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.files.json_files import Document
from assay.records.reading import read_run
from assay.scoring.metrics.applying import applies_cleanly
from assay.scoring.metrics.measure import Undetermined
from assay.scoring.metrics.patches import (
    MAX_PATCH,
    PATCHES,
    PatchError,
    parse_patch,
    patch_likeness,
)
from documents import run
from examples import repeats

if TYPE_CHECKING:
    from pathlib import Path

OLD = [f"line {index}\n" for index in range(30)]
LINES = st.lists(
    st.sampled_from(["a\n", "b\n", "  c\n", "\n", "def f():\n", "    return 1\n"]), max_size=15
)


def diff(old: list[str], new: list[str], path: str = "src/x.py", *, context: int = 3) -> str:
    return "".join(difflib.unified_diff(old, new, f"a/{path}", f"b/{path}", n=context))


def changed(*edits: tuple[int, str]) -> list[str]:
    lines = list(OLD)
    for index, text in edits:
        lines[index] = text
    return lines


PATCH = diff(OLD, changed((3, "three\n"), (20, "twenty\n")))


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A real tree with a repository in it."""
    home = tmp_path / "tree"
    (home / "src").mkdir(parents=True)
    (home / "src/x.py").write_text("".join(OLD))
    (home / "other.txt").write_text("other\n")
    subprocess.run(["git", "init", "-q"], cwd=home, check=True)
    return home


def snapshot(home: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(home)): path.read_bytes()
        for path in sorted(home.rglob("*"))
        if path.is_file()
    }


# --- parsing


def test_a_patch_of_git_is_read_with_new_removed_renamed_and_quoted_files(tmp_path: Path) -> None:
    home = tmp_path / "repository"
    home.mkdir()

    def git(*arguments: str) -> str:
        command = ["git", "-c", "user.name=a", "-c", "user.email=a@b.c", *arguments]
        return subprocess.run(command, cwd=home, check=True, capture_output=True, text=True).stdout

    git("init", "-q")
    for name in ("keep.txt", "gone.txt", "old name.txt", 'tür und "tor".txt'):
        (home / name).write_text("".join(OLD) + name)
    git("add", "-A")
    git("commit", "-qm", "first")
    (home / "keep.txt").write_text("".join(changed((4, "four\n"))) + "keep.txt")
    (home / "gone.txt").unlink()
    (home / "old name.txt").rename(home / "new name.txt")
    (home / 'tür und "tor".txt').write_text("other\n")
    (home / "empty.txt").write_text("")
    git("add", "-A")
    text = git("diff", "--cached", "-M")
    found = {item.path: item for item in parse_patch(text)}
    assert set(found) == {"keep.txt", "gone.txt", "new name.txt", 'tür und "tor".txt', "empty.txt"}
    assert found["keep.txt"].hunks == (("-line 4", "+four"),)
    assert "old name.txt" in found["new name.txt"].paths
    assert found["gone.txt"].hunks[0][0] == "-line 0"
    assert score(text, text) == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not a unified diff"),
        ("no patch at all\n", "not a unified diff"),
        ("--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n-a\n", "cut off"),
        ("--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\nno sign\n", "is not a line of a hunk"),
        ("--- a/x\n+++ b/x\n@@ -1 +1,3 @@\n-a\n-b\n", "more lines than it announces"),
        ("--- a/../x\n+++ b/../x\n@@ -1 +1 @@\n-a\n+b\n", "leads out of the tree"),
        ("--- a/x\n+++ b/sub/../../x\n@@ -1 +1 @@\n-a\n+b\n", "leads out of the tree"),
        ("--- /etc/passwd\n+++ /etc/passwd\n@@ -1 +1 @@\n-a\n+b\n", "absolute"),
        ("--- a//etc/passwd\n+++ b//etc/passwd\n@@ -1 +1 @@\n-a\n+b\n", "absolute"),
        ("--- a/C:/x\n+++ b/C:/x\n@@ -1 +1 @@\n-a\n+b\n", "absolute"),
        ("--- a/..\\x\n+++ b/..\\x\n@@ -1 +1 @@\n-a\n+b\n", "absolute"),
        (
            "--- a/.git/config\n+++ b/.git/config\n@@ -1 +1 @@\n-a\n+b\n",
            "not one that a patch may change",
        ),
        (
            "--- a/x/.GIT/hooks/pre-commit\n+++ b/x/.GIT/hooks/pre-commit\n@@ -1 +1 @@\n-a\n+b\n",
            "not one that a patch may change",
        ),
        (
            'diff --git "a/..\\057x" "b/..\\057x"\nold mode 100644\nnew mode 100755\n',
            "leads out of the tree",
        ),
        ("diff --git a/x b/x\nrename from ../../x\nrename to y\n", "leads out of the tree"),
        ("--- /dev/null\n+++ /dev/null\n@@ -1 +1 @@\n-a\n+b\n", "without a name"),
        ("diff --git a/x b/x\nGIT binary patch\nliteral 3\n", "binary"),
        ("Binary files a/x and b/x differ\n", "binary"),
        ("--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\0\n+b\n", "NUL"),
        ("x" * (MAX_PATCH + 1), "is the limit"),
    ],
)
def test_what_is_no_usable_patch_is_refused_before_git_sees_it(
    text: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(PatchError, match=message):
        parse_patch(text)
    monkeypatch.setenv("PATH", "")  # git cannot be found, and is not looked for
    found = applies_cleanly(text, str(tmp_path))
    assert not found.clean
    assert message in found.reason


@given(st.binary(max_size=400))
def test_any_junk_is_parsed_or_refused(data: bytes) -> None:
    text = data.decode("latin-1")
    for tried in (text, "--- a/x\n+++ b/x\n" + text, PATCH[: len(data)] + text):
        try:
            parse_patch(tried)
        except PatchError as error:
            assert str(error)  # noqa: PT017


# --- likeness


def score(first: str, second: str) -> float:
    found = patch_likeness(first, second)
    return found.num / found.den


def test_context_hunks_offsets_and_white_space_do_not_count() -> None:
    new = changed((3, "three\n"), (20, "twenty\n"))
    assert patch_likeness(PATCH, diff(OLD, new, context=0)) == patch_likeness(PATCH, PATCH)
    assert score(PATCH, diff(OLD, new, context=30)) == 1  # one hunk instead of two
    assert score(PATCH, diff([*["# head\n"] * 50, *OLD], [*["# head\n"] * 50, *new])) == 1
    assert score(PATCH, diff(OLD, changed((3, "  three \n"), (20, "twenty\n")))) == 1
    assert score(PATCH, PATCH.replace("\n", "\r\n")) == 1
    assert score(PATCH, "A word before it.\n\n" + PATCH) == 1


def test_the_files_of_a_patch_count() -> None:
    half = diff(OLD, changed((3, "three\n")))
    assert 0 < score(half, PATCH) < 1
    assert (
        score(PATCH, PATCH.replace("src/x.py", "src/y.py")) == 0
    )  # the same change to another file is another change
    both = PATCH + diff(OLD, changed((1, "one\n")), "other.py")
    assert score(PATCH, both) == pytest.approx(2 * 4 / (4 + 6))


@given(LINES, LINES, LINES)
def test_likeness_is_symmetric_lies_between_0_and_1_and_is_1_for_itself(
    old: list[str], one: list[str], two: list[str]
) -> None:
    first, second = diff(old, one), diff(old, two)
    if first and second:
        assert score(first, second) == score(second, first)
        assert 0 <= score(first, second) <= 1
        assert score(first, first) == 1


def test_a_patch_of_too_many_lines_is_not_compared_and_none_takes_long() -> None:
    with pytest.raises(PatchError, match="too many to compare"):
        patch_likeness(diff([], ["a\n"] * 20_001), PATCH)
    hunks = "--- a/x\n+++ b/x\n" + "".join(
        f"@@ -{index} +{index} @@\n-{index}\n+{-index}\n"
        for index in range(1, repeats(3_000, 9_000))
    )
    assert score(hunks, hunks) == 1


# --- applying


def test_git_says_whether_it_applies_and_the_tree_stays_as_it_is(tree: Path) -> None:
    before = snapshot(tree)
    assert applies_cleanly(PATCH, str(tree)) == (True, "git applies it cleanly")
    assert applies_cleanly(
        diff([], ["new\n"], "deep/er/new.txt").replace("a/deep/er/new.txt", "/dev/null"), str(tree)
    ).clean
    stale = applies_cleanly(diff([*OLD[:3], "else\n", *OLD[4:]], OLD), str(tree))
    assert not stale.clean
    assert "patch failed: src/x.py" in stale.reason
    missing = applies_cleanly(diff(OLD, changed((3, "x\n")), "src/none.py"), str(tree))
    assert not missing.clean
    assert "none.py" in missing.reason
    there = applies_cleanly(
        diff([], ["new\n"], "other.txt").replace("a/other.txt", "/dev/null"), str(tree)
    )
    assert not there.clean
    assert "already exists" in there.reason
    assert snapshot(tree) == before


def test_a_hostile_repository_in_the_tree_runs_nothing(tree: Path, tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\ntouch {mark}\ncat\n")
    program.chmod(0o755)
    with (tree / ".git/config").open("a") as stream:
        stream.write(
            f'[core]\n\tfsmonitor = {program}\n\thooksPath = {tmp_path}\n[filter "x"]\n\tclean ='
            f" {program}\n\tsmudge = {program}\n"
        )
    (tree / ".gitattributes").write_text("* filter=x\n")
    assert applies_cleanly(PATCH, str(tree)).clean
    assert not mark.exists()


def test_a_path_through_a_symbolic_link_is_refused(tree: Path, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/x.py").write_text("".join(OLD))
    (tree / "link").symlink_to(tmp_path / "outside")
    found = applies_cleanly(diff(OLD, changed((3, "x\n")), "link/x.py"), str(tree))
    assert not found.clean
    assert "symbolic link" in found.reason


def test_no_tree_no_git_and_no_time_are_reasons(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "no tree" in applies_cleanly(PATCH, str(tree / "none")).reason
    many = "".join(diff(["a\n"], ["b\n"], f"f{index}") for index in range(1_001))
    assert "1,001 files" in applies_cleanly(many, str(tree)).reason
    assert "UTF-8" in applies_cleanly(PATCH.replace("three", "\udc80"), str(tree)).reason
    with monkeypatch.context() as patched:
        patched.setattr("assay.scoring.metrics.applying.GIT_SECONDS", 0.000001)
        assert "longer than" in applies_cleanly(PATCH, str(tree)).reason
    monkeypatch.setenv("PATH", str(tree))
    assert "not installed" in applies_cleanly(PATCH, str(tree)).reason


def test_random_edits_of_a_real_file_apply_and_reversed_ones_do_not(tree: Path) -> None:
    draw = random.Random(5)
    for _ in range(5):
        new = changed(*((index, f"{draw.random()}\n") for index in draw.sample(range(30), 4)))
        assert applies_cleanly(diff(OLD, new), str(tree)).clean
        assert not applies_cleanly(diff(new, OLD), str(tree)).clean


# --- the measure of one run


def take(outputs: Any, expected: Any) -> Any:
    return PATCHES[0].take(
        read_run(
            Document(
                run(outputs=outputs, expected=expected, required_outputs=[], output_schema=None),
                "test",
            )
        ),
        PATCHES[0].params,
    )


@pytest.mark.parametrize(
    ("outputs", "expected"),
    [
        (None, {"patch": PATCH}),
        ({"patch": PATCH}, None),
        ({"patch": 3}, {"patch": PATCH}),
        ({"patch": "junk"}, {"patch": PATCH}),
    ],
)
def test_a_run_is_compared_with_the_patch_that_is_expected(outputs: Any, expected: Any) -> None:
    assert take({"patch": PATCH}, {"patch": PATCH}) == 1
    assert take({"patch": " "}, {"patch": PATCH}) == 0
    found = take(outputs, expected)
    assert isinstance(found, Undetermined)
    assert "patch" in found.reason
