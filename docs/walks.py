"""Walks through the example projects: the commands as a user types them, with what they print.

    python docs/walks.py        # writes docs/walks/*.md

`tests/test_walks.py` fails where a page is not what the commands print today.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

PAGES = Path(__file__).parent / "walks"
VARYING = (
    (re.compile(r"The head is \S+"), "The head is ..."),
    (re.compile(r"raw [\d.]+ is (\S+) by lower_is_better"), r"raw ... is \1 by lower_is_better"),
)
"""What differs from one machine to the next: the chain of the ledger, and times."""


MADE = "No key and no network is needed. `python docs/walks.py` made this page by running the commands."


class Printed(NamedTuple):
    """What a command left: its exit code, standard output, standard error."""

    code: int
    out: str
    err: str


class Step(NamedTuple):
    """A sentence, and the command it introduces."""

    text: str
    command: str


class Walk(NamedTuple):
    """A walk through one example project."""

    title: str
    intro: str
    steps: tuple[Step, ...]


def _walk(title: str, intro: str, what: str, sample: str) -> tuple[str, tuple[Step, ...]]:
    return intro, (
        Step("Write the project into an empty folder.", f"assay init --example {title}"),
        Step(f"Run {what} on every sample, and grade it.", "assay run --name current"),
        Step("Run the next version, which is worse.", "assay run next --name next"),
        Step(
            "Ask whether it may replace the current one. It may not, and exit 1 stops the build.",
            "assay gate next --baseline current",
        ),
        Step("Ask why one of its samples failed.", f"assay explain next --run {sample}"),
    )


WALKS = {
    "rag": Walk(
        "A RAG bot",
        *_walk(
            "rag", "A bot answers questions from passages that it retrieves.", "the bot", "q-24"
        ),
    ),
    "agent": Walk(
        "An agent with tools",
        *_walk("agent", "An agent answers with the help of tools.", "the agent", "t-13"),
    ),
    "code-repair": Walk(
        "A code-repair bot",
        *_walk(
            "code-repair",
            "A bot writes patches; the tests of the repository decide.",
            "the bot",
            "issue-2",
        ),
    ),
}


def page(walk: Walk, run: Callable[[list[str]], Printed]) -> str:
    """The page of a walk; `run` runs the words of a command after `assay`."""
    parts = [
        f"# {walk.title}\n",
        f"{walk.intro} {MADE}\n",
    ]
    for step in walk.steps:
        done = run(shlex.split(step.command)[1:])
        text = (done.err + done.out).rstrip()
        for pattern, plain in VARYING:
            text = pattern.sub(plain, text)
        shown = "\n".join(line.rstrip() for line in text.splitlines())
        ended = f"\n(exit {done.code})" if done.code else ""
        parts.append(f"{step.text}\n\n```console\n$ {step.command}\n{shown}{ended}\n```\n")
    return "\n".join(parts)


def main() -> None:
    """Write every page."""
    PAGES.mkdir(exist_ok=True)
    for name, walk in WALKS.items():
        with tempfile.TemporaryDirectory() as folder:

            def run(words: list[str], folder: str = folder) -> Printed:
                done = subprocess.run(
                    [sys.executable, "-m", "assay", *words],
                    cwd=folder,
                    capture_output=True,
                    text=True,
                    check=False,
                )
                return Printed(done.returncode, done.stdout, done.stderr)

            (PAGES / f"{name}.md").write_text(page(walk, run), encoding="utf-8")


if __name__ == "__main__":
    main()
