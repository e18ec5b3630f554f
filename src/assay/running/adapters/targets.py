"""The keys of a workflow file that describe a graph or an agent: `target`, `input`, `output`,
`agents`.

A target is the object itself or a function that builds it. A function is called for every sample,
so that no state carries over from the previous sample.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta

from assay.errors import InputError
from assay.installing import import_extra
from assay.running.adapters import AdapterSpec
from assay.running.adapters.loading import load

if TYPE_CHECKING:
    from pathlib import Path

_ABSENT = object()


class TargetSpec(AdapterSpec, frozen=True, kw_only=True):
    """The keys of an adapter for a framework's object."""

    target: str
    output: str | dict[str, str] | None = None
    """The name of the only output, or the path in the result for each output."""
    agents: list[Annotated[str, Meta(min_length=1)]] | None = None
    """The steps that are agents; without it, those that ask a model."""


def framework(module: str, extra: str, where: str) -> None:
    """Import a framework, or raise with its install line."""
    missing = f"the module {module!r} is not installed."
    import_extra(module, extra, missing, where=where, kind=InputError)


class Target:
    """The object that a workflow file names, or the function that builds it."""

    def __init__(
        self, value: Any, name: str, where: str, *, what: str, is_ready: Callable[[Any], bool]
    ) -> None:
        self.value = value
        self.name = name
        self.where = where
        self._what = what
        self._is_ready = is_ready
        self.is_built = not is_ready(value) and callable(value)
        if not is_ready(value) and not callable(value):
            raise self._unusable(f"is {type(value).__name__}; it must be {what}, or build one")

    @classmethod
    def load(
        cls, name: str, folder: Path, where: str, *, what: str, is_ready: Callable[[Any], bool]
    ) -> Target:
        """The target behind `module:name`."""
        return cls(load(name, folder, where), name, where, what=what, is_ready=is_ready)

    async def get(self) -> Any:
        """The object itself, or what the function makes."""
        if not self.is_built:
            return self.value
        built = self.value()
        if inspect.isawaitable(built):
            built = await built
        if not self._is_ready(built):
            raise self._unusable(f"returns {type(built).__name__}; it must return {self._what}")
        return built

    def _unusable(self, words: str) -> InputError:
        return InputError("RUN-004", f"{self.name!r} {words}.", where=self.where)


def outputs_of(result: Any, output: str | Mapping[str, str] | None) -> dict[str, Any]:
    """The outputs by name. A path that leads nowhere gives no output: a required one then fails its
    gate.

    >>> outputs_of(
    ...     {"messages": [{"content": "hi"}], "n": 1},
    ...     {"answer": "messages.-1.content", "lost": "messages.7"},
    ... )
    {'answer': 'hi'}
    >>> outputs_of("hi", None), outputs_of({"a": 1, "b": 2}, "a"), outputs_of("hi", "reply")
    ({'answer': 'hi'}, {'a': 1}, {'reply': 'hi'})
    """
    if output is None:
        return dict(result) if isinstance(result, Mapping) else {"answer": result}
    if isinstance(output, str):
        if not isinstance(result, Mapping):
            return {output: result}
        return {output: result[output]} if output in result else {}
    outputs = {name: _at(result, path) for name, path in output.items()}
    return {name: value for name, value in outputs.items() if value is not _ABSENT}


def _at(value: Any, path: str) -> Any:
    try:
        for part in path.split("."):
            value = value[int(part) if isinstance(value, list | tuple) else part]
    except (KeyError, IndexError, ValueError, TypeError):
        return _ABSENT
    return value


def plain(value: Any, known: Callable[[Any], Any]) -> Any:
    """A result as JSON values, as far as possible. `known` converts the framework's own types, and
    returns anything else as it is.
    """
    value = known(value)
    if isinstance(value, Mapping):
        return {key: plain(item, known) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(item, known) for item in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {
            field.name: plain(getattr(value, field.name), known)
            for field in dataclasses.fields(value)
        }
    dump = getattr(value, "model_dump", None)
    return dump(mode="json") if callable(dump) and not isinstance(value, type) else value
