"""The whole protocol with a real model: a small instruct model on loopback, constrained to the
schema. It is a bad judge, and its card must say so.
"""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import local_model as local
from checkout import SUPPORT
from local_model import LocalModel, local_model

SCHEMA = {
    "type": "object",
    "properties": {
        "reason": {"type": "string", "maxLength": 60},
        "score": {"type": "integer", "minimum": 1, "maximum": 5},
    },
    "required": ["reason", "score"],
    "additionalProperties": False,
}


def listens(url: str) -> bool:
    host, port = url.removeprefix("http://").partition("/")[0].split(":")
    with socket.socket() as probe:
        return probe.connect_ex((host, int(port))) == 0


def asked(url: str, method: str, path: str, body: Any = None) -> Any:
    host, _, prefix = url.removeprefix("http://").partition("/")
    connection = http.client.HTTPConnection(host, timeout=30)
    try:
        connection.request(
            method, f"/{prefix}{path}", json.dumps(body), {"content-type": "application/json"}
        )
        reply = connection.getresponse()
        assert reply.status == 200, reply.read()
        return json.loads(reply.read())
    finally:
        connection.close()


@pytest.fixture(scope="module")
def model() -> Iterator[LocalModel]:
    with local_model() as found:
        yield found


def test_a_real_model_keeps_to_a_json_schema(model: LocalModel) -> None:
    question = (
        "Question: what is the capital of France? Answer: Paris. Score the answer from 1 to 5."
        " Reply as JSON with reason and score."
    )
    body = {
        "model": model.name,
        "messages": [{"role": "user", "content": question}],
        "temperature": 0,
        "max_tokens": 120,
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "verdict", "strict": True, "schema": SCHEMA},
        },
    }
    reply = asked(model.url, "POST", "/chat/completions", body)
    said = json.loads(reply["choices"][0]["message"]["content"])
    assert list(said) == ["reason", "score"]
    assert len(said["reason"]) <= 60
    assert said["score"] in range(1, 6)
    assert reply["choices"][0]["finish_reason"] == "stop"
    assert reply["model"] == model.name
    assert reply["usage"]["prompt_tokens"] > 20
    assert asked(model.url, "GET", "/models")["data"][0]["id"] == model.name


@pytest.mark.req("W-065", "W-069")
def test_a_real_small_model_goes_through_the_protocol_and_its_card_says_that_it_may_not_gate(
    assay: Any, model: LocalModel, tmp_path: Path
) -> None:
    judge = (
        "--model",
        model.name,
        "--base-url",
        model.url,
        "--concurrency",
        1,
        "--timeout",
        240,
        "--max-tokens",
        160,
        "--journal",
        "j",
    )
    audited = assay(
        "judge",
        "audit",
        "--first",
        2,
        "--probe",
        "position",
        *judge,
        "-o",
        "audit.json",
        timeout=600,
    )
    assert audited.code in (0, 4), audited.err
    found = json.loads((tmp_path / "audit.json").read_text())
    position = found["biases"]["position"]
    assert position["answers"] == 4
    assert position["items"] * 2 + position["lost"] >= 4, (
        "every answer is a verdict or is counted as lost"
    )
    assert found["usage"]["calls"] >= 4
    assert found["usage"]["output_tokens"] > 0

    (tmp_path / "items.jsonl").write_text(
        json.dumps({"id": "i", "input": "What is 2 + 2?", "output": "It is 4."}) + "\n"
    )
    (tmp_path / "r.yaml").write_text(
        "rubric_id: short\nversion: 1\ncriteria:\n  - name: right\n    definition: The answer is"
        " right.\n    evidence_required: [the answer]\n    scale: [1, 5]\n    weight: 1\n   "
        ' anchors: {"1": wrong, "2": mostly wrong, "3": half right, "4": mostly right, "5":'
        " right}\n"
    )
    judged = assay(
        "judge",
        "rubric",
        "items.jsonl",
        "--rubric",
        "r.yaml",
        *judge,
        "-o",
        "judged.json",
        timeout=600,
    )
    counts = json.loads((tmp_path / "judged.json").read_text())["counts"]
    assert sum(counts.values()) == 1
    assert judged.code == (0 if counts["scored"] else 4)

    again = assay(
        "judge", "rubric", "items.jsonl", "--rubric", "r.yaml", *judge, "--json", timeout=60
    )
    assert json.loads(again.out)["usage"]["calls"] == 0, "what was paid for is not asked again"

    card = assay("judge", "card", "--audit", "audit.json", "-o", "card.json", "-o", "card.html")
    assert card.code == 1
    assert f"{model.name} may not gate" in card.out
    assert json.loads((tmp_path / "card.json").read_text())["admission"]["may_gate"] is False


def test_the_model_ends_with_its_context_and_with_a_parent_that_is_killed() -> None:
    with local.local_model() as found:
        assert listens(found.url)
    assert not listens(found.url)
    program = (
        "import local_model as m, time\nwith m.local_model() as found: print(found.url,"
        " flush=True); time.sleep(60)"
    )
    tests = str(SUPPORT)
    with subprocess.Popen(
        [sys.executable, "-c", program],
        cwd=tests,
        env={**os.environ, "PYTHONPATH": tests},
        stdout=subprocess.PIPE,
        text=True,
    ) as parent:
        assert parent.stdout is not None
        url = parent.stdout.readline().strip()
        assert listens(url)
        parent.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + 10
    while listens(url) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not listens(url)


def test_a_model_that_dies_at_the_start_says_what_it_said(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"GGUF" + bytes(100))
    if local.why_not():
        pytest.skip(str(local.why_not()))
    monkeypatch.setattr(local, "weights", lambda: str(broken))
    with (
        pytest.raises(RuntimeError, match="the local model ended with"),
        local.local_model(wait_s=20),
    ):
        pass
