"""The next version: one tool "that does everything". A model can't tell when to use it."""

import server

server.TOOLS = [
    {
        "name": "do",
        "description": "Does it.",
        "inputSchema": {"type": "object", "properties": {"x": {}, "opts": {"type": "object"}}},
    }
]

if __name__ == "__main__":
    server.serve()
