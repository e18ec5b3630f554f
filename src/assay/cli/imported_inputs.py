"""Another tool's result file where a command takes runs: it is imported to a temporary file, and
graded by the profile that its metrics make.

In a comparison the baseline's metrics make the profile: a metric that the candidate lacks counts as
lost, and its additional metrics don't count. Results of two tools are never compared.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from decimal import Decimal
from hashlib import sha256
from typing import Any

from msgspec import to_builtins

from assay.archive.evaluation_choice import (
    MAP,
    ToolProfile,
    made_profile,
    own_profile,
    refuse_unknown_scales,
)
from assay.cli import options as opt
from assay.cli.ledger_names import baselines_of
from assay.cli.parsing import Options
from assay.errors import InputError, NotEnoughEvidence, UsageError, count
from assay.files.atomic import write_file
from assay.files.inputs import StoredInput, file_digest
from assay.files.json_files import stream_documents
from assay.files.own_files import looks_own, stdin_start
from assay.importers.column_map import check_map, columns_of, parse_map, scales_of
from assay.importers.head import Head
from assay.importers.importer import Wanted
from assay.importers.known import fitting
from assay.importers.parts import head_of
from assay.importers.recognition import described, is_foreign, unrecognised
from assay.importers.tally import ImportTally
from assay.pipeline.importing import ImportedRuns, import_runs
from assay.pipeline.made_profile import PASSED, map_option
from assay.registry import is_path, near_miss
from assay.views.documents import pretty
from assay.views.pieces import clip

MAX_NOTES = 20
MAX_NOTE = 500
"""Limits of what is kept of an import's notes."""
MADE = "the metrics of the results"
"""Where the value of `--profile` comes from that was made from metrics."""


class ImportedInput(StoredInput):
    """Runs imported for one command; named by the files they came from."""

    imported: ImportedRuns


def mapping_of(options: Options) -> dict[str, str]:
    """What the columns of a table are: as `--map` says it, else as assay.yaml does."""
    if options.map:
        return parse_map(options.map)
    config = options.config
    if config is None or not config.spec.map:
        return {}
    check_map(config.spec.map, config.place("map"))
    return dict(config.spec.map)


def check_saved_map(head: Head, options: Options) -> None:
    """Refuse a table that lacks some of the columns that assay.yaml names; one that lacks all of
    them is another table.
    """
    config = options.config
    if options.map or config is None:
        return
    mapping = mapping_of(options)
    named = dict(zip(filter(mapping.get, mapping), columns_of(mapping), strict=True))
    if head.columns.isdisjoint(named.values()):
        return
    for key, column in named.items():
        if column not in head.columns:
            raise InputError(
                "FIL-006",
                f"maps {key} to {column!r}, which {head.path} lacks."
                f"{near_miss(column, sorted(head.columns))}",
                where=config.place("map", key),
                fix="Correct the line, or give --map for this file.",
            )


def is_importable(text: str, options: Options, *, items: bool = False) -> bool:
    """Whether a text is a file that has to be imported first. A file that nobody knows, and that is
    not JSON or has nothing of a run, is refused here, with what it looks like, unless the command
    reads `items` of its own.
    """
    if not is_path(text):
        return False
    if options.kind is not None or (text == "-" and options.map):
        return True
    if looks_own(text) or items:
        return False
    if text == "-":
        raise _unnamed()
    if options.map:
        return True
    head = head_of(text)
    if fitting(head, mapping_of(options)):
        return True
    check_saved_map(head, options)
    if head.data.strip() and (not head.text.startswith(("{", "[")) or is_foreign(head)):
        raise unrecognised(head)
    return False  # the reader reports what is wrong with it


def _unnamed() -> InputError:
    """The refusal of standard input that is not JSON: it can be read only once, so its kind must
    be named.
    """
    head = Head("<stdin>", stdin_start())
    known = fitting(head) if head.text and not head.data.startswith((b"PK", b"PAR1")) else []
    return InputError(
        "FIL-006",
        f"Assay doesn't recognise this input: it is {described(head)}.",
        where=head.path,
        fix=f"Name its kind with --from {known[0].name if known else 'KIND'}.",
    )


