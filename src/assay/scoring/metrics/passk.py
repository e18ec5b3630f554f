"""pass@k and pass^k: the chance that at least one of k attempts succeeds, and that all do.

Both are exact: a fraction of binomial coefficients for each task, and their mean over tasks. A k
above some task's number of attempts has no estimate, and is null with the reason; leaving such
tasks out would compare different sets of tasks under one name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from fractions import Fraction
from math import comb
from typing import Any, NamedTuple

from assay.errors import FaultList, NotEnoughEvidence, UsageError, count
from assay.files.json_files import Document, Unread

MAX_ATTEMPTS = 20_000
"""Attempts at one task. The coefficients for more have too many digits to compute."""


class AttemptedTask(NamedTuple):
    """A task, its number of attempts, and how many of them passed."""

    task_id: str
    n: int
    c: int


class Means(NamedTuple):
    """Both estimates for one k, averaged over tasks; None, with the reason, if some task has fewer
    attempts.
    """

    k: int
    pass_at: Fraction | None
    pass_hat: Fraction | None
    reason: str


def mean_pass(tasks: Sequence[AttemptedTask], k: int) -> Means:
    """The mean of pass@k and of pass^k over tasks; each task counts the same, however often it was
    attempted.

    Of n attempts, c passed: pass@k is 1 - C(n-c, k) / C(n, k), the chance that at least one of k
    attempts drawn without replacement passes; it rises with k. pass^k is C(c, k) / C(n, k), the
    chance that all of them pass; it falls with k.

    >>> mean_pass([AttemptedTask("a", 2, 1), AttemptedTask("b", 4, 4)], 2).pass_at
    Fraction(1, 1)
    >>> mean_pass([AttemptedTask("a", 2, 1), AttemptedTask("b", 4, 4)], 3).reason
    "task 'a' has 2 attempts, fewer than 3"

    Source: Chen et al., Evaluating Large Language Models Trained on Code, 2021 (HumanEval), the
    unbiased estimator; Yao et al., tau-bench, 2024.
    """
    if not tasks:
        raise NotEnoughEvidence("SCO-033", "there is no task to average over.")
    short = [task for task in tasks if task.n < k]
    if short:
        more = f" (and {count(len(short) - 1, 'more task')})" if len(short) > 1 else ""
        reason = f"task '{short[0].task_id}' has {short[0].n} attempts, fewer than {k}{more}"
        return Means(k, None, None, reason)
    missed = solved = Fraction(0)
    groups: dict[int, Counter[int]] = {}
    for task in tasks:
        groups.setdefault(task.n, Counter())[task.c] += 1
    # tasks with the same number of attempts share a denominator: one fraction for each n
    for n, counts in groups.items():
        ways = comb(n, k)
        missed += Fraction(sum(comb(n - c, k) * count for c, count in counts.items()), ways)
        solved += Fraction(sum(comb(c, k) * count for c, count in counts.items()), ways)
    return Means(k, 1 - missed / len(tasks), solved / len(tasks), "")


def report(tasks: Sequence[AttemptedTask], ks: Iterable[int]) -> dict[str, Any]:
    """The JSON form of `assay measure pass-at-k`: a value for each k, null with its reason under
    `reasons` if there is none.
    """
    values: dict[str, float | None] = {}
    reasons: dict[str, str] = {}
    for k in dict.fromkeys(ks):
        if type(k) is not int or k < 1:
            raise UsageError("SCO-033", f"k is {k!r}; it must be a whole number of 1 or more.")
        means = mean_pass(tasks, k)
        for name, value in ((f"pass@{k}", means.pass_at), (f"pass^{k}", means.pass_hat)):
            values[name] = None if value is None else float(value)
            if value is None:
                reasons[name] = means.reason
    return {**values, "tasks": len(tasks), **({"reasons": reasons} if reasons else {})}


# --- reading


def read_tasks(documents: Iterable[Document | Unread], *, where: str = "") -> list[AttemptedTask]:
    """Tasks from lines `{"task_id", "n", "c"}`, one for each task, or `{"task_id", "passed"}`, one
    for each attempt; other keys are ignored.

    A task must use one of the two forms. Every fault is reported with its line.
    """
    counted: dict[str, AttemptedTask] = {}
    attempts: dict[str, list[int]] = {}
    faults = FaultList(where, code="SCO-033")
    for document in documents:
        if isinstance(document, Unread):
            faults.take(document.fault)
            continue
        message = _take(document.tree, counted, attempts)
        if message:
            faults.add(message, line=document.line, path=document.at, file=document.file)
    faults.raise_if_any()
    tasks = [*counted.values(), *(AttemptedTask(name, n, c) for name, (n, c) in attempts.items())]
    if not tasks:
        raise NotEnoughEvidence("SCO-033", "there are no tasks in the file.", where=where)
    return tasks


def _take(tree: Any, counted: dict[str, AttemptedTask], attempts: dict[str, list[int]]) -> str:
    """Take one line. Returns what is wrong with it, or an empty text."""
    if not isinstance(tree, dict):
        return 'must be an object {"task_id", "n", "c"} or {"task_id", "passed"}.'
    name = tree.get("task_id")
    if type(name) is int:
        name = str(name)
    if not isinstance(name, str) or not name:
        return "`task_id` must be a string or a whole number."
    by_count = "n" in tree or "c" in tree
    if by_count and "passed" in tree:
        return f"task '{name}': give `n` and `c`, or `passed` of one attempt, not both."
    if name in counted or (by_count and name in attempts):
        return (
            f"task '{name}' was counted before: a second count, or an attempt next to a count, "
            "would make it count twice."
        )
    if by_count:
        n, c = tree.get("n"), tree.get("c")
        if type(n) is not int or type(c) is not int:
            return f"task '{name}': `n` and `c` must be whole numbers."
        if not 1 <= n <= MAX_ATTEMPTS:
            return f"task '{name}': `n` is {n}; it must be from 1 to {MAX_ATTEMPTS:,}."
        if not 0 <= c <= n:
            return f"task '{name}': `c` is {c}, of {n} attempts."
        counted[name] = AttemptedTask(name, n, c)
        return ""
    passed = tree.get("passed")
    if passed is not True and passed is not False:
        # null is an attempt that nobody checked: it can't count as a success or as a failure
        return (
            f"task '{name}': `passed` must be true or false, not"
            f" {'missing' if 'passed' not in tree else 'null' if passed is None else 'something else'}."  # noqa: E501
        )
    tally = attempts.setdefault(name, [0, 0])
    if tally[0] == MAX_ATTEMPTS:
        return f"task '{name}' has more than {MAX_ATTEMPTS:,} attempts."
    tally[0] += 1
    tally[1] += passed
    return ""
