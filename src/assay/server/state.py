"""What the routes share: ledger, shelf, graders, writer, gatekeeper, hub, metrics, log. Made once
for a process and handed on, never global.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeVar

from assay.archive.regrading import basis_of
from assay.errors import AssayError, ShelfError
from assay.files.json_files import read_json
from assay.judging.card import check_card
from assay.library.shelf import Shelf
from assay.records.contract import Ending, NotPlain, begin, cheap_only, end_processes
from assay.server.auth import Gatekeeper
from assay.server.grade_events import Teller
from assay.server.grading import BasedGrader, Kept, kept, make, read_body
from assay.server.logs import Log
from assay.server.metrics import Metrics
from assay.server.problems import Problem
from assay.server.sharing import library_of
from assay.server.side import Asked, Lost, Side
from assay.server.streams import Hub
from assay.server.writer import Writer
from assay.store.ledger import Ledger, open_ledger
from assay.store.writing import moment_text
from assay.views.exporting import configured

if TYPE_CHECKING:
    from collections.abc import Callable

    from assay.server.settings import Settings

R = TypeVar("R")

MAX_GRADERS = 64
LARGE = 1024 * 1024
"""Bodies above this are not graded beside, where every other would wait for them, but in a thread
of this process.
"""
GRADING_THREADS = 4
"""Projects whose evidence is graded in threads at once. All else that a server does in threads has
others, and never waits for these.
"""
CARDS_S = 10.0
"""How long a grader may know a project's cards of judges without looking again."""