def kind_of(options: Options, paths: Sequence[str]) -> str | None:
    """The importer that the command line names: with `--map` it is that of tables, unless it only
    says the scales of metrics that another tool wrote.
    """
    kind: str | None = options.kind
    if kind is not None or not options.map:
        return kind
    mapping = parse_map(options.map)
    is_scales = len(scales_of(mapping)) == len(mapping) and all(map(os.path.isfile, paths))
    if is_scales and any(importer.name != "table" for importer in fitting(head_of(paths[0]))):
        return None
    return "table"


def check_scales(options: Options, imported: ImportedRuns) -> None:
    """Refuse a `--map` for another tool's file that says anything but the scales of its metrics."""
    if not options.map or imported.importer.name == "table":
        return
    mapping = parse_map(options.map)
    other = [key for key, text in mapping.items() if not scales_of({key: text})]
    unused = [key for key in mapping if key not in imported.tally.mapping]
    if not other and not unused:
        return
    names = ", ".join(metric.label for metric in imported.tally.metrics.values()) or "no metrics"
    raise UsageError(
        "CLI-001",
        f"--map has {(other or unused)[0]!r}, but "
        + (
            f"for {imported.importer.name} it can only set the scales of metrics."
            if other
            else f"the file has no metric for {mapping[unused[0]]}."
        ),
        where=", ".join(imported.files),
        fix=f"Write score:NAME=METRIC:LOW..HIGH, once for each. The file has {names}.",
    )


def import_input(texts: Sequence[str], folder: str, options: Options) -> ImportedInput:
    """Import files that a command takes together."""
    place = os.path.join(folder, "imported")
    os.makedirs(place, exist_ok=True)
    wanted = Wanted(mapping=mapping_of(options))
    imported = import_runs(texts, place, kind=kind_of(options, texts), wanted=wanted)
    check_scales(options, imported)
    name = ", ".join("<stdin>" if text == "-" else text for text in texts)
    # of a pipe, which can't be read again, its runs
    named = texts if all(map(os.path.isfile, texts)) else [imported.spool]
    made = ImportedInput(name, imported.spool, files_digest(named))
    made.imported = imported
    return made


def files_digest(paths: Sequence[str]) -> str:
    """The digest of a file's bytes; of several files, of the list of theirs."""
    digests = [file_digest(path) for path in paths]
    return digests[0] if len(digests) == 1 else sha256("\n".join(digests).encode()).hexdigest()


def refuse_unclear(options: Options, candidates: Sequence[str], baselines: Sequence[str]) -> None:
    """Refuse a file without runs among other tools' results, and a baseline with a metric whose
    scale isn't known.
    """
    if is_chosen(options):
        return
    both = (*candidates, *baselines)
    if any(made_of(options, side, needed=False) for side in both):
        for side in both:
            if not isinstance(side, StoredInput):
                _refuse_empty(side, "baseline" if side in baselines else "candidate")
    for side in baselines:
        if isinstance(side, ImportedInput):
            made = made_of(options, side, needed=True)
            names = [] if made is None else made.profile.get("not_graded") or []
            if made is not None and names:
                option = map_option(side.imported.tally, names)
                refuse_unknown_scales(made, option, again=False)


def with_made_profile(
    options: Options, judged: Sequence[str], chosen: ToolProfile, folder: str
) -> Options:
    """The options that grade by a profile that was made from metrics."""
    names = [item["id"] for item in chosen.profile["criteria"]]
    for one in judged:
        if isinstance(one, ImportedInput):
            if PASSED in names:
                one.imported.score_verdicts()
            _compare_metrics(one, names)
    path = os.path.join(folder, f"{chosen.profile['profile']}@{chosen.profile['version']}.yaml")
    write_file(path, pretty(chosen.profile))
    return options.with_values(
        profile=path,
        rubric=None,
        sources={**options.sources, "profile": MADE, "rubric": MADE},
        resolved=options.resolved._replace(made=chosen),
    )


def _refuse_empty(path: str, side: str) -> None:
    """Refuse a file without runs, which would pass for a file of another tool."""
    if os.path.isfile(path) and next(stream_documents(path), None) is None:
        raise NotEnoughEvidence("REL-003", f"the {side} contains no runs.", where=path)


