"""The settings of `assay run`, stored in `run.json` of its work folder, so that `--resume DIR`
needs nothing else; and how a run is resumed.
"""

from __future__ import annotations

import os
import re
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from assay.canon import pretty, time_text
from assay.cli import options as opt
from assay.cli.hints import command
from assay.errors import UsageError, printable
from assay.files.atomic import write_file
from assay.files.json_files import read_json

if TYPE_CHECKING:
    from collections.abc import Mapping

    from assay.cli.parsing import Options
    from assay.running.runner import RunSettings
    from assay.running.workflow import LoadedWorkflow


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
