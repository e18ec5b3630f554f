"""How many requests are on their way: half as many when the endpoint says so, one more for each
round of answers, never above the ceiling.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.judging.client import Limiter, retry_after


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def limiter(ceiling: int = 16) -> tuple[Limiter, Clock]:
    clock = Clock()
    return Limiter(ceiling, clock=clock), clock


def run(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(work(), 10))


def test_it_begins_at_the_ceiling_that_the_user_chose() -> None:
    assert limiter(16)[0].limit == 16


def test_a_refusal_halves_the_limit_and_one_round_of_answers_gives_one_back() -> None:
    made, clock = limiter(16)
    made.refused(started=clock.now, retry_after_s=None)
    assert made.limit == 8
    for _ in range(9):
        made.succeeded()
    assert 8.9 < made.limit < 9.2


def test_requests_that_were_on_their_way_when_it_slowed_down_do_not_slow_it_again() -> None:
    made, clock = limiter(16)
    sent = clock.now
    clock.now += 1
    for _ in range(16):
        made.refused(started=sent, retry_after_s=None)
    assert (made.limit, made.slowed) == (8, 1)
    clock.now += 1
    made.refused(started=clock.now, retry_after_s=None)
    assert (made.limit, made.slowed) == (4, 2)


@given(st.lists(st.booleans(), max_size=300), st.integers(1, 64))
def test_the_limit_stays_between_one_and_the_ceiling_whatever_comes(
    outcomes: list[bool], ceiling: int
) -> None:
    made, clock = limiter(ceiling)
    for good in outcomes:
        clock.now += 1
        made.succeeded() if good else made.refused(started=clock.now, retry_after_s=None)
        assert 1 <= made.limit <= ceiling


def test_it_recovers_to_the_ceiling() -> None:
    made, clock = limiter(16)
    for _ in range(10):
        clock.now += 1
        made.refused(started=clock.now, retry_after_s=None)
    assert made.limit == 1
    for _ in range(150):
        made.succeeded()
    assert made.limit == 16


def test_no_more_than_the_limit_are_on_their_way() -> None:
    async def work() -> None:
        made = Limiter(5, clock=asyncio.get_running_loop().time)
        chance = random.Random(1)
        peak = done = 0

        async def one() -> None:
            nonlocal peak, done
            await made.acquire()
            try:
                peak = max(peak, made.in_flight)
                started = asyncio.get_running_loop().time()
                await asyncio.sleep(chance.random() / 500)
                (
                    made.refused(started=started, retry_after_s=None)
                    if chance.random() < 0.2
                    else made.succeeded()
                )
            finally:
                made.release()
                done += 1

        await asyncio.gather(*(one() for _ in range(300)))
        assert (peak, done, made.in_flight) == (5, 300, 0)

    run(work)


def test_a_pause_that_one_request_is_told_holds_for_all() -> None:
    async def work() -> None:
        clock = asyncio.get_running_loop().time
        made = Limiter(4, clock=clock)
        made.refused(started=clock(), retry_after_s=0.1)
        began = clock()
        await asyncio.gather(made.acquire(), made.acquire())
        assert clock() - began >= 0.09

    run(work)


def test_a_shorter_pause_does_not_end_a_longer_one() -> None:
    async def work() -> None:
        made, clock = limiter()
        made.refused(started=clock.now, retry_after_s=60)
        made.refused(started=clock.now, retry_after_s=1)
        clock.now += 2
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(made.acquire(), 0.05)
        clock.now += 58
        await made.acquire()

    run(work)


def test_a_cancelled_request_gives_its_place_to_the_next() -> None:
    async def work() -> None:
        made = Limiter(1, clock=asyncio.get_running_loop().time)
        await made.acquire()
        waiting = [asyncio.ensure_future(made.acquire()) for _ in range(3)]
        await asyncio.sleep(0)
        made.release()  # the place is given to the first, which is cancelled before it can take it
        waiting[0].cancel()
        waiting[1].cancel()
        await asyncio.wait_for(waiting[2], 5)
        assert made.in_flight == 1

    run(work)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"Retry-After": "3"}, 3.0),
        ({"Retry-After": " 0.5 "}, 0.5),
        ({"Retry-After": "0"}, 0.0),
        (
            {
                "Retry-After": "Wed, 21 Oct 2026 07:28:10 GMT",
                "Date": "Wed, 21 Oct 2026 07:28:00 GMT",
            },
            10.0,
        ),
        (
            {
                "Retry-After": "Wed, 21 Oct 2026 07:28:10 GMT",
                "Date": "Wed, 21 Oct 2026 07:29:00 GMT",
            },
            None,
        ),
        ({"Retry-After": "Wed, 21 Oct 2026 07:28:10 GMT"}, None),
        (
            {"Retry-After": "Wed, 21 Oct 2026 07:28:10", "Date": "Wed, 21 Oct 2026 07:28:00 GMT"},
            None,
        ),
        (
            {
                "Retry-After": "Wed, 99 Oct 99999 07:28:10 GMT",
                "Date": "Wed, 21 Oct 2026 07:28:00 GMT",
            },
            None,
        ),
        ({"Retry-After": "-5"}, None),
        ({"Retry-After": "nan"}, None),
        ({"Retry-After": "inf"}, None),
        ({"Retry-After": "1e300"}, None),
        ({"Retry-After": "soon"}, None),
        ({"Retry-After": ""}, None),
        ({}, None),
    ],
)
def test_retry_after_is_read_in_seconds_or_by_the_endpoints_own_clock(
    headers: dict[str, str], seconds: float | None
) -> None:
    assert retry_after(headers) == seconds


def test_a_clock_that_is_set_back_makes_no_pause_longer_than_was_asked_for() -> None:
    async def work() -> None:
        clock = Clock()
        made = Limiter(1, clock=clock)
        made.refused(started=clock.now, retry_after_s=0.05)
        clock.now -= 3600
        waiting = asyncio.ensure_future(made.acquire())
        await asyncio.sleep(0.02)
        assert not waiting.done()
        clock.now += 0.06
        await asyncio.wait_for(waiting, 2)

    run(work)


def test_a_clock_that_begins_below_zero_asks_for_no_pause() -> None:
    run(Limiter(1, clock=lambda: -1e6).acquire)
