"""What the routes share: ledger, shelf, graders, writer, gatekeeper, hub, metrics, log. It is
created once for each process and passed on, never global. And how the server's assay.yaml (profile,
rubric, policy, scorers) applies to evidence and decisions.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from hashlib import sha256
from types import MappingProxyType
from typing import Any, TypeVar

from fastapi import Depends, Request

from assay.archive.evaluation_choice import OWN, EvaluationChoice, covers
from assay.archive.grades import basis_of
from assay.canon import digest
from assay.errors import InputError, ShelfError
from assay.files.json_files import Document, read_json
from assay.files.yaml_files import is_yaml_name
from assay.judging.card import check_card
from assay.library.shelf import Shelf, ShelfFile
from assay.records.contract import ContractEnding, NotPlain, begin, cheap_only, end_processes
from assay.records.evidence import Workflow
from assay.scoring.extension import extended
from assay.scoring.profile import load_profile
from assay.server.auth import Gatekeeper
from assay.server.grade_events import GradeExporter
from assay.server.grading import BasedGrader, DraftedGrade, StoredGrade
from assay.server.logs import Log
from assay.server.metrics import Metrics
from assay.server.problems import Problem
from assay.server.settings import ServerSettings
from assay.server.streams import Hub
from assay.server.workers import library_of
from assay.server.writer import Writer
from assay.store.ledger import Ledger, open_ledger
from assay.views.documents import pretty
from assay.views.exporting import configured

R = TypeVar("R")

MAX_GRADERS = 64
LARGE = 1024 * 1024
"""Larger bodies are graded in a thread, so that other requests are answered meanwhile."""
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
        self.library = digest(
            sorted(sha256(file or b"").hexdigest() for file in self._held.files.values())
        )
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
                    shelf_name(name)
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
            rows = {row.digest: row for row in (next(stored) for _ in grade.drafts)}
            kept.append(StoredGrade(grade, rows[grade.evidence.name], rows[grade.grade.name]))
            self.metrics.letter(grade.payload["grade"])
            if kept[-1].grade.new:
                self.exporter.graded(grade)
        return kept

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


def shelf_name(name: str) -> str:
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


def on_shelf(services: Services, kind: str, name: str) -> tuple[ShelfFile, Any]:
    """The file and the content of the name in an address; a 404 if nothing on the shelf has it."""
    try:
        shelf_name(name)
        return services.shelf.find(kind, name), services.shelf.load(kind, name)
    except ShelfError as error:
        raise Problem(
            404 if error.code == "LIB-001" else 422,
            error.message,
            code=error.code,
            where=error.where,
            fix=error.fix,
        ) from None


# --- the rules of assay.yaml


_KINDS = {"profile": "profiles", "rubric": "rubrics", "policy": "policies"}


def grader_of(
    services: Services, project: str, named: Mapping[str, str | None] = MappingProxyType({})
) -> BasedGrader:
    """The grader of evidence that arrives: by assay.yaml, else by what the request names, else by
    what each run names.
    """
    return services.grader(project, **_rules(services, named))


def _rules(services: Services, named: Mapping[str, str | None]) -> dict[str, Any]:
    rules = with_configured(services, named, policy="policy")
    own = services.settings.release
    if any(own.additions):  # required of every run, even of one that was made without the scorers
        if own.extended is None:
            raise InputError(
                "CFG-001",
                "scorers are declared, but no profile to add them to.",
                where=own.source,
                fix="Add `profile:` to assay.yaml.",
            )
        rules["profile"] = own.extended
    return rules


def library_digest(services: Services, named: Mapping[str, str | None]) -> str:
    """All that may grade a run under what a request names, as one digest: the chosen profile,
    rubric and policy, and the library that runs choose from.
    """
    chosen = {"policy": services.settings.policy, **_rules(services, named)}
    loaded = {kind: services.shelf.load(_KINDS[kind], name) for kind, name in chosen.items()}
    return digest({"library": services.library, **loaded})


def check_rules(asked: Mapping[str, Any], rules: str, what: str) -> None:
    """Refuse to continue something under other rules than those it was accepted with."""
    if rules != asked.get("rules", rules):
        raise InputError(
            "RUN-005",
            f"the profile, rubric or policy is not the one that this {what} was accepted with: its"
            " runs would be graded by two sets of rules.",
            fix=f"Ask for a new {what}, or restore the rules.",
        )


def rules_digest(grader: BasedGrader, workflow: Workflow) -> str:
    """The profile, rubric and policy that grade the runs of a workflow, as one digest."""
    return digest({**grader.plan_for(workflow).plan.digests, "policy": grader.rules.digest})


def grader_by(
    services: Services, project: str, choice: EvaluationChoice, *, stored_cards: bool
) -> BasedGrader:
    """The grader of the sides of a comparison."""
    return services.grader(
        project,
        policy=choice.policy,
        profile=None if choice.own is not None else choice.profile,
        rubric=choice.rubric,
        own=choice.own,
        stored_cards=stored_cards,
    )


def with_configured(
    services: Services, named: Mapping[str, str | None], *, policy: str = "grading_policy"
) -> dict[str, Any]:
    """The rules that a request names, completed from assay.yaml. A request can't deviate from the
    file: it would set its own bar. `policy` is the field that names the policy.
    """
    own = services.settings.release
    given = {kind: name for kind, name in named.items() if name is not None}
    for kind, name in given.items():
        wanted = own.graded_by.get(kind)
        if kind == "policy" and own.config is not None:
            wanted = own.grading_policy  # the default if the file names none
        # a rubric replaces weights and floors of the profile
        fixed = wanted is not None or (kind == "rubric" and own.profile is not None)
        if not fixed or name == wanted:
            continue
        field = policy if kind == "policy" else kind
        if wanted is None:
            profile = services.shelf.load("profiles", str(own.profile)).id
            raise Problem(
                422,
                f"{own.source} sets the profile {profile!r} without a rubric.",
                where=field,
                fix=f"Leave `{field}` out.",
            )
        check_same(services, kind, name, wanted, field=field)
    return {**given, **own.graded_by}


def check_same(services: Services, what: str, name: str, wanted: str, *, field: str) -> None:
    """Refuse a name in a request that doesn't mean the rules of assay.yaml. Those may be a file or
    a part of assay.yaml: then the shelf doesn't have the name that results show.
    """
    kind = _KINDS[what.split()[-1]]
    own = services.shelf.load(kind, wanted)
    try:
        is_same = services.shelf.load(kind, shelf_name(name)) == own
    except ShelfError as error:
        is_same = name in (own.id, own.id.partition("@")[0])
        if error.code != "LIB-001" or not is_same:
            raise
    if not is_same:
        source = services.settings.release.source
        raise Problem(
            422,
            f"the {what} of {source} is {own.id!r}, not {name[:80]!r}.",
            where=field,
            fix=f"Leave `{field}` out.",
        )


def with_additions(services: Services, choice: EvaluationChoice) -> EvaluationChoice:
    """The choice with what the scorers of assay.yaml require of every run. Refuses a profile that
    evaluations bring with them if it requires less than the file's.
    """
    own = services.settings.release
    if choice.own is None and own.extended is not None:  # by this, evidence that arrives is graded
        return choice._replace(profile=own.extended)
    needs_profile = choice.own is not None and own.profile is not None
    if choice.made is not None or not (any(own.additions) or needs_profile):
        return choice
    profile = (
        load_profile(Document(dict(choice.own), OWN))
        if choice.own is not None
        else None
        if choice.profile is None
        else services.shelf.profile(choice.profile)
    )
    if profile is not None and needs_profile and own.profile is not None:
        wanted = extended(services.shelf.profile(own.profile), own.additions)
        # another criterion with a weight would dilute those of the file
        if not covers(profile, wanted) or len(profile.criteria) > len(wanted.criteria):
            raise InputError(
                "REL-002",
                f"these evaluations bring the profile {profile.id}, which doesn't have the gates,"
                f" criteria and terms for judges of {wanted.id}, the profile of {own.source}.",
                fix=f"Declare scorers that have a weight in {own.source}, not in a workflow file,"
                " and run both versions again with `assay run`.",
            )
    if profile is None or extended(profile, own.additions) != profile:
        raise InputError(
            "REL-002",
            f"{own.source} declares scorers or gates that these evaluations were made without.",
            fix="Run both versions again with `assay run`.",
        )
    return choice
