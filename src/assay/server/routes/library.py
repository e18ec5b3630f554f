"""The shelf, the known workflows and datasets, published schemas, and the tree of tool schemas; all
read-only.
"""

from __future__ import annotations

import os
from enum import StrEnum
from typing import Any

import msgspec
from fastapi import APIRouter, Depends, Request
from starlette.responses import Response

from assay.errors import InputError, ShelfError
from assay.files.json_files import read_json
from assay.server import bodies, lookup, openapi
from assay.server.auth import READ, Principal
from assay.server.problems import Problem
from assay.server.routing import Route
from assay.server.state import SERVICES, Services, check_name, on_shelf
from assay.services.documents import document_kinds
from assay.store.reading import seen

router = APIRouter(route_class=Route, prefix="/api/v1", tags=["library"], responses=openapi.EVERY)
MAX_TREE_FILE = 16 * 1024 * 1024


class Kind(StrEnum):
    """The items on the shelf."""

    profiles = "profiles"
    policies = "policies"
    rubrics = "rubrics"


@router.get("/library/{kind}", summary="List profiles, policies or rubrics")
def list_shelf(
    request: Request, kind: Kind, principal: Principal = READ, services: Services = SERVICES
) -> Response:
    """Names and versions, a team's own before the built-in."""
    items = [
        {"id": entry.id, "name": entry.name, "version": entry.version}
        for entry in services.shelf.entries(kind.value)
    ]
    return bodies.answer(request, {"items": items})


@router.get("/library/{kind}/{name}", summary="One profile, policy or rubric")
def get_shelf(
    request: Request,
    kind: Kind,
    name: str,
    principal: Principal = READ,
    services: Services = SERVICES,
) -> Response:
    """By its name (its newest version) or by `name@version`."""
    try:
        loaded = services.shelf.load(kind.value, check_name(name))
    except ShelfError as error:
        raise on_shelf(error) from None
    return bodies.answer(
        request,
        {
            "id": str(loaded.id),
            "kind": kind.value,
            "content": plain(loaded),
        },
    )


def plain(item: Any) -> Any:
    """An item of the shelf as plain values."""
    return msgspec.to_builtins(item, enc_hook=str)


def _names(request: Request, principal: Principal, what: str) -> Response:
    database = request.app.state.services.ledger.database
    names = [name._asdict() for name in seen(database, principal.project, what)]
    return bodies.answer(request, {"items": names})


@router.get("/workflows", summary="The workflows whose runs are here")
def list_workflows(request: Request, principal: Principal = READ) -> Response:
    """Ids and versions, with the number of runs."""
    return _names(request, principal, "workflow")


@router.get("/datasets", summary="The datasets whose samples were run")
def list_datasets(request: Request, principal: Principal = READ) -> Response:
    """Ids and versions, with the number of runs."""
    return _names(request, principal, "dataset")


@router.get("/schema-of/{name}", summary="A published JSON Schema")
def get_schema(request: Request, name: str, principal: Principal = READ) -> Response:
    """The schema of a document, by the name that `assay schema-of` takes."""
    kind = document_kinds().get(name)
    if kind is None:
        raise lookup.absent("schema", name)
    return bodies.answer(request, kind.schema)


def _root(services: Services = SERVICES) -> str:
    if services.settings.schemas is None:
        raise Problem(
            404,
            "this server has no tree of tool schemas.",
            fix="Start it with `assay serve --schemas DIR`.",
        )
    return os.path.realpath(services.settings.schemas)


TREE: Any = Depends(_root)


@router.get("/schemas/index", summary="The tree of graded tool schemas")
def get_tree(request: Request, principal: Principal = READ, root: str = TREE) -> Response:
    """Every JSON file of the tree in `assay serve --schemas DIR`; 404 without that option."""
    paths = []
    for folder, folders, files in os.walk(root):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        paths += [
            os.path.relpath(os.path.join(folder, name), root).replace(os.sep, "/")
            for name in sorted(files)
            if name.endswith(".json")
        ]
        if len(paths) > 10_000:
            break
    return bodies.answer(request, {"items": sorted(paths)[:10_000]})


@router.get("/schemas/index/{path:path}", summary="One file of the tree")
def get_tree_file(
    request: Request, path: str, principal: Principal = READ, root: str = TREE
) -> Response:
    """An index or a grading entry, by its path in the tree. A path outside the tree is a 404."""
    parts = path.split("/")
    plain = (
        "\0" not in path
        and "\\" not in path
        and all(part and not part.startswith(".") for part in parts)
        and path.endswith(".json")
    )
    target = os.path.realpath(os.path.join(root, *parts)) if plain else ""
    if (
        not plain
        or not target.startswith(root + os.sep)
        or not os.path.isfile(target)
        or os.path.getsize(target) > MAX_TREE_FILE
    ):
        raise lookup.absent("file of the tree", path)
    try:
        return bodies.answer(request, read_json(target).tree)
    except InputError as error:
        raise Problem(
            404, "this file of the tree cannot be read as JSON.", code=error.code, where=path
        ) from None
