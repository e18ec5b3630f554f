"""Asks judges: a limited number of questions at once, retried within a budget, each paid for once.

Every question has a key, the digest of all that decides its answer. An answer in the journal under
that key is never asked for again; the same question twice at the same moment is asked once. An
unusable reply is sent back once to be repaired. A reply that is still unusable is counted as
`unparsable`, `refused` or `errored`, with the reason; never as a low score.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from email.utils import parsedate_to_datetime
from hashlib import sha256
from types import TracebackType
from typing import Any, Literal, NamedTuple

from msgspec import Struct

from assay.canon import digest, time_text
from assay.errors import InputError, NotEnoughEvidence, count
from assay.files.json_files import parse_wide_json
from assay.files.line_log import LineLog, LogErrors, LogPlace
from assay.judging.answer_times import oldest
from assay.judging.apis import JUDGE_APIS as JUDGES
from assay.judging.config import JudgeSpec, Price, check_spec
from assay.judging.endpoints import DIALECTS, Prompt, Reply, refused_parameter
from assay.judging.identity import warnings_of
from assay.judging.questions import SALT_BYTES, Asked, Question, Salt, put, repair
from assay.judging.replies import JudgeVerdict, read_verdict
from assay.judging.transport import Exchange, Transport, UnreachableError

BYTES_PER_TOKEN = 3
"""Fewer than most languages have, so that estimates err on the high side."""


class Usage(Struct, frozen=True):
    """What a job cost, as documents have it. `unpriced` counts replies that did not report their
    tokens.
    """

    judge: str
    model: str
    calls: int
    cached: int
    retries: int
    repairs: int
    input_tokens: int
    output_tokens: int
    cost_usd: Decimal | None
    unpriced: int
    slowed: int
    left_out: tuple[str, ...]
    """Parts of the request that the endpoint refused."""
    answered_at: str | None
    """When the oldest reply that was used came; None if one from the journal has no time."""
    answered_by: dict[str, int]
    """Replies by the model that the endpoint named in them."""
    warnings: list[str]
    """What breaks the judge protocol."""


def tokens_of(messages: Iterable[Mapping[str, str]]) -> Decimal:
    """How many tokens messages may have.

    >>> tokens_of([{"content": "six of"}, {"content": "字"}])
    Decimal('3')
    """
    return (
        Decimal(sum(len(message["content"].encode("utf-8", "replace")) for message in messages))
        / BYTES_PER_TOKEN
    )


def price_of(price: Price, input_tokens: Decimal | int, output_tokens: Decimal | int) -> Decimal:
    """What this many tokens cost, in US dollars."""
    return (
        input_tokens * Decimal(str(price.input_per_million))
        + output_tokens * Decimal(str(price.output_per_million))
    ) / 1_000_000


class Budget:
    """The money of one judge in one job."""

    def __init__(self, spec: JudgeSpec) -> None:
        self.input_tokens = self.output_tokens = self.unpriced = 0
        self._spec = spec
        self._assumed = Decimal(0)
        self._aside = Decimal(0)

    def cost(self) -> Decimal | None:
        """The cost of the replies that reported their tokens; None without a price."""
        price = self._spec.price
        return None if price is None else price_of(price, self.input_tokens, self.output_tokens)

    def most(self, messages: Iterable[Mapping[str, str]]) -> Decimal:
        """What a request may cost with the longest allowed reply; 0 without a limit."""
        if self._spec.price is None or self._spec.limits.max_usd is None:
            return Decimal(0)
        return price_of(self._spec.price, tokens_of(messages), self._spec.max_tokens)

    def set_aside(self, amount: Decimal) -> bool:
        """Whether there is enough for one more request; if so, its price is set aside until
        `settle`.
        """
        limit = self._spec.limits.max_usd
        if limit is not None and (
            self.cost() or Decimal(0)
        ) + self._assumed + self._aside + amount > Decimal(str(limit)):
            return False
        self._aside += amount
        return True

    def settle(self, amount: Decimal) -> None:
        """Release what was set aside for a request that has ended."""
        self._aside -= amount

    def assume(self, amount: Decimal) -> None:
        """Count a payment whose amount is unknown."""
        self._assumed += amount

    def pay(self, input_tokens: int | None, output_tokens: int | None, *, at_most: Decimal) -> None:
        """Count a reply, with its token usage if it reports that."""
        self.input_tokens += input_tokens or 0
        self.output_tokens += output_tokens or 0
        if input_tokens is None or output_tokens is None:
            self.unpriced += 1
            self._assumed += at_most


FORMAT = "assay.judge-journal/1"
_ERRORS = LogErrors(
    "JDG-004",
    regular="Name a file, or pass --no-journal to keep nothing.",
    busy="Wait for it, or give this job its own journal with --journal.",
    damaged="Restore the file, or remove it and pay for its answers again.",
    full="Every reply before this one is kept: make room and run again.",
)


class Entry(NamedTuple):
    """One stored exchange."""

    key: str
    request: dict[str, Any]
    reply: dict[str, Any]
    at: str | None = None
    """When the reply came; None if the journal doesn't say."""


