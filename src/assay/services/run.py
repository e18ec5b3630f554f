"""Run a workflow on a dataset, judge and grade its runs, and make their evaluation: what
`assay run` does, for every door.

`plan_run` finds everything before anything runs: a typo in a name must not waste a night of calls.
A `WorkflowRun` then makes what is left of the evidence; with a work folder, an interrupted one can
resume. Nothing here prints: warnings are sentences, and a `Watch` is called as the work goes on.

A work folder contains `journal.jsonl` (each finished run), `judge.journal` (each paid answer), the
profile that the runs are graded by, if scorers or assertions add to it, and at the end `runs.jsonl`
(the evidence with the verdicts) and, with repeats, `repeats.json`.
"""

from __future__ import annotations

import asyncio
import os
import socket
import tempfile
import threading
from collections.abc import Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, NamedTuple, Protocol, TypeVar
from urllib.parse import urlsplit

from msgspec import Struct, structs

from assay.canon import encode, pretty
from assay.errors import InputError, NotEnoughEvidence, UsageError
from assay.files.atomic import atomic_write, make_folder, write_file
from assay.files.json_files import Document, parse_json
from assay.files.yaml_files import read_entry
from assay.judging.apis import needs_address
from assay.judging.client import Client, Journal, Usage
from assay.judging.config import JudgeSpec, check_spec, key_of, load_judge
from assay.judging.identity import rubric_name
from assay.judging.rubric_task import spread
from assay.library.shelf import Shelf
from assay.records.evaluation import ChosenSamples, Evaluation, VersionedName
from assay.records.evidence import Workflow
from assay.records.grade import ENGINE
from assay.running.assertions import CRITERION, GATE
from assay.running.columns import unread_expected
from assay.running.compatibility import prepare
from assay.running.dataset import LoadedDataset
from assay.running.journal import Header, RunJournal
from assay.running.judge_step import JudgeEstimate, JudgeStep, JudgeTask, estimate, task_of
from assay.running.post_run import (
    additions_of,
    after_of,
    all_scorers,
    idle_scorers,
    scorer_warnings,
    write_profile,
)
from assay.running.runner import Runner, RunNotify, RunSettings, SampleWork, work_of
from assay.running.scorers import PlacedScorer
from assay.running.steps import steps_of
from assay.running.workflow import LoadedWorkflow
from assay.scoring.extension import extended
from assay.scoring.metrics.passk import AttemptedTask, report
from assay.scoring.profile import Profile
from assay.scoring.rubric import Rubric
from assay.scoring.sources import (
    EvidenceSource,
    criterion_sources,
    expected_names,
    without_source,
)
from assay.services.choice import Choice
from assay.services.evaluations import check_name
from assay.services.grading import Graded
from assay.services.selection import WorkflowPlan
from assay.services.storing import EvaluationBuilder

JOURNAL = "journal.jsonl"
JUDGE_JOURNAL = "judge.journal"
EVIDENCE = "runs.jsonl"
REPEATS = "repeats.json"
IN_MEMORY = 256 * 1024 * 1024
"""Bytes of judged runs that wait in memory for the end; more wait in a file."""
CONNECT_S = 5.0
_T = TypeVar("_T")
_LISTED = ("forbidden_tools", "handoff_rules")
_DECLARED = ("output_schema", *_LISTED)
_TESTED = ("tests", "patch_applies", "gates.no_sandbox_violation")


class RunRequest(Struct, frozen=True, kw_only=True):
    """What is to be run, and what grades it."""

    workflow: LoadedWorkflow
    """Its runs name the profile that grades them."""
    dataset: LoadedDataset
    settings: RunSettings
    choice: Choice
    """What the user chose to grade by."""
    required: str | Profile | None = None
    """The profile with what a team's scorers add, which it requires of every run."""
    scorers: Sequence[PlacedScorer] = ()
    """The team's scorers, besides the workflow's own."""
    chosen: list[str] | None = None
    """The ids of the samples to run; None for the whole dataset."""
    limit: int | None = None
    """Only the first of these."""
    judge: JudgeSpec | None = None
    judging: bool = True
    """Whether the judge is asked."""
    max_calls: int | None = None
    """How many questions the judge is asked at most."""
    folder: str | None = None
    """The work folder; None for a run that can't resume."""
    resume: bool = False
    started: datetime


