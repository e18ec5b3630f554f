"""Walks through the example projects: the commands as a user types them, with what they print.

    python docs/walks.py        # writes docs/walks/*.md, and the output on how-to/batch.md

`tests/test_walks.py` fails where a page is not what the commands print today.
"""

from __future__ import annotations

import io
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import chdir, redirect_stdout
from pathlib import Path
from typing import NamedTuple

PAGES = Path(__file__).parent / "walks"
BATCH = Path(__file__).parent / "how-to" / "batch.md"
BLOCK = re.compile(r"```(sh|console|python)\n(.*?)```\n(?:\n```text\n.*?```\n)?", re.DOTALL)
"""A block that is run; what a Python block prints is in the block after it."""
VARYING = (
    (re.compile(r"The head is \S+"), "The head is ..."),
    (re.compile(r"duckdb \d+\.\d+\.\d+"), "duckdb ..."),
    (re.compile(r"raw [\d.]+ is (\S+) by lower_is_better"), r"raw ... is \1 by lower_is_better"),
)
"""What differs from one machine to the next: the chain of the ledger, versions, and times."""


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
        parts.append(f"{step.text}\n\n{_console(step.command, run)}")
    return "\n".join(parts)


def _console(command: str, run: Callable[[list[str]], Printed]) -> str:
    """A command and what it prints, as a block."""
    done = run(shlex.split(command)[1:])
    text = (done.err + done.out).rstrip()
    for pattern, plain in VARYING:
        text = pattern.sub(plain, text)
    shown = "\n".join(line.rstrip() for line in text.splitlines())
    ended = f"\n(exit {done.code})" if done.code else ""
    return f"```console\n$ {command}\n{shown}{ended}\n```\n"


def run_page(text: str, folder: Path, run: Callable[[list[str]], Printed]) -> str:
    """A page whose blocks were run in a folder from top to bottom, with what they print today."""
    names: dict[str, object] = {}
    tools = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])

    def again(block: re.Match[str]) -> str:
        kind, code = block[1], block[2]
        if kind == "console":
            return _console(code.splitlines()[0].removeprefix("$ "), run)
        shown = f"```{kind}\n{code}```\n"
        if kind == "sh":
            subprocess.run(
                ["bash", "-euo", "pipefail", "-c", code],
                cwd=folder,
                env={**os.environ, "PATH": tools},
                capture_output=True,
                check=True,
            )
            return shown
        printed = io.StringIO()
        with chdir(folder), redirect_stdout(printed):
            exec(code, names)
        return f"{shown}\n```text\n{printed.getvalue()}```\n" if printed.getvalue() else shown

    return BLOCK.sub(again, text)


def _in(folder: str) -> Callable[[list[str]], Printed]:
    def run(words: list[str]) -> Printed:
        done = subprocess.run(
            [sys.executable, "-m", "assay", *words],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
        return Printed(done.returncode, done.stdout, done.stderr)

    return run


def main() -> None:
    """Write every page."""
    PAGES.mkdir(exist_ok=True)
    for name, walk in WALKS.items():
        with tempfile.TemporaryDirectory() as folder:
            (PAGES / f"{name}.md").write_text(page(walk, _in(folder)), encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        made = run_page(BATCH.read_text("utf-8"), Path(folder), _in(folder))
        BATCH.write_text(made, encoding="utf-8")


if __name__ == "__main__":
    main()
