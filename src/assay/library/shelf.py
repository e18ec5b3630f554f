"""The shelf: finds, loads, checks and pins profiles, policies and rubrics.

Built-in items are next to this file; `--library` or ASSAY_LIBRARY adds a team's own folder with the
same three sub-folders. A file is named `name@version.yaml`. `published.lock` lists the published
items with their digests, and a published file that has changed is refused. A folder adds names: a
bare name, an alias letter or a family that is shipped means the shipped item, and a folder's
`rag@2` is used only if it is written out.

A command reads a file when it needs it. A server reads all of them once, when it starts (`hold`),
and all of its processes grade by those bytes: editing a file must not give one name two meanings.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, Any, cast

from msgspec import Struct

from assay.canon import canonical, digest
from assay.errors import ShelfError
from assay.files.inputs import open_input
from assay.files.json_files import Document
from assay.files.yaml_files import document_part, is_yaml_name, parse_yaml, read_yaml
from assay.grading.policy import Policy
from assay.library.families import FAMILIES, WORKFLOW, RuleFamily
from assay.library.held import HeldLibrary, read_now
from assay.library.lock import BUILTIN, LOCK, Lock, Recorded, parse_lock
from assay.library.lock import lock_of as _lock
from assay.records.systems import vouch
from assay.registry import near_miss

if TYPE_CHECKING:
    from assay.scoring.profile import Profile
    from assay.scoring.rubric import Rubric

KINDS = {"profiles": "profile", "policies": "policy", "rubrics": "rubric"}
"""The kinds of items on a shelf: the folder of each, and its singular."""


def _load(kind: str, document: Document) -> Any:
    """The record of a document, read as its family reads it."""
    if kind == "profiles":
        from assay.scoring.profile import load_profile  # a grade of scorecards needs only a policy

        return load_profile(document)
    family = _family(document.tree.get("family") if isinstance(document.tree, dict) else None)
    if kind == "policies":
        return family.load_policy(document)
    from assay.scoring.rubric import load_rubric

    return (family.load_rubric or load_rubric)(document)


def _family(name: object) -> RuleFamily:
    """The family of that name; policies and rubrics of any other name are for workflows."""
    return FAMILIES[name if isinstance(name, str) and name in FAMILIES else WORKFLOW]


class ShelfFile(Struct, frozen=True):
    """One file on the shelf."""

    kind: str
    name: str
    version: str
    path: str
    root: str

    @property
    def id(self) -> str:
        """`name@version`."""
        return f"{self.name}@{self.version}"

    @property
    def key(self) -> str:
        """The name it is published under: `kind/name@version`."""
        return f"{self.kind}/{self.id}"


def hold(*folders: str, files: Sequence[str] = ()) -> HeldLibrary:
    """Read every file that a shelf of these folders may need, and `files`, which are paths."""
    shelf = Shelf(*folders)
    locks = [
        os.path.join(root, LOCK)
        for root in (*shelf.roots, *(root for file in files for root in _roots_of(file)))
    ]
    return read_now(
        shelf.roots,
        (
            *filter(os.path.lexists, locks),
            *(entry.path for kind in KINDS for entry in shelf.entries(kind)),
            *files,
        ),
    )


class Shelf:
    """Finds profiles, policies and rubrics, in the order of `roots`. With `held`, nothing is read
    from disk.
    """

    def __init__(self, *folders: str, held: HeldLibrary | None = None) -> None:
        self.roots = (*folders, BUILTIN) if held is None else held.roots
        for folder in folders:
            if not os.path.isdir(folder):
                raise ShelfError(
                    "LIB-001",
                    "there is no such folder.",
                    where=folder,
                    fix="A library is a folder with profiles/, policies/ or rubrics/.",
                )
        self._held = held
        self._loaded: dict[str, Any] = {}

    def read(self, path: str) -> bytes:
        """The bytes of a file of this shelf."""
        if self._held is not None:
            return self._held.read(path)
        with open_input(path) as stream:
            return stream.read()

    def _names(self, folder: str) -> list[str]:
        if self._held is not None:
            return self._held.names(folder)
        return sorted(os.listdir(folder)) if os.path.isdir(folder) else []

    def lock(self, root: str) -> Lock:
        """The lock of one of the roots, or of the library of a file given by its path."""
        path = os.path.join(root, LOCK)
        if self._held is None:
            return _lock(root)
        return parse_lock(self._held.read(path), path) if path in self._held.files else Lock({})

    def entries(self, kind: str) -> Iterator[ShelfFile]:
        """Every file of a kind, by name and version, a team's own before the built-in."""
        seen: set[str] = set()
        for root in self.roots:
            folder = os.path.join(root, kind)
            for base in self._names(folder):
                stem, extension = os.path.splitext(base)
                if extension not in (".yaml", ".yml"):
                    continue
                name, _, version = stem.rpartition("@")
                if not name:
                    name, version = stem, "0"
                if f"{name}@{version}" not in seen:
                    seen.add(f"{name}@{version}")
                    yield ShelfFile(kind, name, version, os.path.join(folder, base), root)

    def find(self, kind: str, name: str) -> ShelfFile:
        """The file for `name@version`, or for `name`: its newest version, of the shipped ones if
        there are any.
        """
        wanted, _, version = name.partition("@")
        matches = [
            entry
            for entry in self.entries(kind)
            if entry.name == wanted and (not version or entry.version == version)
        ]
        if matches:
            return max(matches, key=self._rank)
        names = [entry.name for entry in self.entries(kind)] + [
            entry.id for entry in self.entries(kind)
        ]
        raise ShelfError(
            "LIB-001",
            f"no {KINDS[kind]} is named '{name}'.{near_miss(name, names)}",
            fix=f"Give its file, or a name that `assay library list {kind}` shows.",
        )

    def _rank(self, entry: ShelfFile) -> tuple[Any, ...]:
        # A folder may repeat a shipped id; different content is refused when it is loaded.
        return entry.root == BUILTIN or entry.key in self.lock(BUILTIN).published, version_key(
            entry.version
        )

    def load(self, kind: str, file: str | ShelfFile) -> Any:
        """The record of that name, of a YAML file given by path, or of one of `entries`."""
        name = file if isinstance(file, str) else file.id
        cached = self._loaded.get(f"{kind}/{name}")
        if cached is None:
            if is_yaml_name(name):
                path, _, key = name.partition("#")
                data = self.read(path)
                cached = _load(kind, document_part(parse_yaml(data, path), key))
                for root in _roots_of(name):
                    _refuse_other_meaning(
                        f"{kind}/{cached.id}", name, data, self.lock(root).published
                    )
            else:
                entry = self.find(kind, file) if isinstance(file, str) else file
                data = self.read(entry.path)
                _refuse_other_meaning(entry.key, entry.path, data, self.lock(BUILTIN).published)
                cached = load_data(
                    kind,
                    entry.path,
                    data,
                    published=self.lock(entry.root).published.get(entry.key),
                    # only from the package's own lock: a folder's could differ from its file
                    frozen=self.lock(BUILTIN).content.get(entry.key),
                )
                own = str(cached.id)
                if own != entry.id:
                    raise ShelfError(
                        "LIB-002",
                        f"the file is named '{entry.id}' but contains '{own}'.",
                        where=entry.path,
                        fix="Rename one of them.",
                    )
            # its bytes are the published ones: anything else was refused above
            if f"{kind}/{cached.id}" in self.lock(BUILTIN).published:
                vouch(digest(cached))
            self._loaded[f"{kind}/{name}"] = cached
        return cached

    def profile(self, name: str | Profile) -> Profile:
        """A profile by name, alias letter, `name@version` or path; one that was made is checked as
        a file would be.
        """
        if not isinstance(name, str):
            data, published = canonical(name), self.lock(BUILTIN).published
            _refuse_other_meaning(f"profiles/{name.id}", name.id, data, published)
            return cast("Profile", load_data("profiles", name.id, data))
        if len(name) == 1:
            entries = self.entries("profiles")
            aliased = [entry for entry in entries if self.load("profiles", entry).alias == name]
            if aliased:
                name = max(aliased, key=self._rank).id
        return cast("Profile", self.load("profiles", name))

    def profile_for_family(self, family: str) -> Profile:
        """The profile that serves a family: a shipped one before a folder's, the one with its name
        before another, the newest version. There is no default.
        """
        serving: list[tuple[Any, Profile]] = []
        families = []
        for entry in self.entries("profiles"):
            profile: Profile = self.load("profiles", entry)
            families.append(profile.family)
            if profile.family == family:
                shipped, version = self._rank(entry)
                serving.append(((shipped, entry.name == family, version, entry.name), profile))
        if not serving:
            raise ShelfError(
                "SCO-010",
                f"no profile serves the family '{family}'.{near_miss(family, families)}",
                fix=(
                    "Give one with --profile, or correct workflow.family; `assay library list"
                    " profiles` shows them."
                ),
            )
        return max(serving, key=lambda pair: pair[0])[1]

    def policy(self, name: str) -> Policy:
        """A policy for scorecards by name, `name@version` or path."""
        return cast("Policy", self.policy_of(WORKFLOW, name))

    def rubric(self, name: str) -> Rubric:
        """A rubric by name, `name@version` or path."""
        return cast("Rubric", self.rubric_of(WORKFLOW, name))

    def policy_of(self, family: str, name: str) -> Any:
        """A policy of a family by name, `name@version` or path."""
        return self._of_family("policies", family, name)

    def rubric_of(self, family: str, name: str) -> Any:
        """A rubric of a family by name, `name@version` or path."""
        return self._of_family("rubrics", family, name)

    def _of_family(self, kind: str, family: str, name: str) -> Any:
        """An item of this family; an item of another family is refused."""
        loaded = self.load(kind, name)
        own = _family(getattr(loaded, "family", None))
        if own.id != family:
            raise ShelfError(
                "LIB-005",
                f"the {KINDS[kind]} '{loaded.id}' is for {own.meant_for}, not for"
                f" {FAMILIES[family].meant_for}.",
                fix=f"`assay library list {kind}` shows them.",
            )
        return loaded


