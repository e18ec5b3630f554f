"""`assay run`: a workflow on a dataset, from the first call to the evaluation on the screen.

What runs, judges and grades is `services.run`; here the options become its request, and its result
is printed and written. `run.json` in the work folder has what was asked for, so that `--resume`
needs nothing else.
"""

from __future__ import annotations

import os
import re
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from io import RawIOBase
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import structs

from assay.canon import digest, pretty, time_text
from assay.cli import options as opt
from assay.cli import terminal
from assay.cli.frame import BARS, CHOICES, STORE, Bounds, Command, Options, arg, flag
from assay.cli.grade import GradedPiece, Grading, StreamWorker, choice_of, pass_bar
from assay.cli.hints import GRADED_BY, command, release_step
from assay.cli.judging import amount, note_usage
from assay.cli.ledger import ledger_options
from assay.cli.progress import Progress
from assay.cli.references import ledger_names
from assay.errors import Fault, InputError, UsageError, count, few, printable
from assay.files.atomic import refuse_links_out, write_file
from assay.files.inputs import Source, open_input
from assay.files.json_files import Document, limited, read_documents, read_json
from assay.judging.config import JudgeSpec
from assay.project.settings import scorers_of
from assay.records.evaluation import Evaluation
from assay.records.grade import GRADES_SCHEMA, is_graded
from assay.registry import is_path, near_miss
from assay.running.adapters.loading import exits_as_errors
from assay.running.columns import column_uses, columns_text
from assay.running.dataset import LoadedDataset, read_dataset
from assay.running.judge_step import JudgeEstimate, JudgeTask
from assay.running.workflow import read_workflow
from assay.services.evaluations import stored_items
from assay.services.grading import Graded
from assay.services.run import (
    EVIDENCE,
    Begun,
    Judging,
    RunPlan,
    RunRequest,
    Watch,
    WorkflowRun,
    plan_run,
    run_judge,
    write_repeats,
)
from assay.views import events
from assay.views.evaluation import RunReasons, WorstSample, evaluation_view, keep_worst, unchecked
from assay.views.exporters import FORMATS

if TYPE_CHECKING:
    from assay.running.runner import RunSettings
    from assay.running.workflow import LoadedWorkflow


def choose(
    options: Options, dataset: LoadedDataset, begun_with: list[str] | None = None
) -> list[str] | None:
    """The ids of the samples that `--only` or `--failed-in` chooses; None for all of them. A
    resumed run has those that it was begun with.
    """
    known = [sample.id for sample in dataset.samples]
    if options.resume:
        return begun_with
    if options.only is not None and options.failed_in is not None:
        raise UsageError("CLI-001", "--only and --failed-in both choose samples.", fix="Give one.")
    if options.only is not None:
        return _named(options.only, dataset, known)
    return None if options.failed_in is None else _failed_in(options, dataset, known)


def _named(text: str, dataset: LoadedDataset, known: Sequence[str]) -> list[str]:
    """The samples that `--only` names, or that are in the file that it names."""
    is_file = text == "-" or (is_path(text) and os.path.exists(text))
    if is_file and text in known:
        raise UsageError(
            "CLI-001",
            f"{text!r} is both a file and a sample.",
            fix=f"Write ./{text} for the file, or put the name of the sample into another file.",
        )
    given = _in_file(text) if is_file else text.split(",")
    names = list(dict.fromkeys(name.strip() for name in given if name.strip()))
    if not names:
        where = text if is_file else None
        raise UsageError("CLI-001", "--only names no sample.", where=where or "")
    ids, prefix = frozenset(known), f"{dataset.id}/"
    found = {name: name if name in ids else name.removeprefix(prefix) for name in names}
    unknown = [name for name, sample in found.items() if sample not in ids]
    if unknown:
        no_file = " There is no file of that name either." if text == unknown[0] else ""
        raise UsageError(
            "CLI-001",
            f"the dataset {dataset.id} has no sample {few([*map(repr, unknown)])}."
            f"{near_miss(unknown[0], known)}{no_file if is_path(text) else ''}",
            where=text if is_file else "",
            fix="Name samples by their ids in the dataset, separated by commas, or one on each line"
            " of a file.",
        )
    return list(found.values())


