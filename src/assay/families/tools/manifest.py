"""A file next to each snapshot that lists its contents: its tools, its About page, its bytes. With
it, an index need not run a module to know which tools there are.

The list of tools comes from the source, not from the folders: otherwise deleting the folder of a
failing tool would repair the namespace.
"""

from __future__ import annotations

import os
from datetime import datetime
from typing import Any, NamedTuple

from msgspec import Struct

from assay.errors import InputError
from assay.families.tools.ecma import about_hash, hash8
from assay.families.tools.names import file_stamp, is_hash8, latest, segment
from assay.families.tools.source import ToolSchema
from assay.families.tools.validation import count_tests
from assay.files.json_files import parse_json
from assay.records.typed import convert


class Snapshot(NamedTuple):
    """The newest version of a primitive in the tree."""

    file: str
    hash8: str
    moment: datetime


def snapshot_of(folder: str, name: str) -> Snapshot | None:
    """The newest `<name>--<time>--<hash8>.<ext>` in a folder."""
    try:
        newest = latest(
            (file for file in os.listdir(folder) if file.rsplit("--", 2)[0] == name), name
        )  # `air--quality` is not a version of `air`
    except (FileNotFoundError, NotADirectoryError):
        return None
    if newest is None:
        return None
    hash8 = newest.rsplit(".", 1)[0].rsplit("--", 1)[-1]
    moment = file_stamp(newest)
    return Snapshot(newest, hash8, moment) if is_hash8(hash8) and moment is not None else None


class ManifestTool(Struct, frozen=True):
    """A tool in a manifest."""

    hash: str
    tests: int | None
    """None for the tools of a server, which carry no tests."""


class Manifest(Struct, frozen=True, kw_only=True, rename="camel"):
    """What one snapshot of a schema holds."""

    schema_id: str
    hash: str
    file_sha256: str
    kind: str
    version: str
    about_hash: str | None
    tools: dict[str, ManifestTool]


def tools_of(main: dict[str, Any]) -> dict[str, Any]:
    """The tools of a schema, also under their older name `routes`."""
    tools = main.get("tools") if isinstance(main.get("tools"), dict) else main.get("routes")
    return tools if isinstance(tools, dict) else {}


def about_text(main: dict[str, Any]) -> bytes | None:
    """The About page that a schema or selection declares inline, as bytes; None if it declares
    none.
    """
    resources = main.get("resources")
    about = resources.get("about") if isinstance(resources, dict) else None
    if isinstance(about, dict):
        about = next(
            (
                about[key]
                for key in ("content", "markdown", "text")
                if isinstance(about.get(key), str)
            ),
            None,
        )
    return (
        about.encode("utf-8", "surrogatepass") if isinstance(about, str) and about.strip() else None
    )


def flowmcp_version(main: dict[str, Any]) -> str:
    """The schema's version on the axis of the FlowMCP specification; `unknown` where it states none
    of 4, which only the extended form can say.
    """
    version = main.get("version")
    parts = version.split(".") if isinstance(version, str) else []
    return (
        f"flowmcp/{version}"
        if len(parts) == 3
        and parts[0] == "4"
        and all(part.isascii() and part.isdigit() for part in parts)
        else "unknown"
    )


def manifest_of(schema: ToolSchema) -> Manifest:
    """The manifest of a schema, or an error if a name in it cannot be a folder."""
    tools = {}
    for name, tool in tools_of(schema.main).items():
        tests = None if schema.kind == "mcp" else count_tests(tool)
        tools[segment(name, "tool")] = ManifestTool(hash8(tool), tests)
    about = about_text(schema.main)
    return Manifest(
        schema_id=schema.schema_id,
        hash=hash8(schema.main),
        file_sha256=schema.file_sha256,
        kind=schema.kind,
        version=schema_version(schema),
        about_hash=about_hash(about) if about is not None else None,
        tools=tools,
    )


def schema_version(schema: ToolSchema) -> str:
    """The version of a schema as an entry states it; that of a server is unknown."""
    return flowmcp_version(schema.main) if schema.kind == "flowmcp" else "unknown"


def manifest_name(snapshot_file: str) -> str:
    """The file next to a snapshot; it begins with a character that no schema's name begins with."""
    _, *rest = snapshot_file.rsplit(".", 1)[0].rsplit("--", 2)
    return f"_manifest--{'--'.join(rest)}.json"


def read_manifest(folder: str, snapshot: Snapshot) -> Manifest | None:
    """The manifest of a snapshot; None if another program made the snapshot without one."""
    path = os.path.join(folder, manifest_name(snapshot.file))
    try:
        with open(path, "rb") as stream:
            manifest = convert(parse_json(stream.read()), Manifest)
        if manifest.hash != snapshot.hash8:
            raise ValueError("is of another snapshot")
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise InputError(
            "IDX-004",
            f"the manifest cannot be read: {error}.",
            where=path,
            fix="Restore it, or import the schema again.",
        ) from None
    return manifest