def version_key(version: str) -> tuple[tuple[int, int, str], ...]:
    """The sort key of a version: `10` comes after `9`.

    >>> sorted(["10", "9", "²"], key=version_key)
    ['9', '10', '²']
    """
    return tuple(
        (0, int(part), "") if part.isdecimal() else (1, 0, part) for part in version.split(".")
    )


def _roots_of(file: str) -> tuple[str, ...]:
    """The libraries whose locks apply to a file given by its path: its own and the built-in one."""
    return tuple(dict.fromkeys((os.path.dirname(os.path.dirname(os.path.abspath(file))), BUILTIN)))


def _refuse_other_meaning(key: str, path: str, data: bytes, published: Mapping[str, str]) -> None:
    """Refuse a file that gives a published id other content. Repeating it is fine."""
    own = published.get(key)
    if own is not None and sha256(data).hexdigest() != own:
        name = key.partition("/")[2]
        raise ShelfError(
            "LIB-003",
            f"this version is published and has changed: '{name}' is different there.",
            where=path,
            fix="Give it another name or a new version.",
        )


def load_file(kind: str, path: str) -> Any:
    """A shelf file as its record."""
    return _load(kind, read_yaml(path))


def load_data(
    kind: str, path: str, data: bytes, *, published: str | None = None, frozen: Any = None
) -> Any:
    """The bytes of a shelf file as its record; `published` is the digest they must have, `frozen`
    their parsed content from the lock.
    """
    if published is not None and sha256(data).hexdigest() != published:
        raise ShelfError(
            "LIB-003",
            "this version is published and has changed since.",
            where=path,
            fix="Restore it, and put the change into a file with a new version.",
        )
    if published is not None and frozen is not None:
        # the same bytes parse to the same tree; parsing YAML would take a fifth of the startup time
        return _load(kind, Document(frozen, path))
    return _load(kind, parse_yaml(data, path))


