"""2,000 judge calls of 50 ms at 64 in flight: Assay with journal, limiter and schema check on,
against a bare aiohttp loop, in one run.

The ideal wall time is 2000 x 50 ms / 64. What is shown is the difference to a second run that
answers everything from the journal, so that start, reading and writing are taken off (and loading
aiohttp, which a run without calls does not), and they are shown beside it. The server is a process
of its own.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "support"))
from servers.scripted_judge import scripted_judge

N, AT_ONCE, LATENCY_S = 2000, 64, 0.05
LOOP = """
import asyncio, json, sys
import aiohttp
url, path = sys.argv[1:]
items = [json.loads(line) for line in open(path)]
async def main():
    it = iter(items)
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=64)) as session:
        async def worker():
            for item in it:
                body = {"model": "m", "messages": [{"role": "user", "content": item["input"] + item["output"] * 3}], "temperature": 0}
                async with session.post(url + "/chat/completions", json=body) as reply:
                    json.loads(await reply.read())["choices"][0]["message"]["content"]
        await asyncio.gather(*(worker() for _ in range(64)))
asyncio.run(main())
"""


def timed(command: list[str]) -> tuple[float, float]:
    """Wall and CPU seconds of a command."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": ""},
    )
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise SystemExit(f"{command[:4]} ended with {done.returncode}: {done.stderr[-500:]}")
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    """Measure, and print the ratios."""
    ideal = N * LATENCY_S / AT_ONCE
    with (
        tempfile.TemporaryDirectory() as folder,
        scripted_judge(own_process=True, latency_s=LATENCY_S, record=False) as judge,
    ):
        items = os.path.join(folder, "items.jsonl")
        with open(items, "w", encoding="utf-8") as stream:
            for index in range(N):
                text = f"Thirty days from delivery, quality=0.9 {'and so on ' * 20}"
                stream.write(
                    json.dumps(
                        {
                            "id": str(index),
                            "input": f"Question {index}: what is the refund window?",
                            "output": text,
                        }
                    )
                    + "\n"
                )
        assay = [
            sys.executable,
            "-m",
            "assay",
            "judge",
            "rubric",
            items,
            "--rubric",
            "code-repair",
            "--model",
            "m",
            "--base-url",
            judge.url,
        ]
        assay += [
            "--concurrency",
            str(AT_ONCE),
            "--journal",
            os.path.join(folder, "journal"),
            "-o",
            os.path.join(folder, "out.json"),
        ]
        timed([*assay[:-4], "--journal", os.path.join(folder, "warm"), "--dry-run"])
        wall, cpu = timed(assay)
        idle_wall, idle_cpu = timed(assay)
        loop_wall, loop_cpu = timed([sys.executable, "-c", LOOP, judge.url, items])
        start_wall, start_cpu = timed([sys.executable, "-c", "import aiohttp"])
        bare_wall, bare_cpu = timed([sys.executable, "-c", "pass"])
        calls = judge.stats().requests
    print(
        f"judge calls: {N:,} of {LATENCY_S * 1000:.0f} ms, {AT_ONCE} in flight; the ideal is"
        f" {ideal:.2f} s; the server saw {calls:,} requests"
    )
    rows = (
        (
            "assay judge rubric",
            wall - idle_wall - (start_wall - bare_wall),
            (cpu - idle_cpu - (start_cpu - bare_cpu)) / N * 1000,
            wall,
        ),
        ("bare aiohttp loop", loop_wall - start_wall, (loop_cpu - start_cpu) / N * 1000, loop_wall),
    )
    for name, work, each, whole in rows:
        print(
            f"  {name:<20} {work / ideal:5.2f} x ideal   {each:5.2f} CPU s per 1,000 calls  "
            f" {whole:5.2f} s with start, reading and writing"
        )


if __name__ == "__main__":
    main()