class Services:
    """Everything that answers a request."""

    def __init__(self, settings: Settings, *, log: Log | None = None) -> None:
        begin()
        self.settings = settings
        self.log = log or Log(requests=settings.log_requests)
        self.metrics = Metrics(settings.shared)
        self.library = library_of(settings)
        self.shelf = Shelf(held=self.library)
        self.shelf.policy(settings.policy)
        self.cards = [check_card(read_json(path).tree, where=path) for path in settings.cards]
        self.ledger: Ledger = open_ledger(settings.db, patience=settings.patience_s)
        self.gatekeeper = Gatekeeper(settings, self.ledger.database)
        self.writer = Writer(self.ledger, self.metrics, self.log)
        self.hub = Hub(settings, self.ledger.database, self.metrics)
        self.teller = Teller(configured(settings.otlp_endpoint), self.metrics, self.log)
        self.side: Side | None = None
        """The processes beside this one, where there are any."""
        self.stopping = False
        self._threads = ThreadPoolExecutor(GRADING_THREADS, thread_name_prefix="assay-grading")
        self._turns: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._graders: dict[tuple[str, str, str | None, str | None], tuple[BasedGrader, float]] = {}

    def grader(
        self,
        project: str,
        *,
        policy: str | None = None,
        profile: str | None = None,
        rubric: str | None = None,
    ) -> BasedGrader:
        """A grader for what a request asks for. Names are names on the shelf: no request opens a
        file.
        """
        names = (policy or self.settings.policy, profile, rubric)
        if policy is not None or profile is not None or rubric is not None:
            for name in names:
                if name is not None and name != self.settings.policy:
                    check_name(name)
        key = (project, *names)
        known = self._graders.get(key)
        now = time.monotonic()
        if known is not None and known[1] > now:
            return known[0]
        made = BasedGrader(self.shelf, policy=names[0], profile=profile, rubric=rubric)
        made.names = names
        until = float("inf")
        if made.rules.judge_terms is not None:  # cards grow old and new ones come in
            cards, moment = [*self.cards, *self._stored_cards(project)], datetime.now(UTC)
            made = BasedGrader(
                self.shelf, policy=names[0], profile=profile, rubric=rubric, cards=cards, now=moment
            )
            made.basis = basis_of(cards, moment)
            until = now + CARDS_S
        if len(self._graders) >= MAX_GRADERS:
            self._graders.clear()
        self._graders[key] = (made, until)
        return made

    async def at_once(self, project: str, work: Callable[[], R]) -> R:
        """Grade at once; in turn where a JSON Schema has no cheap bound and others would wait for
        it.
        """
        try:
            with cheap_only():
                return work()
        except NotPlain:
            return await self.in_turn(project, work)

    async def in_turn(self, project: str, work: Callable[[], R]) -> R:
        """Grade in a thread, one piece of work at a time for each project: evidence that takes its
        whole budget keeps no other project waiting.
        """
        try:
            async with self._turns[project]:
                return await asyncio.get_running_loop().run_in_executor(self._threads, work)
        except Ending:
            raise Problem(
                503, "the server ends.", fix="Try again.", headers={"Retry-After": "1"}
            ) from None

    def close(self) -> None:
        """End the processes that evaluate schemas: what waits for one is neither stored nor said to
        have failed.
        """
        end_processes()

    def wait(self) -> None:
        """Wait for the threads that grade; then whatever goes on in this process may evaluate
        schemas again.
        """
        self._threads.shutdown()
        begin()

    async def beside(
        self, project: str, body: bytes, grader: BasedGrader, author: str
    ) -> Kept | None:
        """A body with one run, graded and stored beside this process; None where this one must do
        it, also because something is wrong with the body.
        """
        if (
            self.side is None
            or grader.names is None
            or not body.startswith(b"{")
            or len(body) > LARGE
        ):
            return None
        if self.side.is_full:
            raise Problem(
                503, "too much waits to be stored.", fix="Try again.", headers={"Retry-After": "1"}
            )
        found = await self.side.ask(
            Asked(project, body, author, *grader.names, grader.rules.digest)
        )
        return (
            await self._again(project, body, grader, author, found)
            if isinstance(found, Lost)
            else found
        )

    async def _again(
        self, project: str, body: bytes, grader: BasedGrader, author: str, lost: Lost
    ) -> Kept | None:
        """A body that the processes took with them when they ended. If its grade was stored, nobody
        was told of it: so it is told of as if it were new.
        """
        try:
            made = (
                await self.at_once(project, lambda: make(read_body(body), grader, author=author))
            ).posted
        except Exception:  # the route does the same again, and says what is wrong
            return None
        found = kept(made, await self.writer.put(project, made.drafts))
        new = found.new or await asyncio.to_thread(
            self._is_since, project, found.evidence, lost.asked_at
        )
        return found._replace(
            new=new, first_grade=True, records=0
        )  # the records were counted when they were stored

    def _is_since(self, project: str, digest: str, moment: datetime) -> bool:
        """Whether a record was stored at that moment or later; False where it cannot be told."""
        with suppress(AssayError):
            item = self.ledger.get(digest, project=project)
            return item is not None and item.created_at >= moment_text(moment)
        return False

    def graded(self, kept: Kept) -> None:
        """A grade was stored: count it, and tell whoever watches; once, unless it cannot be known
        whether that was done.
        """
        self.metrics.letter(kept.letter)
        if kept.first_grade:
            self.teller.graded(kept)

    def _stored_cards(self, project: str) -> list[dict[str, Any]]:
        page = self.ledger.find("card", project=project, limit=1000, newest_first=True)
        return [
            check_card(item.tree(), where=item.digest)
            for item in page.items
            if item.body is not None
        ]

    def forget_cards(self, project: str) -> None:
        """Look at the cards of a project again with the next request."""
        self._graders = {key: value for key, value in self._graders.items() if key[0] != project}


def check_name(name: str) -> str:
    """A name on the shelf, never a path."""
    if (
        not name
        or len(name) > 200
        or name.endswith((".yaml", ".yml"))
        or "/" in name
        or "\\" in name
        or name.startswith(".")
    ):
        raise Problem(
            422,
            f"{name[:80]!r} is no name on the shelf.",
            code="LIB-001",
            fix="/api/v1/library/policies lists them.",
        )
    return name


def on_shelf(error: ShelfError) -> Problem:
    """Nothing on the shelf has the name that the address holds."""
    return Problem(
        404 if error.code == "LIB-001" else 422,
        error.message,
        code=error.code,
        where=error.where,
        fix=error.fix,
    )
