"""The documents: one page for each kind in the registry, with an example and every field."""

from __future__ import annotations

import json
from typing import Any

import yaml

from assay.project.config import ConfigFile
from assay.services.documents import DocumentKind, document_kinds
from generators.document_examples import example_of
from generators.markdown import block, code, compact, json_block, page, shortened, table
from generators.tool_fields import FIELDS, REPORT, TOOL_FILES

CONFIG = "config"


def pages() -> dict[str, str]:
    """A page for each document, and an index of what comes in and what goes out."""
    made = {
        "config.md" if name == CONFIG else f"documents/{name}.md": _document(name, kind)
        for name, kind in document_kinds().items()
    }
    return {
        "evidence.md": _index(
            "Documents that Assay reads",
            "What you or other tools write. Unknown keys are errors that name the near miss;"
            " `metadata` is free. An absent list means that nobody looked, an empty one that there"
            " was nothing. A run is enough to start: see [run](documents/run.md).",
            is_input=True,
        ),
        "results.md": _index(
            "Documents that Assay writes",
            "What commands print with `--json`, write with `-o`, and keep in the ledger. Every"
            " result names the policy, the profile, both system versions and the digests of what"
            " made it.",
            is_input=False,
        ),
        **made,
    }


def _address(name: str) -> str:
    return "config.md" if name == CONFIG else f"documents/{name}.md"


def _index(title: str, intro: str, *, is_input: bool) -> str:
    rows = [
        (f"[{name}]({_address(name)})", kind.title, kind.used.replace("](../", "]("))
        for name, kind in document_kinds().items()
        if kind.is_input is is_input
    ]
    return page(title, intro, table(("document", "what it is", "used by"), rows))


def _document(name: str, kind: DocumentKind) -> str:
    schema = kind.schema
    texts = REPORT if name == "grade-report" else FIELDS if name in TOOL_FILES else {}
    example = example_of(name)
    shown = (
        block(example.text, "yaml")
        if example.is_yaml
        else json_block(shortened(json.loads(example.text), items=2, text=120))
    )
    parts = [
        kind.title,
        kind.used if name != CONFIG else kind.used.replace("](../", "]("),
        f"`assay schema-of {name}` prints its JSON Schema.",
        "## Example",
        example.about,
        shown,
        "## Fields",
    ]
    if name == "event":
        parts.append("[Events](../events.md) describes each kind of event and its keys.")
    else:
        parts.append(_fields(schema, texts))
        for part, one in schema.get("$defs", {}).items():
            parts += [
                f"### {part}",
                " ".join(one.get("description", "").split()),
                _fields(one, texts),
            ]
        parts += _nested(schema, texts)
    return page("assay.yaml" if name == CONFIG else f"Document: {name}", *parts)


def _nested(schema: dict[str, Any], texts: dict[str, str]) -> list[str]:
    """The objects inside a schema without definitions, one level deep each."""
    parts: list[str] = []

    def walk(part: Any, path: str) -> None:
        if not isinstance(part, dict):
            return
        inner = part.get("items") if "items" in part else part
        mark = f"{path}[]" if "items" in part else path
        if isinstance(inner, dict) and "properties" in inner and path:
            parts.extend([f"### {mark}", _fields(inner, texts)])
        for name, one in (inner.get("properties", {}) if isinstance(inner, dict) else {}).items():
            walk(one, f"{mark}.{name}".lstrip("."))

    if not schema.get("$defs"):
        walk(schema, "")
    return parts


def _fields(schema: dict[str, Any], texts: dict[str, str]) -> str:
    required = schema.get("required", ())
    rows = []
    for name, field in schema.get("properties", {}).items():
        default = field.get("default") if isinstance(field, dict) else None
        rows.append(
            (
                code(name),
                _type(field),
                "yes" if name in required else code(compact(default)) if default else "",
                (field.get("description") if isinstance(field, dict) else None)
                or texts.get(name, ""),
            )
        )
    return table(("key", "type", "required, or default", "meaning"), rows)


def _type(schema: Any) -> str:
    if not isinstance(schema, dict) or not schema:
        return "any"
    if "$ref" in schema:
        name = schema["$ref"].rsplit("/", 1)[-1]
        return f"[{name}](#{name.lower()})"
    if "enum" in schema:
        return ", ".join(code("null" if value is None else value) for value in schema["enum"])
    if "const" in schema:
        return code(schema["const"])
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(_type(option) for option in schema["anyOf"]))
    kinds = schema.get("type", "any")
    kinds = kinds if isinstance(kinds, list) else [kinds]
    if kinds == ["array"]:
        return f"list of {_type(schema.get('items', schema.get('prefixItems', [{}])[0]))}"
    if kinds == ["object"] and isinstance(schema.get("additionalProperties"), dict):
        return f"map to {_type(schema['additionalProperties'])}"
    return " or ".join(kinds)


def config_keys() -> list[str]:
    """Every key of `assay.yaml`."""
    return list(ConfigFile.__struct_encode_fields__)


def loaded(name: str) -> Any:
    """The example of a document as plain values."""
    example = example_of(name)
    return yaml.safe_load(example.text) if example.is_yaml else json.loads(example.text)
