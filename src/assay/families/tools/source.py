"""A tool schema as it was read. How it is read: `reading`. What is right or wrong with it:
`validation`.
"""

from __future__ import annotations

import re
from hashlib import sha256
from typing import Any, NamedTuple

_VERSIONED = re.compile(
    r"((?:npm:|jsr:)?(?:[a-z]+://.*?/)?(?:@[^/@]+/)?[^/@:?#]+)@([^/?#@]+)(.*)", re.DOTALL
)


def split_version(specifier: str) -> tuple[str, str | None]:
    """The specifier without its version, and the version.

    >>> split_version("npm:@scope/x@1.2.3"), split_version("ethers")
    (('@scope/x', '1.2.3'), ('ethers', None))
    >>> split_version("https://esm.sh/x@1.2/y")
    ('https://esm.sh/x/y', '1.2')
    """
    match = (
        None
        if len(specifier) > 1000 or specifier.startswith((".", "/"))
        else _VERSIONED.fullmatch(specifier)
    )
    name, version = (match[1] + match[3], match[2]) if match else (specifier, None)
    # the prefix doesn't change the package, and a list of names must find it
    return name.removeprefix("npm:"), version


class Module(NamedTuple):
    """A module that a schema asks for. It was found by reading, never loaded."""

    name: str
    version: str | None
    """As the schema states it; None if it states none."""
    source: str
    """How it is asked for: `import`, `export from`, `dynamic import`, `require` or
    `requiredLibraries`.
    """
    line: int | None
    external: bool
    """False for a file of the schema's own folder tree (`./`, `../`)."""
    computed: bool = False
    """Whether only a run would show which module it is; the name is the code then."""


class NotData(NamedTuple):
    """A place in the exported object without data: a function, a symbol, an infinite number.
    JSON can't express it, so no hash covers it.
    """

    path: str
    kind: str


class ToolSchema(NamedTuple):
    """One tool schema, whatever it was read from."""

    kind: str
    """`flowmcp` or `mcp`."""
    path: str
    """The absolute path of the file; the command or URL of a live server."""
    namespace: str
    base: str
    """The file's name without its extension; for a server, its name."""
    main: dict[str, Any]
    """The exported object as plain data, keys in their order. Of an MCP server: namespace, name,
    version, description (its instructions) and tools.
    """
    tools_text: str
    """What `JSON.stringify(main.tools)` gives in a JavaScript engine; `{}` if there are none."""
    source: bytes
    """The bytes that `schemaHash` of a report covers: the file as it was read."""
    modules: tuple[Module, ...] = ()
    handlers: tuple[str, ...] = ()
    """The names of the tools that have handlers; they are listed, never run."""
    addresses: tuple[str, ...] = ()
    """The addresses in the code of handlers; `{{x}}` is a part that it computes."""
    not_data: tuple[NotData, ...] = ()

    @property
    def schema_id(self) -> str:
        """`namespace/file-base`, the id of the file protocol."""
        return f"{self.namespace}/{self.base}"

    @property
    def file_sha256(self) -> str:
        """`sha256:` and 64 hex over the bytes as they are: `schemaHash` of a grade report."""
        return "sha256:" + sha256(self.source).hexdigest()
