"""Inputs of a verb that are results of a family, such as an output of `assay batch`, not runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from assay.cli.frame import Argument
from assay.cli.parsing import Options
from assay.family import Inputs, parts
from assay.registry import home_value


def _inputs_of(verb: str) -> Iterator[Inputs]:
    return (table[verb] for _, table in parts("inputs") if verb in table)


def own_reader(verb: str, names: Sequence[str]) -> Callable[..., Any] | None:
    """What a family does with these inputs in place of the verb; None if they are runs."""
    homes = (inputs.read for inputs in _inputs_of(verb) if home_value(inputs.test)(names))
    return next(map(home_value, homes), None)


def own_options(verb: str) -> tuple[Argument, ...]:
    """The options of a verb that only such inputs have."""
    homes = (inputs.options for inputs in _inputs_of(verb) if inputs.options)
    return tuple(option for home in homes for option in home_value(home))


def refuse_own_options(verb: str, options: Options) -> None:
    """Refuse those options where the inputs are runs."""
    for inputs in _inputs_of(verb):
        if inputs.refuse:
            home_value(inputs.refuse)(options)