class Begun(UsageError):
    """A work folder contains a run already."""

    def __init__(self, folder: str, *, finished: bool) -> None:
        super().__init__(
            "RUN-005",
            "this folder already contains a run.",
            where=folder,
            fix="Resume it, or choose another folder.",
        )
        self.finished = finished


class RunJudge(NamedTuple):
    """A judge, and what it is asked about every run."""

    spec: JudgeSpec
    task: JudgeTask
    max_calls: int | None


class RunPlan(Struct, frozen=True, kw_only=True):
    """What will run and how it is graded. Nothing has run yet."""

    request: RunRequest
    samples: int
    """How many samples were asked for; the limit may leave some out."""
    only: ChosenSamples | None
    """Those that run, if some were chosen by name."""
    work: list[SampleWork]
    choice: Choice
    """What grades the runs: the user's choice, with what scorers and assertions add."""
    rules: WorkflowPlan
    own: Profile | None
    """The profile, if scorers or assertions added to it: no shelf has it."""
    scorers: list[PlacedScorer]
    """The workflow's own and the team's."""
    task: JudgeTask
    """What only a judge can decide."""
    estimate: JudgeEstimate | None
    """What judging takes; None if there is nothing to judge."""
    judge: RunJudge | None
    """The judge that is asked."""
    warnings: list[str]
    """What nothing can fill, and what has no effect."""
    configuration: dict[str, Any]
    """Everything that makes the runs and their grades, as the evaluation records it."""

    @property
    def left_out(self) -> int:
        """Samples that were asked for, beyond the limit."""
        return self.samples - len(self.work) // self.request.settings.repeat

    def builder(self) -> EvaluationBuilder:
        """Takes the graded runs and makes their evaluation."""
        workflow, dataset = self.request.workflow, self.request.dataset
        return EvaluationBuilder(
            name=self.request.settings.name,
            workflow=VersionedName(id=workflow.id, version=workflow.version),
            dataset=VersionedName(id=dataset.id, version=dataset.version),
            settings=self.configuration,
            started=self.request.started,
            only=self.only,
        )


def plan_run(request: RunRequest) -> RunPlan:
    """Find the samples, the rules and the judge. Raises what is wrong with them; a work folder that
    contains a run must be one to resume.
    """
    workflow, dataset, folder = request.workflow, request.dataset, request.folder
    check_name(request.settings.name)
    all_samples = prepare(workflow, dataset)
    names = None if request.chosen is None else frozenset(request.chosen)
    asked = [sample for sample in all_samples if names is None or sample.sample_id in names]
    samples = asked[: request.limit]
    work = work_of(samples, request.settings)
    choice = request.choice
    if request.required is not None:
        choice = structs.replace(choice, profile=request.required)
    rules = choice.grader().plan_for(Workflow(**workflow.subject()))
    # old judge answers are older than a new evaluation, and a card counts from when that started
    if folder is not None and not request.resume and any(_journals(folder)):
        raise Begun(folder, finished=os.path.exists(os.path.join(folder, EVIDENCE)))
    own = extended(rules.profile, additions_of(workflow, samples, scorers=request.scorers))
    is_own = "+" in str(own.version)  # else it is the base itself, which stays where it is
    if is_own:
        # a profile that is asked for leaves nothing to the run: its rubric is asked for too
        leaves = request.choice.profile is None and request.choice.rubric is None
        choice = structs.replace(
            choice,
            profile=own if folder is None else write_profile(own, folder),
            rubric=workflow.spec.rubric if leaves else choice.rubric,
        )
        rules = choice.grader().plan_for(Workflow(**workflow.subject()))
    if choice.profile is not None:
        workflow.profile = rules.profile.id
    scorers = all_scorers(workflow, request.scorers)
    judging = request.judge is not None and request.judging
    # with what a rubric adds: the judge has to score it, or every run would lack it
    scored = structs.replace(rules.profile, criteria=list(rules.criteria))
    no_judge = "none is configured" if request.judge is None else "--no-judge skips it"
    sources, with_judge = (
        _sources(scored, workflow, work, scorers, judge=judge, rubric=rules.rubric, why=no_judge)
        for judge in (judging, True)
    )
    task, inputs = task_of(with_judge, rules.rubric), [item.sample.inputs for item in work]
    judge = (
        RunJudge(request.judge, task, request.max_calls)
        if request.judge is not None and judging and task
        else None
    )
    warnings = [
        *idle_scorers(rules.profile, scorers),
        *unread_expected(
            workflow,
            (sample.expected for sample in samples),
            read=expected_names(rules.profile),
            scored=bool(scorers),
        ),
        *_unfilled(sources, scored=bool(scorers)),
    ]
    made_by = {
        "workflow": workflow.digest,
        "dataset": dataset.digest,
        "profile": request.choice.profile,
        "policy": choice.policy,
        "rubric": request.choice.rubric,
        **_kept_profile(rules.profile, choice),
        "scored_by": {
            "profile": rules.plan.profile.id,
            "rubric": None if rules.rubric is None else rubric_name(rules.rubric),
            "digests": rules.plan.digests,
        },
        "judge": None if judge is None else {"name": judge.spec.judge, **judge.spec.identity()},
        "judge_cards": list(choice.cards),
        "repeats": request.settings.repeat,
        "limits": {
            "timeout_s": request.settings.timeout_s,
            "retries": request.settings.retries,
            "samples": request.limit,
        },
        **ENGINE,
    }
    return RunPlan(
        request=request,
        samples=len(asked),
        only=None
        if names is None
        else ChosenSamples(of=len(all_samples), samples=[sample.sample_id for sample in samples]),
        work=work,
        choice=choice,
        rules=rules,
        own=rules.profile if is_own else None,
        scorers=scorers,
        task=task,
        estimate=estimate(task, request.judge, inputs, runs=len(work)) if task else None,
        judge=judge,
        warnings=warnings,
        configuration=made_by,
    )


