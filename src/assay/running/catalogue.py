"""The workflows and datasets that an operator lets others run: the files of two folders,
found by the ids and versions inside them.

A client names an id and a version, never a file: a path, a module, a command or an address can only
come from a file in these folders. A data file that a dataset file describes is not offered alone:
read without its description, expected values could pass for inputs.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from assay.errors import AssayError, InputError, few
from assay.files.yaml_files import read_yaml
from assay.registry import near_miss
from assay.running.assertions import AssertionWeight
from assay.running.dataset import LoadedDataset, read_dataset
from assay.running.workflow import LoadedWorkflow, read_workflow

DESCRIBED = (".yaml", ".yml")
DATA = (".jsonl", ".json", ".csv", ".parquet")
SHOWN = 20


class NotOffered(InputError):
    """Nothing of that id and version is offered."""


class Ambiguous(InputError):
    """There are several versions, and the request names none."""


class OfferedFile(NamedTuple):
    """The id and version that a file states. The version of a dataset that states none follows from
    its content.
    """

    id: str
    version: str | None
    path: str


class Offered:
    """The files of two folders, listed again for each request."""

    def __init__(self, workflows: str, datasets: str | None) -> None:
        self.workflows = os.path.abspath(workflows)
        self.datasets = None if datasets is None else os.path.abspath(datasets)
        self._known: dict[str, tuple[tuple[int, int], Any]] = {}

    def workflow_file(self, name: str, version: str | None) -> str:
        """The file of a workflow."""
        heads = list(self._heads(self.workflows, "workflow"))
        return _chosen(heads, "workflow", "RUN-001", name, version).path

    def workflow(self, name: str, version: str | None) -> LoadedWorkflow:
        """A workflow by its id; the version may be omitted if there is only one."""
        return _offered(self.workflow_file(name, version))

    def dataset(self, name: str, version: str | None) -> LoadedDataset:
        """A dataset by its id; the version may be omitted if there is only one."""
        if self.datasets is None:
            raise NotOffered(
                "RUN-002",
                "no datasets are offered here.",
                where=name,
                fix="Send the samples, or start the server with `--datasets DIR`.",
            )
        head = _chosen(self._all_data(self.datasets), "dataset", "RUN-002", name, version)
        dataset = read_dataset(head.path)
        if version is not None and dataset.version != version:
            raise NotOffered(
                "RUN-002",
                f"the dataset '{name}' is offered in another version.",
                where=name,
                fix=f"It is {dataset.version!r}.",
            )
        return dataset

    def check(self) -> None:
        """Read everything that is offered, so that mistakes show when the server starts."""
        heads = list(self._heads(self.workflows, "workflow", strict=True))
        for head in heads:
            _offered(head.path)
        _unique(heads)
        if self.datasets is not None:
            _unique(self._all_data(self.datasets))

    def _all_data(self, folder: str) -> list[OfferedFile]:
        """The datasets that a file describes, and the data files that none does. A file that can't
        be read may describe any of these, so it raises.
        """
        described = list(self._heads(folder, "dataset", strict=True))
        parts = {self._part(head.path) for head in described}
        alone = [path for path in _files(folder, DATA) if os.path.realpath(path) not in parts]
        return described + [
            OfferedFile(os.path.splitext(os.path.basename(path))[0], None, path) for path in alone
        ]

    def _part(self, path: str) -> str | None:
        """The data file that a dataset file names."""
        tree = self._tree(path)
        name = tree.get("file") if isinstance(tree, dict) else None
        return (
            os.path.realpath(os.path.join(os.path.dirname(path), name))
            if isinstance(name, str)
            else None
        )

    def _heads(self, folder: str, key: str, *, strict: bool = False) -> Iterator[OfferedFile]:
        """The YAML files of a folder that have this key. One that cannot be read is skipped, unless
        `strict`.
        """
        for path in _files(folder, DESCRIBED):
            try:
                tree = self._tree(path)
            except AssayError:
                if strict:
                    raise
                continue
            if isinstance(tree, dict) and isinstance(tree.get(key), str):
                version = tree.get("version")
                yield OfferedFile(tree[key], None if version is None else str(version), path)

    def _tree(self, path: str) -> Any:
        try:
            state = os.stat(path)
        except OSError:
            return None
        mark = (state.st_mtime_ns, state.st_size)
        known = self._known.get(path)
        if known is None or known[0] != mark:
            known = self._known[path] = (mark, read_yaml(path).tree)
        return known[1]


def _offered(path: str) -> LoadedWorkflow:
    """A workflow that a server can run. One whose scorers or assertions add a criterion is refused:
    the server grades by the profile as it is, and would leave the criterion out.
    """
    workflow = read_workflow(path)
    weighted = [scorer.id for scorer in workflow.spec.scorers if scorer.weight is not None]
    if isinstance(workflow.spec.assertions, AssertionWeight):
        weighted.append("assertions")
    if weighted:
        raise InputError(
            "RUN-001",
            f"a server can't add the criterion '{weighted[0]}' to the workflow's profile.",
            where=path,
            fix="Write a profile with that criterion, name it in the workflow, and leave out the"
            " `weight`.",
        )
    return workflow


def _files(folder: str, endings: tuple[str, ...]) -> Iterator[str]:
    """The files of a folder and of the folders in it, in the order of their names. Hidden ones are
    not offered.
    """
    for entry in _entries(folder):
        for file in _entries(entry.path) if entry.is_dir() else [entry]:
            if file.name.endswith(endings) and file.is_file():
                yield file.path


def _entries(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            visible = [entry for entry in entries if not entry.name.startswith(".")]
    except OSError as error:
        raise InputError("FIL-001", f"cannot be read: {error.strerror}.", where=folder) from None
    return sorted(visible, key=lambda entry: entry.name)


def _chosen(
    heads: Sequence[OfferedFile], what: str, code: str, name: str, version: str | None
) -> OfferedFile:
    same = [head for head in heads if head.id == name]
    if not same:
        names = sorted({head.id for head in heads})
        listed = f"Offered: {few(names, SHOWN)}." if names else "None is offered."
        raise NotOffered(
            code,
            f"no {what} {name[:80]!r} is offered here.{near_miss(name, names)}",
            where=what,
            fix=listed,
        )
    all_versions = {head.version for head in same}
    versions = sorted(filter(None, all_versions))
    if version is None and len(all_versions) > 1:
        raise Ambiguous(
            code,
            f"the {what} '{name}' is offered in {len(all_versions)} versions.",
            where=f"{what}.version",
            fix=f"Name one: {', '.join(versions)}.",
        )
    fitting = [head for head in same if head.version == version] or [
        head for head in same if version is None or head.version is None
    ]
    if not fitting:
        fix = f"Offered: {', '.join(versions[:SHOWN])}."
        raise NotOffered(
            code,
            f"the {what} '{name}' is not offered in the version"
            f" {version!r}.{near_miss(str(version), versions)}",
            where=what,
            fix=fix,
        )
    _unique(fitting)
    return fitting[0]


def _unique(heads: Sequence[OfferedFile]) -> None:
    """Refuse two files with the same id and version: it would be unclear which of them ran."""
    seen: dict[tuple[str, str | None], str] = {}
    for head in heads:
        before = seen.setdefault((head.id, head.version), head.path)
        if before != head.path:
            version = "" if head.version is None else f"@{head.version}"
            raise InputError(
                "RUN-001",
                f"{os.path.basename(before)} and this file both define '{head.id}{version}'.",
                where=head.path,
                fix="Rename one of them.",
            )
