"""The settings of `assay run`, stored in `run.json` of its work folder, so that `--resume DIR`
needs nothing else; and how a run is resumed.
"""

from __future__ import annotations

import os
import re
import sys
from datetime import UTC, datetime
from itertools import chain
from typing import TYPE_CHECKING, Any

from assay.canon import pretty, time_text
from assay.cli import options as opt
from assay.cli.hints import command
from assay.errors import UsageError, printable
from assay.files.atomic import write_file
from assay.files.json_files import read_json

if TYPE_CHECKING:
    from assay.cli.parsing import Options
    from assay.running.runner import RunSettings
    from assay.running.workflow import LoadedWorkflow


DEFAULT_FOLDER = "assay-runs"

DEFAULT_WORKFLOW = "workflow.yaml"

_REMEMBERED = (
    "workflow",
    "dataset",
    "repeat",
    "limit",
    "only",
    "failed_in",
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

_STANDARD = {"repeat": 1, "policy": "workflow", "project": "default"}
"""The defaults of those that have one."""

_ANEW = (("judge", "no_judge", "max_usd", "max_calls"), ("min_pass_rate", "confidence"))

"""Options that may be given again when a run is resumed, each group as a whole."""


def remember(options: Options, settings: RunSettings, folder: str) -> None:
    """Store the settings, so that `--resume DIR` needs nothing else."""
    given: dict[str, Any] = options.asked
    paths = {
        name: os.path.abspath(given[name])
        for name in ("workflow", "dataset", "judge")
        if given[name]
    }
    settings_ = {
        "schema": "assay.run-settings/1",
        "name": settings.name,
        "now": settings.now,
        "started": options.started.isoformat(),
        "chosen": options.chosen,
        **given,
        **paths,
    }
    write_file(os.path.join(folder, "run.json"), pretty(settings_))


def recall(options: Options) -> None:
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
        options.chosen = tree.get("chosen")
        options.started = datetime.fromisoformat(tree.get("started") or options.started.isoformat())
        for name in _REMEMBERED[2:]:
            begun_with = tree.get(name, getattr(options, name))
            _refuse_change(options, name, begun_with)
            setattr(options, name, begun_with)
        for group in _ANEW:
            for name in () if any(is_typed(options, name) for name in group) else group:
                setattr(options, name, tree.get(name, getattr(options, name)))
    if not options.workflow and options.dataset and not os.path.exists(DEFAULT_WORKFLOW):
        raise UsageError(
            "CLI-001",
            "no workflow is named, and there is no workflow.yaml here.",
            fix="`assay init` writes an assay.yaml that names it, or give its file: `assay run"
            " FILE`.",
        )
    options.workflow = options.workflow or DEFAULT_WORKFLOW
    if not options.dataset:
        raise UsageError(
            "CLI-001",
            "--dataset is missing.",
            fix="`assay init` writes an assay.yaml that names it, or give the samples: --dataset"
            " samples.jsonl.",
        )
    # before scorers and assertions extend the profile: they do so again when the run goes on
    options.asked = {name: getattr(options, name) for name in chain(_REMEMBERED, *_ANEW)}


def _refuse_change(options: Options, name: str, begun_with: Any) -> None:
    """Refuse an option that a resumed run ignores: its grades would not be by what was asked."""
    if is_typed(options, name) and str(getattr(options, name)) != str(begun_with):
        option = f"--{name.replace('_', '-')}"
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
    return bool(value) and value != _STANDARD.get(name)


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
