"""A small MCP server over stdio, in plain Python: one JSON message on each line.

With the MCP SDK this is `FastMCP("ferries")` and two decorated functions. A client sees the same
names, descriptions and schemas, and Assay grades those.
"""

import json
import sys

INSTRUCTIONS = (
    "Use these tools when somebody asks when a ferry leaves a harbour, or what a crossing costs."
    " They know the timetable of this season, not delays."
)
TOOLS = [
    {
        "name": "list_departures",
        "description": "List the ferries that leave a harbour on a day, in order of time, each with"
        " its destination. Use it for questions about when a person can travel.",
        "inputSchema": {
            "type": "object",
            "required": ["harbour", "day"],
            "additionalProperties": False,
            "properties": {
                "harbour": {
                    "type": "string",
                    "description": "The harbour the ferry leaves from, by name, such as 'Nordby'.",
                },
                "day": {
                    "type": "string",
                    "format": "date",
                    "description": "The day of travel as YYYY-MM-DD, for example 2026-11-20.",
                },
            },
        },
    },
    {
        "name": "get_fare",
        "description": "Get the price in euros of one crossing between two harbours. Use it for"
        " questions about what a journey costs.",
        "inputSchema": {
            "type": "object",
            "required": ["harbour", "destination"],
            "additionalProperties": False,
            "properties": {
                "harbour": {
                    "type": "string",
                    "description": "The harbour the ferry leaves from, by name, such as 'Nordby'.",
                },
                "destination": {
                    "type": "string",
                    "description": "The harbour the ferry goes to, by name, such as 'Ulvik'.",
                },
            },
        },
    },
]


def reply(method, params):
    """The result of a request."""
    if method == "initialize":
        return {
            "protocolVersion": params.get("protocolVersion", "2025-06-18"),
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "ferries", "version": "1.0.0"},
            "instructions": INSTRUCTIONS,
        }
    if method == "tools/list":
        return {"tools": TOOLS}
    if method == "tools/call":
        return {"content": [{"type": "text", "text": "09:30 to Ulvik"}]}
    return {}


def serve():
    """Answer every request on standard input."""
    for line in sys.stdin:
        message = json.loads(line)
        if "id" in message:
            result = reply(message["method"], message.get("params") or {})
            answer = {"jsonrpc": "2.0", "id": message["id"], "result": result}
            print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    serve()
