"""Registry[T]: an ordered map from a name to an entry, with errors that name the near miss.

Formulas, gates, measures and families are found here, shipped ones and those of plugins
(`plugins`) alike. A name is taken once.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from importlib import import_module
from threading import RLock
from typing import Any, Generic, TypeVar

from assay.errors import ShelfError

T = TypeVar("T")

IDENTIFIER = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.\-/ ]{0,199}")
"""What a gate, a criterion, a profile may be called. ASCII, so that two names that look the same
are the same.
"""


class Registry(Generic[T]):
    """Entries by name, in the order they were added.

    `homes` says where entries are that load on first use: `module:NAME`, which is one entry or a
    tuple of entries, with their names; or, as one `module:NAME`, where such a table is. That is
    how a registry of a low layer gets entries of a higher one. `group` is the entry point group of
    installed plugins.

    >>> letters = Registry[int]("letter")
    >>> letters.add("alpha", 1)
    >>> letters["alpha"], "beta" in letters, letters.near("alpah")
    (1, False, " Did you mean 'alpha'?")
    """

    def __init__(
        self, kind: str, *, homes: Mapping[str, Iterable[str]] | str = "", group: str = ""
    ) -> None:
        self.kind = kind
        self._entries: dict[str, T] = {}
        self._homes = homes
        self._group = group
        self._lock = RLock()

    def add(self, name: str, entry: T) -> None:
        """Add an entry under a name that is free."""
        if name in self._entries:
            raise ValueError(f"a {self.kind} is already named {name!r}")
        self._entries[name] = entry

    def _load(self, name: str | None) -> None:
        """Load the home of a name; every home where no name is given."""
        if not self._homes:
            return
        with self._lock:  # a name is taken once, also when two threads ask for it together
            if isinstance(self._homes, str):
                self._homes = home_value(self._homes)
            assert isinstance(self._homes, Mapping)
            for home, names in self._homes.items():
                unloaded = [name for name in names if name not in self._entries]
                if unloaded and (name is None or name in unloaded):
                    value = home_value(home)
                    if type(value) is tuple:
                        for entry in value:
                            self.add(entry.id, entry)
                    else:
                        self.add(unloaded[0], value)

    def get(self, name: str) -> T | None:
        """The entry, or None."""
        entry = self._entries.get(name)
        if entry is None:
            self._load(name)
            entry = self._entries.get(name)
            if entry is None and self._group and isinstance(name, str) and "." in name:
                entry = home_value(PLUGINS)(self._group, name)
        return entry

    def named(self, name: str) -> T:
        """The entry, or an error with the near miss."""
        entry = self.get(name)
        if entry is None:
            raise ShelfError("LIB-001", f"no {self.kind} is named '{name}'.{self.near(name)}")
        return entry

    def near(self, name: str) -> str:
        """A sentence with the near miss, or what a name with a dot would need; or nothing."""
        if self._group and "." in name:
            listed = [plugin.name for plugin in home_value(INSTALLED)(self._group)]
            return near_miss(name, listed) or (
                " A name with a dot is a plugin's: install the package that provides it."
            )
        return near_miss(name, self)

    def fingerprints(self, names: Iterable[str]) -> dict[str, str]:
        """A digest of what each plugin among these names does; shipped entries have none."""
        return {
            f"plugin:{self.kind}/{name}": home_value(FINGERPRINT)(self._group, name)
            for name in names
            if "." in name and name not in self._entries and self.get(name) is not None
        }

    def __getitem__(self, name: str) -> T:
        entry = self.get(name)
        if entry is None:
            raise KeyError(name)
        return entry

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.get(name) is not None

    def __iter__(self) -> Iterator[str]:
        """The names of what is shipped, in the order of their tables."""
        self._load(None)
        homes = self._homes.values() if isinstance(self._homes, Mapping) else ()
        return iter(dict.fromkeys([*(name for names in homes for name in names), *self._entries]))

    def __len__(self) -> int:
        return sum(1 for _ in self)


PLUGINS = "assay.plugins:outsider"
"""The function that finds the entries of installed plugins. It is called only for a name with a
dot, which no shipped entry has.
"""
INSTALLED = "assay.plugins:installed"
FINGERPRINT = "assay.plugins:fingerprint"
"""The functions that list the installed plugins, and that give a digest of what a plugin does."""


def home_value(home: str) -> Any:
    """The value of a `module:NAME`; loads the module."""
    module, _, name = home.partition(":")
    return getattr(import_module(module), name)


def near_miss(name: str, names: Iterable[str]) -> str:
    """A question with the closest of the names, after a space; empty if none is close.

    >>> near_miss("corectness", ["correctness", "efficiency"])
    " Did you mean 'correctness'?"
    """
    return _near_miss(name, tuple(names))


@lru_cache(maxsize=256)  # the same wrong name comes with every run of a stream
def _near_miss(name: str, names: tuple[str, ...]) -> str:
    from difflib import get_close_matches  # only on the way to an error

    matches = get_close_matches(name[:200], names, n=1, cutoff=0.8)
    return f" Did you mean '{matches[0]}'?" if matches else ""


def nearest(name: str, names: Iterable[str], *, cutoff: float = 0.8) -> str | None:
    """The closest of the names, whatever the case; None if none is close.

    >>> nearest("Anwser", ["answer", "question"])
    'answer'
    """
    from difflib import get_close_matches  # only where a name is not known

    lowered = {name.lower(): name for name in names}
    matches = get_close_matches(name[:200].lower(), lowered, n=1, cutoff=cutoff)
    return lowered[matches[0]] if matches else None


def identifier_fault(name: object) -> str | None:
    r"""Why this can't be an identifier, or None.

    >>> identifier_fault("schem\u0430_valid")
    "contains 'а' (U+0430 CYRILLIC SMALL LETTER A); names are plain ASCII, so that none can pose as another"
    """  # noqa: E501
    if not isinstance(name, str):
        return f"is a {type(name).__name__}, not a name"
    if IDENTIFIER.fullmatch(name) and not name.endswith(" "):
        return None
    if not name:
        return "is empty"
    if len(name) > 200:
        return f"is {len(name)} characters long; 200 is the limit"
    from unicodedata import name as unicode_name  # only on the way to an error: it costs a megabyte

    for char in name:
        if not char.isascii():
            return (
                f"contains {char!r} (U+{ord(char):04X} {unicode_name(char, 'unnamed')}); names are"
                " plain ASCII, so that none can pose as another"
            )
    return (
        f"is {name!r}; a name starts with a letter or digit and has only letters, digits, spaces"
        " and _ . - /"
    )


def is_relative(text: str) -> bool:
    """Whether a name is `latest` or `latest~N`."""
    return re.fullmatch(r"latest(~[0-9]+)?", text) is not None


def is_path(text: str) -> bool:
    """Whether this names a file, or a part of one (`rules.yaml#strict`): it has a slash or an
    extension, or is `-`. Anything else is a name, whatever files are in the working folder.

    >>> [
    ...     is_path(text)
    ...     for text in (
    ...         "prod.jsonl",
    ...         "rules.yaml#strict",
    ...         "week#3.jsonl",
    ...         "./production",
    ...         "runs/a",
    ...         "-",
    ...         "production",
    ...         "production@2",
    ...         "release-2.1",
    ...     )
    ... ]
    [True, True, True, True, True, True, False, False, False]
    """
    ends = (file.rpartition(".")[2] for file in (text, text.rpartition("#")[0]) if "." in file)
    has_extension = any(end.isascii() and end.isalnum() and end[0].isalpha() for end in ends)
    return text in ("-", ".", "..") or "/" in text or "\\" in text or has_extension
