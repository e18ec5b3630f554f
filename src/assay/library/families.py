"""What a family is: how its policies and rubrics are read, and its systems of rules.

A family is a module with one `FAMILY`; `plugins` lists them. The library knows none by name but
`workflow`, which every other policy and rubric belongs to.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from assay.files.json_files import Document
from assay.registry import Registry

WORKFLOW = "workflow"


class RuleSystem(NamedTuple):
    """A scoring or grading system."""

    name: str
    version: str
    modules: tuple[str, ...]
    """The modules whose tables and code are its rules; a module belongs to the longest prefix."""
    behaviour: str
    """`module:function`, which returns what the system makes of its golden inputs, as JSON."""
    data: str = ""
    """The folder of data files in the package that it decides by."""
    needs: str = ""
    """The module of an extra without which it can't run."""
    extra: str = ""


class Family(NamedTuple):
    """One family of subjects that are graded."""

    id: str
    meant_for: str
    """What its policies and rubrics grade, for messages."""
    systems: tuple[RuleSystem, ...]
    load_policy: Callable[[Document], Any]
    load_rubric: Callable[[Document], Any] | None = None


FAMILIES: Registry[Family] = Registry("family", homes="assay.plugins:FAMILIES")
