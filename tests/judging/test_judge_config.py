"""A judge's description: everything wrong with it is said with its line, and nothing in it can
carry a secret.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from assay.errors import InputError, ShelfError, UsageError
from assay.files.yaml_files import read_yaml
from assay.judging.client import Client, Journal
from assay.judging.config import JudgeSpec, Limits, Price, key_of, load_judge, spec_faults
from judges import KEY, spec

GOOD = """\
judge: house
model: m-1
base_url: https://models.example/v1
key_env: HOUSE_KEY
family: m
temperature: 0
price: {input_per_million: 0.40, output_per_million: 1.60}
limits: {concurrency: 8, timeout_s: 30, retries: 3, max_usd: 5}
"""


def load(folder: Path, text: str) -> JudgeSpec:
    path = folder / "judge.yaml"
    path.write_text(text, encoding="utf-8")
    return load_judge(read_yaml(str(path)))


def test_a_description_is_read_with_exact_prices(tmp_path: Path) -> None:
    found = load(tmp_path, GOOD)
    assert (found.judge, found.model, found.limits.concurrency, found.temperature) == (
        "house",
        "m-1",
        8,
        0.0,
    )
    assert str(found.price and found.price.input_per_million) in ("0.40", "0.4")


@pytest.mark.parametrize(
    ("line", "path", "says"),
    [
        ("base_url: https://me:pw@models.example/v1", "base_url", "user or a password"),
        ("base_url: https://models.example/v1?key=abc", "base_url", "query"),
        ("base_url: https://models.example/v1#abc", "base_url", "fragment"),
        ("base_url: ftp://models.example/v1", "base_url", "http"),
        ("base_url: models.example/v1", "base_url", "http"),
        ("base_url: https://models.example:99999/v1", "base_url", "is not a URL"),
        ("base_url: http://models.example/v1", "base_url", "clear text"),
        ("base_url: http://127.0.0.1.evil.example/v1", "base_url", "clear text"),
        ("base_url: http://10.0.0.5/v1", "base_url", "clear text"),
        ("base_url: 'http://[::1'", "base_url", "is not a URL"),
        (f"key_env: {KEY}", "key_env", "environment variable"),
        ("key_env: ''", "key_env", "environment variable"),
        ("limits: {concurrency: 0}", "limits.concurrency", ""),
        ("limits: {timeout_s: -1}", "limits.timeout_s", ""),
        ("limits: {timeout_s: .nan}", "limits.timeout_s", ""),
        ("limits: {retries: 500}", "limits.retries", ""),
        ("limits: {max_usd: -1}", "limits.max_usd", "at least 0"),
        ("limits: {max_usd: .inf}", "limits.max_usd", ""),
        (
            "price: {input_per_million: -1, output_per_million: 1}",
            "price.input_per_million",
            "at least 0",
        ),
        ("temperature: 9", "temperature", ""),
        ("model: ''", "model", ""),
        ("structured: perhaps", "structured", ""),
        ("api: telepathy", "api", ""),
        ("concurrency: 5", "concurrency", ""),
        ("temprature: 1", "temprature", "temperature"),
    ],
)
def test_a_fault_is_told_with_its_line_and_without_any_secret(
    tmp_path: Path, line: str, path: str, says: str
) -> None:
    name = line.split(":")[0]
    kept = [one for one in GOOD.splitlines() if not one.startswith(f"{name}:")]
    with pytest.raises(InputError) as caught:
        load(tmp_path, "\n".join([*kept, line]) + "\n")
    message = str(caught.value) + "".join(fault.text() for fault in caught.value.faults)
    assert says in message
    assert KEY not in message
    assert "pw@" not in message
    if caught.value.code == "JDG-001":
        assert isinstance(caught.value, ShelfError)
        assert caught.value.faults[0].line == len(kept) + 1, message
        assert path.split(".")[-1] in message


def test_money_cannot_be_limited_without_a_price(tmp_path: Path) -> None:
    with pytest.raises(ShelfError, match="without a price"):
        load(
            tmp_path, "\n".join(line for line in GOOD.splitlines() if not line.startswith("price"))
        )


@pytest.mark.parametrize("host", ["127.0.0.1:8080", "localhost", "[::1]:1", "LOCALHOST"])
def test_a_key_may_go_in_clear_text_to_this_machine_alone(host: str) -> None:
    assert spec_faults(spec(f"http://{host}/v1", key_env="K")) == []
    assert spec_faults(spec("http://models.example/v1", key_env="K"))
    assert spec_faults(spec("http://models.example/v1", key_env="K", allow_plain_http=True)) == []
    assert spec_faults(spec("http://models.example/v1")) == []


def test_a_client_refuses_a_bad_description_too() -> None:
    with pytest.raises(UsageError) as caught:
        Client(spec("http://me:pw@127.0.0.1/v1"), Journal())
    assert caught.value.code == "JDG-001"
    assert "pw" not in str(caught.value).replace("password", "")


@pytest.mark.parametrize("value", [None, "", "  ", "ключ-0123456789", "a\nb-0123456789"])
def test_a_key_that_is_missing_or_cannot_be_sent_is_misuse(
    monkeypatch: pytest.MonkeyPatch, value: str | None
) -> None:
    monkeypatch.delenv("JUDGE_KEY", raising=False)
    if value is not None:
        monkeypatch.setenv("JUDGE_KEY", value)
    with pytest.raises(UsageError) as caught:
        key_of(spec("http://127.0.0.1/v1", key_env="JUDGE_KEY"))
    assert caught.value.code == "JDG-002"
    assert "JUDGE_KEY" in str(caught.value)
    assert "0123456789" not in str(caught.value)


def test_a_key_is_read_from_the_environment_without_its_newline(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("JUDGE_KEY", f"{KEY}\n")
    assert key_of(spec("http://127.0.0.1/v1", key_env="JUDGE_KEY")) == KEY
    assert key_of(spec("http://127.0.0.1/v1")) is None


@pytest.mark.parametrize(
    ("change", "other"),
    [
        ({"model": "m-2"}, True),
        ({"temperature": 0.5}, True),
        ({"temperature": None}, True),
        ({"seed": 1}, True),
        ({"max_tokens": 10}, True),
        ({"version": "2026-01"}, True),
        ({"structured": "none"}, True),
        ({"api": "anthropic"}, True),
        ({"base_url": "http://localhost/v2"}, True),
        ({"limits": Limits(concurrency=2)}, False),
        ({"price": Price(input_per_million=9, output_per_million=9)}, False),
        ({"judge": "renamed"}, False),
        ({"key_env": "OTHER"}, False),
        ({"family": "f"}, False),
    ],
)
def test_what_decides_an_answer_makes_another_judge_and_nothing_else_does(
    change: dict[str, Any], other: bool
) -> None:
    one = spec("http://localhost/v1")
    assert (msgspec.structs.replace(one, **change).digest != one.digest) is other
