"""Timing commands and functions side by side: interleaved, so that a busy machine slows all alike,
and reported as ratios.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence

ENVIRONMENT = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}


def commands(contenders: dict[str, Sequence[str]], *, rounds: int) -> dict[str, float]:
    """The median CPU time of each command and what it starts, in seconds."""
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for turn in range(rounds + 1):
        for name, command in contenders.items():
            nothing = subprocess.DEVNULL
            process = subprocess.Popen(command, env=ENVIRONMENT, stdout=nothing, stderr=nothing)
            _, _, usage = os.wait4(process.pid, 0)
            if turn:  # the first round fills the caches
                times[name].append(usage.ru_utime + usage.ru_stime)
    return {name: statistics.median(found) for name, found in times.items()}


def functions(
    contenders: dict[str, Callable[[], object]], *, calls: int, rounds: int
) -> dict[str, float]:
    """The best time of one call of each function, in seconds: over many rounds the best is the
    least disturbed.
    """
    best = dict.fromkeys(contenders, float("inf"))
    for _ in range(rounds):
        for name, function in contenders.items():
            started = time.perf_counter()
            for _ in range(calls):
                function()
            best[name] = min(best[name], (time.perf_counter() - started) / calls)
    return best


def table(
    title: str, times: dict[str, float], *, base: str, limits: dict[str, float], unit: str = "ms"
) -> bool:
    """Print a Markdown table of ratios; say whether every limit holds."""
    factor = {"ms": 1e3, "us": 1e6, "s": 1}[unit]
    print(f"\n{title}\n\n| what | {unit} | times {base} | limit | |\n|---|---:|---:|---:|---|")
    good = True
    for name, seconds in times.items():
        ratio = seconds / times[base]
        limit = limits.get(name)
        holds = limit is None or ratio <= limit
        good = good and holds
        verdict = "" if limit is None else "holds" if holds else "OVER"
        print(
            f"| {name} | {seconds * factor:.2f} | {ratio:.2f} | {'' if limit is None else limit} |"
            f" {verdict} |"
        )
    sys.stdout.flush()
    return good
