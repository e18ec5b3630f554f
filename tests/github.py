"""A server that behaves like the part of GitHub's API that comments are written by."""

from __future__ import annotations

import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

BOT = {"login": "github-actions[bot]", "type": "Bot"}
TOKEN = "ghs_secret-token-of-the-job"


class FakeGitHub:
    """Comments of one pull request, `acme/bot#7`."""

    def __init__(self) -> None:
        self.comments: list[dict[str, Any]] = []
        self.calls: list[tuple[str, str]] = []
        self.login: str | None = None
        """The account of the token; None for the token of a job, which may not ask for it."""
        self.answer: dict[str, tuple[int, Any]] = {}
        """Status and body instead of the real answer, by method."""
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_: object) -> None: ...

            def reply(self, status: int, tree: Any, **headers: str) -> None:
                data = tree if isinstance(tree, bytes) else json.dumps(tree).encode()
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def take(self) -> None:
                outer.calls.append((self.command, self.path))
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                if self.headers.get("Authorization") != f"Bearer {TOKEN}":
                    return self.reply(401, {"message": "Bad credentials"})
                if self.command in outer.answer:
                    status, tree = outer.answer[self.command]
                    return self.reply(status, tree, Location=f"{outer.url}/elsewhere")
                return self.route(json.loads(body or b"null"))

            def route(self, sent: Any) -> None:
                url = urlsplit(self.path)
                if url.path == "/user":
                    if outer.login is None:
                        message = "Resource not accessible by integration"
                        return self.reply(403, {"message": message})
                    return self.reply(200, {"login": outer.login, "type": "User"})
                if url.path == "/repos/acme/bot/issues/7/comments":
                    if self.command == "POST":
                        return self.reply(201, outer.add(sent["body"], outer.me()))
                    asked = parse_qs(url.query)
                    per, page = (int(asked[name][0]) for name in ("per_page", "page"))
                    return self.reply(200, outer.comments[(page - 1) * per : page * per])
                found = re.fullmatch(r"/repos/acme/bot/issues/comments/(\d+)", url.path)
                mine = [one for one in outer.comments if found and one["id"] == int(found[1])]
                if self.command != "PATCH" or not mine:
                    return self.reply(404, {"message": "Not Found"})
                mine[0]["body"] = sent["body"]
                return self.reply(200, mine[0])

            do_GET = do_POST = do_PATCH = take  # noqa: N815

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def me(self) -> dict[str, str]:
        return BOT if self.login is None else {"login": self.login, "type": "User"}

    def add(self, body: str, user: dict[str, str]) -> dict[str, Any]:
        number = 100 + len(self.comments)
        url = f"https://github.com/acme/bot/pull/7#issuecomment-{number}"
        self.comments.append({"id": number, "html_url": url, "body": body, "user": user})
        return self.comments[-1]

    @property
    def methods(self) -> list[str]:
        return [method for method, _ in self.calls]

    def __enter__(self) -> FakeGitHub:
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
