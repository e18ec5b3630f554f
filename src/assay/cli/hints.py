"""The commands that a verb prints: ready to paste, with the options that were given."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from typing import Any

from assay.cli.frame import BARS, COMMON, Options
from assay.errors import printable

GRADED_BY = tuple(name for name, argument in COMMON.items() if argument.effect == "grades")
"""The options that choose how runs are read and graded."""
_PRINTED = ("command line", "default")
"""Where a value comes from that a printed command has to name; `default` for a resumed run."""


def command(*words: str, options: Options | None = None, carry: Iterable[str] = ()) -> str:
    """A command line. `carry` names options that it takes over where they were given.

    >>> command("explain", "my runs.jsonl", "--run", "a b")
    "assay explain 'my runs.jsonl' --run 'a b'"
    """
    carried = [] if options is None else [word for name in carry for word in given(options, name)]
    if getattr(options, "config_file", None):
        carried += ["--config", options.config_file]  # type: ignore[union-attr]
    elif getattr(options, "no_config", False):
        carried.append("--no-config")
    if getattr(options, "trust", False):
        carried.append("--trust")
    return printable(shlex.join(["assay", *words, *carried]))


def release_step(options: Options, *runs: str, passed: bool) -> tuple[str, str] | None:
    """The command that comes next on the way to a release, and what it does: compare runs with the
    baseline or, if there is none and they passed, store them as the baseline.
    """
    from assay.project.ledger import baselines_folder  # only after a result
    from assay.release.baseline import names

    policy = given(options, "--policy")[1:]
    chosen = ("--grading-policy", *policy) if policy else ()
    carry = [name for name in GRADED_BY if name != "--policy"]
    known = names(baselines_folder())
    configured = None if options.config is None else options.config.spec.baseline
    name = known[0] if len(known) == 1 else "production"
    if (configured or name) not in known and (known or configured not in (None, name)):
        return None  # it may be in a ledger or nowhere yet, or any of several may be meant
    if known:
        against = () if configured else ("--baseline", name)
        carry += BARS
        words = command("gate", *runs, *against, *chosen, options=options, carry=carry)
        return words, "may it replace the baseline?"
    if not passed:
        return None
    words = command("baseline", "set", name, *runs, *chosen, options=options, carry=carry)
    return words, "what the next version is compared with"


def is_one_file(path: str) -> bool:
    """Whether a printed command can name an input: standard input can't be read again, and several
    files that were imported together are one input.
    """
    return path not in ("-", "<stdin>") and ", " not in path


def given(options: Options, name: str) -> list[str]:
    """An option of the frame as it was given; nothing if it has its default, or its value from
    assay.yaml, which the command that is printed reads too.
    """
    argument = COMMON[name]
    value: Any = getattr(options, argument.dest, None)
    source = options.sources.get(argument.dest, "default")
    if value is None or value == argument.default or source not in _PRINTED:
        return []
    if argument.kind == "flag":
        return [name] if value else []
    values = value if isinstance(value, list) else [value]
    return [word for value in values for word in (name, str(value))]