def _journals(folder: str) -> Iterator[bool]:
    return (os.path.exists(os.path.join(folder, name)) for name in (JOURNAL, JUDGE_JOURNAL))


def _kept_profile(profile: Profile, choice: Choice) -> dict[str, Any]:
    """A profile that no shelf has, whole, so that its grades replay: with what scorers and
    assertions added, or of a project's own file, which can change.
    """
    if "+" in str(profile.version):
        return {"own_profile": {"profile": profile, "rubric": choice.rubric}}
    shelf = Shelf(choice.library) if choice.library else Shelf()
    on_shelf = any(entry.id == profile.id for entry in shelf.entries("profiles"))
    return {"own_profile": None, **({} if on_shelf else {"project_profile": profile})}


# --- what nothing can fill


def _sources(
    profile: Profile,
    workflow: LoadedWorkflow,
    work: Sequence[SampleWork],
    scorers: Sequence[PlacedScorer],
    *,
    judge: bool,
    rubric: Rubric | None,
    why: str,
) -> list[EvidenceSource]:
    """Where each gate and criterion gets its evidence when this workflow runs on these samples.
    `why` there is no judge.
    """
    absent = [name for name in _DECLARED if getattr(workflow.spec, name) is None]
    absent += _TESTED if workflow.spec.repository is None else ()
    absent += _not_expected(profile, work)
    filled = {name for scorer in scorers for name in (scorer.scorer.id, *scorer.scorer.gates)}
    if any(item.sample.assertions is not None for item in work):
        filled.add(GATE if workflow.spec.assertions == "gate" else CRITERION)
    sources = criterion_sources(
        profile, judge=judge, rubric=rubric, scorers=filled, absent=absent, no_judge=why
    )
    due = workflow.required_outputs
    if not due or not _expected(work).isdisjoint(due):
        return sources
    lacks = f"it needs `expected.{due[0]}`, which the dataset doesn't have"
    one_output = {item.id for item in profile.criteria if item.measure_params.get("output")}
    return [
        source._replace(kind="nowhere", name="", lacks=lacks)
        if {"required_outputs", "expected"} <= set(source.reads) and source.id not in one_output
        else source
        for source in sources
    ]


def _not_expected(profile: Profile, work: Sequence[SampleWork]) -> Iterator[str]:
    """The expected values that the profile reads, and that no sample has."""
    there = _expected(work)
    for judge in (True, False):
        for source in criterion_sources(profile, judge=judge):
            for field in source.reads:
                head, _, name = field.partition(".")
                if head == "expected" and name and name.split(".")[0].rstrip("[]") not in there:
                    yield field


def _expected(work: Sequence[SampleWork]) -> set[str]:
    """The names of what any sample expects."""
    expected = (item.sample.expected for item in work)
    return {name for value in expected if isinstance(value, dict) for name in value}


