"""How large a report of many runs is, how long it takes to make, and how soon it is open in a real
Chromium: from the request to the first paint, and to the end of loading.

python bench/report.py                           # 10,000 runs
python bench/report.py --runs 1000 --limit 2

The runs are the bundled examples again and again, each with an id and a sample of its own; a good
half of them fails. The report is made by the command a person would use.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

EXAMPLES = Path(__file__).resolve().parent.parent / "src/assay/cli/examples"
FAMILIES = ("code-repair", "rag", "tool-use", "dag-review")
PAINTED = """() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => {
  const load = performance.getEntriesByType('navigation')[0], paint = performance.getEntriesByName('first-contentful-paint')[0]
  done({loaded: load.loadEventEnd, dom: load.domContentLoadedEventEnd, painted: paint ? paint.startTime : null, now: performance.now()})
})))"""


def write_runs(path: Path, count: int) -> None:
    """So many runs with ids of their own."""
    examples = [
        json.loads(line)
        for name in FAMILIES
        for line in (EXAMPLES / f"{name}.jsonl").read_text("utf-8").splitlines()
    ]
    with path.open("w", encoding="utf-8") as stream:
        for number in range(count):
            run = examples[number % len(examples)]
            dataset = {**run["dataset"], "sample_id": f"{run['dataset']['sample_id']}-{number}"}
            own = {"run_id": f"{run['run_id']}-{number}", "dataset": dataset}
            stream.write(json.dumps({**run, **own}) + "\n")


def opened(browser: Any, report: Path) -> dict[str, float]:
    """Milliseconds until the page has loaded and was painted, and whether it can be walked to its
    end.
    """
    page = browser.new_page()
    page.goto(report.as_uri())
    found: dict[str, float] = page.evaluate(PAINTED)
    began = time.perf_counter()
    page.evaluate("window.scrollTo(0, document.body.scrollHeight)")
    page.evaluate(
        "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
    )
    found["scrolled"] = 1000 * (time.perf_counter() - began)
    page.close()
    return found


def main() -> bool:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--limit", type=float, default=2.0, metavar="S", help="seconds that opening may take"
    )
    parser.add_argument(
        "--size", type=float, default=5.0, metavar="MB", help="megabytes that the file may have"
    )
    options = parser.parse_args()
    names = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
    chromium = next(filter(None, map(shutil.which, names)), None)
    with tempfile.TemporaryDirectory() as folder:
        runs, report = Path(folder) / "runs.jsonl", Path(folder) / "report.html"
        write_runs(runs, options.runs)
        began = time.perf_counter()
        subprocess.run(
            [sys.executable, "-m", "assay", "grade", str(runs), "-o", str(report)],
            capture_output=True,
            check=False,
        )
        made = time.perf_counter() - began
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(
                executable_path=chromium, args=["--no-sandbox", "--disable-gpu"]
            )
            rounds = [opened(browser, report) for _ in range(options.rounds)]
            browser.close()
        size = report.stat().st_size / 1e6
    middle = {
        key: statistics.median(one[key] or 0.0 for one in rounds)
        for key in ("dom", "painted", "loaded", "now", "scrolled")
    }
    print(f"{options.runs:,} runs: {size:.1f} MB, graded and written in {made:.1f} s")
    print(
        f"first paint {middle['painted']:.0f} ms, loaded {middle['loaded']:.0f} ms, at rest"
        f" {middle['now']:.0f} ms, end of page {middle['scrolled']:.0f} ms"
    )
    good = middle["now"] / 1000 <= options.limit
    small = size < options.size
    print(f"under {options.size:g} MB: {'yes' if small else 'NO'}")
    print(
        f"opens within {options.limit:g} s: {'yes' if good else 'NO'} (median of {options.rounds};"
        f" worst {max(one['now'] for one in rounds) / 1000:.2f} s)"
    )
    return bool(good and small)


if __name__ == "__main__":
    sys.exit(0 if main() else 1)
