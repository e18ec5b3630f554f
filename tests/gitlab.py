"""A server that behaves like the part of GitLab's API that notes on merge requests are written
by.
"""

from __future__ import annotations

import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

TOKEN = "glpat-secret-token-of-the-project"
JOB_TOKEN = "glcbt-secret-token-of-the-job"
NOTES = "/api/v4/projects/acme%2Ftools%2Fbot/merge_requests/7/notes"


class FakeGitLab:
    """Notes of one merge request, `acme/tools/bot!7`."""

    def __init__(self) -> None:
        self.notes: list[dict[str, Any]] = []
        self.calls: list[tuple[str, str]] = []
        self.me = "project_bot"
        self.jobs_may_write = False
        self.answer: dict[str, tuple[int, Any]] = {}
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_: object) -> None: ...

            def reply(self, status: int, tree: Any) -> None:
                data = tree if isinstance(tree, bytes) else json.dumps(tree).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def take(self) -> None:
                outer.calls.append((self.command, self.path))
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                job = self.headers.get("JOB-TOKEN") == JOB_TOKEN
                if not job and self.headers.get("PRIVATE-TOKEN") != TOKEN:
                    return self.reply(401, {"message": "401 Unauthorized"})
                if self.command in outer.answer:
                    return self.reply(*outer.answer[self.command])
                return self.route(json.loads(body or b"null"), job=job)

            def route(self, sent: Any, *, job: bool) -> None:
                url = urlsplit(self.path)
                if url.path == "/api/v4/user" and not job:
                    return self.reply(200, {"username": outer.me})
                if url.path == "/api/v4/job" and job:
                    return self.reply(200, {"id": 1, "user": {"username": outer.me}})
                if job and not outer.jobs_may_write:
                    return self.reply(403, {"message": "403 Forbidden"})
                if url.path == NOTES:
                    if self.command == "POST":
                        return self.reply(201, outer.add(sent["body"], outer.me))
                    asked = parse_qs(url.query)
                    per, page = (int(asked[name][0]) for name in ("per_page", "page"))
                    return self.reply(200, outer.notes[(page - 1) * per : page * per])
                found = re.fullmatch(rf"{re.escape(NOTES)}/(\d+)", url.path)
                mine = [one for one in outer.notes if found and one["id"] == int(found[1])]
                if self.command != "PUT" or not mine:
                    return self.reply(404, {"message": "404 Not found"})
                mine[0]["body"] = sent["body"]
                return self.reply(200, mine[0])

            do_GET = do_POST = do_PUT = take  # noqa: N815

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/api/v4"

    def add(self, body: str, username: str) -> dict[str, Any]:
        number = 300 + len(self.notes)
        author = {"username": username}
        self.notes.append({"id": number, "body": body, "author": author, "system": False})
        return self.notes[-1]

    def __enter__(self) -> FakeGitLab:
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
