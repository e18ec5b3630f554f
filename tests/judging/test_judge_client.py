"""Asking: bounded, paced, retried within a budget, paid once; and whatever an endpoint does, an
outcome that says so and never a score.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import re
import sys
import time
import types
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from assay.errors import NotEnoughEvidence, UsageError
from assay.installing import install_hint
from assay.judging.client import Client, Journal, tokens_of
from assay.judging.config import Price
from examples import CAMPAIGN
from judges import (
    HASTE,
    KEY,
    PRICE,
    ask,
    completion,
    criterion,
    http,
    pair_question,
    question,
    raw_endpoint,
    spec,
    text,
    verdict,
)
from servers.scripted_judge import ENVELOPE, MALFORMED, WIRE, scripted_judge

FINE = {"markdown", "control"}
"""Odd replies that hold a verdict all the same."""
ERRORED = {
    "html",
    "garbage",
    "not_utf8",
    "empty_body",
    "cut_body",
    "bad_gzip",
    "no_choices",
    "no_message",
    "error_in_200",
    "huge",
}
REFUSED = {"refusal", "content_filter"}


def outcome_of(kind: str) -> str:
    return (
        "scored"
        if kind in FINE
        else "errored"
        if kind in ERRORED
        else "refused"
        if kind in REFUSED
        else "unparsable"
    )


# --- replies that are not verdict


@pytest.mark.parametrize(
    ("kind", "api"),
    [
        *((kind, "openai") for kind in MALFORMED),
        *((kind, "anthropic") for kind in (MALFORMED if CAMPAIGN else (*ENVELOPE, *WIRE))),
    ],
)
def test_whatever_is_wrong_with_a_reply_has_its_outcome_and_no_score(kind: str, api: str) -> None:
    with scripted_judge(malformed=kind) as judge:
        how = (
            "none" if api == "anthropic" else "json_schema"
        )  # the scripted judge gives odd texts, and no odd tools
        judged = ask(
            spec(judge.url, api=api, structured=how, limits={"retries": 1}),
            [question(), pair_question()],
            seed=HASTE,
        )
        asked = judge.stats().requests
    expected = outcome_of(kind)
    if kind == "tool_call" and api == "anthropic":
        expected = "scored"  # there it is how a verdict is given
    if kind == "no_choices" and api == "anthropic":
        expected = "unparsable"  # there a message without content is well formed
    for answer in (
        judged.answers if kind != "false_quote" else judged.answers[:1]
    ):  # a comparison asks for no quotes
        assert answer.outcome == expected, answer
        assert (answer.verdict is None) is (expected != "scored")
        assert answer.reason
        assert KEY not in answer.reason
    if kind != "false_quote":
        assert asked == (4 if expected in ("unparsable", "errored") else 2), (
            "one repair, or one retry, and no more"
        )
    assert (
        judged.client.usage.repairs == (2 if expected == "unparsable" else 0)
        or kind == "false_quote"
    )


@pytest.mark.parametrize(
    "kind",
    [
        "nan",
        "above_scale",
        "extra_criteria",
        "duplicate_keys",
        "other_language",
        "empty",
        "cut_off",
        "false_quote",
        "prose",
    ],
)
def test_a_reply_that_is_mended_on_request_counts_and_says_so(kind: str) -> None:
    with scripted_judge(malformed=kind, malformed_times=1) as judge:
        judged = ask(spec(judge.url), [question(3)])
        asked = judge.requests()
    assert [
        (answer.outcome, answer.repaired, answer.verdict and answer.verdict.score)
        for answer in judged.answers
    ] == [("scored", True, 4)]
    assert len(asked) == 2
    assert asked[1]["body"]["messages"][-1]["content"].startswith("That reply cannot be used: ")
    assert asked[1]["body"]["messages"][:2] == asked[0]["body"]["messages"]


@pytest.mark.parametrize("half", ["a \ud800 b", '{"reason": "\ud800"}'])
def test_half_a_sign_in_a_reply_is_kept_without_it(tmp_path: Path, half: str) -> None:
    with (
        raw_endpoint(lambda sent: http(completion(half))) as endpoint,
        Journal(str(tmp_path / "j")) as journal,
    ):
        judged = ask(spec(endpoint.url), [question()], journal=journal)
        again = ask(spec(endpoint.url), [question()], journal=journal)
        assert len(endpoint.seen) == 2
    assert judged.answers[0].outcome == "unparsable"
    assert again.answers[0]._replace(cached=False) == judged.answers[0]


def test_a_small_bomb_of_compressed_zeros_is_not_unpacked() -> None:
    bomb = gzip.compress(b"0" * 50_000_000, 1)
    with raw_endpoint(lambda sent: http(bomb, "200 OK", "content-encoding: gzip")) as endpoint:
        judged = ask(spec(endpoint.url), [question()])
    assert judged.answers[0].outcome == "errored"


def test_a_fraction_in_the_input_of_a_tool_is_no_score() -> None:
    reply = {
        "content": [
            {
                "type": "tool_use",
                "name": "verdict",
                "input": {"reason": "r", "quotes": ["quality"], "score": 4.5},
            }
        ],
        "stop_reason": "tool_use",
    }
    with raw_endpoint(lambda sent: http(json.dumps(reply).encode())) as endpoint:
        judged = ask(spec(endpoint.url, api="anthropic"), [question()])
    assert judged.answers[0].outcome == "unparsable"
    assert "4.5" in judged.answers[0].reason


def test_a_text_that_is_too_long_is_not_judged_in_part_and_not_asked() -> None:
    with scripted_judge() as judge:
        judged = ask(
            spec(judge.url, limits={"max_candidate_chars": 50}),
            [question(3, more="x" * 50), question(3)],
        )
        assert judge.stats().requests == 1
    assert [answer.outcome for answer in judged.answers] == ["errored", "scored"]
    assert "not judged in part" in judged.answers[0].reason


# --- endpoints that do not answer


@pytest.mark.parametrize(
    "way",
    [
        {"hang": "silent"},
        {"hang": "headers"},
        {"hang": "drip"},
        {"dead": "refused"},
        {"dead": "reset"},
        {"dead": "close"},
    ],
)
def test_an_endpoint_that_hangs_or_dies_is_an_error_within_its_time(way: dict[str, str]) -> None:
    with scripted_judge(**way) as judge:
        judged = ask(
            spec(judge.url, limits={"timeout_s": 0.25, "retries": 1}), [question()], seed=HASTE
        )
    assert judged.answers[0].outcome == "errored"
    assert "2 attempts" in judged.answers[0].reason


@pytest.mark.parametrize("fault", [503, 429, 500, 529, 408, "reset", "close"])
def test_an_endpoint_that_recovers_is_asked_again(fault: Any) -> None:
    with scripted_judge(fail_first=2, fail_with=fault) as judge:
        judged = ask(spec(judge.url, limits={"retries": 3}), [question()], seed=HASTE)
        assert judge.stats().requests == 3
    assert (judged.answers[0].outcome, judged.client.usage.retries) == ("scored", 2)
    assert judged.client.usage.slowed >= 1


def test_retries_are_bounded() -> None:
    with scripted_judge(status=503) as judge:
        judged = ask(spec(judge.url, limits={"retries": 2}), [question()], seed=HASTE)
        assert judge.stats().requests == 3
    assert "3 attempts" in judged.answers[0].reason
    assert "503" in judged.answers[0].reason


@pytest.mark.parametrize("status", [400, 413, 422, 418])
def test_a_request_that_cannot_be_mended_is_not_repeated(status: int) -> None:
    with scripted_judge(status=status) as judge:
        judged = ask(spec(judge.url, limits={"retries": 5}), [question()])
        assert judge.stats().requests == 1
    assert judged.answers[0].outcome == "errored"
    assert str(status) in judged.answers[0].reason


@pytest.mark.parametrize("status", [401, 403, 404, 405])
def test_an_endpoint_that_will_never_answer_ends_the_job_with_a_remedy(status: int) -> None:
    with (
        scripted_judge(status=status) as judge,
        pytest.raises(NotEnoughEvidence, match=str(status)) as caught,
    ):
        ask(spec(judge.url, limits={"concurrency": 1}), [question(n) for n in range(50)])
    assert caught.value.code == "JDG-003"


def test_an_endpoint_that_is_not_there_is_given_up() -> None:
    with (
        scripted_judge(dead="refused") as judge,
        pytest.raises(NotEnoughEvidence, match="25 questions in a row"),
    ):
        ask(spec(judge.url), [question(n, more=f"n{n}") for n in range(60)])


def test_a_name_that_nobody_knows_is_an_error_in_words() -> None:
    judged = ask(spec("https://judge.invalid/v1", limits={"timeout_s": 5}), [question()])
    assert judged.answers[0].outcome == "errored"
    assert "judge.invalid" in judged.answers[0].reason


def test_one_bad_answer_among_good_ones_leaves_the_others_alone() -> None:
    with scripted_judge(fail_first=1, fail_with=400) as judge:
        judged = ask(spec(judge.url), [question(n, more=f"n{n}") for n in range(10)])
    assert sorted(answer.outcome for answer in judged.answers) == ["errored"] + ["scored"] * 9


# --- time


def test_one_question_takes_no_longer_than_its_budget_whatever_the_timeout() -> None:
    with scripted_judge(hang="silent") as judge:
        began = time.monotonic()
        judged = ask(
            spec(judge.url, limits={"timeout_s": 30.0, "budget_s": 0.4, "retries": 5}), [question()]
        )
        took = time.monotonic() - began
    assert judged.answers[0].outcome == "errored"
    assert took > 0.3


def test_a_pause_that_the_endpoint_asks_for_is_kept_by_all() -> None:
    with scripted_judge(rate_limit=1, retry_after="seconds", retry_after_s=1.0) as judge:
        judged = ask(spec(judge.url, limits={"retries": 3}), [question(1), question(2)])
        times = [(one["at"], one["status"]) for one in judge.requests()]
    assert [answer.outcome for answer in judged.answers] == ["scored"] * 2
    told_to_wait = next(at for at, status in times if status == 429)
    after = [at for at, _ in times if at > told_to_wait]
    assert min(after) - told_to_wait >= 0.95


def test_a_date_to_wait_for_is_read_by_the_endpoints_own_clock() -> None:
    times: list[float] = []

    def reply(sent: bytes) -> bytes:
        times.append(time.monotonic())
        if len(times) > 1:
            return http(completion(verdict()))
        return http(
            b"",
            "429 Busy",
            "Date: Mon, 01 Jan 2001 00:00:00 GMT",
            "Retry-After: Mon, 01 Jan 2001 00:00:01 GMT",
        )

    with raw_endpoint(reply) as endpoint:
        judged = ask(spec(endpoint.url, limits={"retries": 1}), [question()])
    assert judged.answers[0].outcome == "scored"
    assert times[1] - times[0] > 0.95


def test_a_pause_beyond_the_budget_is_an_error_now_and_not_an_hour_later() -> None:
    with scripted_judge(rate_limit=0, retry_after="3600") as judge:
        judged = ask(spec(judge.url, limits={"retries": 5, "budget_s": 1.0}), [question()])
        assert judge.stats().requests == 1
    assert judged.answers[0].outcome == "errored"
    assert "1 s for one question" in judged.answers[0].reason


@pytest.mark.parametrize("jumps", [[0.0, 1e7, 0.0, 3e7], [1e6, 0.0, -1e6, 5.0], [0.0, -3600.0]])
def test_a_clock_that_jumps_costs_no_answer(jumps: list[float]) -> None:
    calls = 0

    def clock() -> float:
        nonlocal calls
        calls += 1
        return time.monotonic() + jumps[calls % len(jumps)]

    with scripted_judge() as judge:
        judged = ask(spec(judge.url), [question(n, more=f"n{n}") for n in range(8)], clock=clock)
    assert [answer.outcome for answer in judged.answers] == ["scored"] * 8


def test_the_ceiling_is_never_passed_and_the_limiter_recovers() -> None:
    with scripted_judge(latency_s=0.005, fail_first=6, fail_with=429) as judge:
        judged = ask(
            spec(judge.url, limits={"concurrency": 8, "retries": 3}),
            [question(n, more=f"n{n}") for n in range(150)],
            seed=HASTE,
        )
        seen = judge.stats()
    assert {answer.outcome for answer in judged.answers} == {"scored"}
    assert seen.peak <= 8
    assert judged.client.limiter.in_flight == 0
    assert judged.client.usage.slowed >= 1
    assert judged.client.limiter.limit == 8


def test_a_rate_limited_endpoint_answers_everything_in_the_end() -> None:
    with scripted_judge(rate_limit=40, retry_after="0.3") as judge:
        judged = ask(
            spec(judge.url, limits={"concurrency": 16, "retries": 6}),
            [question(n, more=f"n{n}") for n in range(60)],
        )
        assert judge.stats().answered == 60
    assert {answer.outcome for answer in judged.answers} == {"scored"}


# --- money


@pytest.mark.parametrize("usage", ["counted", "absent", "null", "odd"])
def test_the_budget_in_dollars_is_never_overdrawn(usage: str) -> None:
    asked = [question(n, more=f"n{n}") for n in range(60)]
    one = (tokens_of(asked[0].messages("0" * 32)) + 100 * 2) / 1_000_000  # at most, at these prices
    limits = {"max_usd": float(one * 10), "concurrency": 8}
    with scripted_judge(usage=usage, latency_s=0.005) as judge:
        judged = ask(spec(judge.url, price=PRICE, max_tokens=100, limits=limits), asked)
        seen = judge.stats()
    counts = [answer.outcome for answer in judged.answers]
    assert counts.count("scored") == seen.requests
    assert 9 <= seen.requests < 60
    if usage != "counted":
        assert seen.requests <= 10
        assert judged.client.usage.unpriced == seen.requests
    cost = judged.client.usage.cost_usd
    assert cost is not None
    assert cost <= Decimal(str(limits["max_usd"]))
    assert all(
        "budget" in answer.reason for answer in judged.answers if answer.outcome == "errored"
    )


def test_replies_that_nobody_waited_for_are_taken_for_paid() -> None:
    asked = [question(n, more=f"n{n}") for n in range(12)]
    one = (tokens_of(asked[0].messages("0" * 32)) + 100 * 2) / 1_000_000
    with scripted_judge(hang="silent") as judge:
        ask(
            spec(
                judge.url,
                price=PRICE,
                max_tokens=100,
                limits={"max_usd": float(one * Decimal("2.5")), "timeout_s": 0.1, "concurrency": 1},
            ),
            asked,
        )
        assert judge.stats().requests == 2


def test_tokens_and_cost_are_counted_exactly() -> None:
    price = Price(input_per_million=Decimal("0.15"), output_per_million=Decimal("0.60"))
    with scripted_judge() as judge:
        usage = ask(spec(judge.url, price=price), [question(n) for n in range(5)]).client.usage
        seen = judge.stats()
    assert (usage.calls, usage.input_tokens, usage.output_tokens) == (
        5,
        seen.prompt_tokens,
        seen.completion_tokens,
    )
    assert (
        usage.cost_usd
        == (seen.prompt_tokens * Decimal("0.15") + seen.completion_tokens * Decimal("0.60"))
        / 1_000_000
    )


def test_without_a_price_there_is_no_cost_rather_than_none_at_all() -> None:
    with scripted_judge() as judge:
        assert ask(spec(judge.url), [question()]).client.usage.cost_usd is None


# --- asked once


def test_a_repeat_asks_nothing_anew_and_says_the_same(tmp_path: Path) -> None:
    asked = [question(n) for n in range(5)] + [pair_question()]
    with scripted_judge(noise=0.5) as judge:
        for _ in range(3):
            with Journal(str(tmp_path / "j")) as journal:
                judged = ask(spec(judge.url), asked, journal=journal)
            assert judge.stats().requests == 6
    assert all(answer.cached for answer in judged.answers)
    assert (judged.client.usage.calls, judged.client.usage.cached) == (0, 6)


def test_samples_are_distinct_draws_and_adding_one_asks_only_that_one() -> None:
    with scripted_judge(noise=0.5, seed=3) as judge, Journal() as journal:
        three = ask(spec(judge.url), [question(n) for n in range(20)], journal=journal, samples=3)
        assert judge.stats().requests == 60
        four = ask(spec(judge.url), [question(n) for n in range(20)], journal=journal, samples=4)
        assert judge.stats().requests == 80
    assert len({answer.key for answer in three.answers}) == 60
    scores = [
        tuple(answer.verdict and answer.verdict.score for answer in four.answers[4 * n : 4 * n + 4])
        for n in range(20)
    ]
    assert any(len(set(row)) > 1 for row in scores)
    assert [row[:3] for row in scores] == [
        tuple(a.verdict and a.verdict.score for a in three.answers[3 * n : 3 * n + 3])
        for n in range(20)
    ]


def test_a_seed_is_another_one_for_each_sample() -> None:
    with scripted_judge() as judge:
        ask(spec(judge.url, seed=40), [question()], samples=3)
        assert sorted(one["body"]["seed"] for one in judge.requests()) == [40, 41, 42]


@pytest.mark.parametrize(
    "change",
    [
        {"model": "m-2"},
        {"temperature": 0.7},
        {"version": "2"},
        {"max_tokens": 9},
        {"candidate": "quality=1.00 other"},
        {"definition": "Another."},
        {"task": "Why?"},
    ],
)
def test_whatever_decides_an_answer_asks_anew_when_it_changes(change: dict[str, Any]) -> None:
    with scripted_judge() as judge, Journal() as journal:
        ask(spec(judge.url), [question()], journal=journal)
        asked = question()
        if "definition" in change:
            asked, change = asked._replace(criterion=criterion(definition=change["definition"])), {}
        elif "candidate" in change or "task" in change:
            asked, change = asked._replace(**change), {}
        ask(spec(judge.url, **change), [asked], journal=journal)
        assert judge.stats().requests == 2


def test_limits_and_prices_do_not_ask_anew() -> None:
    with scripted_judge() as judge, Journal() as journal:
        ask(spec(judge.url), [question()], journal=journal)
        ask(
            spec(judge.url, price=PRICE, family="x", limits={"concurrency": 1}),
            [question()],
            journal=journal,
        )
        assert judge.stats().requests == 1


def test_the_same_question_twice_at_once_is_paid_once() -> None:
    with scripted_judge(latency_s=0.05) as judge:
        judged = ask(spec(judge.url), [question()] * 10)
        assert judge.stats().requests == 1
    assert {
        (answer.outcome, answer.verdict and answer.verdict.score) for answer in judged.answers
    } == {("scored", 4)}


def test_the_same_question_twice_at_once_fails_twice_when_it_fails() -> None:
    with scripted_judge(status=400) as judge:
        judged = ask(spec(judge.url), [question()] * 5)
        assert judge.stats().requests == 1
    assert [answer.outcome for answer in judged.answers] == ["errored"] * 5


def test_a_reply_that_could_not_be_used_is_paid_for_and_not_asked_again(tmp_path: Path) -> None:
    with scripted_judge(malformed="prose") as judge:
        for _ in range(2):
            with Journal(str(tmp_path / "j")) as journal:
                judged = ask(spec(judge.url), [question()], journal=journal)
        assert judge.stats().requests == 2  # the question, and its repair
    assert judged.answers[0].outcome == "unparsable"
    assert judged.answers[0].cached


def test_an_error_is_not_stored_so_that_the_next_run_asks(tmp_path: Path) -> None:
    with scripted_judge(status=503) as judge, Journal(str(tmp_path / "j")) as journal:
        assert ask(spec(judge.url), [question()], journal=journal).answers[0].outcome == "errored"
        judge.become(status=200)
        assert ask(spec(judge.url), [question()], journal=journal).answers[0].outcome == "scored"


# --- secrets


@pytest.fixture
def key(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("JUDGE_KEY", KEY)
    return KEY


ECHOES: dict[str, Any] = {
    "reply": lambda k: http(completion(verdict(reason=f"your key is {k}"))),
    "refusal": lambda k: http(completion(None, refusal=f"I will not tell {k}")),
    "model": lambda k: http(
        json.dumps(
            {"model": k, "choices": [{"message": {"content": verdict()}, "finish_reason": k}]}
        ).encode()
    ),
    "foreign": lambda k: http(json.dumps({"error": f"no such key: {k}"}).encode()),
    "html": lambda k: http(f"<p>{k}</p>".encode()),
    "bad request": lambda k: http(f"bad key {k}".encode(), "400 Bad Request"),
    "busy": lambda k: http(f"busy {k}".encode(), "503 Busy"),
    "at the cut": lambda k: http(b"x" * 185 + k.encode(), "400 Bad Request"),
    "at the other cut": lambda k: http(b"\n" * 390 + k.encode(), "400 Bad Request"),
    "escaped slash": lambda k: http(
        json.dumps({"e": k}).replace("/", "\\/").encode(), "400 Bad Request"
    ),
    "status line": lambda k: f"HTTP/1.1 Bearer {k}\r\n\r\n".encode(),
    "reason phrase": lambda k: http(b"", f"400 {k}"),
    "header": lambda k: http(b"{}", "200 OK", f"content-length: {k}"),
    "encoding": lambda k: http(b"{}", "200 OK", f"content-encoding: {k}"),
    "no http": lambda k: f"{k}\r\n\r\n".encode(),
    "prose": lambda k: http(completion(f"Sure. The key is {k}.")),
}


@pytest.mark.parametrize("way", ECHOES)
@pytest.mark.parametrize("api", ["openai", "anthropic"])
def test_a_key_that_an_endpoint_says_back_is_nowhere(
    way: str, api: str, key: str, tmp_path: Path
) -> None:
    with (
        raw_endpoint(lambda sent: ECHOES[way](key)) as endpoint,
        Journal(str(tmp_path / "j")) as journal,
    ):
        judged = ask(
            spec(endpoint.url, api=api, key_env="JUDGE_KEY"), [question()], journal=journal
        )
        assert all(key.encode() in sent for sent in endpoint.seen)
    kept = (tmp_path / "j").read_text(encoding="utf-8") + repr(judged.answers)
    assert "planted" not in kept
    assert "0123456789abc" not in kept


@pytest.mark.parametrize(
    "status", ["301 Moved", "302 Found", "303 See Other", "307 Temporary", "308 Permanent"]
)
def test_a_redirect_is_not_followed_so_the_key_goes_nowhere_else(status: str, key: str) -> None:
    with raw_endpoint(lambda sent: http(completion(verdict()))) as thief:
        with (
            raw_endpoint(
                lambda sent: http(b"", status, f"location: {thief.url}/chat/completions")
            ) as endpoint,
            pytest.raises(NotEnoughEvidence, match="Redirects are not followed"),
        ):
            ask(spec(endpoint.url, key_env="JUDGE_KEY"), [question()])
        assert thief.seen == []


def test_a_stand_in_for_a_key_does_not_tear_replies_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUDGE_KEY", "o")
    with scripted_judge() as judge:
        judged = ask(spec(judge.url, key_env="JUDGE_KEY"), [question()])
    assert (judged.answers[0].outcome, judged.answers[0].reason) == ("scored", "as the anchor says")


def test_the_key_goes_into_the_header_of_each_dialect(key: str) -> None:
    with scripted_judge(key=key) as judge:
        for api in ("openai", "anthropic"):
            assert (
                ask(spec(judge.url, api=api, key_env="JUDGE_KEY"), [question()]).answers[0].outcome
                == "scored"
            )
        heads = [one["headers"] for one in judge.requests()]
    assert (heads[0]["authorization"], heads[1]["x-api-key"]) == (f"Bearer {key}", key)


def test_a_proxy_of_the_environment_gets_nothing_unless_the_judge_says_so(
    monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    with raw_endpoint(lambda sent: http(b"", "502 Bad")) as proxy, scripted_judge() as judge:
        for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.url)
        monkeypatch.delenv("NO_PROXY", raising=False)
        monkeypatch.delenv("no_proxy", raising=False)
        assert (
            ask(spec(judge.url, key_env="JUDGE_KEY"), [question()]).answers[0].outcome == "scored"
        )
        assert proxy.seen == []


def test_a_missing_key_is_misuse_before_anything_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JUDGE_KEY", raising=False)
    with scripted_judge() as judge:
        with pytest.raises(UsageError) as caught:
            ask(spec(judge.url, key_env="JUDGE_KEY"), [question()])
        assert judge.stats().requests == 0
    assert caught.value.code == "JDG-002"


# --- dialects


@pytest.mark.req("W-069")
@pytest.mark.parametrize(
    "refused",
    [
        ("temperature",),
        ("response_format",),
        ("temperature", "response_format"),
        ("seed",),
        ("max_tokens",),
    ],
)
def test_a_part_that_the_endpoint_refuses_is_left_out_noted_and_changes_no_result(
    refused: tuple[str, ...],
) -> None:
    asked = [question(n, more=f"n{n}") for n in range(12)]
    with scripted_judge() as judge:
        plain = ask(spec(judge.url, seed=1), asked)
        judge.become(refuses=refused)
        judged = ask(spec(judge.url, seed=1, limits={"concurrency": 8}), asked)
        last = judge.requests()[-1]["body"]
    assert [answer.verdict for answer in judged.answers] == [
        answer.verdict for answer in plain.answers
    ]
    assert judged.client.usage.left_out == tuple(sorted(refused))
    assert not set(refused) & set(last)
    assert judged.client.usage.retries == 0


def test_an_endpoint_that_refuses_what_cannot_be_left_out_is_not_asked_for_ever() -> None:
    with raw_endpoint(
        lambda sent: http(b'{"error": {"message": "max_tokens: too many"}}', "400 Bad Request")
    ) as endpoint:
        judged = ask(spec(endpoint.url, api="anthropic"), [question()])
        assert len(endpoint.seen) == 2
    assert judged.answers[0].outcome == "errored"


def test_the_other_dialect_gives_the_same_verdicts() -> None:
    asked = [question(n) for n in range(5)] + [
        pair_question(),
        pair_question(order="ba"),
        pair_question(0.5, 0.5),
    ]
    with scripted_judge() as judge:
        one = ask(spec(judge.url), asked)
        other = ask(spec(judge.url, api="anthropic"), asked)
        paths = {one["path"] for one in judge.requests()}
        sent = judge.requests()[-1]["body"]
    assert [answer.verdict for answer in one.answers] == [
        answer.verdict for answer in other.answers
    ]
    assert paths == {"/v1/chat/completions", "/v1/messages"}
    assert sent["tool_choice"] == {"type": "tool", "name": "verdict"}
    assert all(message["role"] != "system" for message in sent["messages"])
    assert sent["system"].startswith("You judge")
    assert other.client.usage.input_tokens > 0


def test_without_its_package_a_litellm_judge_says_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "litellm", None)
    with pytest.raises(UsageError, match=re.escape(install_hint("litellm"))) as caught:
        ask(spec("", api="litellm"), [question()])
    assert caught.value.code == "JDG-003"


def test_without_aiohttp_a_judge_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "aiohttp", None)
    with pytest.raises(UsageError, match=re.escape(install_hint("judge"))):
        ask(spec("http://127.0.0.1:1/v1"), [question()])


class Limited(Exception):
    status_code = 429
    response = types.SimpleNamespace(headers={"Retry-After": "0"})


def test_a_litellm_judge_is_asked_retried_and_masked_like_any_other(
    monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    calls: list[dict[str, Any]] = []

    async def acompletion(**sent: Any) -> Any:
        calls.append(sent)
        if len(calls) == 1:
            raise Limited(f"slow down, {key}")
        if len(calls) == 2:
            raise fake.exceptions.APIConnectionError(f"no way with {key}")
        return types.SimpleNamespace(model_dump=lambda: json.loads(completion(verdict(reason=key))))

    fake: Any = types.ModuleType("litellm")
    fake.acompletion = acompletion
    fake.exceptions = types.SimpleNamespace(
        APIConnectionError=type("APIConnectionError", (Exception,), {})
    )
    monkeypatch.setitem(sys.modules, "litellm", fake)
    judged = ask(
        spec("", api="litellm", key_env="JUDGE_KEY", limits={"retries": 2}),
        [question()],
        seed=HASTE,
    )
    assert (judged.answers[0].outcome, judged.answers[0].reason) == ("scored", "[key]")
    assert [sent["api_key"] for sent in calls] == [key] * 3
    again = ask(spec("", api="litellm", key_env="JUDGE_KEY"), [question()])
    assert again.answers[0].outcome == "scored"


def test_a_cancelled_job_leaves_no_place_taken() -> None:
    with scripted_judge(latency_s=5) as judge:

        async def cut_short() -> Client:
            async with Client(spec(judge.url), Journal()) as client:
                tasks = [
                    asyncio.ensure_future(client.ask(question(n, more=text(n)))) for n in range(10)
                ]
                await asyncio.sleep(0.1)
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
                return client

        assert asyncio.run(cut_short()).limiter.in_flight == 0
