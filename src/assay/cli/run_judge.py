"""The judge of `assay run`: which one it is, what it will cost, and the judging itself.

Paid answers go into `judge.journal` of the work folder, so that a resumed run asks only what has no
verdict yet.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NamedTuple

from assay.cli import options as opt
from assay.cli.frame import Bounds, Options, arg, flag
from assay.cli.progress import Progress
from assay.errors import count

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from assay.judging.client import Usage
    from assay.judging.config import JudgeSpec
    from assay.running.judge_step import JudgeEstimate, JudgeTask
    from assay.running.runner import SampleWork

JOURNAL = "judge.journal"
ARGUMENTS = (
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


class RunJudge(NamedTuple):
    """A judge, and what it is asked about every run."""

    spec: JudgeSpec
    task: JudgeTask
    max_calls: int | None


def judge_of(options: Options) -> JudgeSpec | None:
    """The judge that the options name; None if they name none."""
    if not options.judge:
        return None
    from msgspec import structs

    from assay.cli.judging import amount
    from assay.files.yaml_files import read_entry
    from assay.judging.config import check_spec, load_judge

    spec = load_judge(read_entry(options.judge, "judge"))
    if options.max_usd is not None:
        limits = structs.replace(spec.limits, max_usd=amount("--max-usd", str(options.max_usd)))
        spec = structs.replace(spec, limits=limits)
        check_spec(spec)
    return spec


def calls_of(estimate: JudgeEstimate, task: JudgeTask, spec: JudgeSpec | None) -> str:
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


async def judge_runs(
    judge: RunJudge,
    folder: str,
    work: Sequence[SampleWork],
    read: Callable[[str], dict[str, Any]],
    keep: Callable[[dict[str, Any]], None],
    *,
    again: bool,
) -> Judging:
    """Judge every run: `read` loads it, `keep` stores it; `again` retries unusable answers."""
    from assay.judging.client import Client, Journal
    from assay.judging.rubric_task import spread
    from assay.running.judge_step import JudgeStep

    progress = Progress(len(work), "judging", unit="runs")
    try:
        with Journal(os.path.join(folder, JOURNAL)) as journal:
            async with Client(judge.spec, journal, again=again) as client:
                step = JudgeStep(judge.task, client, max_calls=judge.max_calls)

                async def one(item: SampleWork) -> None:
                    keep(await step.judge(read(item.run_id)))
                    progress.add(1)

                await spread(one, work, width=step.width)
                down = "" if step.down is None else str(step.down)
                return Judging(
                    judge,
                    dict(step.counts),
                    step.missing,
                    step.first_fault,
                    down,
                    client.usage,
                )
    finally:
        progress.end()


def report(judging: Judging) -> None:
    """Print how judging went on standard error."""
    from assay.cli.judging import note_usage

    note_usage([judging.usage], judging.counts)
    for sentence in judging.sentences:
        opt.warn(sentence)
