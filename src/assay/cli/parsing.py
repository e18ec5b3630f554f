"""The record of an argument, and the parser of one verb: its help, the options that every verb has,
the numbers that an option takes, and errors worded like all others.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self

from assay.errors import EXIT_CODES_TEXT, UsageError
from assay.files.upwards import find_config
from assay.registry import near_miss

if TYPE_CHECKING:
    from assay.project.config import Config
    from assay.project.inputs import StoredRuns
    from assay.services.evaluation_choice import ToolProfile


class Resolved(NamedTuple):
    """What the names of runs on a command line stand for, and what follows from that."""

    stored: Sequence[StoredRuns] = ()
    """What the ledger has under the names."""
    made: ToolProfile | None = None
    """The profile that was made from another tool's metrics, if that grades the runs."""
    rules: frozenset[str] = frozenset()
    """Which of profile, rubric and policy are those that evaluations were stored with."""


class Options(argparse.Namespace):
    """The options of a command. They are frozen: what a command works out it passes on itself."""

    config: Config | None = None
    """The `assay.yaml` that defaults come from."""
    sources: Mapping[str, str] = {}
    """Where the value of each option comes from, where there is an `assay.yaml`."""
    declared: Mapping[str, Argument] = {}
    """The arguments of the command by their attributes."""
    resolved: Resolved = Resolved()
    """What the names of runs stand for; the options have the runs themselves."""
    scratch: str | None = None
    """A folder that lives as long as the command, for one that may write nothing else."""

    def __init__(self, **values: Any) -> None:
        self.__dict__.update(values)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"options are frozen: {name} is set where they are parsed")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"options are frozen: {name} is set where they are parsed")

    def with_values(self, **values: Any) -> Self:
        """The options with other values, for the work of another command."""
        return type(self)(**{**vars(self), **values})


class Bounds(NamedTuple):
    """The numbers that an option takes.

    >>> str(Bounds(least=1)), str(Bounds(above=0, most=86_400))
    ('at least 1', 'above 0 and at most 86,400')
    """

    least: float | None = None
    most: float | None = None
    above: float | None = None
    below: float | None = None

    def hold(self, value: float) -> bool:
        """Whether a number is one of them; NaN never is."""
        return (
            (self.least is None or value >= self.least)
            and (self.above is None or value > self.above)
            and (self.most is None or value <= self.most)
            and (self.below is None or value < self.below)
        )

    def __str__(self) -> str:
        ends = (
            ("at least", self.least),
            ("above", self.above),
            ("at most", self.most),
            ("below", self.below),
        )
        return " and ".join(f"{word} {end:,}" for word, end in ends if end is not None)


Kind = Literal["text", "number", "choice", "flag", "path", "name", "ledger", "address"]
"""What an argument takes. A `name` may also be the path of a file."""
Trust = Literal["freely", "trusted", "never"]
"""What an `assay.yaml` may set: any value that stays inside its folder and this machine; any value
at all, but only once the user trusts the file; nothing.
"""
Effect = Literal["grades", "writes", "withholds"]
"""What else an option is for: it chooses how runs are read and graded, so that printed commands
repeat it; it has something written; it keeps that from being written.
"""
Resumed = Literal["as begun", "named", "judge", "bar", "new"]
"""How `assay run --resume` takes an option: as the run was begun with it, which can't change; as it
is named again, else as it was begun; the same for all options of the judge, or of the pass bar,
together; not at all.
"""


class Argument(NamedTuple):
    """One argument of a verb: what `argparse` needs, and what `assay.yaml` may do with it."""

    names: tuple[str, ...]
    settings: dict[str, Any]
    kind: Kind
    trust: Trust
    key: str | None = None
    """The key of `assay.yaml` that sets it, as `release.margin`. Any other is set by its name,
    under `commands`.
    """
    within: Bounds | None = None
    runs: bool = False
    """Whether it names runs: files, or what the ledger has under a name. Its values are `Source`s
    for the work of the command: see `references`.
    """
    items: bool = False
    """Whether its files may also be of a form that the command reads itself: they are imported only
    where `--from` or `--map` asks for that.
    """
    heading: str | None = None
    """Where the help lists it; options that many verbs share have headings."""
    environment: str | None = None
    """The variable of the environment that sets it before `assay.yaml` does."""
    offers: str | None = None
    """What completion offers besides files: the entries of a shelf, importers or verbs."""
    effect: Effect | None = None
    resumed: Resumed | None = None

    @property
    def dest(self) -> str:
        """The attribute that contains its value after parsing."""
        long = next((name for name in self.names if name.startswith("--")), self.names[0])
        name = long.lstrip("-").replace("-", "_")
        return str(self.settings.get("dest", name))

    @property
    def long(self) -> str:
        """The name that messages show."""
        return max(self.names, key=len)

    @property
    def default(self) -> Any:
        """Its value where nothing sets it."""
        return self.settings.get("default", False if self.kind == "flag" else None)

    @property
    def takes_files(self) -> bool:
        """Whether its value can be the path of a file."""
        return self.kind in ("path", "name") or (self.kind == "text" and self.offers == "files")

    def of_runs(self, *, items: bool = False) -> Argument:
        """The same argument, which names runs."""
        return self._replace(runs=True, items=items)


