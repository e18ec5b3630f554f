"""MCP servers that do wrong, one for each way: `bad.py WAY`. Written without the SDK, which would
not let them.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time

WAY = sys.argv[1]
TOOL = {
    "name": "look",
    "description": "Look something up by its number.",
    "inputSchema": {"type": "object", "properties": {}},
}


def say(message: object) -> None:
    text = (
        json.dumps(message)
        .replace(f'"{WAY}"', WAY)
        .replace('"DEEP"', '{"a":' * 5000 + "1" + "}" * 5000)
        .replace('"TWICE": 0', '"inputSchema": {"type": "object"}')
    )
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def listing(params: dict[str, object]) -> dict[str, object]:
    cursor = params.get("cursor")
    if WAY == "circle":
        return {"tools": [] if cursor else [TOOL], "nextCursor": "again"}
    if WAY == "restarts":
        return {"tools": [TOOL], "nextCursor": ""}
    if WAY == "behind":
        return (
            {"tools": [TOOL], "nextCursor": ""}
            if cursor is None
            else {"tools": [{**TOOL, "name": "hidden"}]}
        )
    if WAY == "endless":
        page = int(str(cursor or 0)) + 1
        return {"tools": [{**TOOL, "name": f"look{page}"}], "nextCursor": str(page)}
    if WAY == "crowd":
        page = int(str(cursor or 0)) + 1
        return {
            "tools": [{**TOOL, "name": f"look{page}_{number}"} for number in range(1000)],
            "nextCursor": str(page),
        }
    if WAY == "pages":
        page = int(str(cursor or 0)) + 1
        return {
            "tools": [{**TOOL, "name": f"look{page}"}],
            **({"nextCursor": str(page)} if page < 5 else {}),
        }
    if WAY == "huge":
        return {"tools": [{**TOOL, "description": "x" * (20 * 1024 * 1024)}]}
    if WAY == "twice":
        return {"tools": [TOOL, TOOL]}
    if WAY == "shape":
        return {"tools": "none"}
    if WAY in ("10e400", "NaN", "1" * 400):
        return {
            "tools": [
                {**TOOL, "inputSchema": {"type": "object", "properties": {"a": {"default": WAY}}}}
            ]
        }
    if WAY == "deep":
        return {"tools": [{**TOOL, "inputSchema": "DEEP"}]}
    if WAY == "keys":
        return {"tools": [{**TOOL, "TWICE": 0}]}
    if WAY == "environment":
        return {"tools": [{**TOOL, "description": "Knows " + " ".join(sorted(os.environ))}]}
    if WAY == "shuffled":
        tools = [{**TOOL, "name": name} for name in ("alpha", "beta", "gamma", "delta", "epsilon")]
        random.shuffle(tools)
        return {"tools": tools}
    return {"tools": [TOOL]}


def main() -> None:
    if WAY == "exits":
        sys.stderr.write("reading the settings\nno DATABASE is configured\n")
        sys.exit(3)
    if WAY == "leaks":
        sys.stderr.write(f"the key {os.environ['SERVICE_KEY']} was refused\n")
        sys.exit(1)
    if WAY == "hangs":
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        with open(sys.argv[2], "w", encoding="utf-8") as file:
            file.write(f"{os.getpid()} {child.pid}")
        sys.stderr.write("waiting for the moon\n")
        sys.stderr.flush()
        time.sleep(600)
    if WAY == "garbage":
        while True:
            sys.stdout.write("Welcome to the server!\n")
            sys.stdout.flush()
    if WAY == "mumbles":
        sys.stdout.write("Listening on nothing\n")
        sys.stdout.flush()
        sys.exit(0)
    if WAY == "greets":
        sys.stdout.write("Welcome to the server!\n\n")
    if WAY == "line":
        while True:
            sys.stdout.write("x" * 65536)
            sys.stdout.flush()
    if WAY == "loud":
        sys.stderr.write("debug: all is well\n" * 200_000)
    for line in sys.stdin:
        request = json.loads(line)
        answer: dict[str, object] = {"jsonrpc": "2.0", "id": request.get("id")}
        if request["method"] == "initialize":
            version = "1999-01-01" if WAY == "ancient" else request["params"]["protocolVersion"]
            info: dict[str, object] = {"name": "bad", "version": "0"}
            say(
                {
                    **answer,
                    "result": {
                        "protocolVersion": version,
                        "capabilities": {"tools": {}},
                        "serverInfo": info,
                    },
                }
            )
        elif request["method"] == "tools/list":
            if WAY == "dies":
                sys.stderr.write("out of memory\n")
                os._exit(7)
            if WAY == "refuses":
                say({**answer, "error": {"code": -32603, "message": "not today"}})
            else:
                say({**answer, "result": listing(request.get("params") or {})})
        elif "id" in request:
            say({**answer, "error": {"code": -32601, "message": "no such method"}})


main()
