"""What an MCP server can't show about itself, declared in a file: its modules, keys and hosts, its
terms of service and its About page.

A declaration is a claim about one version of one server, stored with the tools it was given for. It
can only add information: it never clears what the tools or the server's start command contradict.
How it joins the tools: `server.declare`. What the veto checks make of it: `checks`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Any

from msgspec import Meta, Struct, to_builtins

from assay.errors import EvidenceError, Fault, InputError, raise_faults
from assay.families.tools.source import ToolSchema
from assay.files.json_files import Document, Path
from assay.files.yaml_files import read_yaml
from assay.records.reading import read_record

CODE = "FMC-017"
MAX_ITEMS = 500
MAX_ABOUT = 65_536
_Name = Annotated[str, Meta(min_length=1, max_length=200)]
_Names = list[_Name]
_HOST = re.compile(r"(?=.{1,253}\Z)[a-z0-9_-]{1,63}(\.[a-z0-9_-]{1,63})*", re.IGNORECASE)
_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
_MODULE = re.compile(r"[^\s=<>!~;,\[\]]+|https?://\S+")
_TERMS = re.compile(r"no-tos-found|https://\S+")
_OPEN = ("modules", "keys", "terms")
"""What may be declared not applicable."""


class _Part(
    Struct,
    frozen=True,
    forbid_unknown_fields=True,
    kw_only=True,
    rename="camel",
    omit_defaults=True,
):
    pass


class NotApplicable(_Part, frozen=True):
    """Why something does not apply to a server."""

    modules: _Name | None = None
    """Why no modules can be listed."""
    keys: _Name | None = None
    """Why no keys can be listed."""
    terms: _Name | None = None
    """Why there are no terms of service."""


class Declaration(_Part, frozen=True):
    """A declaration. Anything it leaves out stays undetermined."""

    server: _Name
    """The name that the server states, or the namespace made from it."""
    version: Annotated[str, Meta(max_length=200)]
    """The version that the server states; "" where it states none."""
    declared_by: Annotated[str, Meta(max_length=200)] | None = None
    """Who wrote the declaration."""
    modules: _Names | None = None
    """Every package it loads from outside, as `name` or `name@version`; [] for none."""
    keys: _Names | None = None
    """The names of the keys, tokens and passwords it needs; [] for none."""
    hosts: _Names | None = None
    """The hosts it calls, as `api.example.com`; [] for none."""
    terms: Annotated[str, Meta(max_length=2000)] | None = None
    """The address of the terms of service, or `no-tos-found`."""
    about: Annotated[str, Meta(min_length=1)] | None = None
    """The About page of its namespace, in Markdown."""
    not_applicable: NotApplicable = NotApplicable()
    """What does not apply to this server, each with the reason."""

    def document(self) -> dict[str, Any]:
        """As JSON has it, without the About page: that is a resource of the server."""
        made: dict[str, Any] = to_builtins(self)
        made.pop("about", None)
        return made

    def reason(self, what: str) -> str | None:
        """Why something does not apply; None if it does."""
        reason: str | None = getattr(self.not_applicable, what)
        return reason


def read_declaration(path: str) -> Declaration:
    """The declaration in a YAML or JSON file, or every fault of it with its line."""
    return check_declaration(read_yaml(path))


def check_declaration(document: Document) -> Declaration:
    """A declaration from a parsed document."""
    try:
        declaration = read_record(document, Declaration, CODE)
    except EvidenceError as error:
        for fault in error.faults:
            if fault.path == "version":  # YAML reads 1.0 as a number
                fault.fix = "Put it in quotes."
        raise InputError(
            CODE,
            error.message,
            where=document.file,
            fix=error.fix or "`assay schema-of tool-declaration` prints its schema.",
            faults=error.faults,
        ) from None
    raise_faults(list(_faults(declaration, document)), where=document.file)
    return declaration


def declaration_of(schema: ToolSchema) -> Declaration | None:
    """The declaration that was given for the tools of a server; None if none was."""
    stated = schema.main.get("declaration") if schema.kind == "mcp" else None
    if stated is None:
        return None
    return check_declaration(Document(stated, schema.path, None, None))


def _faults(declaration: Declaration, document: Document) -> Iterator[Fault]:
    def fault(path: Path, message: str, fix: str) -> Fault:
        return document.fault(message, path, code=CODE, fix=fix)

    for what in _OPEN:
        if declaration.reason(what) is not None and getattr(declaration, what) is not None:
            yield fault(
                ("notApplicable", what),
                f"{what} is both declared and not applicable.",
                "Keep one of the two.",
            )
        if declaration.reason(what) is not None and not str(declaration.reason(what)).strip():
            yield fault(("notApplicable", what), "the reason is empty.", "Say why.")
    for what in ("modules", "keys", "hosts"):
        many = len(getattr(declaration, what) or ())
        if many > MAX_ITEMS:
            yield fault((what,), f"has {many:,} entries.", f"List at most {MAX_ITEMS}.")
    if len(declaration.about or "") > MAX_ABOUT:
        yield fault(("about",), "is too long.", f"Write at most {MAX_ABOUT:,} characters.")
    for index, host in enumerate(declaration.hosts or ()):
        if not _HOST.fullmatch(host):
            yield fault(
                ("hosts", index),
                f"{host!r} is not a host.",
                "Write the name alone, as api.example.com.",
            )
    for index, module in enumerate(declaration.modules or ()):
        if not _MODULE.fullmatch(module):
            yield fault(
                ("modules", index),
                f"{module!r} is not the name of a module.",
                "Write name or name@version, without extras and ranges.",
            )
    for index, key in enumerate(declaration.keys or ()):
        if not _KEY.fullmatch(key):
            yield fault(
                ("keys", index),
                "this is not the name of a key.",  # it may be the key itself
                "Write the name, as EXAMPLE_API_KEY, never the key.",
            )
    if declaration.terms and not _TERMS.fullmatch(declaration.terms):
        yield fault(
            ("terms",),
            f"{declaration.terms[:100]!r} is not an address.",
            "Write one that begins with https://, or no-tos-found.",
        )
