"""Names for the functions of a program, so that a workflow can refer to them.

A workflow names its functions as `module:name`. Functions of a notebook are in no file, so they are
registered in an in-memory module while they are needed.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count
from types import ModuleType
from typing import Any

from assay.errors import InputError

_HOME = "assay_given_functions"
_numbers = count(1)


@contextmanager
def named(functions: Sequence[Callable[..., Any]]) -> Iterator[list[str]]:
    """The names of the functions, valid until the block ends."""
    module = sys.modules.setdefault(_HOME, ModuleType(_HOME))
    names = [f"{plain_name(function)}_{next(_numbers)}" for function in functions]
    for name, function in zip(names, functions, strict=True):
        setattr(module, name, function)
    try:
        yield [f"{_HOME}:{name}" for name in names]
    finally:
        for name in names:
            delattr(module, name)


def plain_name(function: Callable[..., Any]) -> str:
    """The name of a function as an identifier.

    >>> plain_name(len), plain_name(lambda x: x)
    ('len', 'function')
    """
    name = getattr(function, "__name__", type(function).__name__)
    return name if name.isidentifier() else "function"


def as_workflow(function: Callable[..., Any], inputs: Sequence[str]) -> Callable[..., Any]:
    """A function as a workflow calls it: with a mapping of inputs.

    Parameters with the names of inputs get those; a function with one other parameter gets all of
    them.

    >>> as_workflow(lambda question: question.upper(), ["question"])({"question": "why"})
    'WHY'
    """
    if not callable(function):
        raise InputError("API-001", f"{type(function).__name__} can't be called.")
    names = _parameters(function)
    by_name = bool(names) and set(names) <= set(inputs)

    def call(given: Mapping[str, Any], *more: Any) -> Any:
        if by_name:
            return function(**{name: given[name] for name in names if name in given})
        return function(given, *more)

    if inspect.iscoroutinefunction(function):

        async def answered(inputs: Mapping[str, Any]) -> Any:
            return await call(inputs)

        return answered
    if not by_name and names[1:2] in (["record"], ["recorder"]):

        def recorded(inputs: Mapping[str, Any], record: Any) -> Any:
            return call(inputs, record)

        return recorded

    def answer(inputs: Mapping[str, Any]) -> Any:
        return call(inputs)

    return answer


def _parameters(function: Callable[..., Any]) -> list[str]:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return []
    plain = (
        inspect.Parameter.POSITIONAL_ONLY,
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
        inspect.Parameter.KEYWORD_ONLY,
    )
    return [parameter.name for parameter in parameters if parameter.kind in plain]
