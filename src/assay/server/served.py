"""What a family shows on the server: pages, routes, charts, alarms, and how its decisions look.

A family has one `Served` (`Family.served`); the application loads them all when it is made, in each
of its processes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any, NamedTuple

from fastapi import APIRouter

from assay.family import parts
from assay.server.state import Services
from assay.store.drafts import Item
from assay.views.blocks import Part
from assay.views.charts import Chart
from assay.views.pieces import Piece


class Alarm(NamedTuple):
    """Something that needs attention: how bad it is, what, and where to look."""

    kind: str
    text: str
    href: str
    at: str = ""


class Line(NamedTuple):
    """A decision in a list."""

    name: str
    outcome: Piece
    why: str
    kind: str
    version: str = ""
    """The version of a workflow that both sides are."""


class GatePage(NamedTuple):
    """How the decisions of one schema look."""

    kind: str
    """What it is, in a list of decisions."""
    newest: str
    """How a sentence about the newest one begins."""
    line: Callable[[bytes], Line]
    """Its line, from the stored bytes."""
    parts: Callable[[Services, str, Item, dict[str, Any]], list[Part]]
    """The page of one."""


class Served(NamedTuple):
    """The pages of a family, and its parts of others' pages."""

    pages: tuple[APIRouter, ...] = ()
    routes: tuple[APIRouter, ...] = ()
    """Routes of the API."""
    menu: Mapping[str, str] = {}
    """Its entries in the menu, by address."""
    charts: Mapping[str, Callable[[Services, str, str, str], Chart | None]] = {}
    """The charts of a record, by the first part of its page's address; see `pages.charts`."""
    gates: Mapping[str, GatePage] = {}
    """Its decisions, by their schema."""
    alarms: Callable[[Services, str], Iterable[Alarm]] | None = None
    of_run: Callable[[Services, str, str, Any], Part] | None = None
    """Its section on the page of a run: of a project, the digest and its `SampleContext`."""
    of_evaluation: Callable[..., str] | None = None
    """Its figure on the page of an evaluation."""


@cache
def served() -> tuple[Served, ...]:
    """What each family shows."""
    return tuple(value for _, value in parts("served"))


def gate_pages() -> dict[str, GatePage]:
    """How the decisions of families look, by their schema."""
    return {schema: page for each in served() for schema, page in each.gates.items()}
