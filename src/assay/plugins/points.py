"""The entry points of installed packages: their names, their packages, and a digest of each one's
code. `loading` loads them.
"""

from __future__ import annotations

import re
from functools import cache
from hashlib import file_digest
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from assay.canon import digest
from assay.errors import ShelfError, printable

if TYPE_CHECKING:
    from collections.abc import Iterator
    from importlib.metadata import EntryPoint

_NAME = re.compile(r"[A-Za-z0-9_]+(\.[A-Za-z0-9_-]+)+")


class PackageVersion(NamedTuple):
    """The installed package that a plugin comes from."""

    distribution: str
    version: str

    def __str__(self) -> str:
        return f"{self.distribution} {self.version}"


class InstalledPlugin(NamedTuple):
    """An entry point of an installed package."""

    name: str
    origin: PackageVersion
    fault: str
    """Why it can't be used, as far as that is known before it is loaded; empty if it can."""


def installed(group: str) -> list[InstalledPlugin]:
    """The plugins of a group, by name. Loads none of them."""
    from importlib.metadata import entry_points

    points = sorted(entry_points(group=group), key=lambda point: (point.name, point.value))
    names = [point.name for point in points]
    return [
        InstalledPlugin(
            printable(point.name),
            origin_of(point),
            _name_fault(point)
            or (
                f"{names.count(point.name)} installed packages provide it"
                if names.count(point.name) > 1
                else ""
            ),
        )
        for point in points
    ]


def origin_of(point: EntryPoint) -> PackageVersion:
    """The package of an entry point."""
    if point.dist is None:
        return PackageVersion("unknown", "0")
    return PackageVersion(*(printable(text) for text in (point.dist.name, point.dist.version)))


def _name_fault(point: EntryPoint) -> str:
    if not _NAME.fullmatch(point.name):
        return "it is not named package.name, in letters, digits and _ -"
    package, own = point.name.partition(".")[0], point.value.partition(":")[0].partition(".")[0]
    if package != own:
        return f"its name begins with '{package}', and it is in the package '{printable(own)}'"
    return ""


@cache
def find_point(group: str, name: str) -> EntryPoint | None:
    """The entry point of that name; None if there is none. One that can't be used raises an error
    instead of being skipped, because something asked for it.
    """
    from importlib.metadata import entry_points  # slow to load, and only a plugin needs it

    points = tuple(entry_points(group=group, name=name))
    if not points:
        return None
    if len(points) > 1:
        listed = " and ".join(sorted(str(origin_of(point)) for point in points))
        raise ShelfError(
            "LIB-001",
            f"{len(points)} installed packages provide '{name}' in {group}: {listed}.",
            fix="Uninstall all but one.",
        )
    if fault := _name_fault(points[0]):
        raise broken(group, name, f"can't be used: {fault}")
    return points[0]


def broken(group: str, name: str, what: str) -> ShelfError:
    """The error for a plugin that can't be used."""
    from importlib.metadata import entry_points

    origins = sorted({str(origin_of(point)) for point in entry_points(group=group, name=name)})
    return ShelfError(
        "LIB-007",
        f"the plugin '{printable(name)}' ({group}) {what}.",
        fix=f"Fix or uninstall {', '.join(origins) or 'its package'}.",
    )


@cache
def fingerprint(group: str, name: str) -> str:
    """A digest of what a plugin does: its package's version and every file of that package. Code
    that it imports from elsewhere does not count.
    """
    point = find_point(group, name)
    assert point is not None
    return digest(
        {
            "distribution": origin_of(point).distribution,
            "version": origin_of(point).version,
            "entry": point.value,
            "files": dict(_files(point.value.partition(":")[0])),
        }
    )


def _files(module: str) -> Iterator[tuple[str, str]]:
    """Each file in the package of a module, and its digest. A package that several
    distributions share counts as far as the module's own folder.
    """
    top = import_module(module.partition(".")[0])
    package = top if getattr(top, "__file__", None) else import_module(module)
    origin = Path(package.__file__ or "")
    whole = hasattr(package, "__path__") or package is not top
    for path in sorted(origin.parent.rglob("*")) if whole else [origin]:
        name = path.relative_to(origin.parent).as_posix()
        passing = path.suffix == ".pyc" or any(part[0] == "." for part in name.split("/"))
        if path.is_file() and not passing:
            with path.open("rb") as stream:
                yield name, file_digest(stream, "sha256").hexdigest()