class Journal:
    """Stored exchanges by key. Use it as a context; without a path it keeps nothing on disk."""

    def __init__(self, path: str | None = None) -> None:
        self.path = path
        self.salt = Salt.fresh()
        self._log = None if path is None else LineLog(path, _ERRORS)
        self._places: dict[str, LogPlace] = {}
        self._kept: dict[str, Entry] = {}

    def __enter__(self) -> Journal:
        if self._log is not None:
            self._log.open(self._take)
            if self._log.empty:
                self._log.append({"journal": FORMAT, "salt": self.salt.value.hex()})
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._log is not None:
            self._log.close(failing=error is not None)

    def __len__(self) -> int:
        return len(self._places) + len(self._kept)

    @property
    def cut(self) -> int:
        """Bytes of a torn line that were cut off on opening."""
        return 0 if self._log is None else self._log.cut

    def get(self, key: str) -> Entry | None:
        """What was stored under a key."""
        if key in self._kept:
            return self._kept[key]
        place = self._places.get(key)
        if place is None or self._log is None:
            return None
        tree = self._log.read(place)
        at = tree.get("at")
        return Entry(key, tree["request"], tree["reply"], at if isinstance(at, str) else None)

    def put(self, entry: Entry) -> None:
        """Store an exchange. When this returns, a killed process has not lost it."""
        if self._log is None:
            self._kept[entry.key] = entry
            return
        self._places[entry.key] = self._log.append(
            {"key": entry.key, "at": entry.at, "request": entry.request, "reply": entry.reply}
        )

    def _take(self, tree: dict[str, Any], place: LogPlace, number: int) -> None:
        path = self.path or ""
        if number == 1:
            if tree.get("journal") != FORMAT:
                raise InputError(
                    "JDG-004",
                    f"is not a journal of judge work: its first line does not name {FORMAT}.",
                    where=path,
                )
            self.salt = _salt(tree.get("salt"), path)
        elif (
            isinstance(tree.get("key"), str)
            and isinstance(tree.get("reply"), dict)
            and isinstance(tree.get("request"), dict)
        ):
            self._places[tree["key"]] = place
        else:
            raise InputError("JDG-004", f"line {number} contains no exchange.", where=path)


def _salt(text: Any, path: str) -> Salt:
    try:
        value = bytes.fromhex(text)
    except (ValueError, TypeError):
        value = b""
    if len(value) != SALT_BYTES:
        raise InputError("JDG-004", "the first line has no salt.", where=path)
    return Salt(value)


class Limiter:
    """Additive increase, multiplicative decrease, between 1 and a ceiling. It begins at the
    ceiling, which the user chose.
    """

    def __init__(self, ceiling: int, *, clock: Callable[[], float]) -> None:
        self.ceiling = ceiling
        self.limit = float(ceiling)
        self.in_flight = 0
        self.slowed = 0
        """How often the endpoint slowed us down."""
        self._clock = clock
        self._resume_at = float("-inf")
        self._pause_s = 0.0
        self._slowed_at = float("-inf")
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def acquire(self) -> None:
        """Wait for a place, and for the end of any pause."""
        while True:
            now = self._clock()
            if self._resume_at > now:
                # a clock that was set back must not make the pause longer
                self._resume_at = min(self._resume_at, now + self._pause_s)
                await asyncio.sleep(self._resume_at - now)
                continue
            if self.in_flight < max(1, int(self.limit)):
                self.in_flight += 1
                return
            place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(place)
            try:
                await place
            except asyncio.CancelledError:
                if place.done() and not place.cancelled():
                    self._wake()  # pass the place on
                raise

    def release(self) -> None:
        """Release a place."""
        self.in_flight -= 1
        self._wake()

    def succeeded(self) -> None:
        """After an answer, allow a little more."""
        if self.limit < self.ceiling:
            self.limit = min(float(self.ceiling), self.limit + 1 / self.limit)
            self._wake()

    def refused(self, *, started: float, retry_after_s: float | None) -> None:
        """The endpoint reported overload. Requests that were already in flight when we slowed down
        do not slow us down again.
        """
        now = self._clock()
        if started >= self._slowed_at:
            self.limit = max(1.0, self.limit / 2)
            self._slowed_at = now
            self.slowed += 1
        if retry_after_s is not None:
            self._pause_s = max(retry_after_s, min(self._resume_at - now, self._pause_s))
            self._resume_at = now + self._pause_s

    def _wake(self) -> None:
        free = max(1, int(self.limit)) - self.in_flight
        while free > 0 and self._waiting:
            place = self._waiting.popleft()
            if not place.done():
                place.set_result(None)
                free -= 1


