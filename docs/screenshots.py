"""Makes the screenshots of the README and the docs: the examples of `assay demo`, stored in a
ledger, served, and looked at with a real browser.

python docs/screenshots.py      # writes docs/images/*.png; needs the extras dev and a Chromium
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
IMAGES = ROOT / "docs" / "images"
EXAMPLES = ROOT / "src" / "assay" / "cli" / "examples"


def assay(folder: Path, *arguments: object) -> None:
    """One command; what it decides is not ours to judge, but a fault is."""
    done = subprocess.run(
        [sys.executable, "-m", "assay", *map(str, arguments)],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode not in (0, 1):
        raise SystemExit(f"assay {' '.join(map(str, arguments))}: {done.stderr}")


def fill(folder: Path) -> None:
    """Store what the demo grades, decides and marks."""
    store = ("--store", f"sqlite:///{folder}/ledger.db")
    for name in ("code-repair", "dag-review", "rag", "tool-use", "scorecards"):
        assay(folder, "grade", EXAMPLES / f"{name}.jsonl", *store)
    assay(
        folder,
        "run",
        EXAMPLES / "repair" / "workflow.yaml",
        "--dataset",
        EXAMPLES / "repair" / "dataset.yaml",
        "--name",
        "demo",
        *store,
    )
    for name in ("candidate", "mended"):
        side = EXAMPLES / "release" / f"{name}.jsonl"
        assay(
            folder,
            "gate",
            side,
            "--baseline",
            EXAMPLES / "release" / "baseline.jsonl",
            "-o",
            f"{name}.html",
            *store,
        )
    exam = (
        "exam",
        "grade",
        EXAMPLES / "exams" / "verbs.yaml",
        EXAMPLES / "exams" / "verbs-extra.yaml",
        "--answers",
        EXAMPLES / "exams" / "answers.jsonl",
    )
    assay(folder, *exam, "-o", "exam.html", *store)
    assay(
        folder,
        "grade",
        *(EXAMPLES / f"{name}.jsonl" for name in ("code-repair", "dag-review", "rag", "tool-use")),
        "-o",
        "report.html",
    )


def first(address: str, name: str) -> Any:
    """The first item of a list of the API."""
    with urllib.request.urlopen(f"{address}/api/v1/{name}", timeout=20) as answer:
        return json.load(answer)["items"][0]


def shoot(address: str, folder: Path) -> None:
    """Open every page and keep its picture."""
    from playwright.sync_api import sync_playwright

    path = next(
        filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
    )
    decision, exam = first(address, "decisions")["digest"], first(address, "exams")["digest"]
    pages = {
        "overview": f"{address}/",
        "runs": f"{address}/runs",
        "decision": f"{address}/decisions/{decision}",
        "exam": f"{address}/exams/{exam}",
        "report": f"file://{folder}/report.html",
    }
    issue = json.loads((EXAMPLES / "repair" / "issues.jsonl").read_text().splitlines()[1])["id"]
    pages["run"] = f"{address}/runs/demo:{issue}"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=path, args=["--no-sandbox", "--disable-gpu"]
        )
        for theme in ("light", "dark"):
            context = browser.new_context(
                color_scheme=theme, viewport={"width": 1180, "height": 820}
            )
            tab = context.new_page()
            for name, url in pages.items():
                if theme == "dark" and name != "overview":
                    continue
                tab.goto(url, wait_until="networkidle")
                tab.wait_for_timeout(300)
                tab.screenshot(path=IMAGES / f"{name}{'-dark' if theme == 'dark' else ''}.png")
            context.close()
        browser.close()


def main() -> int:
    """Fill, serve, shoot."""
    IMAGES.mkdir(exist_ok=True)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        fill(folder)
        command = [
            sys.executable,
            "-m",
            "assay",
            "serve",
            "--db",
            f"sqlite:///{folder}/ledger.db",
            "--port",
            str(port),
            "--allow-anonymous",
        ]
        server = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={**os.environ}
        )
        try:
            address = f"http://127.0.0.1:{port}"
            for _ in range(300):
                try:
                    urllib.request.urlopen(f"{address}/api/v1/health", timeout=5).close()
                    break
                except OSError:
                    time.sleep(0.1)
            shoot(address, folder)
        finally:
            server.terminate()
            server.wait(30)
    for path in sorted(IMAGES.glob("*.png")):
        print(f"wrote {path.relative_to(ROOT)}, {path.stat().st_size // 1024} KB")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
