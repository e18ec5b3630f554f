"""Rebuild the index of a grading tree: 1,000 namespaces with 20,000 entries, against reading the
same files with the standard library.

Prints the ratio to a bare scan (open, json.loads, keep the newest), the time per entry at a quarter
and at the full size (linear or not), and the peak memory of both sizes (flat or not).
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time

NAMESPACES, TOOLS = 1000, 17
ANSWER = {
    "weight": 1,
    "timestamp": "2026-05-30T10:15:00Z",
    "graderIdentity": {"kind": "script", "name": "http-check", "version": "1.0.0"},
    "determinism": "deterministic",
    "score": "pass",
    "questionId": "Q-single-test-01",
    "evidence": "HTTP 200",
}
JUDGED = {
    **ANSWER,
    "questionId": "Q-whenToUse",
    "determinism": "non-deterministic",
    "score": 4.5,
    "llmModel": "m",
    "graderIdentity": {"kind": "llm", "name": "grader", "version": "1"},
    "selectionContext": {"groupId": "single-test", "personaIds": ["neutral"]},
    "reasoning": "Clear and specific: it says what it returns and when not to use it.",
}


def entry(namespace: str, name: str, area: str, stamp: str) -> str:
    """One grading entry of the strict form."""
    return json.dumps(
        {
            "gradingId": f"326a19f8--{stamp}",
            "schemaId": f"{namespace}.{name}",
            "area": area,
            "version": "flowmcp/4.0.0",
            "schemaHash": "326a19f8",
            "gradingMode": "full",
            "gradingTier": "autonomous",
            "harness": "claude-code",
            "scoringSystem": "scoringSystem/1.0.0",
            "gradingSystem": "gradingSystem/1.0.0",
            "gradings": [ANSWER, JUDGED, {**JUDGED, "questionId": "Q-parameters", "score": 4.0}],
            "categoricalVeto": None,
            "aggregateGrade": "B",
            "maxAttainableGrade": "B",
        }
    )


def put(path: str, text: str) -> None:
    """Write a file and the folders above it."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as stream:
        stream.write(text)


def build(root: str, count: int) -> int:
    """A tree of so many namespaces; the number of its entries."""
    entries = 0
    for number in range(count):
        namespace = f"ns{number}"
        home = f"{root}/providers/{namespace}"
        put(f"{home}/main/main--2026-05-30T09-00-00Z--326a19f8.json", "{}")
        for tool in range(TOOLS):
            text = entry(namespace, f"tool{tool}", "single-test", "2026-05-30T10-15-00Z")
            put(
                f"{home}/main/tools/tool{tool}/_gradings/single-test--2026-05-30T10-15-00Z.json",
                text,
            )
            entries += 1
        for stamp in ("2026-05-30T10-15-00Z", "2026-05-31T10-15-00Z", "2026-06-01T10-15-00Z"):
            put(
                f"{home}/main/_gradings/tools-aggregate-schema--{stamp}.json",
                entry(namespace, "main", "tools-aggregate-schema", stamp),
            )
            entries += 1
    return entries


SCAN = """
import json, os, sys
newest = {}
for folder, _, files in os.walk(sys.argv[1]):
    if folder.endswith("_gradings"):
        for name in sorted(files):
            with open(os.path.join(folder, name), encoding="utf-8") as stream:
                newest[folder] = json.load(stream)["aggregateGrade"]
"""


def timed(command: list[str]) -> tuple[float, float]:
    """Seconds and peak MiB of one command."""
    before = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"{command} ended with {status}")
    return time.perf_counter() - before, usage.ru_maxrss / 1024


def main() -> None:
    """Build both trees and print the table."""
    with tempfile.TemporaryDirectory() as folder:
        rows = []
        for count in (NAMESPACES // 4, NAMESPACES):
            root = os.path.join(folder, str(count))
            entries = build(root, count)
            timed([sys.executable, "-c", SCAN, root])  # the files are in the page cache for both
            scan, _ = timed([sys.executable, "-c", SCAN, root])
            index, memory = timed([sys.executable, "-m", "assay", "tools", "index", "--data", root])
            again, _ = timed([sys.executable, "-m", "assay", "tools", "index", "--data", root])
            rows.append((count, entries, index, again, scan, memory))
        print("namespaces  entries  index s  again s  us/entry  bare scan s  ratio  peak MiB")
        for count, entries, index, again, scan, memory in rows:
            print(
                f"{count:>10}  {entries:>7}  {index:7.2f}  {again:7.2f} "
                f" {index / entries * 1e6:8.0f}  {scan:11.2f}  {index / scan:5.1f}  {memory:8.0f}"
            )
        print(
            "own peak of this driver:"
            f" {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB"
        )


if __name__ == "__main__":
    main()
