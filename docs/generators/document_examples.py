"""An example of each document, made by running the command that writes it on bundled files, or a
file that ships with Assay.
"""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import NamedTuple

from assay.cli.main import run as run_command
from assay.families.judges.demo import carded
from assay.library.shelf import Shelf
from assay.records.contract import encode
from assay.store.ledger import open_ledger
from assay.views.events import replay
from generators.examples import BUNDLED, bundled_run, graded_example

NOW = "2026-11-15T10:00:00Z"


class Example(NamedTuple):
    """A document as text, and a sentence on where it comes from."""

    text: str
    about: str
    is_yaml: bool = False


@contextmanager
def folder() -> Iterator[Path]:
    """An empty working folder, with the bundled examples in `examples/`."""
    before, kept = os.getcwd(), dict(os.environ)
    with tempfile.TemporaryDirectory() as made:
        place = Path(made)
        (place / "examples").symlink_to(BUNDLED)
        os.chdir(place)
        os.environ.pop("ASSAY_DB", None)
        try:
            yield place
        finally:
            os.chdir(before)
            os.environ.clear()
            os.environ.update(kept)


def ran(*words: str) -> str:
    """What a command prints on standard output."""
    out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    errors = io.StringIO()
    with redirect_stdout(out), redirect_stderr(errors):
        code = run_command(list(words))
        out.flush()
    assert code in (0, 1), f"assay {' '.join(words)}: {errors.getvalue()}"
    assert isinstance(out.buffer, io.BytesIO)
    return out.buffer.getvalue().decode()


def _printed(*words: str) -> Example:
    """What a command prints in a folder with the bundled examples."""
    with folder():
        text = ran(*words)
    return Example(_stable(text), f"Printed by `assay {' '.join(words)}`, on bundled files.")


def _stable(text: str) -> str:
    """Without the paths of this machine."""
    return text.replace(str(BUNDLED), "examples")


def _shelf(kind: str, name: str) -> Example:
    entry = Shelf().find(kind, name)
    return Example(Path(entry.path).read_text(), f"`{entry.id}`, which ships with Assay.", True)


def _file(path: str, about: str) -> Example:
    return Example((BUNDLED / path).read_text(), about, path.endswith(".yaml"))


def _event() -> Example:
    run, grade, digest = graded_example()
    frame = list(replay(run, grade, digest))[2].decode()
    return Example(frame.split("data: ", 1)[1], "The end of a step of a bundled run.")


def _scorecard() -> Example:
    line = (BUNDLED / "scorecards.jsonl").read_text().splitlines()[0]
    return Example(line, "A bundled scorecard (shortened).")


def _run() -> Example:
    return Example(json.dumps(bundled_run()), "A bundled run of an agent with tools (shortened).")


@cache
def _project() -> dict[str, str]:
    """What a ledger has after a project ran, two of its samples were put up for labels, and a
    person overrode a verdict; and the record of a batch.
    """
    with folder() as place:
        shutil.copytree(BUNDLED / "projects" / "rag", place / "rag")
        os.chdir(place / "rag")
        ran("run", "--limit", "3", "--name", "ferry-bot-1", "--now", NOW)
        ran("label", "new", "latest", "--rubric", "rag", "--n", "2")
        grades = json.loads(ran("grade", "latest", "--json"))
        ran(
            *("label", "override", grades["results"][0]["run_id"], "--verdict", "fail"),
            *("--reason", "The price list is from 2019.", "--rater", "Ada Moreau"),
        )
        kinds = {"evaluation": "evaluation", "label-set": "labelset", "label": "label"}
        with open_ledger(f"sqlite:///{place}/rag/.assay/ledger.db") as ledger:
            stored = {
                name: ledger.find(kind, project="ferry-bot").items[0]
                for name, kind in kinds.items()
            }
            bodies = {
                kind: ledger.get(item.digest, project="ferry-bot") for kind, item in stored.items()
            }
        found = {kind: bytes(item.body or b"").decode() for kind, item in bodies.items() if item}
        os.chdir(place)
        Path("scores.csv").write_text("run,criterion,raw\nr-1,correctness,4\nr-2,correctness,5\n")
        ran("batch", "scores.csv", "--profile", "dag-review@1", "-o", "grades.csv")
        found["batch"] = next(place.glob("grades*.json")).read_text()
    return {name: scrubbed(text) for name, text in found.items()}


@cache
def _tools() -> dict[str, str]:
    """The files of a tool schema and an MCP server that are graded from recorded scores."""
    found: dict[str, str] = {}
    every = json.loads((BUNDLED / "tools" / "scores.json").read_text())
    early, late = ("--now", "2026-11-01T09:00:00Z"), ("--now", "2026-11-01T10:00:00Z")
    with folder() as place:
        for name, key, subject in (
            ("grading-entry-extended", "ferry-desk_tools", ("--snapshot", "ferries.json")),
            ("grading-entry", "tidewatch_harbours", ("harbours.mjs",)),
        ):
            shutil.copy(BUNDLED / "tools" / subject[-1], place)
            Path("scores.json").write_text(json.dumps(every[key]))
            tree = ("--data", name)
            work = ("--workdir", f"{name}-work", "--reports-dir", f"{name}-reports")
            ran("tools", "import", *subject, *tree, *early)
            ran("tools", "grade", *subject, "--emit-prompts", *work, *early)
            ran("tools", "grade", *subject, "--consume-scores", "scores.json", *work, *tree, *late)
            found[name] = next((place / name).rglob("_gradings/*.json")).read_text()
        namespace = next((place / "grading-entry" / "providers").iterdir()).name
        ran("tools", "export", namespace, "--data", "grading-entry", "-o", "exported")
        found["prompts"] = next(place.rglob("grading-entry-work/**/prompts.json")).read_text()
        found["scores"] = Path("scores.json").read_text()
        found["grade-report"] = next(place.glob("grading-entry-reports/*.json")).read_text()
        found["index"] = next((place / "exported").rglob("index.json")).read_text()
        found["index-extended"] = next((place / "grading-entry").rglob("index.json")).read_text()
        return {name: text.replace(f"{place}/", "") for name, text in found.items()}