def retry_after(headers: Mapping[str, str]) -> float | None:
    """How long the endpoint asks us to wait, in seconds.

    A date is read against the endpoint's own clock, its Date header: ours may be wrong. Without
    that header a date says nothing.

    >>> retry_after({"Retry-After": "2.5"})
    2.5
    >>> retry_after(
    ...     {
    ...         "Retry-After": "Sun, 15 Nov 2026 10:00:07 GMT",
    ...         "Date": "Sun, 15 Nov 2026 10:00:00 GMT",
    ...     }
    ... )
    7.0
    """
    text = headers.get("Retry-After", "").strip()
    if not text:
        return None
    try:
        seconds = float(text)
    except ValueError:
        try:
            seconds = (
                parsedate_to_datetime(text) - parsedate_to_datetime(headers.get("Date", ""))
            ).total_seconds()
        except (ValueError, TypeError, OverflowError):
            return None
    return seconds if 0 <= seconds < 1e9 else None


GIVE_UP_AFTER = 25
"""After this many consecutive errors the endpoint counts as down, and nothing more is asked."""
TEXTS = ("text", "refusal", "finish", "model")
"""The parts of a reply that are text."""
_BUSY = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})
_HOPELESS = frozenset({401, 403, 404, 405, 407})

Outcome = Literal["scored", "tie", "unparsable", "refused", "errored"]


class JudgeAnswer(NamedTuple):
    """The outcome of one question."""

    outcome: Outcome
    verdict: JudgeVerdict | None
    reason: str
    """The judge's reason, or why there is no verdict."""
    key: str
    cached: bool
    repaired: bool
    model: str | None


class Errored(Exception):
    """One question could not be answered; the job goes on."""


class Unaffordable(Errored):
    """The question was not asked because the budget is used up. This says nothing about the
    endpoint.
    """