def is_chosen(options: Options) -> bool:
    """Whether the command line names a profile, or the command takes none."""
    named = getattr(options, "profile", "")
    source = options.sources.get("profile", "command line")
    return named == "" or (named is not None and source == "command line")


def made_of(options: Options, side: str, *, needed: bool) -> ToolProfile | None:
    """The profile that was made for an input; None if it was not made from metrics. A candidate is
    graded by the baseline's profile and needs none.
    """
    own: Any = None
    columns: Any = None
    if isinstance(side, ImportedInput):
        columns = side.imported.tally.mapping
        if not needed and side.imported.tally.samples:
            return ToolProfile(str(side), side.imported.importer.name, {}, columns)
        own = to_builtins(side.imported.made_profile(), builtin_types=(Decimal,))
    elif isinstance(side, StoredInput):
        settings = {} if side.evaluation is None else side.evaluation.evaluation.settings
        own, columns = own_profile(settings), settings.get(MAP)
    elif not is_path(side):
        record = _of_baseline(options, side)
        own, columns = record.get("made_profile"), record.get(MAP)
    elif side != "-" and not os.path.exists(side):
        file_digest(side)  # reports the missing file, which would pass for another tool's otherwise
    return made_profile(str(side), own, columns)


def _of_baseline(options: Options, name: str) -> Mapping[str, Any]:
    """The record of a stored baseline. With `--store` a baseline that the folder
    lacks may be in the ledger: if it can't be read, the code that reads it reports why.
    """
    from assay.archive.named_baselines import find_named
    from assay.cli.ledger import looking
    from assay.release.baseline import find
    from assay.store.baselines import find_baseline

    try:
        return find(baselines_of(options), name).record
    except NotEnoughEvidence:
        if getattr(options, "store", None) is None:
            raise
    with suppress(InputError), looking(options) as store:
        kept = store and find_baseline(store.ledger, name, project=store.project)
        baseline = (
            kept or find_named(baselines_of(options), name, store).stored
        )  # which reports none
        return baseline.record
    return {}


def _compare_metrics(side: ImportedInput, names: Sequence[str]) -> None:
    tally = side.imported.tally
    has = [name for name, metric in tally.metrics.items() if metric.n]
    for name in names:
        if name not in has:
            opt.note(f"{side}: lacks {name!r}, which the baseline has, so every sample loses it")
    if extra := [name for name in has if name not in names]:
        opt.note(f"{side}: not graded, because the baseline has no such metric: {', '.join(extra)}")


def report_import(imported: ImportedRuns) -> None:
    """Print on standard error what was imported and what was left out."""
    tally = imported.tally
    text = f"{', '.join(imported.files)}: {count(imported.n, 'run')} from {imported.importer.title}"
    opt.note(text + (f", {tally.errors:,} with errors" if tally.errors else ""))
    if tally.mapping:
        columns = ", ".join(f"{key}={column}" for key, column in tally.mapping.items())
        opt.note(f"  {'columns' if imported.importer.name == 'table' else 'scales'}: {columns}")
    for line in left_out(tally):
        opt.note(f"  {line}")


def left_out(tally: ImportTally) -> list[str]:
    """What was not taken over, and what else a reader should know."""
    return [*_dropped(tally), *(f"note: {note}" for note in tally.notes)]


def _dropped(tally: ImportTally) -> list[str]:
    return [
        f"left out: {reason.replace('_', ' ')} ({n:,})"
        for reason, n in sorted(tally.dropped.items())
    ]


def noted(tally: ImportTally) -> dict[str, Any]:
    """What a reader of the evaluations should know of their import; empty if nothing is."""
    listed = [*_dropped(tally), *tally.notes]
    notes = [clip(note, MAX_NOTE) for note in listed[:MAX_NOTES]]
    noted: dict[str, Any] = {"notes": notes} if notes else {}
    if tally.mapping:
        noted["map"] = dict(tally.mapping)
    if tally.unchecked:
        noted["unchecked"] = {"n": tally.unchecked, "of": tally.samples}
    return noted
