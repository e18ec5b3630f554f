"""The pages over a million stored runs: how long the server takes for each, and how large it is.

python bench/pages.py
python bench/pages.py --rows 100000 --keep /tmp/pages.db

The rows go in as for bench/listing.py; some real runs are posted on top, because the page of a run
reads its record, and evaluations of 1,000 and 10,000 samples, each after one of an older version
that it is compared with. The limits are those of the project: 300 ms for a page (1 s for 10,000
samples), 200 KB without pictures. Pictures are asked for after the page and are not in its time.
"""

from __future__ import annotations

import argparse
import re
import shutil
import statistics
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "support"))

from listing import fill

from documents import FAMILIES
from serving import Process, runs

LIMIT_MS = 300.0
LIMIT_LARGE_MS = 1000.0
"""For pages of an evaluation of 10,000 samples."""
LIMIT_BYTES = 200_000
REPEATS = 15
REAL = 300
SAMPLES = (1_000, 10_000)
AT_ONCE = 500


def evaluate(server: Process, samples: int) -> dict[str, str]:
    """Store an evaluation and one of an older version; the pages of the newer one, by name."""
    made = []
    for version in ("1", "2"):
        digests: list[str] = []
        for start in range(0, samples, AT_ONCE):
            documents = runs(AT_ONCE, family="rag", start=start)
            for index, one in enumerate(documents):
                one["run_id"] = f"{samples}-{version}-{one['run_id']}"
                one["workflow"] = {**one["workflow"], "id": f"bot-{samples}", "version": version}
                one["inputs"] = {"question": f"When does ferry {start + index} leave? " * 5}
                if (start + index) % 5 == 0 and version == "2":
                    one["outputs"] = {}
                if index % 3 == 0:
                    one["scores"] = {name: {"raw": 0.4} for name in one["scores"]}
            status, answer = server.call("POST", "/runs", documents)
            assert status in (200, 201), answer
            digests += [one["digest"] for one in answer["results"]]
        status, answer = server.call(
            "POST",
            "/evaluations",
            {"name": f"v{version}-{samples}", "runs": {"digests": digests}},
            timeout=600,
        )
        assert status in (200, 201), answer
        made.append(answer["evaluation"]["id"])
    page = f"/evaluations/{made[1]}"
    return {
        f"evaluation of {samples:,} samples": page,
        f"evaluation of {samples:,} samples, failed, by a criterion": (
            f"{page}?show=failed&sort=criterion:safety"
        ),
        f"evaluation of {samples:,} samples, worse than the baseline": f"{page}?show=worse",
        f"evaluation of {samples:,} samples, searched": f"{page}?q=ferry+77",
    }


def addresses(server: Process, rows: int) -> dict[str, str]:
    """The pages that are asked for, by name."""
    made = [
        one
        for family in FAMILIES
        for one in runs(REAL // 4, family=family, start=10_000_000 + REAL * FAMILIES.index(family))
    ]
    status, answer = server.call("POST", "/runs", made)
    assert status in (200, 201), answer
    digest = answer["results"][0]["digest"]
    evaluated = {name: path for n in SAMPLES for name, path in evaluate(server, n).items()}
    far = 2 * rows // 20
    return {
        "overview": "/",
        "runs": "/runs",
        "runs, far back": f"/runs?after={far}",
        "runs, back to newer ones": f"/runs?before={far}",
        "runs of one workflow": "/runs?workflow=w-7",
        "runs of a rare workflow": "/runs?workflow=rare",
        "runs graded F, far back": f"/runs?grade=F&after={far}",
        "runs with a gate that fails": "/runs?gate=overall_status_success",
        "runs in a span of time, of a workflow": "/runs?workflow=w-7&from=2026-11-15&to=2026-11-15",
        "runs whose id holds a text": "/runs?q=r-99999",
        "runs whose id holds a text that none has": "/runs?q=nothing",
        "a run": f"/runs/{digest}",
        "evaluations": "/evaluations",
        **evaluated,
        "library": "/library",
        "a profile": "/library/profiles/rag@1",
    }


def ask(server: Process, path: str) -> tuple[float, bytes]:
    """One page: its seconds and its bytes."""
    asked = urllib.request.Request(
        f"http://127.0.0.1:{server.port}{path}", headers={"Accept": "text/html"}
    )
    began = time.perf_counter()
    with urllib.request.urlopen(asked, timeout=300) as answer:
        data: bytes = answer.read()
    return time.perf_counter() - began, data


def measure(url: str, rows: int) -> bool:
    """Ask for every page in turn; print the table."""
    good = True
    with Process(url, "--quiet") as server:
        found = addresses(server, rows)
        times: dict[str, list[float]] = {name: [] for name in found}
        first: dict[str, float] = {}
        pages: dict[str, bytes] = {}
        for turn in range(REPEATS + 1):
            for name, path in found.items():
                took, pages[name] = ask(server, path)
                if turn:
                    times[name].append(took)
                else:
                    first[name] = took
        print(
            "| page | first, ms | median, ms | worst, ms | limit, ms | KB | limit, KB |"
            " |\n|---|---:|---:|---:|---:|---:|---:|---|"
        )
        for name, rounds in times.items():
            limit = LIMIT_LARGE_MS if f"{max(SAMPLES):,}" in name else LIMIT_MS
            holds = 1000 * statistics.median(rounds) <= limit and len(pages[name]) <= LIMIT_BYTES
            good = good and holds
            numbers = (
                f"{1000 * first[name]:.0f} | {1000 * statistics.median(rounds):.1f} |"
                f" {1000 * max(rounds):.1f} | {limit:g}"
            )
            print(
                f"| {name} | {numbers} | {len(pages[name]) / 1000:.1f} | {LIMIT_BYTES / 1000:g} |"
                f" {'holds' if holds else 'OVER'} |"
            )
        for name in ("overview", "a run"):
            for path in dict.fromkeys(re.findall(r'src="(/charts/[^"]+)"', pages[name].decode())):
                cold, data = ask(server, path)
                warm = min(ask(server, path)[0] for _ in range(5))
                print(
                    f"| picture {path.rpartition('/')[2]} | {1000 * cold:.0f} | {1000 * warm:.1f} |"
                    f" | | {len(data) / 1000:.1f} | | |"
                )
        server.end()
    sys.stdout.flush()
    return good


def main(argv: list[str]) -> bool:
    """Fill and measure."""
    made = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("--rows", type=int, default=1_000_000)
    made.add_argument(
        "--keep", metavar="FILE", help="an SQLite file that is used again where it is there"
    )
    options = made.parse_args(argv)
    folder = tempfile.mkdtemp(prefix="bench-pages-")
    try:
        path = options.keep or f"{folder}/ledger.db"
        took = 0.0 if Path(path).exists() else fill(f"sqlite:///{path}", options.rows)
        print(
            f"\nPages over {options.rows:,} runs with their grades, SQLite (filled in"
            f" {took:.0f} s)\n",
            flush=True,
        )
        return measure(f"sqlite:///{path}", options.rows)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(0 if main(sys.argv[1:]) else 1)
