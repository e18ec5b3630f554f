"""Where families and plugins come from: the tables that fill the registries of lower layers.

A family is one module with a `FAMILY`, and one line here. A plugin is an installed package with an
entry point in one of the groups `assay.formulas`, `assay.gates`, `assay.measures`,
`assay.importers` and `assay.adapters`. Its entry is named `package.name`, so it can't shadow a
shipped one, now or in a later version. Nothing is loaded before its name is asked for.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from assay.errors import ShelfError

FAMILIES = {
    "assay.library.workflow:FAMILY": ("workflow",),
    "assay.tools.family:FAMILY": ("flowmcp",),
    "assay.exams.family:FAMILY": ("exam",),
    "assay.library.release:FAMILY": ("release",),
}
"""Where each family registers itself, in the order in which they are shown."""


@cache
def outsider(group: str, name: str) -> Any:
    """The entry that an installed plugin has under this name; None where no plugin has one."""
    from importlib.metadata import entry_points  # slow to load, and only a plugin needs it

    points = tuple(entry_points(group=group, name=name))
    if not points:
        return None
    if len(points) > 1:
        raise ShelfError(
            "LIB-001",
            f"{len(points)} installed packages provide '{name}' in {group}.",
            fix="Uninstall all but one.",
        )
    try:
        return points[0].load()
    except Exception as error:
        raise ShelfError(
            "LIB-001",
            f"the plugin '{name}' of {group} can't be loaded: {type(error).__name__}: {error}.",
            fix=f"Fix or uninstall {points[0].value}.",
        ) from error
