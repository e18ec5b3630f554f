"""A promptfoo assertion that calls Assay: a Python file that grades each output like the runs it
was made from.

What is required comes from those runs (workflow, dataset, required inputs and outputs, schema,
forbidden tools), never from the output that is graded. So the runs have to agree on it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from decimal import Decimal
from importlib.resources import files
from typing import IO, Any

import msgspec

from assay.canon import encode
from assay.errors import InputError, UsageError
from assay.records.evidence import Workflow
from assay.records.grade import Payload
from assay.records.typed import convert
from assay.views.exporters import Exporter, ResultSource
from assay.views.spooled import Spooled

REQUIRED = (
    "workflow",
    "required_inputs",
    "required_outputs",
    "output_schema",
    "forbidden_tools",
    "handoff_rules",
)
"""The parts of a run that state what is required of every run of its workflow."""
EVIDENCE = (
    "steps",
    "tool_calls",
    "retrieval",
    "claims",
    "handoffs",
    "latency_ms",
    "cost_usd",
    "tokens",
    "retries",
)
"""What a provider may add of what it saw. Scores and verdicts are not among it, nor is what was
expected: an output does not grade itself.
"""


class PromptfooAssertion(Spooled):
    """The assertion for the workflow of some runs."""

    def __init__(self) -> None:
        super().__init__()
        self._path, self._graded_by = "assay_assertion.py", list[str]()
        self._reported: Callable[[Workflow], Sequence[str]] = lambda workflow: ()

    def prepare(
        self,
        *,
        path: str,
        graded_by: Sequence[str] | None,
        reported: Callable[[Workflow], Sequence[str]],
    ) -> None:
        """Learn where the file will be, and by which options it grades."""
        if graded_by is None:
            raise UsageError(
                "CLI-001",
                "these runs are graded by a profile that was made for them alone.",
                fix="Give a profile that the assertion can grade by, with --profile FILE.",
            )
        self._path, self._graded_by, self._reported = path, list(graded_by), reported

    def row(self, result: Payload, source: ResultSource) -> Any:
        """What is required of one run, and which run it is."""
        if source.run is None:
            raise InputError(
                "FIL-006",
                f"'{result['run_id']}' is not a run: it doesn't show what its workflow requires.",
                fix="Give runs (assay.run/1).",
            )
        run = msgspec.to_builtins(source.run, builtin_types=(Decimal,), enc_hook=str)
        required = {name: run[name] for name in REQUIRED if run.get(name) is not None}
        required["dataset"] = {name: run["dataset"][name] for name in ("id", "version")}
        return {"run": result["run_id"], "required": required}

    def write_all(self, stream: IO[bytes], counts: dict[str, Any]) -> None:
        """The file."""
        first: dict[str, Any] = {}
        for row in self.rows():
            first = first or row
            for name in (*REQUIRED, "dataset"):
                if row["required"].get(name) != first["required"].get(name):
                    raise InputError(
                        "FIL-006",
                        f"the runs '{first['run']}' and '{row['run']}' have a different"
                        f" '{name}'; an assertion needs one value.",
                        fix="Give the runs of one workflow on one dataset.",
                    )
        if reported := self._reported(convert(first["required"]["workflow"], Workflow)):
            raise UsageError(
                "CLI-001",
                f"an answer alone can't be graded: it doesn't provide {', '.join(reported)}, so"
                " every output would fail.",
                fix=(
                    "Give a profile with --profile that measures all its criteria and has no gate"
                    " with `verdict: true`; `assay library list profiles` shows the bundled ones."
                ),
            )
        folder = os.path.relpath(os.getcwd(), os.path.dirname(os.path.abspath(self._path)))
        text = files("assay.views").joinpath("templates/promptfoo_assertion.py.txt").read_text()
        for mark, value in (
            ("@FILE@", os.path.basename(self._path)),
            ("@GRADED_BY@", repr(self._graded_by)),
            ("@FOLDER@", repr(folder)),
            ("@REQUIRED@", repr(encode(first["required"]).decode())),
            ("@EVIDENCE_NAMES@", repr(EVIDENCE)),
            ("@EVIDENCE@", ", ".join(EVIDENCE)),
        ):
            text = text.replace(mark, value)
        stream.write(text.encode())


EXPORTER = Exporter(
    "promptfoo",
    "promptfoo: a Python assertion that grades outputs with Assay",
    (".py",),
    PromptfooAssertion,
)
