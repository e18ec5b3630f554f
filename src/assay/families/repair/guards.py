"""Which files of a tree a patch cannot change: the tests that judge it, and what a test runner or
the interpreter reads on its own.

A patch that changes them still applies, but the tests run with the original files, and the changes
are listed. The guarded files follow from the tests that the dataset requires and from the original
tree, never from the patch.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cache
from glob import glob
from importlib.metadata import distributions

from assay.sandbox.box_setup import TreeEntry

_SETTINGS = {
    "conftest.py",
    "pytest.ini",
    ".pytest.ini",
    "pytest.toml",
    ".pytest.toml",
    "pyproject.toml",
    "tox.ini",
    "setup.cfg",
    "sitecustomize.py",
    "usercustomize.py",
    "pyvenv.cfg",
    ".env",
}
_ENDINGS = (".pth", ".pyc", ".pyo", ".egg-link", ".so", ".pyd")
_FOLDERS = ("__pycache__", "sitecustomize", "usercustomize", "conftest")
_METADATA = (".egg-info", ".dist-info")
_TEST_FOLDERS = ("test", "tests", "testing")
_LIKE_TESTS = re.compile(
    r"(?:^|/)(?:tests|__tests__|specs?)/|^(?:src/)?test(?:ing)?/"
    r"|(?:^|/)(?:test_[^/]*|tests?\.\w+|[^/]*[._-](?:tests?|spec)\.\w+|[^/]*[a-z0-9]Tests?\.\w+)$"
)
"""Names of tests in any language, for commands that don't show where their tests are."""
_LOADED = re.compile(r"(?<!\S)(?:-[cmp]|--config-file)(?:=|\s)?\s*(\S+)")
"""Options of Python and pytest for the modules and settings that they load."""
_RECIPES = {
    "make": {"makefile", "gnumakefile"},
    "just": {"justfile", ".justfile"},
    "nox": {"noxfile.py"},
    "invoke": {"tasks.py"},
    "rake": {"rakefile"},
    "cargo": {"cargo.toml"},
    "mvn": {"pom.xml"},
    "npm": {"package.json"},
    "npx": {"package.json"},
    "pnpm": {"package.json"},
    "yarn": {"package.json"},
    "jest": {"package.json", *(f"jest.config.{end}" for end in ("js", "cjs", "mjs", "ts", "json"))},
    "vitest": {f"vitest.config.{end}" for end in ("js", "mjs", "ts", "mts")},
    "mocha": {".mocharc.js", ".mocharc.cjs", ".mocharc.json", ".mocharc.yml", ".mocharc.yaml"},
    "rspec": {".rspec"},
}
"""The files in which a program finds what to run."""
_IMPORT_ROOTS = ("", "src", "lib")
_MAX_LINKS = 40


def find_test(test: str, kind: str, entries: Collection[str]) -> tuple[str, str]:
    """The file of a test, among the paths of the tree without the patch, and its name in there. A
    test that isn't found gets a file that doesn't exist.

    >>> find_test("tests.test_a.Case.test_b", "unittest", {"tests/test_a.py"})
    ('tests/test_a.py', 'Case.test_b')
    >>> find_test("a.py::test_b[1::2]", "pytest", set())
    ('a.py', 'test_b[1::2]')
    """
    if kind == "pytest":
        file, _, name = test.partition("::")
        return os.path.normpath(file), name
    if test.endswith(".py"):
        return os.path.normpath(test), ""
    parts = test.split(".")
    for count in range(len(parts), 0, -1):
        for ending in (".py", "/__init__.py"):
            file = "/".join(parts[:count]) + ending
            if file in entries:
                return file, ".".join(parts[count:])
    return "/".join(parts) + ".py", ""


