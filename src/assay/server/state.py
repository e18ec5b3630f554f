"""What the routes share: ledger, shelf, graders, writer, gatekeeper, hub, metrics, log. It is
created once for each process and passed on, never global.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any, TypeVar

from fastapi import Depends, Request

from assay.canon import digest, pretty
from assay.errors import ShelfError
from assay.files.json_files import read_json
from assay.files.yaml_files import is_yaml_name
from assay.judging.card import check_card
from assay.library.shelf import Shelf
from assay.records.contract import ContractEnding, NotPlain, begin, cheap_only, end_processes
from assay.server.auth import Gatekeeper
from assay.server.background import Owner
from assay.server.bodies import is_large
from assay.server.grade_events import GradeExporter
from assay.server.grading import BasedGrader, DraftedGrade, StoredGrade
from assay.server.logs import Log
from assay.server.metrics import Metrics
from assay.server.problems import Problem
from assay.server.settings import ServerSettings
from assay.server.streams import Hub
from assay.server.workers import library_of
from assay.server.writer import Writer
from assay.services.evaluation_choice import OWN
from assay.services.storing import basis_of, links_draft, on_top
from assay.store.drafts import Link
from assay.store.ledger import Ledger, open_ledger
from assay.store.reading import grades_of
from assay.views.otel_export import configured

R = TypeVar("R")

MAX_GRADERS = 64
GRADING_THREADS = 4
"""How many projects are graded in threads at once. Other threaded work of a server has its own
threads and never waits for these.
"""
CARDS_S = 10.0
"""How long a grader may use a project's judge cards without looking them up again."""