# --- publishing


def changed(shelf: Shelf) -> list[str]:
    """Published items whose file has changed or is gone, or whose content in the lock is not that
    of the file.
    """
    return [
        key
        for root in shelf.roots
        for key in sorted(_lock(root).published)
        if not _is_unchanged(root, key)
    ]


def _is_unchanged(root: str, key: str) -> bool:
    stem, lock = os.path.join(root, *key.split("/")), _lock(root)
    path = stem + (".yml" if os.path.exists(f"{stem}.yml") else ".yaml")
    try:
        with open(path, "rb") as stream:
            data = stream.read()
        return sha256(data).hexdigest() == lock.published[key] and canonical(
            parse_yaml(data, path).tree
        ) == canonical(lock.content.get(key))
    except (OSError, ShelfError, KeyError):
        return False


def publish(root: str, systems: Recorded, *, measures: dict[str, str] | None = None) -> list[str]:
    """Publish the new items of a library: add their digests to its lock. Items that were published
    before must be unchanged.
    """
    lock = _lock(root)
    published, content = dict(lock.published), dict(lock.content)
    shelf = Shelf(root) if root != BUILTIN else Shelf()
    wrong = [key for key in changed(shelf) if key in published]
    if wrong:
        raise ShelfError(
            "LIB-003",
            f"published and changed since: {', '.join(wrong)}.",
            where=root,
            fix="Restore the files; put changes into new versions.",
        )
    added = []
    for entry in (entry for kind in KINDS for entry in shelf.entries(kind)):
        if entry.root != root or entry.key in published:
            continue
        shelf.load(entry.kind, entry)
        with open(entry.path, "rb") as stream:
            data = stream.read()
        published[entry.key] = sha256(data).hexdigest()
        content[entry.key] = parse_yaml(data, entry.path).tree
        added.append(entry.key)
    Lock(published, systems, measures or {}, content).write(root)
    return added
