"""What a job has spent, and what is set aside for requests in flight. Amounts are exact.

A reply without a token count is charged at the most it may have cost. Otherwise an endpoint that
reports no tokens would never reach the limit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal

from msgspec import Struct

from assay.judging.config import JudgeSpec, Price

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