def guarded_paths(
    changed: Iterable[str],
    original: Iterable[TreeEntry],
    files: Collection[str],
    *,
    words: Iterable[str] = (),
    any_command: bool = False,
    readable: Sequence[str] = (),
) -> tuple[str, ...]:
    """The changed paths that are restored to the original. `files` are those of the required tests,
    `words` the command that runs them; `any_command` if it isn't a runner that names its tests.
    """
    changed = list(changed)
    original = list(original)
    there = {entry.path for entry in original}
    files_there = {entry.path for entry in original if entry.data is not None}
    links = {entry.path: entry.data for entry in original if isinstance(entry.data, str)}
    command = " ".join(words)
    parts = [os.path.normpath(part) for part in command.split()]
    loaded = [path for name in _LOADED.findall(command) for path in _places(name)]
    in_tree = [path for path in (*loaded, *parts) if path in files_there or path in changed]
    # the first is what runs the tests, and its exit code decides; others may be the code under test
    named = {*in_tree[:1], *loaded} | {
        path
        for path in in_tree
        if _test_folder(f"{path}/") or os.path.basename(path).startswith("test_")
    }
    recipes = {file for part in parts for file in _RECIPES.get(os.path.basename(part), ())}
    tests = {*files, *(_without_links(file, links) for file in files)}
    folders = {file for file in tests - files_there if any(is_within(path, file) for path in there)}
    kept = {
        *(tests - folders),
        *named,
        *(_test_folder(file) for file in tests),
        *(_test_folder(f"{folder}/") for folder in folders),
        *(_without_links(link, links) for link in links if _is_setting(link)),
        *(file.removesuffix(".py") for file in tests - folders),
    } - {""}
    above = {
        "/".join(file.split("/")[:count]) for file in tests for count in range(file.count("/") + 1)
    }
    roots = {*_IMPORT_ROOTS, *(_import_root(file, there) for file in tests)}
    roots |= {os.path.dirname(path) for path in in_tree[:1]}  # where Python looks for its imports
    taken = {part.casefold().removesuffix(".py") for file in tests for part in file.split("/")}

    def is_guarded(path: str) -> bool:
        folder, _, name = path.rpartition("/")
        if _is_setting(path) or name.casefold() in recipes:
            return True
        if (
            any_command or any(is_within(path, folder) for folder in folders)
        ) and _LIKE_TESTS.search(path):
            return True
        if any(is_within(path, place_kept) or is_within(place_kept, path) for place_kept in kept):
            return True
        # a new package above the tests would give them other names
        if name == "__init__.py" and folder in above and path not in there:
            return True
        return any(_takes_name(path, root) for root in roots if not root or is_within(path, root))

    def _takes_name(path: str, root: str) -> bool:
        """Whether a path is a new module where imports look first, under a name that another module
        has: it would replace that module.
        """
        first, slash, _ = path[len(root) + 1 if root else 0 :].partition("/")
        place = f"{root}/{first}" if root else first
        if place in there or (
            slash and any(is_within(place_there, place) for place_there in there)
        ):
            return False
        stem = first.partition(".")[0].casefold()
        return (
            stem in taken
            or stem in sys.stdlib_module_names
            or stem in installed_names(tuple(readable))
        )

    return tuple(sorted(filter(is_guarded, changed)))


def _is_setting(path: str) -> bool:
    """Whether a test runner or the interpreter reads a file of this name on its own."""
    parts = path.casefold().split("/")
    return (
        parts[-1] in _SETTINGS
        or parts[-1].endswith(_ENDINGS)
        or any(part in _FOLDERS or part.endswith(_METADATA) for part in parts)
    )


def _places(name: str) -> list[str]:
    """The files of a tree that a path or the name of a module can mean.

    >>> _places("tools.check")[:3]
    ['tools.check', 'tools/check.py', 'tools/check/__main__.py']
    """
    stem = name.replace(".", "/")
    endings = (".py", "/__main__.py", "/__init__.py")
    return [
        os.path.normpath(name),
        *(os.path.join(root, stem + ending) for root in _IMPORT_ROOTS for ending in endings),
    ]


def _without_links(path: str, links: Mapping[str, str]) -> str:
    """The path with the symbolic links of the tree followed; it may lead out of the tree.

    >>> _without_links("tests/test_a.py", {"tests/test_a.py": "../suite/a.py"})
    'suite/a.py'
    """
    for _ in range(_MAX_LINKS):
        link = next((link for link in links if is_within(path, link)), None)
        if link is None:
            break
        rest = path[len(link) + 1 :]
        path = os.path.normpath(os.path.join(os.path.dirname(link), links[link], rest))
    return path


def _import_root(file: str, there: Collection[str]) -> str:
    """The folder from which pytest imports a test: the first one above it that is not a package."""
    folder = os.path.dirname(file)
    while folder and f"{folder}/__init__.py" in there:
        folder = os.path.dirname(folder)
    return folder


def _test_folder(file: str) -> str:
    """The outermost folder of tests above a test's file; empty if tests and code share a folder."""
    parts = file.split("/")[:-1]
    return next(
        (
            "/".join(parts[: count + 1])
            for count, part in enumerate(parts)
            if part.casefold() in _TEST_FOLDERS
        ),
        "",
    )


def is_within(path: str, folder: str) -> bool:
    """Whether a path is this folder or below it."""
    return path == folder or path.startswith(f"{folder}/")


@cache
def installed_names(readable: tuple[str, ...]) -> frozenset[str]:
    """The modules that are installed for our own interpreter, for the system's, and in folders that
    tests may read.
    """
    folders = [*glob("/usr/lib/python3*/*-packages"), *glob("/usr/local/lib/python3*/*-packages")]
    for folder in readable:
        folders += [
            *([folder] if folder.endswith("-packages") else ()),
            *glob(os.path.join(folder, "lib*", "python3*", "site-packages")),
        ]
    listings = [os.listdir(folder) for folder in folders if os.path.isdir(folder)]
    ours = [os.listdir(folder) for folder in sys.path if os.path.isdir(folder)]
    listings += [names for names in ours if any(name.endswith(_METADATA) for name in names)]
    # an editable install can be outside of these folders, or have no file with its name
    tops = [distribution.read_text("top_level.txt") or "" for distribution in distributions()]
    return frozenset(
        {
            "pytest",
            "_pytest",
            "pluggy",
            *(name.partition(".")[0].casefold() for names in listings for name in names),
            *(name.casefold() for top in tops for name in top.split()),
        }
    )
