"""Asks judges: bounded, paced, retried within a budget, paid once.

Every question has a key, the digest of all that decides its answer. What the journal holds under
that key is never asked again; the same question twice at the same moment is asked once. A reply
that cannot be used is asked to be mended once. What then is no verdict stays what it is:
`unparsable`, `refused` or `errored`, with the reason, counted; never a low score.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from assay.canon import digest
from assay.errors import InputError, NotEnoughEvidence, UsageError
from assay.judging.budget import Purse
from assay.judging.config import JudgeSpec, key_of, spec_faults
from assay.judging.endpoints import DIALECTS, Said, as_bytes, refused_parameter
from assay.judging.journal import Entry, Journal
from assay.judging.limiter import Limiter, retry_after
from assay.judging.questions import Asked, Question, put, repair
from assay.judging.replies import Verdict, read_verdict

if TYPE_CHECKING:
    from collections.abc import Callable
    from decimal import Decimal
    from types import TracebackType

    import aiohttp

INSTALL = "pip install 'assay[judge]'"
MAX_REPLY = 1024 * 1024
GIVE_UP_AFTER = 25
"""Questions in a row that all end in an error, with no answer between: then the endpoint is not
there, and nothing more is asked.
"""
SHORTEST_KEY = 8
"""A key below this is a stand-in of a local server ("none", "EMPTY"): masking it would tear replies
apart.
"""
_BUSY = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})
_HOPELESS = frozenset({401, 403, 404, 405, 407})

Outcome = Literal["scored", "tie", "unparsable", "refused", "errored"]


class Answer(NamedTuple):
    """What became of one question."""

    outcome: Outcome
    verdict: Verdict | None
    reason: str
    """The judge's reason, or why there is no verdict."""
    key: str
    cached: bool
    repaired: bool
    model: str | None


class Usage(NamedTuple):
    """What a job cost. `unpriced` counts replies that did not say how many tokens they took."""

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


class Errored(Exception):
    """One question could not be answered; the job goes on."""


class Unaffordable(Errored):
    """It was not asked, for want of money. This says nothing of the endpoint."""


