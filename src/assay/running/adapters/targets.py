"""What a workflow file says of a graph or an agent, and reading it: `target`, `input`, `output`,
`agents`.

A target is the object itself or a function that builds it. A function is called for every sample,
so that nothing is left over of the sample before.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from assay.errors import InputError
from assay.registry import near_miss

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_ABSENT = object()


def check_keys(spec: Mapping[str, Any], allowed: Sequence[str], kind: str, where: str) -> None:
    """Refuse a key that the adapter does not know, and shapes that it cannot read."""
    for key in sorted(set(spec) - set(allowed)):
        raise InputError(
            "RUN-001",
            f"adapter has the key {key!r}.{near_miss(key, allowed)}",
            where=where,
            fix=f"{kind} has {', '.join(allowed)}.",
        )
    output, agents = spec.get("output"), spec.get("agents")
    if not (output is None or isinstance(output, str) or _is_texts_by_name(output)):
        raise InputError(
            "RUN-001",
            f"adapter.output is {output!r}; it is a name, or a path in the result by the name of"
            " each output.",
            where=where,
        )
    if not (
        agents is None
        or (isinstance(agents, list) and all(isinstance(one, str) and one for one in agents))
    ):
        raise InputError(
            "RUN-001", f"adapter.agents is {agents!r}; it is a list of names.", where=where
        )


def agents_of(spec: Mapping[str, Any]) -> frozenset[str] | None:
    """The steps that the file says are agents; None where it leaves that to what they do."""
    return None if spec.get("agents") is None else frozenset(spec["agents"])


def _is_texts_by_name(value: Any) -> bool:
    return isinstance(value, Mapping) and all(
        isinstance(key, str) and isinstance(one, str) for key, one in value.items()
    )


def renamed(mapping: Any, inputs: Mapping[str, Any], where: str) -> dict[str, Any]:
    """The inputs under the names that a target knows them by. An optional input that a sample lacks
    stays absent.
    """
    if mapping is None:
        return dict(inputs)
    if not _is_texts_by_name(mapping):
        raise InputError(
            "RUN-001",
            f"adapter.input is {mapping!r}; it names the input for each key of the state.",
            where=where,
        )
    return {key: inputs[name] for key, name in mapping.items() if name in inputs}


def framework(module: str, extra: str, where: str) -> None:
    """Import a framework, or say how to install it."""
    try:
        import_module(module)
    except ImportError as error:
        missing = getattr(error, "name", None) or module
        raise InputError(
            "RUN-004",
            f"the module {missing!r} is not installed.",
            where=where,
            fix=f"pip install 'assay[{extra}]'",
        ) from None


async def built(target: Any, is_ready: Callable[[Any], bool]) -> Any:
    """The object that a target stands for: itself, or what the function makes."""
    if not is_ready(target) and callable(target):
        target = target()
        if inspect.isawaitable(target):
            target = await target
    return target


def outputs_of(result: Any, output: Any) -> dict[str, Any]:
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
        return (
            {output: result[output]}
            if isinstance(result, Mapping) and output in result
            else {}
            if isinstance(result, Mapping)
            else {output: result}
        )
    found = {name: _at(result, path) for name, path in output.items()}
    return {name: value for name, value in found.items() if value is not _ABSENT}


def _at(value: Any, path: str) -> Any:
    for part in path.split("."):
        if isinstance(value, Mapping) and part in value:
            value = value[part]
        elif (
            isinstance(value, list | tuple)
            and part.lstrip("-").isdecimal()
            and -len(value) <= int(part) < len(value)
        ):
            value = value[int(part)]
        else:
            return _ABSENT
    return value


def plain(value: Any, known: Callable[[Any], Any]) -> Any:
    """A result as JSON can say it, as far as that goes. `known` makes plain what only the
    framework's adapter knows, and returns anything else as it is.
    """
    value = known(value)
    if isinstance(value, Mapping):
        return {key: plain(one, known) for key, one in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(one, known) for one in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {
            field.name: plain(getattr(value, field.name), known)
            for field in dataclasses.fields(value)
        }
    dump = getattr(value, "model_dump", None)
    return dump(mode="json") if callable(dump) and not isinstance(value, type) else value