def _unfilled(sources: Iterable[EvidenceSource], *, scored: bool) -> list[str]:
    """What nothing in this configuration can fill, one sentence each. `scored`: the workflow has
    scorers, and any criterion may be theirs.
    """
    open_ = [
        source
        for source in without_source(sources)
        if not (scored and source.of == "criterion" and not source.reads)
    ]
    warnings = [f"{source.sentence}." for source in open_]
    needed = {field for source in open_ for field in source.reads}
    if empty := [f"`{name}: []`" for name in _LISTED if name in needed]:
        warnings.append(f"If there are none, declare that in the workflow: {', '.join(empty)}.")
    if any(source.of == "gate" for source in open_):
        warnings.append("A gate without a source fails, so no run can pass.")
    elif open_:
        warnings.append("A criterion without a source counts as 0.")
    return warnings


# --- what must answer


def run_judge(path: str, *, max_usd: Decimal | float | None = None) -> JudgeSpec:
    """A judge by its file, with another limit on what it may cost."""
    spec = load_judge(read_entry(path, "judge"))
    if max_usd is not None:
        limits = structs.replace(spec.limits, max_usd=Decimal(str(max_usd)))
        spec = structs.replace(spec, limits=limits)
        check_spec(spec)
    return spec


def _check_endpoints(workflow: LoadedWorkflow, judge: JudgeSpec | None) -> None:
    """Refuse to start where the judge has no key, an endpoint takes no connection, or a step after
    the run can't be done.
    """
    for step in steps_of(workflow):
        if missing := step.lacking():
            raise NotEnoughEvidence(
                "RUN-004", missing, where=workflow.where, fix="Nothing was run."
            )
    for url in _workflow_urls(workflow):
        if reason := _unreachable(url):
            raise NotEnoughEvidence(
                "RUN-007",
                f"the workflow's endpoint {url} can't be reached: {reason}.",
                where=workflow.where,
                fix="Start it, or correct adapter.url. Nothing was run.",
            )
    if judge is None:
        return
    key_of(judge)
    if not needs_address(judge.api) or judge.proxy_from_environment:
        return
    if reason := _unreachable(judge.base_url):
        raise NotEnoughEvidence(
            "JDG-003",
            f"the judge's endpoint {judge.base_url} can't be reached: {reason}.",
            where=judge.judge,
            fix="Start it, or run with --no-judge. Nothing was run.",
        )


def _workflow_urls(workflow: LoadedWorkflow) -> list[str]:
    adapters = workflow.spec.adapters.values()
    urls = [adapter.get("url") for adapter in adapters if adapter.get("kind") == "http"]
    return list(dict.fromkeys(url for url in urls if isinstance(url, str)))


def _unreachable(url: str) -> str:
    """Why nothing listens at an address; empty if something does."""
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        socket.create_connection((parts.hostname or "", port), timeout=CONNECT_S).close()
    except OSError as error:
        return error.strerror or str(error) or type(error).__name__
    return ""


# --- the work


class Watch:
    """What a door is told while the work goes on. Nothing here is needed for the result."""

    event: RunNotify | None = None
    """Called with each event of a run as it happens."""

    def running(self, left: int) -> None:
        """That many runs are to be made."""

    def ran(self) -> None:
        """One of them has ended."""

    def judging(self, runs: int) -> None:
        """That many runs are to be judged."""

    def judged(self) -> None:
        """One of them has its verdicts, or will never have them."""

    def idle(self) -> None:
        """Running or judging is over."""

    def complete(self, run: dict[str, Any]) -> None:
        """The evidence of a run made or judged now, as it is to be graded."""


class Judging(NamedTuple):
    """How judging went."""

    judge: RunJudge
    counts: dict[str, int]
    missing: int
    first_fault: str
    down: str
    usage: Usage

    @property
    def sentences(self) -> list[str]:
        """How many verdicts are missing, and why; empty if none is."""
        if not self.missing:
            return []
        total = sum(self.counts.values())
        why = (self.down or self.first_fault).rstrip(".")
        return [f"{self.missing:,} of {total:,} judge verdicts are missing: {why}."]


class _Runs(Protocol):
    """Finished runs by their id."""

    def __contains__(self, run_id: str) -> bool: ...

    def put(self, run: dict[str, Any]) -> None:
        """Keep a run."""

    def run(self, run_id: str) -> bytes:
        """A run that was kept, as JSON."""

    def tree(self, run_id: str) -> dict[str, Any]:
        """The same, parsed."""


