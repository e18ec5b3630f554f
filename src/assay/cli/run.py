"""`assay run`: a workflow on a dataset, from the first call to the evaluation on the screen.

Everything of one run is in its work folder: `run.json` (what was asked for), `journal.jsonl` (each
finished sample), `judge.journal` (each paid answer), from which a killed run resumes; `runs.jsonl`
(the evidence with the verdicts, once all of it is there) and, with --repeat, `repeats.json`.
"""

from __future__ import annotations

import os
from contextlib import closing
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from msgspec import structs

from assay.cli import options as opt
from assay.cli.frame import BARS, CHOICES, STORE, Bounds, Command, Options, arg
from assay.cli.grade import Grading, choice_of, pass_bar
from assay.cli.run_judge import ARGUMENTS, JOURNAL, RunJudge, calls_of, judge_of, report
from assay.cli.run_settings import (
    DEFAULT_FOLDER,
    DEFAULT_WORKFLOW,
    already_begun,
    configuration,
    print_progress,
    recall,
    remember,
    report_repeats,
    resume_command,
    settings_of,
    show_evaluation,
)
from assay.errors import count
from assay.files.atomic import atomic_write, make_folder
from assay.files.inputs import Source
from assay.records.evaluation import VersionedName
from assay.records.evidence import Workflow as Subject
from assay.views.exporters import FORMATS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from assay.judging.config import JudgeSpec
    from assay.running.runner import SampleWork
    from assay.running.scorers import PlacedScorer
    from assay.running.workflow import LoadedWorkflow
    from assay.services.selection import WorkflowPlan


def run(options: Options) -> int:
    """Run the verb."""
    asked = recall(options)
    options = asked.options
    pass_bar(options)  # a slip in it must not cost a run
    sinks = opt.outputs(options)
    from assay.cli.preflight import check_endpoints
    from assay.cli.run_profile import extend_profile, graded_by
    from assay.cli.run_samples import choose
    from assay.cli.run_work import JudgedLines, RunWork
    from assay.project.settings import scorers_of
    from assay.running.adapters.loading import exits_as_errors
    from assay.running.columns import column_uses, columns_text
    from assay.running.compatibility import prepare
    from assay.running.dataset import read_dataset
    from assay.running.journal import Header, RunJournal
    from assay.running.post_run import all_scorers
    from assay.running.runner import work_of
    from assay.running.workflow import read_workflow
    from assay.services.evaluations import check_name
    from assay.services.storing import EvaluationBuilder

    exits_as_errors()
    workflow = read_workflow(options.workflow)
    settings = settings_of(options, workflow)
    dataset = read_dataset(options.dataset)
    all_samples = prepare(workflow, dataset)
    samples, only, chosen = choose(options, dataset, all_samples, asked.chosen)
    work = work_of(samples, settings)
    planned = plan_of(options, workflow)
    spec = judge_of(options)
    check_name(settings.name)
    folder = options.work or os.path.join(DEFAULT_FOLDER, settings.name)
    path = os.path.join(folder, "journal.jsonl")
    # old judge answers are older than a new evaluation, and a card counts from when that started
    begun = any(os.path.exists(place) for place in (path, os.path.join(folder, JOURNAL)))
    if begun and not options.resume:
        raise already_begun(options, folder)
    scorers = [] if options.config is None else scorers_of(options.config)
    own = extend_profile(planned.profile, workflow, samples, folder, scorers)
    if own is not None:
        options = graded_by(options, own.path, workflow)
        planned = plan_of(options, workflow)
    if options.profile is not None:
        workflow.profile = planned.profile.id
    why = _profile_why(options, workflow, planned)
    if own is not None:
        why = f"profile {own.profile.id} (plus your scorers and assertions)"
    print_progress(
        f"{workflow.id}@{workflow.version} on {dataset.id}@{dataset.version}:"
        f" {count(len(work), 'run')}, {why}; work folder {folder}"
    )
    print_progress(f"columns: {columns_text(column_uses(workflow, dataset))}")
    judge = _prepared(options, workflow, planned, work, spec, all_scorers(workflow, scorers))
    check_endpoints(workflow, None if judge is None else judge.spec)
    evidence = os.path.join(folder, "runs.jsonl")
    options = options.with_values(files=[Source(evidence, evidence)], output=sinks)
    doing = RunWork(options, workflow, dataset, settings, work, judge, scorers, planned.criteria)
    builder = EvaluationBuilder(
        name=settings.name,
        workflow=VersionedName(id=workflow.id, version=workflow.version),
        dataset=VersionedName(id=dataset.id, version=dataset.version),
        settings=configuration(asked, options, workflow, dataset, settings, planned, judge),
        started=asked.started,
        only=only,
    )
    if not options.resume:
        make_folder(folder)
        # before the journal: a journal is never without the settings to resume by
        remember(asked, settings, folder, chosen)
    grading = Grading(
        options,
        builder=builder,
        show=lambda made: show_evaluation(options, doing, made, folder, stored=grading.stored),
    )
    header = Header.of(workflow, dataset, settings, all_scorers(workflow, scorers))
    with grading, closing(JudgedLines()) as lines, RunJournal(path, header, workflow) as journal:
        if len(journal):
            print_progress(f"{len(journal):,} already finished; not repeated")
        try:
            graded = doing.execute(journal, lines, grading, folder)
        except KeyboardInterrupt:
            judged = f", {doing.judged:,} of them judged," if judge is not None else ""
            print_progress(
                f"{len(journal):,} of {len(work):,} runs are finished{judged} and kept;"
                f" `{resume_command(options, folder)}` continues"
            )
            raise
        with atomic_write(evidence) as stream:
            for line in doing.evidence():
                stream.write(line + b"\n")
        if doing.judging is not None:
            report(doing.judging)
        for sentence in doing.scorer_warnings(planned.profile, all_scorers(workflow, scorers)):
            opt.warn(sentence)
        wanted = len(all_samples) if chosen is None else len(chosen)
        if left_out := wanted - len(samples):
            opt.warn(
                f"--limit left out {left_out:,} of {count(wanted, 'sample')}, so the result doesn't"
                " cover them."
            )
        code = grading.finish(graded, finished=opt.moment(settings.now) or datetime.now(UTC))
    if settings.repeat > 1:
        report_repeats(options, doing, folder)
    return code