class Client:
    """One judge, to be asked many times. Use it as an async context."""

    def __init__(
        self,
        spec: JudgeSpec,
        journal: Journal,
        *,
        seed: int = 0,
        clock: Callable[[], float] = time.monotonic,
        on_answer: Callable[[Answer], None] | None = None,
    ) -> None:
        faults = spec_faults(spec)
        if faults:
            path, message, fix = faults[0]
            raise UsageError("JDG-001", f"{path} {message}", where=spec.judge, fix=fix)
        self.spec = spec
        self.journal = journal
        self.limiter = Limiter(spec.limits.concurrency, clock=clock)
        self._clock = clock
        self._key: str | None = None
        self._dialect = DIALECTS.get(spec.api)
        self._random = random.Random(seed)  # jitter, no secret  # noqa: S311
        self._identity = spec.identity()
        self._judge = spec.digest
        self._flying: dict[str, asyncio.Future[Said]] = {}
        self._without: frozenset[str] = frozenset()
        self._session: aiohttp.ClientSession | None = None
        self._errors_in_a_row = 0
        self._on_answer = on_answer
        self._calls = self._cached = self._retries = self._repairs = 0
        self.answered: Counter[str] = Counter()
        """Replies by the model that the endpoint named in them."""
        self._purse = Purse(spec)

    async def __aenter__(self) -> Client:
        self._key = key_of(self.spec)
        return self

    def _open_session(self) -> aiohttp.ClientSession:
        """The session, made when the first request is sent: what the journal answers needs no
        network, no aiohttp and no time to load it.
        """
        if self._session is None:
            try:
                import aiohttp
            except ImportError:
                raise UsageError(
                    "JDG-003", "asking a model needs the package aiohttp.", fix=f"Run: {INSTALL}"
                ) from None
            assert self._dialect is not None
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=self.spec.limits.concurrency),
                timeout=aiohttp.ClientTimeout(total=self.spec.limits.timeout_s),
                headers={"Content-Type": "application/json", **self._dialect.headers(self._key)},
                trust_env=self.spec.proxy_from_environment,
                auto_decompress=True,
                cookie_jar=aiohttp.DummyCookieJar(),
            )
        return self._session

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._session is not None:
            await self._session.close()

    @property
    def width(self) -> int:
        """How many items to work on at once, so that there is always a question waiting for a
        place.
        """
        return 2 * self.spec.limits.concurrency

    @property
    def usage(self) -> Usage:
        """What was asked and paid until now."""
        return Usage(
            self._calls,
            self._cached,
            self._retries,
            self._repairs,
            self._purse.input_tokens,
            self._purse.output_tokens,
            self._purse.cost(),
            self._purse.unpriced,
            self.limiter.slowed,
            tuple(sorted(self._without)),
        )

    async def ask(self, question: Question, *, sample: int = 0) -> Answer:
        """The answer to a question. `sample` tells draws of the same question apart."""
        answer = await self._answer(question, sample)
        if self._on_answer is not None:
            self._on_answer(answer)
        return answer

    async def _answer(self, question: Question, sample: int) -> Answer:
        asked = put(question, self.journal.salt)
        key = self.key(asked, sample=sample)
        longest = max(map(len, question.texts), default=0)
        if longest > self.spec.limits.max_candidate_chars:
            why = (
                f"a text of {longest:,} signs is longer than the"
                f" {self.spec.limits.max_candidate_chars:,} this judge is given; it is not judged"
                " in part"
            )
            return Answer("errored", None, why, key, False, False, None)
        messages = asked.messages
        try:
            said, cached = await self.said(
                key, question.prompt_version, messages, asked.schema, sample=sample
            )
            found = read_verdict(said, question, asked.schema)
            repaired = False
            if found.fault is not None and found.mendable:
                self._repairs += 1
                repaired = True
                mended = digest({"mends": key, "reply": said.text or "", "fault": found.fault})
                again = repair(messages, said.text or "", found.fault)
                said, also_cached = await self.said(
                    mended, question.prompt_version, again, asked.schema, sample=sample
                )
                cached = cached and also_cached
                found = read_verdict(said, question, asked.schema)
        except Errored as error:
            return Answer("errored", None, str(error), key, False, False, None)
        return Answer(
            found.outcome,
            found.verdict,
            found.fault or found.reason,
            key,
            cached,
            repaired,
            said.model,
        )

    def key(self, asked: Asked, *, sample: int = 0) -> str:
        """The digest of everything that decides the answer to a question: the judge, the words, the
        shape of the reply, the draw.
        """
        return "sha256:" + sha256(f"{self._judge} {asked.digest} {sample}".encode()).hexdigest()

    def _fail(self, error: Errored) -> None:
        self._errors_in_a_row += not isinstance(error, Unaffordable)
        if self._errors_in_a_row >= GIVE_UP_AFTER:
            raise NotEnoughEvidence(
                "JDG-003",
                f"{self._errors_in_a_row} questions in a row got no answer from"
                f" {self.spec.base_url or self.spec.model}.",
                where=self.spec.judge,
                fix=(
                    "Look at the endpoint, then run again: what was answered is in the journal and"
                    " is not asked again."
                ),
            )

    async def said(
        self,
        key: str,
        prompt_version: str,
        messages: list[dict[str, str]],
        schema: dict[str, Any] | None,
        *,
        sample: int = 0,
    ) -> tuple[Said, bool]:
        """The reply to one request, from the journal, from the same request on its way, or from the
        endpoint.
        """
        said, cached = await self._said(key, prompt_version, messages, schema, sample)
        if said.model is not None:
            self.answered[said.model] += 1
        return said, cached

    async def _said(
        self,
        key: str,
        prompt_version: str,
        messages: list[dict[str, str]],
        schema: dict[str, Any] | None,
        sample: int,
    ) -> tuple[Said, bool]:
        stored = self.journal.get(key)
        if stored is not None:
            self._cached += 1
            return _stored(stored), True
        flying = self._flying.get(key)
        if flying is not None:
            return await asyncio.shield(flying), True
        future: asyncio.Future[Said] = asyncio.get_running_loop().create_future()
        self._flying[key] = future
        try:
            try:
                said, body, took = await self._send(messages, schema, sample)
            except Errored as error:
                self._fail(error)
                raise
            self._errors_in_a_row = 0
            self.journal.put(
                Entry(
                    key,
                    {
                        "judge": self._identity,
                        "prompt_version": prompt_version,
                        "sample": sample,
                        "body": body,
                    },
                    {**said._asdict(), "latency_ms": round(took * 1000, 3)},
                )
            )
            future.set_result(said)
            return said, False
        except BaseException as error:
            future.set_exception(error)
            future.exception()  # taken, so that nobody waiting is no warning
            raise
        finally:
            del self._flying[key]

    async def _send(
        self, messages: list[dict[str, str]], schema: dict[str, Any] | None, sample: int
    ) -> tuple[Said, dict[str, Any], float]:
        limits = self.spec.limits
        price = self._purse.most(messages)
        attempt, why = 0, ""
        began: float | None = None
        while True:
            await self.limiter.acquire()
            wait: float | None = None
            if not self._purse.set_aside(price):
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
                without = (
                    self._without
                )  # as this request is sent; others may learn more while it is on its way
                try:
                    body, status, headers, data = await self._post(
                        messages,
                        schema,
                        sample,
                        without=without,
                        timeout_s=min(limits.timeout_s, left),
                    )
                except (OSError, TimeoutError, ValueError, _transport_error()) as error:
                    why = self._masked(
                        f"{self.spec.base_url}: {_words(error, min(limits.timeout_s, left))}"
                    )
                    if isinstance(error, TimeoutError):
                        self._purse.assume(
                            price
                        )  # what we did not wait for may be paid all the same
                    self.limiter.refused(started=started, retry_after_s=None)
                else:
                    if status == 200:
                        said, why = self._read(data, price)
                        if said is not None:
                            self.limiter.succeeded()
                            return said, body, self._clock() - started
                    elif status in _BUSY:
                        wait = retry_after(headers)
                        why = f"the endpoint answered with status {status}{_excerpt(data)}"
                        self.limiter.refused(
                            started=started,
                            retry_after_s=None if wait is None else min(wait, limits.budget_s),
                        )
                    else:
                        dropped = (
                            refused_parameter(data.decode("utf-8", "replace"), body)
                            if status in (400, 422)
                            else None
                        )
                        if dropped is not None and dropped not in without:
                            self._without |= {dropped}
                            continue
                        self._refused(status, data)
            finally:
                self._purse.settle(price)
                self.limiter.release()
            attempt += 1
            if attempt > limits.retries:
                raise Errored(f"no usable answer in {attempt} attempts; the last: {why}")
            pause = (
                wait if wait is not None else self._random.uniform(0, min(30.0, 0.25 * 2**attempt))
            )
            if self._clock() + pause - began > limits.budget_s:
                raise Errored(_late(limits.budget_s, why))
            self._retries += 1
            await asyncio.sleep(pause)

    async def _post(
        self,
        messages: list[dict[str, str]],
        schema: dict[str, Any] | None,
        sample: int,
        *,
        without: frozenset[str],
        timeout_s: float,
    ) -> tuple[dict[str, Any], int, Any, bytes]:
        if self._dialect is None:
            from assay.judging.litellm import post

            sent, status, headers, reply = await post(
                self.spec,
                messages,
                schema,
                key=self._key,
                without=without,
                sample=sample,
                timeout_s=timeout_s,
            )
            return sent, status, headers, self._masked_bytes(reply)
        session = self._open_session()
        from aiohttp import ClientTimeout

        body = self._dialect.body(self.spec, messages, schema, without=without, sample=sample)
        url = self.spec.base_url.rstrip("/") + self._dialect.path
        # A redirect is not followed: it would carry the key, and the texts, to whoever it names.
        sent_bytes = as_bytes(body)
        async with session.post(
            url, data=sent_bytes, allow_redirects=False, timeout=ClientTimeout(total=timeout_s)
        ) as response:
            self._calls += 1
            data = (
                await response.content.read(MAX_REPLY + 1)
                if response.content_length is None
                else await _whole(response)
            )
            while len(data) <= MAX_REPLY and not response.content.at_eof():
                more = await response.content.read(MAX_REPLY + 1 - len(data))
                data += more
            if len(data) > MAX_REPLY:
                raise ValueError(f"the reply is longer than {MAX_REPLY // 2**20} MiB")
            return body, response.status, response.headers, self._masked_bytes(data)

    def _read(self, data: bytes, price: Decimal) -> tuple[Said | None, str]:
        """What the endpoint said, or why it said nothing."""
        from assay.files.json_files import parse_wide_json

        try:
            said = (self._dialect or DIALECTS["openai"]).read(parse_wide_json(data))
        except (ValueError, RecursionError, InputError) as error:
            self._purse.assume(price)
            return None, (
                error.message
                if isinstance(error, InputError)
                else f"the reply is no JSON ({error}){_excerpt(data)}"
            )
        self._purse.pay(said.input_tokens, said.output_tokens, at_most=price)
        return (
            said._replace(
                text=_writable(said.text),
                refusal=_writable(said.refusal),
                finish=_writable(said.finish),
                model=_writable(said.model),
            ),
            "",
        )

    def _refused(self, status: int, data: bytes) -> None:
        """An answer that asking again cannot mend."""
        text = f"the endpoint answered with status {status}{_excerpt(data)}"
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

    def _masked(self, text: str) -> str:
        """A text without the key: an endpoint may say it back. What is shorter than a secret can be
        is left, as it stands in any text.
        """
        if self._key is None or len(self._key) < SHORTEST_KEY:
            return text
        return text.replace(self._key, "[key]").replace(self._key.replace("/", "\\/"), "[key]")

    def _masked_bytes(self, data: bytes) -> bytes:
        if self._key is None or len(self._key) < SHORTEST_KEY:
            return data
        key = self._key.encode()
        return data.replace(key, b"[key]").replace(key.replace(b"/", b"\\/"), b"[key]")