class WorkflowRun:
    """The runs of a plan. Making it checks that every endpoint answers, unless `check` is false,
    and loads the workflow's code; nothing is run yet. Use it as a context: its evidence is gone
    afterwards, except what is in the work folder.
    """

    def __init__(self, plan: RunPlan, watch: Watch | None = None, *, check: bool = True) -> None:
        request = plan.request
        self.plan = plan
        self.judged = 0
        self.judging: Judging | None = None
        """How judging went; None before it, and without a judge."""
        self._watch = watch or Watch()
        if check:
            _check_endpoints(request.workflow, None if plan.judge is None else plan.judge.spec)
        self._runner = Runner(
            request.workflow,
            request.dataset,
            request.settings,
            keep=self._keep,
            notify=self._watch.event,
            after=after_of(request.workflow, criteria=plan.rules.criteria, scorers=request.scorers),
        )
        self._raised: RuntimeError | None = None
        """What the runner raised itself; any other is the loop's, which somebody stopped."""

    def __enter__(self) -> WorkflowRun:
        request, folder = self.plan.request, self.plan.request.folder
        with ExitStack() as stack:
            self._made: _Runs = _RunsInMemory()
            self._evidence: _Runs = self._made
            if folder is not None:
                make_folder(folder)
                header = Header.of(
                    request.workflow, request.dataset, request.settings, self.plan.scorers
                )
                journal = RunJournal(os.path.join(folder, JOURNAL), header, request.workflow)
                self._evidence = self._made = stack.enter_context(journal)
                if self.plan.judge is not None:
                    self._evidence = stack.enter_context(_RunsInFile())
            self.found = sum(item.run_id in self._made for item in self.plan.work)
            """Runs that an interrupted run has finished."""
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error: Any) -> None:
        self._stack.__exit__(*error)

    @property
    def done(self) -> int:
        """Runs that are finished."""
        return sum(item.run_id in self._made for item in self.plan.work)

    def execute(self) -> None:
        """Run what is left, and judge all."""
        left = [item for item in self.plan.work if item.run_id not in self._made]
        self._watch.running(len(left))
        try:
            _complete(self._run(left))
        except (asyncio.CancelledError, RuntimeError) as error:
            if error is self._raised:
                raise
            raise InputError(
                "RUN-006",
                "the workflow stopped the event loop, or cancelled tasks that it didn't start.",
                where=self.plan.request.workflow.where,
                fix="Cancel only the workflow's tasks, and leave the loop running.",
            ) from error
        finally:
            self._watch.idle()
        if self.plan.judge is not None:
            self._watch.judging(len(self.plan.work))
            try:
                self.judging = _complete(self._judge(self.plan.judge))
            finally:
                self._watch.idle()
        if (folder := self.plan.request.folder) is not None:
            with atomic_write(os.path.join(folder, EVIDENCE)) as stream:
                for line in self.lines():
                    stream.write(line + b"\n")

    def tree(self, run_id: str) -> dict[str, Any]:
        """The evidence of a run."""
        return self._evidence.tree(run_id)

    def lines(self) -> Iterator[bytes]:
        """The evidence of every run as JSON, in the order of the work."""
        return (self._evidence.run(item.run_id) for item in self.plan.work)

    def trees(self) -> Iterator[dict[str, Any]]:
        """The same, parsed."""
        return (self._evidence.tree(item.run_id) for item in self.plan.work)

    def warnings(self) -> list[str]:
        """The scorers that gave no result, or none that counts, one sentence each."""
        scorers, work = self.plan.scorers, self.plan.work
        if not scorers and all(item.sample.assertions is None for item in work):
            return []
        answered = (run for run in self.trees() if run.get("outputs") is not None)
        errors = (run.get("metadata", {}).get("scorer_errors", {}) for run in answered)
        return [
            *scorer_warnings(errors, scorers, total=len(work)),
            *idle_scorers(self.plan.rules.profile, scorers, self.trees()),
        ]

    async def _run(self, left: Sequence[SampleWork]) -> None:
        try:
            await self._runner.run(left)
        except RuntimeError as error:
            self._raised = error
            raise

    def _keep(self, made: dict[str, Any]) -> None:
        self._made.put(made)
        if self.plan.judge is None:
            self._watch.complete(made)
        self._watch.ran()

    async def _judge(self, judge: RunJudge) -> Judging:
        request = self.plan.request
        path = None if request.folder is None else os.path.join(request.folder, JUDGE_JOURNAL)
        with Journal(path) as journal:
            # a resumed run asks once more what had no usable answer
            async with Client(judge.spec, journal, again=request.resume) as client:
                step = JudgeStep(judge.task, client, max_calls=judge.max_calls)

                async def one(item: SampleWork) -> None:
                    run = await step.judge(self._made.tree(item.run_id))
                    self._evidence.put(run)
                    self.judged += 1
                    self._watch.complete(run)
                    self._watch.judged()

                await spread(one, self.plan.work, width=step.width)
                down = "" if step.down is None else str(step.down)
                return Judging(
                    judge, dict(step.counts), step.missing, step.first_fault, down, client.usage
                )


