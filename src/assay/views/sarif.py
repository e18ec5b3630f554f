"""The parts of SARIF 2.1.0, the form in which code hosts show results at the line they belong to.
Grades and decisions: `sarif_grades`.

Rules and findings are made elsewhere; this module only writes them.
Code scanning refuses a document with a result that has no line in a file. A finding that belongs to
no file, such as one of a live server, is placed at the first line of assay.yaml, with its name.
"""

from __future__ import annotations

import os
import re
from hashlib import sha256
from typing import Any
from urllib.parse import quote

SCHEMA_URI = (
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
)
VERSION = "2.1.0"
LEVELS = ("error", "warning", "note")
"""How much a result matters, most first."""
FINGERPRINT = "assay/v1"
"""The name under which a result is known from run to run; a new way to compute it gets a new
name.
"""
NO_FILE = "assay.yaml"
"""The file in which results of no file are placed."""
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
_DRIVE = re.compile(r"[A-Za-z]:[\\/]")


def tool(rules: list[dict[str, Any]], version: str) -> dict[str, Any]:
    """Assay, as the tool that found the results, with the rules it looked at."""
    driver = {"name": "Assay", "semanticVersion": version, "version": version, "rules": rules}
    if not re.fullmatch(r"\d+\.\d+\.\d+(?:-[0-9A-Za-z.-]+)?(?:\+[0-9A-Za-z.-]+)?", version):
        del driver["semanticVersion"]
    return {"driver": driver}


def is_file(source: str) -> bool:
    """Whether findings come from a file; a URL or the command of a server is none.

    >>> [
    ...     is_file(source)
    ...     for source in ("schemas/a.mjs", "https://example.com/mcp", "npx some-server --stdio")
    ... ]
    [True, False, False]
    """
    return not _SCHEME.match(source) and (
        " " not in source or bool(re.search(r"\.(mjs|js|json|ya?ml|md)$", source))
    )


def file_uri(source: str) -> str:
    r"""A file as a relative reference: `/` between folders, everything else that a URI does not
    allow percent-encoded.

    >>> file_uri("a b\\ü:1.mjs")
    'a%20b/%C3%BC%3A1.mjs'
    """
    plain = os.fsencode(source.replace("\\", "/"))  # a name may be bytes that are not UTF-8
    if _DRIVE.match(source):
        return "file:///" + quote(plain, safe="/:")
    if plain.startswith(b"/"):
        return "file://" + quote(plain, safe="/")
    return quote(plain.removeprefix(b"./"), safe="/")


def descriptor(name: str, holds: str, fix: str, level: str = "error") -> dict[str, Any]:
    """A rule: what holds where it is kept, and what to do where it is not."""
    return {
        "id": name,
        "name": "".join(part.capitalize() for part in re.split(r"[^A-Za-z0-9]+", name)),
        "shortDescription": message(holds),
        "help": message(fix),
        "defaultConfiguration": {"level": checked_level(level)},
    }


def message(text: str) -> dict[str, str]:
    """A message without links: text in which a viewer would find one (SARIF 2.1.0, section 3.11.6)
    is escaped.
    """
    return {"text": re.sub(r"[\\\[\]]", r"\\\g<0>", text) if "](" in text else text}


def file_place(file: str, line: int | None) -> dict[str, Any]:
    """A location in a file: at its first line where no other is known."""
    region = {"startLine": line if line is not None and line > 0 else 1}
    return {"physicalLocation": {"artifactLocation": {"uri": file_uri(file)}, "region": region}}


def fingerprint(*names: str) -> str:
    """What a result is known by from run to run. Neither its line nor its wording goes in: it stays
    the same one when something above it moves or a message is put better.
    """
    return sha256("\0".join(names).encode("utf-8", "surrogatepass")).hexdigest()[:32]


def checked_level(level: str) -> str:
    """The level, if SARIF knows it."""
    if level not in LEVELS:
        raise ValueError(f"{level!r} is not one of {', '.join(LEVELS)}")
    return level
