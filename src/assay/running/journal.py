"""The journal of a workflow's run on a dataset: it records each finished sample, so that a killed
run can resume.

Its first line identifies the workflow and the data by digest. A journal of another workflow or of
other data is refused, because mixed evidence would describe neither.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from assay.canon import digest
from assay.errors import InputError, UsageError
from assay.files.json_files import parse_json
from assay.files.line_log import LineLog, LogErrors, LogPlace
from assay.running.dataset import LoadedDataset
from assay.running.local_code import code_digest
from assay.running.runner import RunSettings
from assay.running.scorers import PlacedScorer
from assay.running.steps import steps_of
from assay.running.workflow import LoadedWorkflow

FORMAT = "assay.run-journal/1"
_ERRORS = LogErrors(
    "RUN-005",
    busy="Wait for it, or give this run its own folder with --work.",
    damaged="Restore the file, or run in another folder with --work.",
    full="Finished samples are kept: free some disk space and run again with --resume.",
)
_CODE = {"scorers": "version of the scorers", "code": "version of the workflow's code"}


class Header(NamedTuple):
    """What is being run."""

    name: str
    workflow: str
    workflow_digest: str
    dataset: str
    dataset_digest: str
    repeat: int
    now: str | None
    scorers: str | None = None
    """The digest of the scorers and their code: finished runs carry their verdicts."""
    code: str | None = None
    """The digest of the workflow's code in its folder."""

    @classmethod
    def of(
        cls,
        workflow: LoadedWorkflow,
        dataset: LoadedDataset,
        settings: RunSettings,
        scorers: Sequence[PlacedScorer] = (),
    ) -> Header:
        """The header for this workflow and data."""
        return cls(
            settings.name,
            f"{workflow.id}@{workflow.version}",
            workflow.digest,
            f"{dataset.id}@{dataset.version}",
            dataset.digest,
            settings.repeat,
            settings.now,
            scorers_digest(scorers) if scorers else None,
            code_digest((name, workflow.folder) for name in workflow.code),
        )


def scorers_digest(scorers: Sequence[PlacedScorer]) -> str:
    """The digest of scorers and their code."""
    code = code_digest((scorer.target, folder) for scorer, folder, _ in scorers)
    return digest([[scorer for scorer, _, _ in scorers], code])


class RunJournal:
    """Finished runs by their id. Use it as a context."""

    def __init__(self, path: str, header: Header, workflow: LoadedWorkflow | None = None) -> None:
        """`workflow` is that of a run that may be resumed."""
        self.path = path
        self.header = header
        self._workflow = workflow
        self._log = LineLog(path, _ERRORS)
        self._places: dict[str, LogPlace] = {}

    def __enter__(self) -> RunJournal:
        self._log.open(self._take)
        if self._log.empty:
            self._log.append({"journal": FORMAT, **self.header._asdict()})
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self._log.close(failing=error is not None)

    def __contains__(self, run_id: str) -> bool:
        return run_id in self._places

    def __len__(self) -> int:
        return len(self._places)

    def put(self, run: dict[str, Any]) -> None:
        """Record a finished run."""
        self._places[run["run_id"]] = self._log.append(run)

    def run(self, run_id: str) -> bytes:
        """A finished run as JSON, as it was written."""
        return self._log.raw(self._places[run_id])

    def tree(self, run_id: str) -> dict[str, Any]:
        """The same, parsed."""
        tree: dict[str, Any] = parse_json(self.run(run_id))
        return tree

    def _take(self, tree: dict[str, Any], place: LogPlace, number: int) -> None:
        if number > 1:
            if not isinstance(tree.get("run_id"), str):
                raise InputError(
                    "RUN-005", f"line {number} does not contain a run.", where=self.path
                )
            self._check_files(tree.get("metadata"))
            self._places[tree["run_id"]] = place
            return
        if tree.get("journal") != FORMAT:
            raise InputError(
                "RUN-005",
                f"is not a journal of a run: its first line does not name {FORMAT}.",
                where=self.path,
            )
        for name, wanted in self.header._asdict().items():
            stored = tree.get(name)
            if stored != wanted:
                raise self._other(_CODE.get(name) or name.replace("_", " "), stored, wanted)

    def _check_files(self, metadata: Any) -> None:
        """Refuse a finished run that a step measured with other files than are there now."""
        if self._workflow is None or not isinstance(metadata, dict):
            return
        for step in steps_of(self._workflow):
            measured = step.measured(metadata)
            now = None if measured is None else step.digest(self._workflow)
            if now is not None and now != measured:
                raise self._other("version of the project", measured, now)

    def _other(self, what: str, stored: Any, wanted: Any) -> UsageError:
        return UsageError(
            "RUN-005",
            f"this run was started with another {what}: {_short(stored)}, not {_short(wanted)}.",
            where=self.path,
            fix="Restore what it was started with, or start a new run in another folder.",
        )


def _short(value: Any) -> str:
    return repr(value) if len(repr(value)) <= 40 else f"{str(value)[:30]}..."
