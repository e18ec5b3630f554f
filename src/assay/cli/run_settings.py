"""The settings of `assay run`, stored in `run.json` of its work folder, so that `--resume DIR`
needs nothing else.
"""

from __future__ import annotations

import os
import re
from datetime import UTC, datetime
from itertools import chain
from typing import TYPE_CHECKING, Any

from assay.cli import options as opt
from assay.errors import UsageError
from assay.files.atomic import write_file
from assay.files.json_files import read_json
from assay.records.grade import ENGINE
from assay.views.documents import pretty

if TYPE_CHECKING:
    import argparse

    from assay.cli.run_judge import RunJudge
    from assay.pipeline.selection import WorkflowPlan
    from assay.running.dataset import LoadedDataset
    from assay.running.runner import RunSettings
    from assay.running.workflow import LoadedWorkflow

DEFAULT_FOLDER = "assay-runs"
DEFAULT_WORKFLOW = "workflow.yaml"
_REMEMBERED = (
    "workflow",
    "dataset",
    "repeat",
    "limit",
    "timeout",
    "retries",
    "profile",
    "policy",
    "rubric",
    "library",
    "judge_card",
    "store",
    "no_store",
    "project",
)
_ANEW = (("judge", "no_judge", "max_usd", "max_calls"), ("min_pass_rate", "confidence"))
"""Options that may be given again when a run is resumed, each group as a whole."""


def remember(options: argparse.Namespace, settings: RunSettings, folder: str) -> None:
    """Store the settings, so that `--resume DIR` needs nothing else."""
    asked: dict[str, Any] = options.asked
    paths = {
        name: os.path.abspath(asked[name])
        for name in ("workflow", "dataset", "judge")
        if asked[name]
    }
    settings_ = {
        "schema": "assay.run-settings/1",
        "name": settings.name,
        "now": settings.now,
        "started": options.started.isoformat(),
        **asked,
        **paths,
    }
    write_file(os.path.join(folder, "run.json"), pretty(settings_))


def recall(options: argparse.Namespace) -> None:
    """Fill in the stored settings of the resumed run, and the defaults."""
    options.started = opt.moment(options.now) or datetime.now(UTC)
    if options.resume:
        if options.work or options.name:
            raise UsageError(
                "CLI-001",
                "--resume names the folder of the run; --work and --name are for new runs.",
            )
        tree = read_json(os.path.join(options.resume, "run.json")).tree
        if not isinstance(tree, dict) or tree.get("schema") != "assay.run-settings/1":
            raise UsageError("RUN-005", "is not the work folder of a run.", where=options.resume)
        options.work, options.name = options.resume, tree.get("name")
        options.now = tree.get("now") or options.now
        options.workflow = options.workflow or tree.get("workflow")
        options.dataset = options.dataset or tree.get("dataset")
        options.started = datetime.fromisoformat(tree.get("started") or options.started.isoformat())
        for name in _REMEMBERED[2:]:
            setattr(options, name, tree.get(name, getattr(options, name)))
        for group in _ANEW:
            for name in () if any(is_typed(options, name) for name in group) else group:
                setattr(options, name, tree.get(name, getattr(options, name)))
    options.workflow = options.workflow or DEFAULT_WORKFLOW
    if not options.dataset:
        raise UsageError(
            "CLI-001",
            "--dataset is missing.",
            fix="Give the samples, for example --dataset samples.jsonl.",
        )
    # before scorers and assertions extend the profile: they do so again when the run goes on
    options.asked = {name: getattr(options, name) for name in chain(_REMEMBERED, *_ANEW)}


def is_typed(options: argparse.Namespace, name: str) -> bool:
    """Whether an option without a default is on the command line."""
    sources = getattr(options, "sources", None)
    return sources[name] == "command line" if sources else bool(getattr(options, name))


def configuration(
    options: argparse.Namespace,
    workflow: LoadedWorkflow,
    dataset: LoadedDataset,
    settings: RunSettings,
    planned: WorkflowPlan,
    judge: RunJudge | None,
) -> dict[str, Any]:
    """Everything that made the runs of an evaluation and their grades."""
    from assay.judging.identity import rubric_name

    plan = planned.plan
    return {
        "workflow": workflow.digest,
        "dataset": dataset.digest,
        "profile": options.asked["profile"],
        "policy": options.policy,
        "rubric": options.asked["rubric"],
        "own_profile": _own_profile(options, planned),
        **_project_profile(options, planned),
        "scored_by": {
            "profile": plan.profile.id,
            "rubric": None if planned.rubric is None else rubric_name(planned.rubric),
            "digests": plan.digests,
        },
        "judge": None if judge is None else {"name": judge.spec.judge, **judge.spec.identity()},
        "judge_cards": list(options.judge_card),
        "repeats": settings.repeat,
        "limits": {
            "timeout_s": settings.timeout_s,
            "retries": settings.retries,
            "samples": options.limit,
        },
        **ENGINE,
    }


def _own_profile(options: argparse.Namespace, planned: WorkflowPlan) -> dict[str, Any] | None:
    """The profile with what scorers and assertions added, whole: no shelf has it."""
    if "+" not in str(planned.profile.version):
        return None
    return {"profile": planned.profile, "rubric": options.rubric}


def _project_profile(options: argparse.Namespace, planned: WorkflowPlan) -> dict[str, Any]:
    """The profile of a project's own file, whole: it can change, and its grades must replay."""
    shelf = (entry.id for entry in opt.shelf_of(options).entries("profiles"))
    is_own = "+" in str(planned.profile.version)
    return {} if is_own or planned.profile.id in shelf else {"project_profile": planned.profile}


def settings_of(options: argparse.Namespace, workflow: LoadedWorkflow) -> RunSettings:
    """The settings of a run, checked."""
    from assay.running.runner import RunSettings

    for name, least in (("concurrency", 1), ("repeat", 1), ("retries", 0), ("limit", 1)):
        value = getattr(options, name)
        if value is not None and (value < least or value > 100_000):
            raise UsageError(
                "CLI-001",
                f"--{name} is {value}; it must be a whole number from {least} to 100,000.",
            )
    if options.timeout is not None and not 0 < float(options.timeout) < 1e7:
        raise UsageError("CLI-001", f"--timeout is {options.timeout}; it must be above 0 seconds.")
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
    fixed = None if now is None else now.strftime("%Y-%m-%dT%H:%M:%SZ")
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
    return next(one for one in tries if not os.path.exists(os.path.join(DEFAULT_FOLDER, one)))


def _stamp(now: datetime | None) -> str:
    return (now or datetime.now(UTC)).strftime("%Y%m%dT%H%M%SZ")
