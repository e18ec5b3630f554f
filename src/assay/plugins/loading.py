"""Loads plugins, and checks what they return: a gate must return a verdict, a formula a norm.
Anything else, and any exception but `AssayError` and `Undetermined`, is an error that names the
plugin.

Without these checks, a gate that returned any truthy value would pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, wraps
from typing import Any

from assay import exact
from assay.errors import AssayError, printable
from assay.family import GROUP as FAMILY_GROUP
from assay.family import SHIPPED, Family
from assay.plugins import GROUPS, TYPES
from assay.plugins.points import broken, find_point, fingerprint, installed
from assay.records.evidence import Run
from assay.registry import Registry, home_value
from assay.scoring.gates import GateResult
from assay.scoring.metrics.measure import Undetermined

RAISED = (Exception, SystemExit)
"""What a plugin may raise by mistake. One that ends the process would end a gate with its own exit
code, which may be 0.
"""
_BYTES = ("head", "piece_of", "joint", "foot")
"""The methods of a format that give a part of its file."""


@cache
def outsider(group: str, name: str) -> Any:
    """The entry that an installed plugin has under this name; None if no plugin has one."""
    point = find_point(group, name)
    if point is None:
        return None
    try:
        entry = point.load()
    except RAISED as error:
        why = printable(f"{type(error).__name__}: {error}")
        raise broken(group, name, f"can't be loaded: {why}") from error
    kind = GROUPS[group]
    if not (isinstance(entry, home_value(TYPES[kind])) if kind else callable(entry)):
        expected = f"a {kind}" if kind else "a function"
        raise broken(group, name, f"is a {type(entry).__name__}, not {expected}")
    own = getattr(entry, "id", getattr(entry, "name", name)) if kind else name
    if own != name:
        raise broken(group, name, f"calls itself {printable(str(own))!r}")
    return guarded(group, name, entry)


ALL_FAMILIES = Registry[Family](
    "family",
    homes={f"assay.families.{name}:FAMILY": (name,) for name in SHIPPED},
    group=FAMILY_GROUP,
)
"""Families by name. Most callers want all of them: `assay.family.families`."""


@cache
def families_installed() -> tuple[Family, ...]:
    """The families of installed packages, by name."""
    return tuple(
        outsider(FAMILY_GROUP, plugin.name)
        for plugin in installed(FAMILY_GROUP)
        if not plugin.fault
    )


def guarded(group: str, name: str, entry: Any) -> Any:
    """The entry with its functions checked at each call."""

    def keep(
        call: Callable[..., Any], holds: Callable[[Any], bool] | None = None, wanted: str = ""
    ) -> Callable[..., Any]:
        @wraps(call)
        def kept(*arguments: Any, **more: Any) -> Any:
            try:
                value = call(*arguments, **more)
            except (AssayError, Undetermined):
                raise
            except RAISED as error:
                raise _failed(group, name, error) from error
            if holds is not None and not holds(value):
                what = f"returned {printable(repr(value))[:100]}, not {wanted}"
                raise broken(group, name, what)
            return value

        return kept

    if group == FAMILY_GROUP:
        return entry
    if group == "assay.gates":
        if entry.rule is None:
            raise broken(group, name, "has no rule")
        for field in entry.needs:
            if field not in Run.__struct_fields__:
                raise broken(group, name, f"needs '{printable(str(field))}', which no run has")
        return entry._replace(rule=keep(entry.rule, _is_result, "a GateResult"))
    if group == "assay.formulas":
        return entry._replace(
            apply=keep(entry.apply, _is_norm, "billionths from 0 to 1,000,000,000"),
            invert=keep(entry.invert, _is_raw, "a number, numbers by name, or None"),
            check_params=keep(entry.check_params),
        )
    if group == "assay.measures":
        return entry._replace(read=keep(entry.read))
    if group == "assay.importers":
        return entry._replace(fits=keep(entry.fits), read=_marked(group, name, entry.read))
    if group == "assay.exporters":

        def make() -> Any:
            form = keep(entry.make, _is_a("Format"), "a Format")()
            for method in ("prepare", "head", "piece_of", "joint", "foot", "onto", "finish"):
                is_bytes = _is_bytes if method in _BYTES else None
                setattr(form, method, keep(getattr(form, method), is_bytes, "bytes"))
            return form

        return entry._replace(make=make)
    if group == "assay.adapters":
        return keep(entry, _is_a("Adapter"), "an Adapter")
    if (entry.dialect is None) == (entry.answer is None):
        raise broken(group, name, "needs a `dialect` or an `answer`, one of them")
    return entry


def _failed(group: str, name: str, error: BaseException) -> AssayError:
    return broken(group, name, f"failed: {printable(f'{type(error).__name__}: {error}')[:300]}")


def _is_result(value: Any) -> bool:
    return (
        isinstance(value, GateResult)
        and (value.passed is None or isinstance(value.passed, bool))
        and isinstance(value.reason, str)
    )


def _is_a(kind: str) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, home_value(TYPES[kind]))


def _is_bytes(value: Any) -> bool:
    return isinstance(value, bytes)


def _is_norm(value: Any) -> bool:
    return type(value) is int and 0 <= value <= exact.NORM_ONE


def _is_raw(value: Any) -> bool:
    values = list(value.values()) if isinstance(value, dict) else [value]
    return value is None or all(map(exact.is_number, values))


def _marked(group: str, name: str, read: Callable[..., Any]) -> Callable[..., Iterator[Any]]:
    """The importer's `read`, with the plugin among the checks of every run: another version of it
    may read better scores.
    """

    @wraps(read)
    def marked(*arguments: Any) -> Iterator[Any]:
        made = fingerprint(group, name)
        try:
            for run in read(*arguments):
                if not isinstance(run, dict):
                    raise broken(group, name, f"gave a {type(run).__name__}, not a run")
                checks = {f"importer/{name} {made.removeprefix('sha256:')[:12]}": 0}
                yield {**run, "checks": {**(run.get("checks") or {}), **checks}}
        except AssayError:
            raise
        except RAISED as error:
            raise _failed(group, name, error) from error

    return marked