def _rehearsal() -> Example:
    """Of forty samples that ran three times, of which every fourth is flaky."""
    with folder():
        lines = [
            {
                "schema": "assay.scorecard/1",
                "run_id": f"r-{sample}-{attempt}",
                "sample_id": f"q{sample:02}",
                "attempt": attempt,
                "hard_gates": {"answers_the_question": bool(sample % 4 or (sample + attempt) % 3)},
                "criteria": [
                    {
                        "name": "correctness",
                        "raw_score": 0.9 if sample % 4 or (sample + attempt) % 3 else 0.4,
                        "formula_id": "zero_one",
                        "weight": 1,
                    }
                ],
            }
            for sample in range(40)
            for attempt in (1, 2, 3)
        ]
        text = "".join(f"{json.dumps(line)}\n" for line in lines)
        Path("production.jsonl").write_text(text)
        made = ran("rehearse", "production.jsonl", "--releases", "50", "--now", NOW, "--json")
    about = "Printed by `assay rehearse production.jsonl --releases 50`, on forty samples run three times."
    return Example(scrubbed(_stable(made)), about)


def _declaration() -> Example:
    guide = Path(__file__).parents[1] / "how-to" / "grade-tool-schemas.md"
    found = re.search(r"```yaml\n(server: .*?)```", guide.read_text(), re.DOTALL)
    assert found is not None
    return Example(found[1], "A declaration of an MCP server.", True)


def _card() -> Example:
    made = carded(str(BUNDLED / "judge"), now=datetime(2026, 11, 15, 10, tzinfo=UTC))
    return Example(
        encode(made).decode(), "The card of a small local model, from a bundled journal."
    )


def _made(group: Callable[[], dict[str, str]], name: str, about: str) -> Callable[[], Example]:
    return lambda: Example(_stable(group()[name]), about)


_SCRUBBED = " Times and digests are replaced."
_GRADED = "A bundled tool schema, graded from recorded scores."
EXAMPLES: dict[str, Callable[[], Example]] = {
    "run": _run,
    "scorecard": _scorecard,
    "config": lambda: Example(
        Path(__file__).with_name("every-key.yaml").read_text(),
        "A file with every top-level key.",
        True,
    ),
    "profile": lambda: _shelf("profiles", "retrieval@1"),
    "policy": lambda: _shelf("policies", "workflow@1"),
    "release-policy": lambda: _shelf("policies", "release@1"),
    "rubric": lambda: _shelf("rubrics", "rag@1"),
    "grades": lambda: _printed("grade", "examples/rag.jsonl", "--json"),
    "summary": lambda: _printed("report", "summary", "examples/rag.jsonl", "--json"),
    "decision": lambda: _printed(
        "gate",
        "examples/release/candidate.jsonl",
        "--baseline",
        "examples/release/baseline.jsonl",
        "--json",
    ),
    "rehearsal": _rehearsal,
    "event": _event,
    "exam": lambda: _file("exams/verbs.yaml", "A bundled exam."),
    "exam-rubric": lambda: _shelf("rubrics", "tutor@1"),
    "exam-policy": lambda: _shelf("policies", "exam@1"),
    "exam-result": lambda: _printed(
        "exam",
        "grade",
        "examples/exams/verbs.yaml",
        "examples/exams/verbs-extra.yaml",
        "--answers",
        "examples/exams/answers.jsonl",
        "--json",
    ),
    "evaluation": _made(_project, "evaluation", f"Three samples of an example project.{_SCRUBBED}"),
    "label-set": _made(_project, "label-set", f"Two samples put up for labels.{_SCRUBBED}"),
    "label": _made(_project, "label", f"Written by `assay label override`.{_SCRUBBED}"),
    "batch": _made(_project, "batch", f"Two rows of CSV, graded on DuckDB.{_SCRUBBED}"),
    "judge-card": _card,
    "tool-declaration": _declaration,
    **{
        name: _made(_tools, name, _GRADED)
        for name in (
            "prompts",
            "scores",
            "grade-report",
            "grading-entry",
            "grading-entry-extended",
            "index",
            "index-extended",
        )
    },
}


@cache
def example_of(name: str) -> Example:
    """The example of a document."""
    return EXAMPLES[name]()


def scrubbed(text: str) -> str:
    """A text whose times and digests are replaced, so that every run writes the same page."""
    text = re.sub(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00)", NOW, text)
    text = re.sub(r"\b(ev|ls)-[0-9a-f]{12}\b", r"\g<1>-0123456789ab", text)
    text = re.sub(r"sha256:[0-9a-f]{64}", f"sha256:{'0123456789abcdef' * 4}", text)
    text = re.sub(r"\b[1-9]\d*\.\d days old", "120.0 days old", text)
    return re.sub(r'("(?:latency_ms|duration_ms|p50_ms|size)": ?)[0-9.]+', r"\g<1>120", text)