def _profile_why(options: Options, workflow: LoadedWorkflow, planned: WorkflowPlan) -> str:
    if options.profile is None:
        return workflow.profile_why
    source = options.sources.get("profile", "command line")
    return f"profile {planned.profile.id} from {source.replace('command', 'the command')}"


def plan_of(options: Options, workflow: LoadedWorkflow) -> WorkflowPlan:
    """Find profile, policy and rubric before anything runs: a typo in a name must not waste a night
    of calls.
    """
    return choice_of(options).grader().plan_for(Subject(**workflow.subject()))


def _prepared(
    options: Options,
    workflow: LoadedWorkflow,
    planned: WorkflowPlan,
    work: Sequence[SampleWork],
    spec: JudgeSpec | None,
    scorers: Sequence[PlacedScorer],
) -> RunJudge | None:
    """Print the cost of judging and what nothing can fill; return the judge if it is needed."""
    from assay.cli.preflight import sources_of, warnings_of
    from assay.running.columns import unread_expected
    from assay.running.judge_step import estimate, task_of
    from assay.running.post_run import idle_scorers
    from assay.scoring.sources import expected_names

    judging = spec is not None and not options.no_judge
    # with what a rubric adds: the judge has to score it, or every run would lack it
    profile = structs.replace(planned.profile, criteria=list(planned.criteria))
    sources, with_judge = (
        sources_of(profile, workflow, work, scorers, judge=judge, rubric=planned.rubric)
        for judge in (judging, True)
    )
    task = task_of(with_judge, planned.rubric)
    for sentence in (
        *idle_scorers(planned.profile, scorers),
        *unread_expected(
            workflow,
            (item.sample.expected for item in work),
            read=expected_names(planned.profile),
            scored=bool(scorers),
        ),
        *warnings_of(sources, scored=bool(scorers)),
    ):
        if spec is not None and not judging:
            sentence = sentence.replace("none is configured", "--no-judge skips it")
        opt.warn(sentence)
    if not task:
        if judging and spec is not None:
            print_progress(
                f"judge {spec.judge}: nothing to judge; {planned.profile.id} needs no judge"
            )
        return None
    inputs = [item.sample.inputs for item in work]
    takes = calls_of(estimate(task, spec, inputs, runs=len(work)), task, spec)
    if judging and spec is not None:
        print_progress(f"judge {spec.judge} ({spec.model}): {takes}")
        return RunJudge(spec, task, options.max_calls)
    missing = f"{task.needed_for} will be missing"
    if scorers:  # what they return is known once they have run
        missing += " unless a scorer returns them"
    if spec is not None:
        print_progress(f"not judging: {missing}. {spec.judge} would take {takes}.")
    else:
        print_progress(
            f"no judge: {missing}. Name a judge with --judge FILE, or `judge:` in assay.yaml. It"
            f" would take {takes}."
        )
    return None


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
            *ARGUMENTS,
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