class Client:
    """One judge, to be asked many times. Use it as an async context."""

    def __init__(
        self,
        spec: JudgeSpec,
        journal: Journal,
        *,
        seed: int = 0,
        clock: Callable[[], float] = time.monotonic,
        on_answer: Callable[[JudgeAnswer], None] | None = None,
        again: bool = False,
    ) -> None:
        """`again` asks once more what the journal has only unusable replies to."""
        check_spec(spec)
        self.spec = spec
        self.journal = journal
        self.limiter = Limiter(spec.limits.concurrency, clock=clock)
        self._clock = clock
        self._transport = Transport(spec)
        self._random = random.Random(seed)  # jitter, no secret  # noqa: S311
        self._identity = spec.identity()
        self._judge = spec.digest
        self._pending: dict[str, asyncio.Future[Reply]] = {}
        self._without: frozenset[str] = frozenset()
        self._errors_in_a_row = 0
        self._on_answer = on_answer
        self._again = again
        self._cached = self._retries = self._repairs = 0
        self.answered: Counter[str] = Counter()
        """Replies by the model that the endpoint named in them."""
        self._answer_times: set[str | None] = set()
        self._budget = Budget(spec)

    async def __aenter__(self) -> Client:
        self._transport.open()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._transport.close()

    @property
    def width(self) -> int:
        """How many items to work on at once, so that a question is always waiting to be sent."""
        return 2 * self.spec.limits.concurrency

    @property
    def usage(self) -> Usage:
        """What was asked and paid so far."""
        left_out, answered = tuple(sorted(self._without)), dict(sorted(self.answered.items()))
        return Usage(
            self.spec.judge,
            self.spec.model,
            self._transport.requests,
            self._cached,
            self._retries,
            self._repairs,
            self._budget.input_tokens,
            self._budget.output_tokens,
            self._budget.cost(),
            self._budget.unpriced,
            self.limiter.slowed,
            left_out,
            oldest(self._answer_times),
            answered,
            warnings_of(self.spec, left_out=left_out, answered=answered),
        )

    async def ask(self, question: Question, *, sample: int = 0) -> JudgeAnswer:
        """The answer to a question. `sample` separates draws of the same question."""
        answer = await self._answer(question, sample)
        if self._again and answer.cached and answer.verdict is None:
            answer = await self._answer(question, sample, fresh=True)
        if self._on_answer is not None:
            self._on_answer(answer)
        return answer

    def has(self, question: Question, *, sample: int = 0) -> bool:
        """Whether the journal has a reply to a question."""
        prompt = put(question, self.journal.salt)
        return self.journal.get(self.key(prompt, sample=sample)) is not None

    async def _answer(self, question: Question, sample: int, *, fresh: bool = False) -> JudgeAnswer:
        prompt = put(question, self.journal.salt)
        key = self.key(prompt, sample=sample)
        longest = max(map(len, question.texts), default=0)
        if longest > self.spec.limits.max_candidate_chars:
            why = (
                f"a text of {longest:,} characters is longer than the"
                f" {self.spec.limits.max_candidate_chars:,} this judge is given; it is not judged"
                " in part"
            )
            return JudgeAnswer("errored", None, why, key, False, False, None)
        try:
            version = question.prompt_version
            reply, cached = await self.reply(
                key, version, Prompt(prompt.messages, prompt.schema, sample), fresh=fresh
            )
            read = read_verdict(reply, question, prompt.schema)
            repaired = read.fault is not None and read.repairable
            if repaired:
                self._repairs += 1
                text, fault = reply.text or "", read.fault or ""
                again = digest({"mends": key, "reply": text, "fault": fault})
                messages = repair(prompt.messages, text, fault)
                reply, also_cached = await self.reply(
                    again, version, Prompt(messages, prompt.schema, sample), fresh=fresh
                )
                cached = cached and also_cached
                read = read_verdict(reply, question, prompt.schema)
        except Errored as error:
            return JudgeAnswer("errored", None, str(error), key, False, False, None)
        reason = read.fault or read.reason
        return JudgeAnswer(read.outcome, read.verdict, reason, key, cached, repaired, reply.model)

    def key(self, prompt: Asked, *, sample: int = 0) -> str:
        """The digest of everything that decides the answer to a question: the judge, the wording,
        the shape of the reply, and the draw.
        """
        return "sha256:" + sha256(f"{self._judge} {prompt.digest} {sample}".encode()).hexdigest()

    def _fail(self, error: Errored) -> None:
        self._errors_in_a_row += not isinstance(error, Unaffordable)
        if self._errors_in_a_row >= GIVE_UP_AFTER:
            raise NotEnoughEvidence(
                "JDG-003",
                f"{count(self._errors_in_a_row, 'question')} in a row got no answer from"
                f" {self.spec.base_url or self.spec.model}.",
                where=self.spec.judge,
                fix=(
                    "Look at the endpoint, then run again: what was answered is in the journal and"
                    " is not asked again."
                ),
            )

    async def reply(
        self,
        key: str,
        prompt_version: str,
        prompt: Prompt,
        *,
        fresh: bool = False,
    ) -> tuple[Reply, bool]:
        """The reply to one request, from the journal (unless `fresh`), from the same request in
        flight, or from the endpoint; and whether it did not have to be sent.
        """
        stored = None if fresh else self.journal.get(key)
        pending = self._pending.get(key)
        if stored is not None:
            self._cached += 1
            self._answer_times.add(stored.at)
            reply, cached = _stored(stored), True
        elif pending is not None:
            reply, cached = await asyncio.shield(pending), True
        else:
            reply, cached = await self._ask_once(key, prompt_version, prompt), False
        if reply.model is not None:
            self.answered[reply.model] += 1
        return reply, cached

    async def _ask_once(self, key: str, prompt_version: str, prompt: Prompt) -> Reply:
        """Ask the endpoint; others with the same question wait for this reply."""
        future: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self._pending[key] = future
        try:
            try:
                reply, body, took = await self._send(prompt)
            except Errored as error:
                self._fail(error)
                raise
            self._errors_in_a_row = 0
            at = time_text(datetime.now(UTC))
            self._answer_times.add(at)
            request = {
                "judge": self._identity,
                "prompt_version": prompt_version,
                "sample": prompt.sample,
                "body": body,
            }
            kept = {**reply._asdict(), "latency_ms": round(took * 1000, 3)}
            self.journal.put(Entry(key, request, kept, at))
            future.set_result(reply)
            return reply
        except BaseException as error:
            future.set_exception(error)
            future.exception()  # retrieved, so that a future that nobody awaits causes no warning
            raise
        finally:
            del self._pending[key]

    async def _send(self, prompt: Prompt) -> tuple[Reply, dict[str, Any], float]:
        """Ask until there is a usable reply, or the attempts, the time or the money are used up."""
        limits = self.spec.limits
        price = self._budget.most(prompt.messages)
        attempt, why = 0, ""
        began: float | None = None
        while True:
            await self.limiter.acquire()
            if not self._budget.set_aside(price):
                self.limiter.release()
                raise Unaffordable(
                    f"the budget of {limits.max_usd} US dollars would be overdrawn; it was not"
                    " asked"
                )
            try:
                started = self._clock()
                began = started if began is None else began
                left = began + limits.budget_s - started
                if left <= 0:
                    raise Errored(_late(limits.budget_s, why))
                # as of now; other requests may change it while this one is in flight
                without = self._without
                wait: float | None = None
                try:
                    sent = await self._transport.post(
                        prompt, without=without, timeout_s=min(limits.timeout_s, left)
                    )
                except UnreachableError as error:
                    why = str(error)
                    if error.timed_out:
                        self._budget.assume(price)  # a reply that came too late may be charged
                    self.limiter.refused(started=started, retry_after_s=None)
                else:
                    if sent.status == 200:
                        reply, why = self._read(sent.data, price)
                        if reply is not None:
                            self.limiter.succeeded()
                            return reply, sent.body, self._clock() - started
                    elif sent.status in _BUSY:
                        wait = retry_after(sent.headers)
                        why = _answered(sent.status, sent.data)
                        self.limiter.refused(
                            started=started,
                            retry_after_s=None if wait is None else min(wait, limits.budget_s),
                        )
                    elif self._dropped(sent, without):
                        continue
                    else:
                        self._refused(sent.status, sent.data)
            finally:
                self._budget.settle(price)
                self.limiter.release()
            attempt += 1
            if attempt > limits.retries:
                raise Errored(f"no usable answer in {count(attempt, 'attempt')}; the last: {why}")
            pause = self._random.uniform(0, min(30.0, 0.25 * 2**attempt)) if wait is None else wait
            if self._clock() + pause - began > limits.budget_s:
                raise Errored(_late(limits.budget_s, why))
            self._retries += 1
            await asyncio.sleep(pause)

    def _dropped(self, sent: Exchange, without: frozenset[str]) -> bool:
        """Whether the endpoint refused a part of the request that can be left out from now on."""
        if sent.status not in (400, 422):
            return False
        part = refused_parameter(sent.data.decode("utf-8", "replace"), sent.body)
        if part is None or part in without:
            return False
        self._without |= {part}
        return True

    def _read(self, data: bytes, price: Decimal) -> tuple[Reply | None, str]:
        """The endpoint's reply, or why it is unusable."""
        try:
            dialect = JUDGES[self.spec.api].dialect or DIALECTS["openai"]
            reply = dialect.read(parse_wide_json(data))
        except InputError as error:
            self._budget.assume(price)
            return None, error.message
        except (ValueError, RecursionError) as error:
            self._budget.assume(price)
            return None, f"the reply is not JSON ({error}){_excerpt(data)}"
        self._budget.pay(reply.input_tokens, reply.output_tokens, at_most=price)
        texts: dict[str, Any] = {name: _writable(getattr(reply, name)) for name in TEXTS}
        return reply._replace(**texts), ""

    def _refused(self, status: int, data: bytes) -> None:
        """Raise the error for a status that asking again can't change."""
        text = _answered(status, data)
        if status in _HOPELESS or 300 <= status < 400:
            fix = {
                401: f"Is the key in {self.spec.key_env or 'key_env'} right?",
                403: "May this key use this model?",
                404: f"Is there a model '{self.spec.model}' at {self.spec.base_url}?",
            }.get(
                status,
                "Redirects are not followed: name the right address." if status < 400 else "",
            )
            raise NotEnoughEvidence("JDG-003", f"{text}.", where=self.spec.judge, fix=fix)
        raise Errored(text)


def _answered(status: int, data: bytes) -> str:
    return f"the endpoint answered with status {status}{_excerpt(data)}"


def _excerpt(data: bytes) -> str:
    text = " ".join(data[:400].decode("utf-8", "replace").split())[:200]
    return f": {text!r}" if text else ""


def _late(budget_s: float, why: str) -> str:
    return f"no usable answer within the {budget_s:g} s for one question; the last: {why}"


def _writable(text: str | None) -> str | None:
    # half of a surrogate pair cannot be written to any file
    return text if text is None or text.isascii() else text.encode("utf-8", "replace").decode()


def _stored(entry: Entry) -> Reply:
    reply = Reply(*(entry.reply.get(name) for name in Reply._fields))
    if not all(isinstance(getattr(reply, name), str | None) for name in TEXTS):
        raise InputError("JDG-004", f"the journal has no usable reply under {entry.key}.")
    return reply
