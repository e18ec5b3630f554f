"""A small, well-behaved MCP server made with the SDK: a pad of notes. `notes.py` talks over stdio,
`notes.py PORT` over streamable HTTP.
"""

from __future__ import annotations

import sys
from typing import Annotated, Literal

from mcp.server.mcpserver import MCPServer
from mcp_types import ToolAnnotations
from pydantic import Field

server = MCPServer(
    "Note Pad",
    version="1.4.0",
    instructions="Search first, then read. Notes are kept until they are deleted.",
    log_level="WARNING",
)
NOTES = {1: "milk", 2: "bread"}


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def search_notes(
    words: Annotated[str, Field(description="Words that the note contains, as 'bread butter'")],
) -> list[int]:
    """Find the numbers of all notes that contain every given word. An empty list means that there
    is none.
    """
    return [number for number, text in NOTES.items() if all(word in text for word in words.split())]


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def read_note(
    number: Annotated[int, Field(description="The number that search_notes gave")],
    form: Annotated[
        Literal["plain", "markdown"], Field(description="How the text is written")
    ] = "plain",
) -> str:
    """Return the text of one note by its number, in the form that is asked for."""
    return NOTES[number] if form == "plain" else f"- {NOTES[number]}"


@server.tool(annotations=ToolAnnotations(destructive_hint=True))
def delete_note(
    number: Annotated[int, Field(description="The number that search_notes gave")],
) -> bool:
    """Delete one note for good. Returns whether there was such a note."""
    return NOTES.pop(number, None) is not None


if __name__ == "__main__":
    if len(sys.argv) > 1:
        server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[1]))
    else:
        server.run()
