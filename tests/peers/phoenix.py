"""Phoenix on its own server: an experiment with two evaluators, two repetitions and a task that fails once, as its
downloads have it. Its means are those that its pages show.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import httpx
from phoenix.client import Client

TOWNS = {"France": "Paris", "Spain": "Madrid", "Peru": "Lima", "Norway": "Oslo"}
ANSWERS = {"France": "Paris", "Spain": "madrid", "Peru": "Quito"}
SUMMARY = """query($id: ID!) {
  node(id: $id) {... on Experiment {annotationSummaries {annotationName meanScore}}}
}"""


def task(input: dict[str, Any]) -> str:
    return ANSWERS[input["land"]]


def exact(output: str, expected: dict[str, Any]) -> bool:
    return output.strip() == expected["town"]


def close(output: str, expected: dict[str, Any]) -> float:
    return 1.0 if output.lower() == expected["town"].lower() else 0.25


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """The address of a server that keeps its data in the folder."""
    with socket.socket() as free, socket.socket() as other:
        free.bind(("127.0.0.1", 0))
        other.bind(("127.0.0.1", 0))
        port, grpc = free.getsockname()[1], other.getsockname()[1]
    settings = {
        "PHOENIX_WORKING_DIR": str(folder / "phoenix"),
        "PHOENIX_HOST": "127.0.0.1",
        "PHOENIX_PORT": str(port),
        "PHOENIX_GRPC_PORT": str(grpc),
        "PHOENIX_TELEMETRY_ENABLED": "false",
    }
    (folder / "phoenix").mkdir()
    address = f"http://127.0.0.1:{port}"
    server = subprocess.Popen(
        [sys.executable, "-m", "phoenix.server.main", "serve"],
        env={**os.environ, **settings},
        stdout=sys.stderr,
    )
    try:
        for _ in range(600):
            try:
                httpx.get(f"{address}/healthz").raise_for_status()
                break
            except httpx.HTTPError:
                if server.poll() is not None:
                    raise
                time.sleep(0.5)
        yield address
    finally:
        server.terminate()
        server.wait()


def make(folder: Path) -> list[dict[str, Any]]:
    with served(folder) as address:
        client = Client(base_url=address)
        dataset = client.datasets.create_dataset(
            name="capitals",
            inputs=[{"land": land} for land in TOWNS],
            outputs=[{"town": town} for town in TOWNS.values()],
        )
        experiment = client.experiments.run_experiment(
            dataset=dataset,
            task=task,
            evaluators=[exact, close],
            experiment_name="short-answers",
            repetitions=2,
            retries=0,
        )
        name = experiment["experiment_id"]
        for kind in ("json", "csv"):
            answer = httpx.get(f"{address}/v1/experiments/{name}/{kind}").raise_for_status()
            (folder / f"short-answers.{kind}").write_bytes(answer.content)
        asked = {"query": SUMMARY, "variables": {"id": name}}
        shown = httpx.post(f"{address}/graphql", json=asked).raise_for_status().json()
    means = {
        one["annotationName"]: one["meanScore"]
        for one in shown["data"]["node"]["annotationSummaries"]
    }
    return [
        {
            "version": version("arize-phoenix"),
            "files": [f"short-answers.{kind}"],
            "totals": {"samples": 2 * len(TOWNS), **dict(sorted(means.items()))},
            "what": f".{kind} of an experiment",
        }
        for kind in ("json", "csv")
    ]