class _RunsInMemory:
    """Runs of a process that needs no work folder."""

    def __init__(self) -> None:
        self._runs: dict[str, dict[str, Any]] = {}

    def __contains__(self, run_id: str) -> bool:
        return run_id in self._runs

    def put(self, run: dict[str, Any]) -> None:
        self._runs[run["run_id"]] = run

    def run(self, run_id: str) -> bytes:
        return encode(self._runs[run_id])

    def tree(self, run_id: str) -> dict[str, Any]:
        return self._runs[run_id]


class _RunsInFile:
    """Runs with their verdicts, each as a line, in a file without a name."""

    def __init__(self) -> None:
        self._file = tempfile.SpooledTemporaryFile(IN_MEMORY)  # noqa: SIM115
        self._places: dict[str, tuple[int, int]] = {}

    def __enter__(self) -> _RunsInFile:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def __contains__(self, run_id: str) -> bool:
        return run_id in self._places

    def put(self, run: dict[str, Any]) -> None:
        line = encode(run)
        self._places[run["run_id"]] = (self._file.seek(0, os.SEEK_END), len(line))
        self._file.write(line)

    def run(self, run_id: str) -> bytes:
        start, size = self._places[run_id]
        self._file.seek(start)
        return self._file.read(size)

    def tree(self, run_id: str) -> dict[str, Any]:
        tree: dict[str, Any] = parse_json(self.run(run_id))
        return tree


def _complete(work: Coroutine[Any, Any, _T]) -> _T:
    """Wait for work that needs an event loop. If one is already running, as in a notebook, the work
    gets its own thread and loop.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    results: list[_T] = []
    failure: list[BaseException] = []

    def alone() -> None:
        try:
            results.append(asyncio.run(work))
        except BaseException as error:  # it is raised again below, where the caller waits
            failure.append(error)

    thread = threading.Thread(target=alone, name="assay-run")
    thread.start()
    thread.join()
    if failure:
        raise failure[0]
    return results[0]


# --- everything at once


class RunResult(NamedTuple):
    """An evaluation with its graded runs, all in memory."""

    evaluation: Evaluation
    graded: list[Graded]
    choice: Choice
    """What graded them."""
    judging: Judging | None
    warnings: list[str]


def run(request: RunRequest, watch: Watch | None = None, *, check: bool = True) -> RunResult:
    """Run, judge and grade. Without a `check`, what can't be reached or done is missing."""
    plan = plan_run(request)
    grader, builder = plan.choice.grader(), plan.builder()
    with WorkflowRun(plan, watch, check=check) as work:
        work.execute()
        graded = [grader.grade(Document(tree, request.settings.name)) for tree in work.trees()]
        warnings = [*plan.warnings, *work.warnings()]
    for graded_run in graded:
        builder.add(graded_run)
    if work.judging is not None:
        warnings += work.judging.sentences
    finished = datetime.now(UTC)
    return RunResult(builder.finish(finished), graded, plan.choice, work.judging, warnings)


def write_repeats(
    passes: Mapping[str, Mapping[str, bool]], *, repeat: int, folder: str
) -> dict[str, Any]:
    """How stable the passes are: pass@k, pass^k, and the samples that sometimes pass, kept in the
    work folder. `passes` has those of each sample by run.
    """
    tasks = [AttemptedTask(name, len(runs), sum(runs.values())) for name, runs in passes.items()]
    repeats = {
        "schema": "assay.repeats/1",
        "repeat": repeat,
        **report(tasks, sorted({1, repeat})),
        "flaky": sorted(name for name, runs in passes.items() if len({*runs.values()}) > 1),
        "samples": len(passes),
    }
    write_file(os.path.join(folder, REPEATS), pretty(repeats))
    return repeats
