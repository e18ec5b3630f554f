"""Reading live MCP servers: real ones, our own, and those that do wrong."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from shutil import which
from typing import Any

import pytest

from assay.errors import InputError
from assay.families.tools import legibility, server
from assay.families.tools.legibility_score import score_schema
from assay.installing import install_hint
from checkout import SUPPORT
from commands import Running
from examples import CAMPAIGN, repeats
from serving import is_running, until

SERVERS = SUPPORT / "servers"
BIN = Path(sys.executable).parent
TIME_S = 30.0


@pytest.fixture(autouse=True)
def _sdk(request: pytest.FixtureRequest) -> None:
    if "without_sdk" not in request.node.name:
        pytest.importorskip(
            "mcp_types", reason="the extra 'mcp' is not installed: pip install 'assaykit[mcp]'"
        )


def bad(way: str, *more: str) -> list[str]:
    return [sys.executable, str(SERVERS / "bad.py"), way, *more]


def fails(
    code: str, command: list[str], *, timeout_s: float = TIME_S, env: dict[str, str] | None = None
) -> str:
    with pytest.raises(InputError) as error:
        server.read_stdio(command, timeout_s=timeout_s, env=env)
    assert error.value.code == code, str(error.value)
    return str(error.value)


# --- servers that work


@pytest.mark.parametrize(
    ("program", "known"),
    [
        ("mcp-server-time", {"get_current_time", "convert_time"}),
        ("mcp-server-fetch", {"fetch"}),
        ("mcp-server-git", {"git_status", "git_commit", "git_log"}),
    ][: repeats(1, 3)],
)
def test_the_tools_of_a_published_server_are_read(program: str, known: set[str]) -> None:
    path = which(program, path=f"{BIN}{os.pathsep}{os.environ.get('PATH', '')}")
    if path is None:
        pytest.skip(f"{program} is not installed: pip install 'assaykit[peers]'")
    first = server.read_stdio([path], timeout_s=TIME_S)
    assert first.kind == "mcp"
    assert known <= set(first.main["tools"])
    assert first.main["version"]
    assert all(
        tool["description"] and tool["inputSchema"]["type"] == "object"
        for tool in first.main["tools"].values()
    )
    if CAMPAIGN:
        again = server.read_stdio([path], timeout_s=TIME_S)
        assert first.file_sha256 == again.file_sha256, "an unchanged server has an unchanged hash"
    assert [finding for finding in legibility.findings(first) if finding.level == "error"] == []
    assert 0 < legibility.token_cost(first)["total"] < legibility.SET_TOKENS
    scored = score_schema(first, legibility.findings(first))
    assert {tool.name for tool in scored.tools} == set(first.main["tools"])
    assert 50 <= scored.score <= scored.mean <= 100 == scored.cap


@pytest.fixture(scope="module")
def notes() -> Any:
    """What our own server offers over stdio."""
    command = [sys.executable, str(SERVERS / "notes.py")]
    return server.read_stdio(command, timeout_s=TIME_S)


def test_our_own_server_is_read_over_stdio(notes: Any) -> None:
    assert notes.schema_id == "note-pad/tools"
    assert notes.main["version"] == "1.4.0"
    assert notes.main["description"].startswith("Search first")
    assert list(notes.main["tools"]) == ["delete_note", "read_note", "search_notes"]
    assert notes.main["tools"]["delete_note"]["annotations"]["destructiveHint"] is True
    assert legibility.findings(notes) == []


@pytest.fixture
def notes_url() -> Iterator[str]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    process = subprocess.Popen(
        [sys.executable, str(SERVERS / "notes.py"), str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        for _ in range(300):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.05)
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.kill()
        process.wait()


def test_a_server_is_the_same_over_http_as_over_stdio(notes: Any, notes_url: str) -> None:
    over_http = server.read_http(
        f"{notes_url}?key=s3cr3t", timeout_s=TIME_S, headers={"authorization": "Bearer abcdefgh"}
    )
    assert over_http.main == notes.main
    assert over_http.file_sha256 == notes.file_sha256
    assert over_http.path == notes_url, "the query, where keys are often put, is not kept"


def test_all_pages_of_a_listing_are_read() -> None:
    assert list(server.read_stdio(bad("pages"), timeout_s=TIME_S).main["tools"]) == [
        f"look{page}" for page in range(1, 6)
    ]


@pytest.mark.parametrize(("way", "names"), [("behind", ["hidden", "look"]), ("restarts", ["look"])])
def test_no_tool_hides_behind_an_empty_cursor_and_a_server_may_end_with_one(
    way: str, names: list[str]
) -> None:
    assert list(server.read_stdio(bad(way), timeout_s=TIME_S).main["tools"]) == names


def test_the_hash_does_not_depend_on_the_order_in_which_a_server_lists() -> None:
    assert (
        len({server.read_stdio(bad("shuffled"), timeout_s=TIME_S).file_sha256 for _ in range(3)})
        == 1
    )


def test_a_server_that_greets_on_stdout_is_read_all_the_same() -> None:
    assert list(server.read_stdio(bad("greets"), timeout_s=TIME_S).main["tools"]) == ["look"]


def test_a_server_that_floods_its_stderr_is_read_and_leaves_the_terminal_clean(
    capfd: pytest.CaptureFixture[str],
) -> None:
    assert list(server.read_stdio(bad("loud"), timeout_s=TIME_S).main["tools"]) == ["look"]
    assert capfd.readouterr() == ("", "")


@pytest.mark.req("F-156")
def test_a_server_sees_nothing_of_the_environment_but_what_it_is_given(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CLOUD_SECRET", "do-not-pass-this-on")
    schema = server.read_stdio(bad("environment"), timeout_s=TIME_S, env={"GIVEN": "1"})
    seen = set(schema.main["tools"]["look"]["description"].split()[1:])
    assert "GIVEN" in seen
    assert "PATH" in seen
    assert seen <= {"PATH", "HOME", "LANG", "GIVEN", "LC_CTYPE"}, "LC_CTYPE is set by Python itself"


# --- servers that do not


def test_a_server_that_exits_at_once_is_reported_with_its_code_and_last_output(
    capfd: pytest.CaptureFixture[str],
) -> None:
    text = fails("FMC-010", bad("exits"))
    assert "exit code 3" in text
    assert "no DATABASE is configured" in text
    assert "--timeout" not in text
    assert capfd.readouterr() == ("", "")


def test_a_program_that_is_not_there_is_reported() -> None:
    assert "does not start" in fails("FMC-010", ["no-such-program-anywhere"])
    assert "empty" in fails("FMC-010", [])


def test_a_server_that_hangs_is_ended_with_everything_it_started(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    text = fails("FMC-010", bad("hangs", str(pids)), timeout_s=2)
    assert "within 2 s" in text
    assert "--timeout" in text
    assert "waiting for the moon" in text
    until(lambda: not any(map(is_running, map(int, pids.read_text(encoding="utf-8").split()))))


def test_ctrl_c_ends_the_server_and_reaches_the_caller(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    command = bad("hangs", str(pids))
    code = "from assay.families.tools.server import read_stdio\n"
    code = "from assay.families.tools.server import read_stdio\n"
    code += f"read_stdio({command!r}, timeout_s=60)"
    process = Running(code=code)
    for _ in range(600):
        if pids.exists() and pids.read_text(encoding="utf-8").count(" ") == 1:
            break
        time.sleep(0.05)
    os.kill(process.pid, signal.SIGINT)
    _, errors = process.communicate()
    assert "KeyboardInterrupt" in errors
    until(lambda: not any(map(is_running, map(int, pids.read_text(encoding="utf-8").split()))))


def test_a_server_that_dies_half_way_is_reported() -> None:
    text = fails("FMC-010", bad("dies"))
    assert "exit code 7" in text
    assert "out of memory" in text


@pytest.mark.parametrize(
    ("way", "says"),
    [
        ("garbage", "lines that are not messages"),
        ("circle", "never ends: the cursor"),
        ("endless", "does not end"),
        ("crowd", "more than 5,000 tools"),
        ("huge", "more than 4 MiB"),
        ("line", "more than 4 MiB"),
        ("twice", "two tools named 'look'"),
        ("keys", 'the key "inputSchema" appears twice'),
        ("shape", "its answer breaks the protocol"),
        ("refuses", "not today"),
        ("ancient", "1999-01-01"),
    ],
)
def test_a_server_against_the_protocol_or_beyond_the_limits_is_stopped(way: str, says: str) -> None:
    assert says in fails("FMC-011", bad(way))


@pytest.mark.parametrize("way", ["10e400", "NaN", "1" * 400, "deep"])
def test_numbers_and_depths_that_no_program_can_hold_end_in_an_error_and_not_in_a_crash(
    way: str,
) -> None:
    with pytest.raises(InputError) as error:
        server.read_stdio(bad(way), timeout_s=2 if way == "deep" else 5)
    assert error.value.code in ("FMC-010", "FMC-011", "FMC-001"), str(error.value)


def test_what_stood_on_stdout_instead_of_messages_is_shown() -> None:
    assert "Listening on nothing" in fails("FMC-010", bad("mumbles"))


@pytest.mark.req("F-156")
def test_no_secret_of_the_caller_stands_in_an_error() -> None:
    text = fails(
        "FMC-010",
        bad("leaks", "--api-key", "k3y-on-the-line", "--token=t0k3n-too"),
        env={"SERVICE_KEY": "v3ry-s3cr3t"},
    )
    assert "was refused" in text
    for secret in ("v3ry-s3cr3t", "k3y-on-the-line", "t0k3n-too"):
        assert secret not in text
    assert "***" in text


# --- over HTTP


class Wrong(BaseHTTPRequestHandler):
    """A web server that is not an MCP server, each path in its own way."""

    def do_POST(self) -> None:
        way = self.path.partition("?")[0].strip("/")
        sent = self.rfile.read(int(self.headers.get("content-length", 0)))
        if way in ("keys", "events"):
            self.twice(json.loads(sent), is_stream=way == "events")
            return
        if way == "slow":
            time.sleep(5)
            return
        if way == "away":
            self.answer(307, b"", location="https://user:pass@example.invalid/mcp?key=1")
        elif way == "page":
            self.answer(200, b"<html>hello</html>", kind="text/html")
        elif way == "packed":
            self.answer(200, b"\x1f\x8b", encoding="gzip")
        elif way == "flood":
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.end_headers()
            try:
                while True:
                    self.wfile.write(b" " * 65536)
            except OSError:
                return
        else:
            self.answer(int(way), b"{}")

    def twice(self, request: dict[str, Any], *, is_stream: bool) -> None:
        """A server whose tool has a schema twice: in one answer, or in events."""
        version = request.get("params", {}).get("protocolVersion")
        results = {
            "initialize": f'{{"protocolVersion": "{version}", "capabilities": {{"tools": {{}}}},'
            ' "serverInfo": {"name": "keys", "version": "1"}}',
            "tools/list": '{"tools": [{"name": "look", "inputSchema": {"type": "object",'
            ' "required": ["id"]}, "inputSchema": {"type": "object"}}]}',
        }
        if (result := results.get(request["method"])) is None:
            self.answer(202, b"")
            return
        text = f'{{"jsonrpc": "2.0", "id": {json.dumps(request["id"])}, "result": {result}}}'
        body = f"event: message\r\ndata: {text}\r\n\r\n" if is_stream else text
        kind = "text/event-stream" if is_stream else "application/json"
        self.answer(200, body.encode(), kind=kind)

    def answer(
        self,
        status: int,
        body: bytes,
        *,
        kind: str = "application/json",
        encoding: str = "",
        location: str = "",
    ) -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        if encoding:
            self.send_header("content-encoding", encoding)
        if location:
            self.send_header("location", location)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture(scope="module")
def wrong_url() -> Iterator[str]:
    web = ThreadingHTTPServer(("127.0.0.1", 0), Wrong)
    web.daemon_threads = True
    thread = threading.Thread(target=web.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{web.server_port}"
    web.shutdown()
    web.server_close()
    thread.join(timeout=5)


@pytest.mark.parametrize(
    ("way", "code", "says"),
    [
        ("401", "FMC-010", "HTTP 401"),
        ("404", "FMC-010", "HTTP 404"),
        ("500", "FMC-010", "HTTP 500"),
        ("page", "FMC-011", "content type"),
        ("packed", "FMC-011", "compresses its answers"),
        ("flood", "FMC-011", "more than 4 MiB"),
        ("away", "FMC-011", "not followed"),
        ("slow", "FMC-010", "within 1 s"),
    ],
)
def test_an_address_that_is_no_server_is_reported(
    wrong_url: str, way: str, code: str, says: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(InputError) as error:
        server.read_http(
            f"{wrong_url}/{way}?key=q-s3cr3t",
            timeout_s=1 if way == "slow" else TIME_S,
            headers={"authorization": "Bearer h-s3cr3t"},
        )
    assert error.value.code == code, str(error.value)
    assert says in str(error.value)
    assert "s3cr3t" not in str(error.value)
    assert capfd.readouterr() == ("", "")


def test_a_port_where_nobody_listens_is_reported() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with pytest.raises(InputError) as error:
        server.read_http(f"http://127.0.0.1:{port}/mcp", timeout_s=TIME_S)
    assert error.value.code == "FMC-010"


@pytest.mark.parametrize("url", ["ftp://example.com", "example.com", "https://", "http://[bad", ""])
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(InputError) as error:
        server.read_http(url, timeout_s=1)
    assert error.value.code == "FMC-010"


@pytest.mark.parametrize(
    "read",
    [
        lambda: server.read_stdio(["x"], timeout_s=1),
        lambda: server.read_http("https://example.com", timeout_s=1),
    ],
)
def test_a_newcomer_without_sdk_is_told_what_to_install(
    monkeypatch: pytest.MonkeyPatch, read: Any
) -> None:
    monkeypatch.setitem(sys.modules, "mcp", None)
    with pytest.raises(InputError) as error:
        read()
    assert error.value.code == "FMC-006"
    assert install_hint("mcp") in str(error.value)


@pytest.mark.req("F-156")
@pytest.mark.parametrize(
    ("command", "secret"),
    [
        (["s", "--password", "hunter2!"], "hunter2!"),
        (["s", "--api_key=abc"], "abc"),
        (["s", "https://me:pw12345@host/x?token=q1w2e3"], "q1w2e3"),
        (["s", "https://me:pw12345@host/x"], "pw12345"),
        (["s", "ghp_" + "a1" * 18], "a1a1"),
        (["s", "?a=1&api_key=ab%2Fcd0123456789"], "0123456789"),
    ],
)
def test_a_command_is_shown_without_its_secrets(command: list[str], secret: str) -> None:
    assert secret not in server.command_shown(command)


def test_the_limits_are_far_above_what_honest_servers_need() -> None:
    assert server.MAX_PAGES >= 100
    assert server.MAX_TOOLS >= 1000
    assert server.MAX_BYTES >= 1024 * 1024


@pytest.mark.parametrize("way", ["keys", "events"])
def test_a_schema_that_is_given_twice_hides_nothing(wrong_url: str, way: str) -> None:
    with pytest.raises(InputError) as error:
        server.read_http(f"{wrong_url}/{way}", timeout_s=TIME_S)
    assert error.value.code == "FMC-011"
    assert 'the key "inputSchema" appears twice' in str(error.value)
