"""`assay gate --confirm`: fresh runs of both versions, by the workflows of assay.yaml, or for the
baseline by those of an earlier commit, in a git worktree that is made for it and removed.

Each fresh run is an `assay run` of one sample, in its own process: a workflow of another
commit can't share one with this one. What was run is kept in `.assay/confirm`, so that a
confirmation that was killed goes on where it stopped.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from assay.canon import digest
from assay.cli import options as opt
from assay.cli.progress import Progress
from assay.errors import NotEnoughEvidence, UsageError, count, few
from assay.files.json_files import parse_json, read_documents
from assay.files.line_log import LineLog, LogErrors, LogPlace
from assay.project.config import Config, read_config
from assay.running.workflow import read_workflow
from assay.services.compare import compare
from assay.services.confirm import Confirmation, Confirmed, FreshRun, needed_runs

if TYPE_CHECKING:
    from assay.cli.parsing import Options
    from assay.release.policy import ReleaseRules
    from assay.services.compare import Asked, ReadSide
    from assay.services.grading import Grader

FOLDER = os.path.join(".assay", "confirm")
ERROR_LINES = 3


class RunnableSide(NamedTuple):
    """A version that can be run here."""

    workflow: str | None
    """Its name in assay.yaml; None for the only one."""
    config: str
    version: str
    """For the names of its runs."""
    trust: bool


def confirm(
    options: Options,
    sides: tuple[ReadSide, ReadSide],
    rules: ReleaseRules,
    grader: Grader,
    asked: Asked,
) -> Confirmed | None:
    """The decision after fresh runs; None if it needs none."""
    first = compare(*sides, rules, grader, asked)
    needed = needed_runs(first, rules)
    samples = sorted({*needed.suspects, *needed.severe})
    if not samples or first.outcome == "reject":
        return None
    with ExitStack() as stack:
        runnable = {
            "candidate": _runnable(options, sides[0], "candidate", None),
            "baseline": _baseline(options, sides[1], stack),
        }
        key = [sides[0].side.digests["evidence"], sides[1].side.digests["evidence"], rules.digest]
        name = digest(key).removeprefix("sha256:")[:16]
        log = LineLog(os.path.join(FOLDER, f"{name}.log"), LogErrors("REL-007"))
        places: list[LogPlace] = []
        log.open(lambda _tree, place, _line: places.append(place))
        stack.callback(log.close)
        kept = [FreshRun(**parse_json(log.raw(place))) for place in places]
        opt.note(_cost(needed.most, samples, sides))
        if kept:
            opt.note(f"{count(len(kept), 'fresh run')} of an earlier confirmation are used again.")
        progress = Progress(2 * needed.most, "fresh runs", unit="runs")

        def make(side: str, sample: str, attempt: int) -> dict[str, Any]:
            tree = _run(runnable[side], sample, attempt)
            progress.add(1)
            return tree

        def keep(run: FreshRun) -> None:
            log.append(run._asdict())

        try:
            return Confirmation(sides, rules, grader, asked, make=make, keep=keep, kept=kept).run()
        finally:
            progress.end()


def _cost(most: int, samples: list[str], sides: tuple[ReadSide, ReadSide]) -> str:
    """What a confirmation may take, before it starts."""
    what = (
        f"confirming {count(len(samples), 'sample')} by fresh runs: at most {most:,} of each side"
    )
    spent = [
        cost
        for side in sides
        for sample in side.side.samples.values()
        for run in sample.attempts
        if (cost := run.use("cost_usd")) is not None
    ]
    if spent:
        what += f", about ${2 * most * sum(spent) / len(spent):.2f}"
    return f"{what}; most suspects need one or two. ({few(samples, 5)})"


# --- where a version runs


def _runnable(options: Options, side: ReadSide, name: str, folder: str | None) -> RunnableSide:
    """The workflow in assay.yaml that a side was run by; of another folder if one is given."""
    path = _config_in(options, folder)
    if path is None:
        raise UsageError(
            "CLI-001",
            "--confirm runs workflows of assay.yaml, and there is none"
            f" {'here or above' if folder is None else 'in that commit'}.",
            fix="Give fresh runs with --fresh and --fresh-baseline.",
        )
    versions = {
        (workflow, version) for workflow, known in side.side.versions.items() for version in known
    }
    if len(versions) != 1:
        raise UsageError(
            "CLI-001",
            f"the {name} has runs of {count(len(versions), 'version')}, so it can't be run again.",
            fix="Give fresh runs with --fresh and --fresh-baseline.",
        )
    ((workflow, version),) = versions
    for known, reference in _workflows(read_config(path)):
        loaded = read_workflow(reference)
        if (loaded.id, loaded.version) == (workflow, version):
            trust = options.config is not None and options.config.trust
            return RunnableSide(known, path, f"{workflow}-{version}", trust)
    raise UsageError(
        "CLI-001",
        f"no workflow in {path} is {workflow} {version}, the version of the {name}.",
        fix="Name the commit that has it with --baseline-commit REV."
        if name == "baseline"
        else "Give fresh runs with --fresh and --fresh-baseline.",
    )


def _config_in(options: Options, folder: str | None) -> str | None:
    """The assay.yaml of this command, or the same file in another checkout."""
    if options.config is None:
        return None
    own = os.path.abspath(options.config.path)
    if folder is None:
        return own
    top = _git("rev-parse", "--show-toplevel").strip()
    path = os.path.join(folder, os.path.relpath(os.path.realpath(own), os.path.realpath(top)))
    return path if os.path.exists(path) else None


def _workflows(config: Config) -> Iterator[tuple[str | None, str]]:
    """Each workflow of an assay.yaml, and how it is referred to."""
    named = config.named("workflow")
    yield from named.items()
    chosen = config.chosen("workflow")
    if chosen is not None and chosen not in named.values():
        yield None, chosen


def _baseline(options: Options, side: ReadSide, stack: ExitStack) -> RunnableSide:
    """Where the baseline runs: here, or in a worktree of the commit that the options name."""
    if not options.baseline_commit:
        return _runnable(options, side, "baseline", None)
    folder = stack.enter_context(worktree(options.baseline_commit))
    return _runnable(options, side, "baseline", folder)


@contextmanager
def worktree(revision: str) -> Iterator[str]:
    """A git worktree of a commit, which is removed at the end."""
    commit = _git("rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}").strip()
    if not commit:
        raise UsageError("CLI-001", f"there is no commit '{revision}' in this repository.")
    parent = tempfile.mkdtemp(prefix="assay-baseline-")
    folder = os.path.join(parent, "tree")
    try:
        _git("worktree", "add", "--detach", folder, commit)
        yield folder
    finally:
        _git("worktree", "remove", "--force", folder)
        shutil.rmtree(parent, ignore_errors=True)


def _git(*words: str) -> str:
    """What git prints; empty where it fails."""
    command = ["git", *words]
    made = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    return made.stdout if made.returncode == 0 else ""


def _run(side: RunnableSide, sample: str, attempt: int) -> dict[str, Any]:
    """One run of one sample."""
    short = sample.partition("/")[2] or sample
    with tempfile.TemporaryDirectory(prefix="assay-fresh-") as work:
        chosen, runs = Path(work, "only.txt"), os.path.join(work, "fresh")
        chosen.write_text(f"{short}\n", encoding="utf-8")
        words = [sys.executable, "-P", "-m", "assay", "run"]
        words += [side.workflow] if side.workflow is not None else []
        words += ["--config", side.config, *(["--trust"] if side.trust else [])]
        words += ["--only", str(chosen), "--work", runs, "--no-store"]
        words += ["--name", f"fresh-{side.version}-{attempt}"]
        made = subprocess.run(  # noqa: S603
            words, cwd=os.path.dirname(side.config), capture_output=True, text=True, check=False
        )
        path = os.path.join(runs, "runs.jsonl")
        documents = list(read_documents(path)) if os.path.exists(path) else []
        if len(documents) != 1 or not isinstance(documents[0].tree, dict):
            said = [line for line in made.stderr.splitlines() if line.strip()][-ERROR_LINES:]
            raise NotEnoughEvidence(
                "REL-003",
                f"{sample} could not be run again: {' '.join(said) or 'nothing was written'}",
                where=side.config,
                fix="What was confirmed so far is kept; run the same command again when it works.",
            )
        tree: dict[str, Any] = documents[0].tree
        return tree