def _in_file(path: str) -> Iterator[str]:
    """The names in a file: one on each line, or a JSON list of names or suspects."""
    if path.endswith(".json"):
        yield from _in_json(read_json(path).tree, path)
        return
    with open_input(path) as stream:
        data = limited(stream.read(), path)
    try:
        yield from data.decode("utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InputError("FIL-002", f"line {line} is not UTF-8.", where=path) from None


def _in_json(tree: Any, path: str) -> Iterator[str]:
    listed = tree.get("suspects") if isinstance(tree, dict) else tree
    for item in listed if isinstance(listed, list) else [None]:
        name = item.get("sample") if isinstance(item, dict) else item
        if not isinstance(name, str):
            raise InputError(
                "FIL-002",
                "names no samples. It must be a list of names, or an object with a list"
                ' `suspects` of objects such as {"sample": "q017"}.',
                where=path,
            )
        yield name


def _failed_in(options: Options, dataset: LoadedDataset, known: Sequence[str]) -> list[str]:
    """The samples of which a run did not pass in a stored evaluation or a file of grades."""
    named: str = options.failed_in
    if is_path(named):
        failed = _failed(_graded_in(named), dataset, named)
    else:
        with ledger_names(options) as names:
            stored = names.get(named).evaluation
            if stored is None:
                raise UsageError(
                    "CLI-001",
                    f"{named!r} is a run.",
                    fix="Name an evaluation, or run its sample with --only.",
                )
            pairs = stored_items(names.opened(named), stored.evaluation, project=options.project)
            # a run without a grade did not pass, and has its sample as a grade has it
            trees = (
                {**run.tree(), "passed": False} if grade is None else grade.tree()
                for _, run, grade in pairs
                if run is not None
            )
            failed = _failed(trees, dataset, named)
    if not failed:
        raise UsageError("CLI-001", f"there is nothing to run: every sample passed in {named}.")
    gone = [name for name in failed if name not in frozenset(known)]
    if len(gone) == len(failed):
        raise UsageError(
            "CLI-001",
            f"there is nothing to run: {dataset.id} has none of the"
            f" {count(len(failed), 'sample')} that did not pass in {named}.",
        )
    if gone:
        opt.warn(f"{dataset.id} no longer has {count(len(gone), 'failed sample')}: {few(gone)}.")
    return [name for name in failed if name not in gone]


def _graded_in(path: str) -> Iterator[Mapping[str, Any]]:
    """The results in a file of grades."""
    for document in read_documents(path):
        tree = document.tree
        if not is_graded(tree):
            raise _no_grades(document)
        if tree.get("schema") != GRADES_SCHEMA:
            yield tree
            continue
        results, faults = tree.get("results"), tree.get("faults")
        if not isinstance(results, list) or not all(isinstance(item, dict) for item in results):
            raise _no_grades(document)
        if faults:
            raise InputError(
                "REL-008",
                "the grades are incomplete, so the samples that did not pass aren't all known.",
                where=path,
                fix="Grade its runs again, or name the samples with --only.",
            )
        yield from results


def _no_grades(document: Document) -> InputError:
    return InputError(
        "FIL-006",
        "--failed-in reads grades, and this is something else.",
        where=document.file,
        fix="Name a stored evaluation, or grade the runs first: `assay grade RUNS -o grades.json`.",
    )


def _failed(results: Iterable[Mapping[str, Any]], dataset: LoadedDataset, named: str) -> list[str]:
    """The samples that did not pass in all of their runs."""
    failed: dict[str, None] = {}
    for result in results:
        of = result.get("dataset") or {}
        sample = of.get("sample_id") or result.get("sample_id")
        if of.get("id") not in (None, dataset.id):
            raise UsageError(
                "CLI-001",
                f"{named} is of the dataset {of['id']}, and this run is on {dataset.id}.",
                fix="Name an evaluation on the same dataset.",
            )
        if result.get("passed") is True:
            continue
        if not isinstance(sample, str):
            raise InputError(
                "FIL-002", f"the grade of {result.get('run_id')!r} names no sample.", where=named
            )
        failed[sample] = None
    return list(failed)


DEFAULT_FOLDER = "assay-runs"

DEFAULT_WORKFLOW = "workflow.yaml"


class AskedRun(NamedTuple):
    """What a run was asked for, with what the run that it resumes was begun with."""

    options: Options
    started: datetime
    settings: Mapping[str, Any]
    """What `--resume` needs, before scorers and assertions extend the profile: they do so again
    when the run goes on.
    """
    chosen: list[str] | None = None
    """The samples that the resumed run was begun with, where `--only` or `--failed-in` chose."""


def remember(asked: AskedRun, settings: RunSettings, folder: str, chosen: list[str] | None) -> None:
    """Store the settings, so that `--resume DIR` needs nothing else."""
    given = asked.settings
    declared = asked.options.declared
    paths = {
        name: os.path.abspath(value)
        for name, value in given.items()
        if value and declared[name].resumed != "as begun" and declared[name].takes_files
    }
    settings_ = {
        "schema": "assay.run-settings/1",
        "name": settings.name,
        "now": settings.now,
        "started": asked.started.isoformat(),
        "chosen": chosen,
        **given,
        **paths,
    }
    write_file(os.path.join(folder, "run.json"), pretty(settings_))


def recall(options: Options) -> AskedRun:
    """What the run is asked for: the options, with the stored settings of the run that they resume
    and the defaults.
    """
    started = opt.moment(options.now) or datetime.now(UTC)
    chosen: list[str] | None = None
    if options.resume:
        if options.work or options.name:
            raise UsageError(
                "CLI-001",
                "--resume names the folder of the run; --work and --name are for new runs.",
            )
        tree = read_json(os.path.join(options.resume, "run.json")).tree
        if not isinstance(tree, dict) or tree.get("schema") != "assay.run-settings/1":
            raise UsageError("RUN-005", "is not the work folder of a run.", where=options.resume)
        chosen = tree.get("chosen")
        started = datetime.fromisoformat(tree.get("started") or started.isoformat())
        options = options.with_values(
            work=options.resume,
            name=tree.get("name"),
            now=tree.get("now") or options.now,
            **_recalled(options, tree),
        )
    if not options.workflow and options.dataset and not os.path.exists(DEFAULT_WORKFLOW):
        raise UsageError(
            "CLI-001",
            "no workflow is named, and there is no workflow.yaml here.",
            fix="`assay init` writes an assay.yaml that names it, or give its file: `assay run"
            " FILE`.",
        )
    options = options.with_values(workflow=options.workflow or DEFAULT_WORKFLOW)
    if not options.dataset:
        raise UsageError(
            "CLI-001",
            "--dataset is missing.",
            fix="`assay init` writes an assay.yaml that names it, or give the samples: --dataset"
            " samples.jsonl.",
        )
    settings = {
        name: getattr(options, name)
        for name, argument in options.declared.items()
        if argument.resumed not in (None, "new")
    }
    return AskedRun(options, started, settings, chosen)


def _recalled(options: Options, tree: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a resumed run."""
    recalled: dict[str, Any] = {}
    named_again = {
        argument.resumed
        for name, argument in options.declared.items()
        if argument.resumed in ("judge", "bar") and is_typed(options, name)
    }
    for name, argument in options.declared.items():
        value = getattr(options, name)
        begun_with = tree.get(name, value)
        if argument.resumed == "named":
            recalled[name] = value or begun_with
        elif argument.resumed == "as begun":
            _refuse_change(options, name, begun_with)
            recalled[name] = begun_with
        elif argument.resumed in ("judge", "bar") and argument.resumed not in named_again:
            recalled[name] = begun_with
    return recalled


def _refuse_change(options: Options, name: str, begun_with: Any) -> None:
    """Refuse an option that a resumed run ignores: its grades would not be by what was asked."""
    if is_typed(options, name) and str(getattr(options, name)) != str(begun_with):
        option = options.declared[name].long
        start = f"with {option} {begun_with}" if begun_with else f"without {option}"
        raise UsageError(
            "CLI-001",
            f"{option} can't change when a run is resumed: it was started {start}.",
            fix="Leave it out, or start a new run. For other rules, `assay grade` the runs.",
        )


def is_typed(options: Options, name: str) -> bool:
    """Whether an option is on the command line, with another value than its default."""
    source, value = options.sources.get(name), getattr(options, name)
    if source is not None:
        return source == "command line"
    return bool(value) and value != options.declared[name].default


def settings_of(options: Options, workflow: LoadedWorkflow) -> RunSettings:
    """The settings of a run, checked."""
    from assay.running.runner import RunSettings

    now = opt.moment(options.now)
    name = options.name or f"{re.sub(r'[^A-Za-z0-9_.-]+', '-', workflow.id)[:60]}-{_stamp(now)}"
    if not (options.name or options.now or options.work):
        name = _free(name)
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,79}", name):
        raise UsageError(
            "CLI-001",
            f"--name is {name!r}; use letters and digits, with . _ - between them, at most 80"
            " characters.",
        )
    fixed = None if now is None else time_text(now)
    timeout = None if options.timeout is None else float(options.timeout)
    return RunSettings(
        name,
        concurrency=options.concurrency,
        repeat=options.repeat,
        timeout_s=timeout,
        retries=options.retries,
        now=fixed,
    )


def _free(name: str) -> str:
    """A name that no run in this folder has: two may start within one second."""
    tries = (name, *(f"{name}-{number}" for number in range(2, 1000)))
    return next(name for name in tries if not os.path.exists(os.path.join(DEFAULT_FOLDER, name)))


def _stamp(now: datetime | None) -> str:
    return (now or datetime.now(UTC)).strftime("%Y%m%dT%H%M%SZ")


def print_progress(words: str) -> None:
    """Print a line of progress."""
    sys.stderr.write(f"{printable(words)}\n")


def already_begun(options: Options, folder: str, *, finished: bool) -> UsageError:
    """The error for a folder that contains a run already, finished or not."""
    if finished:
        another = "--work folder" if options.work else "--name"
        return UsageError(
            "RUN-005",
            f"{folder} is finished.",
            fix=f"Choose another {another}, or delete the folder to run it again.",
        )
    return UsageError(
        "RUN-005",
        "this folder already contains a run.",
        where=folder,
        fix=f"`{resume_command(options, folder)}` continues it.",
    )


def resume_command(options: Options, folder: str) -> str:
    """The command that resumes a run, with the same outputs."""
    outputs = [word for path in options.output for word in ("-o", path)]
    events = [] if options.events is None else ["--events", options.events]
    json = ["--json"] if options.json else []
    carry = ("--step-summary", "--otlp-endpoint")
    return command(
        "run", "--resume", folder, *outputs, *events, *json, options=options, carry=carry
    )


IN_MEMORY = 256 * 1024 * 1024
"""Bytes of grades that wait in memory for the end of the run."""

Piece = GradedPiece | list[Fault]


def run(options: Options) -> int:
    """Run the verb."""
    asked = recall(options)
    pass_bar(asked.options)  # a slip in it must not cost a run
    sinks = opt.outputs(asked.options)
    exits_as_errors()
    plan = _planned(asked)
    request, folder = plan.request, str(plan.request.folder)
    options = _graded_by(asked.options, plan)
    _report_plan(options, plan)
    watch = _Grades(options, plan)
    work = WorkflowRun(plan, watch)
    if not options.resume:
        # before the journal: a journal is never without the settings to resume by
        remember(asked, request.settings, folder, request.chosen)
    evidence = Source(watch.evidence, watch.evidence)
    options = options.with_values(files=[evidence], output=sinks)
    grading = Grading(
        options,
        builder=plan.builder(),
        show=lambda made: _show_evaluation(
            options, watch, work.judging, made, stored=grading.stored
        ),
    )
    with grading, work:
        watch.worker = grading.worker(watch.note)
        if work.found:
            print_progress(f"{work.found:,} already finished; not repeated")
        try:
            with watch.events(options.events), _stdout_is_ours():
                work.execute()
        except KeyboardInterrupt:
            judged = f", {work.judged:,} of them judged," if plan.judge is not None else ""
            print_progress(
                f"{work.done:,} of {len(plan.work):,} runs are finished{judged} and kept;"
                f" `{resume_command(options, folder)}` continues"
            )
            raise
        if work.judging is not None:
            note_usage([work.judging.usage], work.judging.counts)
            for sentence in work.judging.sentences:
                opt.warn(sentence)
        for sentence in work.warnings():
            opt.warn(sentence)
        if plan.left_out:
            opt.warn(
                f"--limit left out {plan.left_out:,} of {count(plan.samples, 'sample')}, so the"
                " result doesn't cover them."
            )
        finished = opt.moment(request.settings.now) or datetime.now(UTC)
        code = grading.finish(watch.pieces(work), finished=finished)
    if options.repeat > 1:
        _report_repeats(write_repeats(watch.passes, repeat=options.repeat, folder=folder))
    return code


def _planned(asked: AskedRun) -> RunPlan:
    """What is asked for, found and checked before anything runs."""
    options = asked.options
    workflow = read_workflow(options.workflow)
    settings = settings_of(options, workflow)
    dataset = read_dataset(options.dataset)
    chosen = choose(options, dataset, asked.chosen)
    graded_by = choice_of(options)
    folder = options.work or os.path.join(DEFAULT_FOLDER, settings.name)
    request = RunRequest(
        workflow=workflow,
        dataset=dataset,
        settings=settings,
        choice=structs.replace(graded_by, profile=options.profile),
        required=graded_by.profile,
        scorers=[] if options.config is None else scorers_of(options.config),
        chosen=chosen,
        limit=options.limit,
        judge=_judge_of(options),
        judging=not options.no_judge,
        max_calls=options.max_calls,
        folder=folder,
        resume=bool(options.resume),
        started=asked.started,
    )
    try:
        return plan_run(request)
    except Begun as error:
        raise already_begun(options, folder, finished=error.finished) from None


def _graded_by(options: Options, plan: RunPlan) -> Options:
    """The options with what scorers and assertions add to the profile, as if it was asked for."""
    if plan.own is None:
        return options
    # so that printed commands name it
    sources = {**options.sources, "profile": "command line"} if options.sources else {}
    choice = plan.choice
    return options.with_values(profile=choice.profile, rubric=choice.rubric, sources=sources)


def _judge_of(options: Options) -> JudgeSpec | None:
    """The judge that the options name; None if they name none."""
    if not options.judge:
        return None
    most = options.max_usd
    return run_judge(
        options.judge, max_usd=None if most is None else amount("--max-usd", str(most))
    )


def _report_plan(options: Options, plan: RunPlan) -> None:
    """Print what will run, what nothing can fill, and what judging costs."""
    workflow, dataset = plan.request.workflow, plan.request.dataset
    why = workflow.profile_why
    if plan.own is not None:
        why = f"profile {plan.own.id} (plus your scorers and assertions)"
    elif options.profile is not None:
        source = options.sources.get("profile", "command line")
        why = f"profile {plan.rules.profile.id} from {source.replace('command', 'the command')}"
    print_progress(
        f"{workflow.id}@{workflow.version} on {dataset.id}@{dataset.version}:"
        f" {count(len(plan.work), 'run')}, {why}; work folder {plan.request.folder}"
    )
    print_progress(f"columns: {columns_text(column_uses(workflow, dataset))}")
    for sentence in plan.warnings:
        opt.warn(sentence)
    spec, judging = plan.request.judge, plan.request.judging
    if plan.estimate is None:
        if judging and spec is not None:
            profile = plan.rules.profile.id
            print_progress(f"judge {spec.judge}: nothing to judge; {profile} needs no judge")
        return
    takes = _calls_of(plan.estimate, plan.task, spec)
    if judging and spec is not None:
        print_progress(f"judge {spec.judge} ({spec.model}): {takes}")
        return
    missing = f"{plan.task.needed_for} will be missing"
    if plan.scorers:  # what they return is known once they have run
        missing += " unless a scorer returns them"
    if spec is not None:
        print_progress(f"not judging: {missing}. {spec.judge} would take {takes}.")
    else:
        print_progress(
            f"no judge: {missing}. Name a judge with --judge FILE, or `judge:` in assay.yaml. It"
            f" would take {takes}."
        )


def _calls_of(estimate: JudgeEstimate, task: JudgeTask, spec: JudgeSpec | None) -> str:
    """A sentence on the cost of judging."""
    parts = ["claim"] if task.claims else []
    parts += ["passage", "sentence of the expected answer"] if task.passages else []
    each = f"for each {', '.join(parts[:-1])}{' and ' if parts[1:] else ''}{''.join(parts[-1:])}"
    words = f"one call {each}"
    if estimate.calls:
        words = count(estimate.calls, "call") + (f" plus one {each}" if parts else "")
        words += f", about {estimate.input_tokens:,} tokens in"
        if estimate.cost_usd is not None:
            more = f" without {'those' if task.passages else 'the claims'}" if parts else ""
            return f"{words}, at most about {estimate.cost_usd:.4f} US dollars{more}"
    return f"{words}, no price given" if spec is not None and spec.price is None else words


class _Grades(Watch):
    """Grades each run when it is complete, while others still wait for their models; shows the
    progress, and writes the events.
    """

    def __init__(self, options: Options, plan: RunPlan) -> None:
        self.worker: StreamWorker | None = None
        """Grades into the outputs; there before anything runs."""
        self.evidence = os.path.join(str(plan.request.folder), EVIDENCE)
        self.worst: list[WorstSample] = []
        self.reasons = RunReasons()
        self.passes: dict[str, dict[str, bool]] = {}
        """By sample and run, whether it passed."""
        self._name = plan.request.workflow.id
        self._progress = Progress(0, self._name)
        self._ready: dict[str, Piece] = {}
        self._kept = 0
        self._events: EventFile | None = None
        if options.events is not None:
            self.event = self._tell

    @contextmanager
    def events(self, path: str | None) -> Iterator[None]:
        """Write the events to a file, if one is asked for."""
        if path is None:
            yield
            return
        refuse_links_out(path, follow=True)
        try:
            stream = open(path, "ab", buffering=0)  # noqa: SIM115  closed below
        except OSError as error:
            raise UsageError(
                "FIL-008", f"cannot be written: {error.strerror}.", where=path
            ) from None
        with stream:
            self._events = EventFile(stream)
            yield
            self._events = None

    def running(self, left: int) -> None:
        self._progress = Progress(left, self._name, unit="runs")

    def judging(self, runs: int) -> None:
        self._progress = Progress(runs, "judging", unit="runs")

    def ran(self) -> None:
        self._progress.add(1)

    def judged(self) -> None:
        self._progress.add(1)

    def idle(self) -> None:
        self._progress.end()

    def complete(self, run: dict[str, Any]) -> None:
        piece = self._graded(Document(run, self.evidence))
        if isinstance(piece, list) and self._events is not None:
            self._events.refused(run["run_id"], piece)
        self._kept += sum(map(len, piece.outputs)) if isinstance(piece, GradedPiece) else 0
        if self._kept < IN_MEMORY:  # what does not fit is graded again at the end
            self._ready[run["run_id"]] = piece

    def note(self, graded: Graded) -> bytes:
        """Note what a grade adds to the evaluation, each run once."""
        grade, sample = graded.grade, graded.grade.scorecard.sample_id or ""
        marks = self.passes.setdefault(sample, {})
        if grade.run_id not in marks:
            marks[grade.run_id] = grade.passed
            if self._events is not None:
                self._events.judged(graded)
            self.reasons.add(grade)
            if not grade.passed:
                keep_worst(self.worst, graded.payload(), graded.run)
        return b""

    def pieces(self, work: WorkflowRun) -> Iterator[Piece]:
        """The grades in the order of the work."""
        for number, item in enumerate(work.plan.work, 1):
            piece = self._ready.pop(item.run_id, None)
            if piece is None:
                piece = self._graded(Document(work.tree(item.run_id), self.evidence, number))
            yield piece

    def _graded(self, document: Document) -> Piece:
        assert self.worker is not None
        piece = self.worker.document(document)
        if isinstance(piece, list):
            return piece
        return structs.replace(piece, outputs=piece.outputs[:-1])

    def _tell(self, run_id: str, kind: str, fields: dict[str, Any]) -> None:
        if self._events is not None:
            self._events.tell(run_id, kind, fields)


@contextmanager
def _stdout_is_ours() -> Iterator[None]:
    """While workflows run, what they print goes to standard error: standard output is for
    results.
    """
    sys.stdout.flush()
    kept = os.dup(1)
    try:
        os.dup2(2, 1)
        yield
    finally:
        sys.stdout.flush()
        os.dup2(kept, 1)
        os.close(kept)


class EventFile:
    """Writes every event as it happens, and each run's evaluation when the run is over. A killed
    run leaves complete lines and at most one torn line.
    """

    def __init__(self, stream: RawIOBase) -> None:
        self._stream = stream
        self._positions: dict[str, int] = {}
        self._lock = threading.Lock()

    def tell(self, run_id: str, kind: str, fields: dict[str, Any]) -> None:
        """One event."""
        with self._lock:
            position = self._positions[run_id] = (
                1 if kind == "workflow_start" else self._positions.get(run_id, 0) + 1
            )
            at = time_text(datetime.now(UTC), "microseconds")
            if not self._stream.closed:
                self._stream.write(events.event(kind, run_id, at, fields)(position) + b"\n")

    def judged(self, graded: Graded) -> None:
        """The evaluation of a finished run."""
        payload = graded.payload()
        run_id = payload["run_id"]
        self.tell(
            run_id,
            "evaluation_start",
            {"policy": payload["policy"], "profile": payload.get("profile")},
        )
        self.tell(run_id, "evaluation_complete", {**payload, "digest": digest(payload)})
        self._positions.pop(run_id, None)

    def refused(self, run_id: str, faults: list[Fault]) -> None:
        """A run that could not be evaluated."""
        first = faults[0]
        self.tell(
            run_id,
            "error",
            {"message": first.message, "code": first.code, "where": first.path, "fix": first.fix},
        )


def _show_evaluation(
    options: Options,
    grades: _Grades,
    judging: Judging | None,
    evaluation: Evaluation,
    *,
    stored: bool,
) -> None:
    """The evaluation, with its worst runs and what to do next."""
    notes = []
    if judging is not None and judging.missing:
        resume = resume_command(options, os.path.dirname(grades.evidence))
        again = f"`{resume}` asks for them again and repeats nothing else."
        notes = [f"{sentence} {again}" for sentence in judging.sentences]
    more = ledger_options(options) if stored else ""
    runs, carry = (evaluation.name, ()) if stored else (options.files[0].name, GRADED_BY)
    commands = [
        (
            command("explain", runs, "--run", graded_run.run_id, options=options, carry=GRADED_BY)
            + more,
            "why this run got its grade",
        )
        for graded_run in grades.worst[:1]
    ]
    browse = command("view", runs, options=options, carry=carry or ("--library",)) + more
    page = command("grade", runs, "-o", "report.html", options=options, carry=GRADED_BY) + more
    commands += [(browse, "every sample, in your browser"), (page, "every run on one page")]
    passed = evaluation.totals.passed == evaluation.totals.n and not unchecked(evaluation.settings)
    if step := release_step(options, runs, passed=passed):
        commands.append((step[0] + more, step[1]))
    view = evaluation_view(
        evaluation, worst=grades.worst, notes=notes, reasons=grades.reasons, commands=commands
    )
    terminal.show(view)


def _report_repeats(repeats: Mapping[str, Any]) -> None:
    """Print how stable the passes are."""
    flaky = repeats["flaky"]
    words = " · ".join(
        f"{name} {value:.3f}" for name, value in repeats.items() if isinstance(value, float)
    )
    print_progress(
        f"{words} · {len(flaky):,} of {repeats['samples']:,} samples sometimes"
        f" pass{': ' + ', '.join(flaky[:5]) if flaky else ''}"
    )


_JUDGING = (
    arg(
        "--judge",
        resumed="judge",
        kind="path",
        key="judge",
        metavar="FILE",
        help="judge every run: a judge's description (YAML), or its name in assay.yaml",
    ),
    flag(
        "--no-judge",
        "don't judge; criteria that need a judge stay missing, and count as 0",
        resumed="judge",
    ),
    arg(
        "--max-usd",
        resumed="judge",
        kind="number",
        key="limits.judge_usd",
        metavar="X",
        help="stop asking the judge before this much is spent; needs a price",
    ),
    arg(
        "--max-calls",
        resumed="judge",
        key="limits.judge_calls",
        within=Bounds(least=1),
        type=int,
        metavar="N",
        help="ask the judge at most N questions",
    ),
)


COMMANDS = {
    "run": Command(
        run,
        "Run a workflow on every sample of a dataset, judge and grade the runs, store them as an"
        " evaluation and show it. Exit 0 only if all runs passed. -o writes the grades; the runs"
        " are in runs.jsonl of the run's folder (--work).",
        "assay run workflow.yaml --dataset samples.jsonl -o grades.json",
        (
            arg(
                "workflow",
                resumed="named",
                kind="name",
                key="workflow",
                nargs="?",
                metavar="WORKFLOW",
                help=(
                    "the workflow's YAML file, or its name in assay.yaml (default: the one in"
                    f" assay.yaml, else {DEFAULT_WORKFLOW})"
                ),
            ),
            arg(
                "--dataset",
                resumed="named",
                kind="name",
                key="dataset",
                metavar="D",
                help=(
                    "samples as .jsonl, .json, .csv, .xlsx or .parquet, a .yaml file that describes"
                    " them, or a dataset's name in assay.yaml (default: the one in assay.yaml)"
                ),
            ),
            arg(
                "--concurrency",
                key="limits.concurrency",
                within=Bounds(1, 100_000),
                type=int,
                metavar="N",
                default=8,
                help="runs at the same time (default: 8)",
            ),
            arg(
                "--timeout",
                resumed="as begun",
                key="limits.timeout_s",
                within=Bounds(above=0, below=10_000_000),
                type=float,
                metavar="S",
                help="timeout of a call in seconds (default: the workflow's limits.timeout_s)",
            ),
            arg(
                "--retries",
                resumed="as begun",
                key="limits.retries",
                within=Bounds(0, 100_000),
                type=int,
                metavar="N",
                help=(
                    "how often to retry a failed call; every attempt counts (default: the"
                    " workflow's limits.retries)"
                ),
            ),
            arg(
                "--repeat",
                resumed="as begun",
                key="repeats",
                within=Bounds(1, 100_000),
                type=int,
                metavar="K",
                default=1,
                help="run each sample K times: pass@k and flakiness (default: 1)",
            ),
            arg(
                "--limit",
                resumed="as begun",
                key="limits.samples",
                within=Bounds(1, 100_000),
                type=int,
                metavar="N",
                help="only the first N samples",
            ),
            arg(
                "--only",
                resumed="as begun",
                kind="name",
                metavar="NAMES|FILE",
                help=(
                    "only these samples, separated by commas, or those in a file with one on each"
                    " line, such as the suspects that `assay gate` writes"
                ),
            ),
            arg(
                "--failed-in",
                resumed="as begun",
                kind="name",
                metavar="NAME",
                help=(
                    "only the samples that did not pass in an evaluation, by its name, or in a file"
                    " of grades"
                ),
            ),
            arg(
                "--name",
                resumed="new",
                kind="text",
                trust="freely",
                metavar="NAME",
                help=(
                    "the evaluation's name, the first part of every run id (default: the workflow"
                    " and the time)"
                ),
            ),
            arg(
                "--work",
                resumed="new",
                kind="path",
                metavar="DIR",
                help=(
                    "the folder of this run, where its runs.jsonl is (default:"
                    f" {DEFAULT_FOLDER}/NAME)"
                ),
            ),
            arg(
                "--resume",
                kind="path",
                trust="never",
                metavar="DIR",
                help="continue an interrupted run; finished samples are not repeated",
            ),
            arg(
                "--events",
                kind="path",
                metavar="FILE",
                help=(
                    "write every event as it happens, one JSON object per line (`assay schema-of"
                    " event`)"
                ),
            ),
            *_JUDGING,
            *CHOICES,
            *BARS,
            *STORE,
            "--no-store",
            "--otlp-endpoint",
            "--step-summary",
        ),
        formats=tuple(FORMATS),
        defaults={"keep_going": False, "jobs": 1},
    ),
}
