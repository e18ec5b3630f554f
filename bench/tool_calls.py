"""Match 100,000 tool calls against what was expected, beside a bare loop that only compares dicts.

The bare loop knows no acceptable values, no parallel calls, no error and no F1: it asks one
question of two dicts, and of calls in another order it sees the first. The loop over acceptable
values asks what the file asks, still in order. Four shapes: one call an item, all right; one call
an item, half wrong; four parallel calls an item in another order; and the same with one wrong in
every second item. Prints the ratios, and the time per call at a quarter and at the full size; then
the command from file to document beside a script that reads the same file, start included.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import tempfile
from functools import partial
from typing import Any

import timing

from assay.scoring.metrics.tool_calls import measure_tool_calls

CALLS = 100_000
SCRIPT = """
import json, sys
found = {}
for text in open(sys.argv[1], encoding="utf-8"):
    item = json.loads(text)
    pairs = zip(item["calls"], item["expected"])
    found[item["id"]] = {"correct": len(item["calls"]) == len(item["expected"]) and all(
        call["name"] == wish["name"] and call["arguments"].keys() == wish["arguments"].keys()
        and all(value in wish["arguments"][name] for name, value in call["arguments"].items()) for call, wish in pairs)}
print(json.dumps({"items": found, "accuracy": sum(one["correct"] for one in found.values()) / len(found)}, indent=2))
"""
TOOL = {
    "name": "weather.read",
    "description": "Read the weather.",
    "parameters": {
        "type": "object",
        "properties": {
            "city": {"type": "string"},
            "days": {"type": "integer"},
            "units": {"type": "string"},
        },
        "required": ["city", "days"],
    },
}


def arguments(number: int) -> dict[str, Any]:
    """The arguments of one call."""
    return {"city": f"city {number % 977}", "days": number % 14, "units": "metric"}


def lines(count: int, *, parallel: int, wrong_each: int) -> list[dict[str, Any]]:
    """So many calls, `parallel` of them an item, every `wrong_each`-th with a wrong argument (0:
    none).
    """
    made = []
    for start in range(0, count, parallel):
        numbers = range(start, start + parallel)
        calls = [{"name": "weather.read", "arguments": arguments(number)} for number in numbers]
        if wrong_each and (start // parallel) % wrong_each == 0:
            calls[0]["arguments"] = {**arguments(start), "days": -1}
        expected = [
            {
                "name": "weather.read",
                "arguments": {name: [value] for name, value in arguments(number).items()},
            }
            for number in numbers
        ]
        made.append(
            {"id": f"item-{start}", "tools": [TOOL], "calls": calls[::-1], "expected": expected}
        )
    return made


def bare(items: list[dict[str, Any]], plain: dict[str, list[Any]]) -> int:
    """Count the items whose calls are, in their order, equal to plain expected calls."""
    right = 0
    for item in items:
        right += item["calls"] == plain[item["id"]]
    return right


def listed(items: list[dict[str, Any]]) -> int:
    """The same with lists of acceptable values, as a script would write it; calls in their
    order.
    """
    right = 0
    for item in items:
        right += all(
            call["name"] == wish["name"]
            and call["arguments"].keys() == wish["arguments"].keys()
            and all(value in wish["arguments"][name] for name, value in call["arguments"].items())
            for call, wish in zip(item["calls"], item["expected"], strict=True)
        )
    return right


def without_lists(items: list[dict[str, Any]]) -> dict[str, list[Any]]:
    """The expected calls of each item with the one acceptable value of each argument."""
    return {
        item["id"]: [
            {
                "name": call["name"],
                "arguments": {name: values[0] for name, values in call["arguments"].items()},
            }
            for call in item["expected"]
        ]
        for item in items
    }


def main() -> int:
    """Time the three shapes under both rules."""
    good = True
    shapes = (
        ("one call an item, all right", 1, 0, 10),
        ("one call an item, half wrong", 1, 2, 10),
        ("four parallel calls an item, reversed", 4, 0, 12),
        ("four parallel calls an item, reversed, half with one wrong", 4, 2, 20),
    )
    for title, parallel, wrong_each, limit in shapes:
        items = lines(CALLS, parallel=parallel, wrong_each=wrong_each)
        plain = without_lists(items)
        quarter = items[: len(items) // 4]
        gc.collect()
        times = timing.functions(
            {
                "bare loop": partial(bare, items, plain),
                "loop over acceptable values": partial(listed, items),
                "plain rules": partial(measure_tool_calls, items),
                "bfcl rules": partial(measure_tool_calls, items, "bfcl"),
                "plain rules, a quarter": partial(measure_tool_calls, quarter),
            },
            calls=1,
            rounds=3,
        )
        good = (
            timing.table(
                f"{CALLS:,} calls, {title}",
                times,
                base="loop over acceptable values",
                limits={"plain rules": limit},
            )
            and good
        )
        print(
            f"\nper call: {times['plain rules'] / CALLS * 1e6:.1f} us, at a quarter"
            f" {times['plain rules, a quarter'] / (CALLS / 4) * 1e6:.1f} us"
        )
    return 0 if from_file() and good else 1


def from_file() -> bool:
    """The command beside a script, both from a file of 100,000 calls to a JSON document."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "calls.jsonl")
        with open(path, "w", encoding="utf-8") as stream:
            stream.writelines(
                json.dumps(line) + "\n" for line in lines(CALLS, parallel=1, wrong_each=2)
            )
        command = [sys.executable, "-m", "assay", "measure", "tool-calls", path, "--json"]
        times = timing.commands(
            {
                "script": [sys.executable, "-c", SCRIPT, path],
                "plain rules": command,
                "bfcl rules": [*command, "--rules", "bfcl"],
            },
            rounds=3,
        )
    return timing.table(
        f"{CALLS:,} calls, from a file", times, base="script", limits={"plain rules": 4}, unit="s"
    )


if __name__ == "__main__":
    sys.exit(main())