class Services:
    """Everything that answers a request."""

    def __init__(self, settings: ServerSettings, *, log: Log | None = None) -> None:
        begin()
        self.settings = settings
        self.log = log or Log(requests=settings.log_requests)
        self.metrics = Metrics()
        self._held = library_of(settings)
        self.shelf = Shelf(held=self._held)
        self.shelf.policy(settings.policy)
        own = settings.release
        self._named = {settings.policy, own.extended, *own.graded_by.values()}
        now = datetime.now(UTC)
        self.cards = [
            check_card(read_json(path).tree, where=path, now=now) for path in settings.cards
        ]
        self.ledger: Ledger = open_ledger(settings.db, patience=settings.patience_s)
        self.gatekeeper = Gatekeeper(settings, self.ledger.database)
        self.writer = Writer(self.ledger, self.metrics, self.log)
        self.hub = Hub(settings, self.ledger.database, self.metrics)
        self.exporter = GradeExporter(configured(settings.otlp_endpoint), self.metrics, self.log)
        self.owner = Owner()
        self.stopping = False
        self._threads = ThreadPoolExecutor(GRADING_THREADS, thread_name_prefix="assay-grading")
        self._turns: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._graders: dict[tuple[str | None, ...], tuple[BasedGrader, float]] = {}

    def grader(
        self,
        project: str,
        *,
        policy: str | None = None,
        profile: str | None = None,
        rubric: str | None = None,
        own: Mapping[str, Any] | None = None,
        stored_cards: bool = True,
    ) -> BasedGrader:
        """A grader for the names in a request. They are looked up on the shelf: no request opens a
        file. `own` is a profile that stored evaluations bring with them. Without `stored_cards`,
        only the cards that the server was started with count.
        """
        names = (policy or self.settings.policy, profile, rubric)
        if policy is not None or profile is not None or rubric is not None:
            for name in names:
                if name is not None and name not in self._named:
                    check_name(name)
        shelf = self.shelf
        if own is not None:
            files = {**self._held.files, OWN: pretty(own)}
            shelf, names = Shelf(held=self._held._replace(files=files)), (names[0], OWN, rubric)
        key = (project, *names, None if own is None else digest(own), str(stored_cards))
        known = self._graders.get(key)
        now = time.monotonic()
        if known is not None and known[1] > now:
            return known[0]
        grader = BasedGrader(shelf, policy=names[0], profile=names[1], rubric=rubric)
        until = float("inf")
        if grader.rules.judge_terms is not None:  # cards grow old and new ones come in
            cards, moment = [*self.cards], datetime.now(UTC)
            cards += self._stored_cards(project) if stored_cards else []
            grader = BasedGrader(
                shelf, policy=names[0], profile=names[1], rubric=rubric, cards=cards, now=moment
            )
            grader.basis = basis_of(cards, moment)
            until = now + CARDS_S
        if len(self._graders) >= MAX_GRADERS:
            self._graders.clear()
        self._graders[key] = (grader, until)
        return grader

    async def graded(self, project: str, data: bytes, work: Callable[[], R]) -> R:
        """Grade a document; a large one in a thread, so that other requests are answered
        meanwhile.
        """
        return await (self.in_turn if is_large(data) else self.at_once)(project, work)

    async def at_once(self, project: str, work: Callable[[], R]) -> R:
        """Grade at once; or in turn, if the cost of a JSON Schema has no low bound and other
        requests would wait for it.
        """
        try:
            with cheap_only():
                return work()
        except NotPlain:
            return await self.in_turn(project, work)

    async def in_turn(self, project: str, work: Callable[[], R]) -> R:
        """Grade in a thread, one piece of work at a time for each project, so that slow evidence
        doesn't keep other projects waiting.
        """
        try:
            async with self._turns[project]:
                return await asyncio.get_running_loop().run_in_executor(self._threads, work)
        except ContractEnding:
            raise Problem(
                503, "the server is shutting down.", fix="Try again.", headers={"Retry-After": "1"}
            ) from None

    def close(self) -> None:
        """End the processes that evaluate schemas. Evidence that waits for one is neither stored
        nor reported as failed.
        """
        end_processes()

    def wait(self) -> None:
        """Wait for the grading threads; after that, this process may evaluate schemas again."""
        self._threads.shutdown()
        begin()

    async def store(self, project: str, grades: Sequence[DraftedGrade]) -> list[StoredGrade]:
        """Store grades, all or none. Return once they are stored, counted and queued for export."""
        stored = iter(
            await self.writer.put(project, [draft for grade in grades for draft in grade.drafts])
        )
        kept = []
        for grade in grades:
            rows = [next(stored) for _ in grade.drafts]
            kept.append(StoredGrade(grade, rows[grade.drafts.index(grade.evidence)], rows[-1]))
            self.metrics.letter(grade.payload["grade"])
            if kept[-1].grade.new:
                self.exporter.graded(grade)
        known = [stored_run for stored_run in kept if not stored_run.grade.new]
        if known and (links := await asyncio.to_thread(self._on_top, project, known)):
            author, now = known[0].made.grade.author, datetime.now(UTC).isoformat()
            await self.writer.put(project, [links_draft(links, author=author, posted=now)])
        return kept

    def _on_top(self, project: str, stored: Sequence[StoredGrade]) -> list[Link]:
        """What puts grades that were stored before on top of newer ones, as a job would."""
        before = grades_of(
            self.ledger.database, project, [stored_run.evidence.digest for stored_run in stored]
        )
        return [
            link
            for stored_run in stored
            for link in on_top(
                self.ledger,
                stored_run.evidence.digest,
                stored_run.grade.digest,
                before.get(stored_run.evidence.digest, []),
                project=project,
            )
        ]

    def _stored_cards(self, project: str) -> list[dict[str, Any]]:
        # all of them: otherwise many new cards of old answers would hide one that the judge failed
        items = self.ledger.each("card", project=project)
        return [check_card(item.tree(), where=item.digest) for item in items]

    def forget_cards(self, project: str) -> None:
        """Look up the judge cards of a project again at the next request."""
        self._graders = {key: value for key, value in self._graders.items() if key[0] != project}


async def _services(request: Request) -> Any:
    return request.app.state.services


SERVICES: Any = Depends(_services)
"""The services of the server that a request reached."""


def check_name(name: str) -> str:
    """A name on the shelf, never a path."""
    if (
        not name
        or len(name) > 200
        or is_yaml_name(name)
        or "/" in name
        or "\\" in name
        or name.startswith(".")
    ):
        raise Problem(
            422,
            f"{name[:80]!r} is not a name in the library.",
            code="LIB-001",
            fix="/api/v1/library/{profiles,policies,rubrics} list them.",
        )
    return name


def on_shelf(error: ShelfError) -> Problem:
    """Answer 404 if nothing on the shelf has the name in the address."""
    return Problem(
        404 if error.code == "LIB-001" else 422,
        error.message,
        code=error.code,
        where=error.where,
        fix=error.fix,
    )
