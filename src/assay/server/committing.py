"""Many requests in one transaction: all of them are on the disk together, and one that is refused
costs nobody else a record.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Protocol

from assay.errors import AssayError, InputError
from assay.store.writing import append

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from assay.store.drafts import Draft, Stored
    from assay.store.ledger import Ledger

MAX_BATCH = 600
"""Records in one transaction: more would make the others wait too long."""


class Order(Protocol):
    """What one request wants to have stored."""

    @property
    def project(self) -> str:
        """Where."""

    @property
    def drafts(self) -> Sequence[Draft]:
        """All of these or none."""


def commit(
    ledger: Ledger, orders: Sequence[Order], fault: Callable[[Exception], None]
) -> list[list[Stored] | Exception]:
    """Store what the orders want; for each what became of it. What is nobody's fault but ours goes
    to `fault` too.
    """
    try:
        return list(_together(ledger, orders))
    except InputError as error:
        if len(orders) == 1:
            return [error]
        return [found for one in orders for found in commit(ledger, [one], fault)]
    except (
        Exception
        # whoever commits goes on whatever happens: a request without an answer waits for ever
    ) as error:
        if not isinstance(error, AssayError):
            fault(error)
        return [error] * len(orders)


def _together(ledger: Ledger, orders: Sequence[Order]) -> list[list[Stored]]:
    # projects in order: two servers that lock the heads of the same projects never wait for each
    # other in a circle
    projects = sorted({one.project for one in orders})
    now = datetime.now(UTC)

    def work() -> dict[str, list[Stored]]:
        with ledger.database.writing() as connection, connection.begin():
            return {
                project: append(
                    connection,
                    project,
                    [draft for one in orders if one.project == project for draft in one.drafts],
                    now=now,
                )
                for project in projects
            }

    stored = {project: iter(found) for project, found in ledger.database.patiently(work).items()}
    return [[next(stored[one.project]) for _ in one.drafts] for one in orders]