class _OneValue(argparse._StoreAction):
    """An option that takes one value. If it is given twice, neither value may win silently."""

    is_given = False

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        if self.is_given and option_string is not None:
            parser.error(f"{max(self.option_strings, key=len)} is given twice; it takes one value")
        self.is_given = True
        super().__call__(parser, namespace, values, option_string)


_NUMBERS: dict[Any, str] = {int: "a whole number", float: "a number, such as 0.95"}


class _Parser(argparse.ArgumentParser):
    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        options, left = self.parse_known_args(args, namespace)
        if left:
            mistyped = next((word.partition("=")[0] for word in left if word[0:1] == "-"), "")
            near = near_miss(mistyped, self._option_string_actions)
            self._refuse(f"unrecognized arguments: {' '.join(left)}.{near}")
        return options

    def error(self, message: str) -> Any:
        self._refuse(f"{message}.")

    def _refuse(self, message: str) -> None:
        raise UsageError("CLI-001", message, fix=f"`{self.prog} --help` shows what it takes.")

    def _get_value(self, action: argparse.Action, arg_string: str) -> Any:
        try:
            return super()._get_value(action, arg_string)
        except argparse.ArgumentError:
            kind = _NUMBERS.get(action.type)
            if kind is None:
                raise
            raise argparse.ArgumentError(action, f"'{arg_string}' is not {kind}") from None

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            known = [str(choice) for choice in action.choices]
            raise argparse.ArgumentError(
                action,
                f"invalid choice: '{value}'.{near_miss(str(value), known)} Choose from"
                f" {', '.join(known)}",
            )

    def format_help(self) -> str:
        self.formatter_class = argparse.RawDescriptionHelpFormatter  # as wide as the terminal
        return super().format_help()


def make_parser(verb: str, description: str, example: str) -> argparse.ArgumentParser:
    """A parser for one verb: one sentence, an example to paste, what the exit codes mean."""
    parser = _Parser(
        prog=f"assay {verb}",
        description=description,
        epilog=f"example: {example}\n\n{EXIT_CODES_TEXT}",
        # argparse makes one for each option; to find the width it loads what only help needs
        formatter_class=partial(argparse.RawDescriptionHelpFormatter, width=80),
        allow_abbrev=False,
    )
    for name in (None, "store"):
        parser.register("action", name, _OneValue)
    add(parser, *EVERYWHERE)
    return parser


def _always(name: str, help: str, **settings: Any) -> Argument:
    kind: Kind = "path" if "metavar" in settings else "flag"
    return Argument((name,), {"help": help, **settings}, kind, "never")


EVERYWHERE = (
    _always(
        "--json",
        "print one JSON document on standard output and nothing else there",
        action="store_true",
    ),
)
"""What every verb has."""
CONFIGURATION = (
    _always(
        "--config",
        "take defaults from this file (default: assay.yaml in this folder or above it)",
        metavar="FILE",
        dest="config_file",
    ),
    _always("--no-config", "take no defaults from any assay.yaml", action="store_true"),
    _always(
        "--trust",
        "trust this assay.yaml in this command (`assay trust` shows why, and remembers it)",
        action="store_true",
    ),
)
"""What every verb has that takes defaults from an `assay.yaml`."""


def add_config(parser: argparse.ArgumentParser) -> None:
    """Add the options that choose the configuration."""
    *chosen, trust = CONFIGURATION
    either = parser.add_mutually_exclusive_group()
    for argument in chosen:
        either.add_argument(*argument.names, **argument.settings)
    add(parser, trust)


def add(parser: argparse.ArgumentParser, *arguments: Argument) -> None:
    """Add arguments to a parser, each under its heading."""
    for argument in arguments:
        place: argparse._ActionsContainer = parser
        if argument.heading is not None:
            groups = {group.title: group for group in parser._action_groups}
            place = groups.get(argument.heading) or parser.add_argument_group(argument.heading)
        place.add_argument(*argument.names, **argument.settings)


def config_path(argv: list[str]) -> str | None:
    """The configuration that a command line gets its defaults from; None if it gets none."""
    if {"--no-config", "-h", "--help"}.intersection(argv):
        return None
    for index, word in enumerate(argv):
        if word == "--config":
            return argv[index + 1] if index + 1 < len(argv) else None
        if word.startswith("--config="):
            return word.partition("=")[2]
    return find_config()