async def _whole(response: Any) -> bytes:
    if response.content_length > MAX_REPLY:
        raise ValueError(f"the reply is longer than {MAX_REPLY // 2**20} MiB")
    data: bytes = await response.content.read(MAX_REPLY + 1)
    return data


def _transport_error() -> type[Exception]:
    try:
        from aiohttp import ClientError
    except ImportError:
        return OSError
    return ClientError


def _excerpt(data: bytes) -> str:
    text = " ".join(data[:400].decode("utf-8", "replace").split())[:200]
    return f": {text!r}" if text else ""


def _late(budget_s: float, why: str) -> str:
    return f"no usable answer within the {budget_s:g} s for one question; the last: {why}"


def _writable(text: str | None) -> str | None:
    # half of a surrogate pair cannot be written to any file
    return text if text is None or text.isascii() else text.encode("utf-8", "replace").decode()


def _words(error: BaseException, timeout_s: float) -> str:
    if isinstance(error, TimeoutError):
        return f"no answer within {timeout_s:g} s"
    return f"{type(error).__name__}: {error}".rstrip(": ")


def _stored(entry: Entry) -> Said:
    said = Said(*(entry.reply.get(name) for name in Said._fields))
    if not all(
        part is None or isinstance(part, str)
        for part in (said.text, said.refusal, said.finish, said.model)
    ):
        raise InputError("JDG-004", f"the journal holds no reply under {entry.key}.")
    return said
