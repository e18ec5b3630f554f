"""Which samples `assay run` runs: all of the dataset, those that `--only` names, or those that did
not pass in an earlier evaluation (`--failed-in`).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from assay.cli import options as opt
from assay.cli.parsing import Options
from assay.cli.references import ledger_names
from assay.errors import InputError, UsageError, count, few
from assay.files.inputs import open_input
from assay.files.json_files import Document, limited, read_documents, read_json
from assay.records.grade import GRADES_SCHEMA, is_graded
from assay.registry import is_path, near_miss
from assay.running.dataset import LoadedDataset
from assay.services.evaluations import stored_items


def choose(
    options: Options, dataset: LoadedDataset, begun_with: list[str] | None = None
) -> list[str] | None:
    """The ids of the samples that `--only` or `--failed-in` chooses; None for all of them. A
    resumed run has those that it was begun with.
    """
    known = [sample.id for sample in dataset.samples]
    if options.resume:
        return begun_with
    if options.only is not None and options.failed_in is not None:
        raise UsageError("CLI-001", "--only and --failed-in both choose samples.", fix="Give one.")
    if options.only is not None:
        return _named(options.only, dataset, known)
    return None if options.failed_in is None else _failed_in(options, dataset, known)


# --- by name


def _named(text: str, dataset: LoadedDataset, known: Sequence[str]) -> list[str]:
    """The samples that `--only` names, or that are in the file that it names."""
    is_file = text == "-" or (is_path(text) and os.path.exists(text))
    if is_file and text in known:
        raise UsageError(
            "CLI-001",
            f"{text!r} is both a file and a sample.",
            fix=f"Write ./{text} for the file, or put the name of the sample into another file.",
        )
    given = _in_file(text) if is_file else text.split(",")
    names = list(dict.fromkeys(name.strip() for name in given if name.strip()))
    if not names:
        where = text if is_file else None
        raise UsageError("CLI-001", "--only names no sample.", where=where or "")
    ids, prefix = frozenset(known), f"{dataset.id}/"
    found = {name: name if name in ids else name.removeprefix(prefix) for name in names}
    unknown = [name for name, sample in found.items() if sample not in ids]
    if unknown:
        no_file = " There is no file of that name either." if text == unknown[0] else ""
        raise UsageError(
            "CLI-001",
            f"the dataset {dataset.id} has no sample {few([*map(repr, unknown)])}."
            f"{near_miss(unknown[0], known)}{no_file if is_path(text) else ''}",
            where=text if is_file else "",
            fix="Name samples by their ids in the dataset, separated by commas, or one on each line"
            " of a file.",
        )
    return list(found.values())


def _in_file(path: str) -> Iterator[str]:
    """The names in a file: one on each line, or a JSON list of names or suspects."""
    if path.endswith(".json"):
        yield from _in_json(read_json(path).tree, path)
        return
    with open_input(path) as stream:
        data = limited(stream.read(), path)
    try:
        yield from data.decode("utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InputError("FIL-002", f"line {line} is not UTF-8.", where=path) from None


def _in_json(tree: Any, path: str) -> Iterator[str]:
    listed = tree.get("suspects") if isinstance(tree, dict) else tree
    for item in listed if isinstance(listed, list) else [None]:
        name = item.get("sample") if isinstance(item, dict) else item
        if not isinstance(name, str):
            raise InputError(
                "FIL-002",
                "names no samples. It must be a list of names, or an object with a list"
                ' `suspects` of objects such as {"sample": "q017"}.',
                where=path,
            )
        yield name


# --- by how they fared


def _failed_in(options: Options, dataset: LoadedDataset, known: Sequence[str]) -> list[str]:
    """The samples of which a run did not pass in a stored evaluation or a file of grades."""
    named: str = options.failed_in
    if is_path(named):
        failed = _failed(_graded_in(named), dataset, named)
    else:
        with ledger_names(options) as names:
            stored = names.get(named).evaluation
            if stored is None:
                raise UsageError(
                    "CLI-001",
                    f"{named!r} is a run.",
                    fix="Name an evaluation, or run its sample with --only.",
                )
            pairs = stored_items(names.opened(named), stored.evaluation, project=options.project)
            # a run without a grade did not pass, and has its sample as a grade has it
            trees = (
                {**run.tree(), "passed": False} if grade is None else grade.tree()
                for _, run, grade in pairs
                if run is not None
            )
            failed = _failed(trees, dataset, named)
    if not failed:
        raise UsageError("CLI-001", f"there is nothing to run: every sample passed in {named}.")
    gone = [name for name in failed if name not in frozenset(known)]
    if len(gone) == len(failed):
        raise UsageError(
            "CLI-001",
            f"there is nothing to run: {dataset.id} has none of the"
            f" {count(len(failed), 'sample')} that did not pass in {named}.",
        )
    if gone:
        opt.warn(f"{dataset.id} no longer has {count(len(gone), 'failed sample')}: {few(gone)}.")
    return [name for name in failed if name not in gone]


def _graded_in(path: str) -> Iterator[Mapping[str, Any]]:
    """The results in a file of grades."""
    for document in read_documents(path):
        tree = document.tree
        if not is_graded(tree):
            raise _no_grades(document)
        if tree.get("schema") != GRADES_SCHEMA:
            yield tree
            continue
        results, faults = tree.get("results"), tree.get("faults")
        if not isinstance(results, list) or not all(isinstance(item, dict) for item in results):
            raise _no_grades(document)
        if faults:
            raise InputError(
                "REL-008",
                "the grades are incomplete, so the samples that did not pass aren't all known.",
                where=path,
                fix="Grade its runs again, or name the samples with --only.",
            )
        yield from results


def _no_grades(document: Document) -> InputError:
    return InputError(
        "FIL-006",
        "--failed-in reads grades, and this is something else.",
        where=document.file,
        fix="Name a stored evaluation, or grade the runs first: `assay grade RUNS -o grades.json`.",
    )


def _failed(results: Iterable[Mapping[str, Any]], dataset: LoadedDataset, named: str) -> list[str]:
    """The samples that did not pass in all of their runs."""
    failed: dict[str, None] = {}
    for result in results:
        of = result.get("dataset") or {}
        sample = of.get("sample_id") or result.get("sample_id")
        if of.get("id") not in (None, dataset.id):
            raise UsageError(
                "CLI-001",
                f"{named} is of the dataset {of['id']}, and this run is on {dataset.id}.",
                fix="Name an evaluation on the same dataset.",
            )
        if result.get("passed") is True:
            continue
        if not isinstance(sample, str):
            raise InputError(
                "FIL-002", f"the grade of {result.get('run_id')!r} names no sample.", where=named
            )
        failed[sample] = None
    return list(failed)
