"""Makes the pictures of the docs: the bundled examples, run, gated and stored in a ledger, served, and
looked at with a real browser in both colour schemes.

python docs/screenshots.py      # writes docs/images/*; needs the extra dev and a Chromium
"""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from base64 import b64decode
from pathlib import Path
from typing import Any, Literal

ROOT = Path(__file__).resolve().parent.parent
IMAGES = ROOT / "docs" / "images"
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
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
    """Run two versions of the example bot and gate them; store an exam and a judge's card."""
    assay(folder.parent, "init", "--example", "rag", folder)
    assay(folder, "run", "--name", "ferry-bot-v1")
    assay(folder, "run", "next", "--name", "ferry-bot-v2")
    assay(folder, "gate", "ferry-bot-v2", "--baseline", "ferry-bot-v1")
    assay(folder, "grade", "ferry-bot-v2", "-o", "report.html")
    exam = [EXAMPLES / "exams" / name for name in ("verbs.yaml", "verbs-extra.yaml")]
    answers = EXAMPLES / "exams" / "answers.jsonl"
    assay(folder, "exam", "grade", *exam, "--answers", answers, "--store", ".assay/ledger.db")


def first(address: str, name: str) -> Any:
    """The first item of a list of the API."""
    with urllib.request.urlopen(f"{address}/api/v1/{name}", timeout=20) as answer:
        return json.load(answer)["items"][0]


def keep(session: Any, name: str) -> None:
    """What the window shows, as a small file."""
    taken = session.send("Page.captureScreenshot", {"format": "webp", "quality": 85})
    (IMAGES / f"{name}.webp").write_bytes(b64decode(taken["data"]))


def shoot(address: str, folder: Path) -> None:
    """Open every page and keep its picture: WebP, and PNG of the one that the README shows."""
    from playwright.sync_api import sync_playwright

    names = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
    path = next(filter(None, map(shutil.which, names)), None)
    decision, exam = first(address, "decisions")["digest"], first(address, "exams")["digest"]
    pages = {
        "overview": f"{address}/",
        "evaluation": f"{address}/evaluations/ferry-bot-v2",
        "compare": f"{address}/compare?of=ferry-bot-v1&of=ferry-bot-v2",
        "decision": f"{address}/decisions/{decision}",
        "exam": f"{address}/exams/{exam}",
        "report": f"file://{folder}/report.html",
    }
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=path, args=["--no-sandbox", "--disable-gpu"]
        )
        for theme in SCHEMES:
            context = browser.new_context(
                color_scheme=theme, viewport={"width": 1280, "height": 860}
            )
            tab = context.new_page()
            session = context.new_cdp_session(tab)
            for name, url in pages.items():
                tab.goto(url, wait_until="networkidle")
                tab.wait_for_timeout(500)  # charts are drawn after the page
                if name == "evaluation":  # its worst sample is the first of the list
                    worst = tab.locator("table.samples tbody a").first.get_attribute("href")
                keep(session, f"{name}-{theme}")
            tab.goto(f"{address}{worst}", wait_until="networkidle")
            keep(session, f"sample-{theme}")
            context.close()
        browser.close()


def main() -> int:
    """Fill, serve, shoot."""
    IMAGES.mkdir(exist_ok=True)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "bot"
        fill(folder)
        command = [
            sys.executable,
            "-m",
            "assay",
            "serve",
            "--db",
            ".assay/ledger.db",
            "--port",
            str(port),
            "--allow-anonymous",
        ]
        server = subprocess.Popen(
            command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
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
    for path in sorted(IMAGES.glob("*.*")):
        print(f"wrote {path.relative_to(ROOT)}, {path.stat().st_size // 1024} KB")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
