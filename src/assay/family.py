"""What a family or an installed package registers, and the one list of the families that ship.

A family is a package with a `FAMILY`, made of names alone: `module:NAME` is loaded when somebody
asks for it, so that `assay --help` loads nothing else. The core never imports a family; it asks
here. An installed package registers in the same way: its entry point in the group `assay.families`
is a `Family`.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module

TYPE_CHECKING = False  # the help needs no `typing`, which takes as long to load as all the rest
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Any, TypeVar

    T = TypeVar("T")

SHIPPED = ("judges", "exams", "tools", "repair", "batch")
"""The families in `assay.families`, in the order in which they are shown."""
GROUP = "assay.families"
"""The entry points of installed families."""


class Verb:
    """A verb of the command line. One with actions runs the module of the action."""

    def __init__(
        self,
        module: str,
        summary: str,
        *,
        actions: Mapping[str, tuple[str, str]] | None = None,
        description: str = "",
        example: str = "",
        word: str = "ACTION",
        left: str = "nothing was written",
    ) -> None:
        self.module = module
        """The module with its `COMMANDS`."""
        self.summary = summary
        self.actions = actions or {}
        """Each action's module and what it does."""
        self.description = description
        self.example = example
        self.word = word
        self.left = left
        """What an interrupted command has left behind."""


class Inputs:
    """Results of a family that a verb of the core reads in place of runs; all are homes."""

    def __init__(self, test: str, read: str, *, options: str = "", refuse: str = "") -> None:
        self.test = test
        """Whether inputs are such results: a function of their names, in a module that loads
        quickly.
        """
        self.read = read
        """What the verb does with them instead."""
        self.options = options
        """Options that only they have: a tuple of arguments."""
        self.refuse = refuse
        """A function that refuses these options where the inputs are others."""


class JobNeeds:
    """What a job needs beyond the core, for `assay doctor`."""

    def __init__(
        self,
        what: str,
        extra: str = "",
        modules: tuple[tuple[str, str], ...] = (),
        *,
        more: Callable[[], str] | None = None,
        fix: str = "",
    ) -> None:
        self.what = what
        self.extra = extra
        self.modules = modules
        """Each module that must be importable, with the package that brings it."""
        self.more = more
        """Why it can't run although they can be imported; empty if it can."""
        self.fix = fix
        """What to do about that."""


class Family:
    """What a family adds to the product; every text with a colon is the home of a value."""

    def __init__(
        self,
        name: str,
        title: str = "",
        *,
        verbs: Mapping[str, Mapping[str, Verb]] | None = None,
        actions: Mapping[str, Mapping[str, tuple[str, str]]] | None = None,
        systems: Mapping[str, str] | None = None,
        served: str = "",
        results: Mapping[str, str] | None = None,
        documents: str = "",
        conform: str = "",
        demo: str = "",
        doctor: str = "",
        agents: str = "",
        functions: Mapping[str, str] | None = None,
        steps: Mapping[str, str] | None = None,
        inputs: Mapping[str, Inputs] | None = None,
        checks: str = "",
    ) -> None:
        self.name = name
        self.title = title
        self.verbs = verbs or {}
        """Verbs by the job they do, the heading of `assay --help`."""
        self.actions = actions or {}
        """Actions that it adds to a verb of the core, such as `measure`."""
        self.systems = systems or {}
        """What it grades, and the home of the scoring and grading systems that do."""
        self.served = served
        """Pages, routes, charts and alarms of the server: a `server.served.Served`."""
        self.results = results or {}
        """The schema of each decision it stores, and the home of its `services.results.Gate`."""
        self.documents = documents
        """The kinds of documents it reads and writes, for `schema-of`: a table by name."""
        self.conform = conform
        """Operations of conformance cases: a table of functions, see `cli.conform_ops`."""
        self.demo = demo
        """Its part of `assay demo`: a function."""
        self.doctor = doctor
        """The jobs that `assay doctor` tries for it: a table of `JobNeeds`."""
        self.agents = agents
        """Tools of `assay mcp`: a table of `mcp.tools.AgentTool`."""
        self.functions = functions or {}
        """Functions of `import assay`: the home of each."""
        self.steps = steps or {}
        """What it measures after a run: by the key of the workflow file that asks for it, the home
        of a `running.steps.RunStep`.
        """
        self.inputs = inputs or {}
        """Results that only it makes and verbs of the core read, by verb: `cli.family_inputs`."""
        self.checks = checks
        """What `assay ledger verify` checks of its records: a function."""


INSTALLED = "assay.plugins.loading:families_installed"
"""The function that loads what installed packages register."""
_loaded: dict[str, Family] = {}


def shipped() -> list[Family]:
    """The families that ship."""
    for name in SHIPPED:
        if name not in _loaded:
            _loaded[name] = import_module(f"assay.families.{name}").FAMILY
    return [_loaded[name] for name in SHIPPED]


def installed() -> tuple[Family, ...]:
    """The families of installed packages."""
    if not _any_installed():
        return ()
    from assay.registry import home_value

    found: tuple[Family, ...] = home_value(INSTALLED)()
    return found


def _any_installed() -> bool:
    """Whether an installed package has an entry point for a family. `importlib.metadata` takes
    forty times as long, and most have none.
    """
    for folder in sys.path:
        try:
            names = os.listdir(folder or ".")
        except OSError:
            if os.path.isfile(folder):  # an archive: look properly
                return True
            continue
        for name in names:
            if name.endswith((".dist-info", ".egg-info")):
                try:
                    with open(os.path.join(folder, name, "entry_points.txt"), "rb") as stream:
                        if GROUP.encode() in stream.read():
                            return True
                except OSError:
                    continue
    return False


def families() -> list[Family]:
    """Every family, installed ones last."""
    return [*shipped(), *installed()]


def parts(what: str) -> Iterator[tuple[Family, Any]]:
    """The families that have this, each with its value; for a table of homes, the table."""
    from assay.registry import home_value

    for family in families():
        home = getattr(family, what)
        if home:
            yield family, home_value(home) if isinstance(home, str) else home


def merged(what: str, core: Mapping[str, T]) -> dict[str, T]:
    """A table of the core with those of the families; a name is taken once."""
    table = dict(core)
    for family, more in parts(what):
        if taken := table.keys() & more.keys():
            from assay.errors import ShelfError

            raise ShelfError(
                "LIB-007",
                f"the family '{family.name}' has {', '.join(sorted(taken))} in its {what}, which"
                " is taken.",
                fix="Give it another name.",
            )
        table |= more
    return table
