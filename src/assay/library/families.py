"""What reads the policies and rubrics of each family of subjects, and its systems of rules.

`plugins` lists them: those of the core, and the `systems` that the families register. The library
knows only `workflow` by name: a policy or rubric that names no known family belongs to it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Struct

from assay.files.json_files import Document
from assay.registry import Registry

WORKFLOW = "workflow"


class RuleSystem(Struct, frozen=True):
    """A scoring or grading system."""

    name: str
    version: str
    behaviour: str
    """`module:function`, which returns the system's results on its golden inputs, as JSON."""
    needs: str = ""
    """The module of an extra without which it can't run."""
    extra: str = ""
    slow: bool = False
    """Whether its golden inputs take a second."""


class RuleFamily(Struct, frozen=True):
    """The rules of one family of subjects that are graded."""

    id: str
    meant_for: str
    """What its policies and rubrics grade, for messages."""
    systems: tuple[RuleSystem, ...]
    load_policy: Callable[[Document], Any]
    load_rubric: Callable[[Document], Any] | None = None
    """None for rubrics that are read as those of workflows are."""


FAMILIES: Registry[RuleFamily] = Registry("family", homes="assay.plugins:FAMILIES")
