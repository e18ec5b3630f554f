"""`assay import`: what another tool wrote, as evidence and as an evaluation.

The runs wait in a temporary file until all of the input was good. Only then the outputs take their
names and the evaluation goes into the ledger. `--save-map` writes what the columns of a table are
into the `map:` of assay.yaml.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from msgspec import structs

from assay.canon import plain, pretty
from assay.cli import options as opt
from assay.cli.frame import CHOICES, STORE, Command, Options, arg, flag
from assay.cli.grade import graded_choice
from assay.cli.hints import command
from assay.cli.imported_inputs import left_out, noted
from assay.cli.ledger import ledger_options, storing
from assay.cli.references import reading_of
from assay.errors import ExitCode, NotEnoughEvidence, UsageError, count, printable
from assay.files.atomic import atomic_write, write_file
from assay.files.inputs import file_digest
from assay.files.json_files import read_documents
from assay.files.upwards import CONFIG_FILE, find_config
from assay.importers.importer import Wanted, named
from assay.importers.known import KNOWN, fitting
from assay.importers.samples import head_of
from assay.project.config import read_config
from assay.project.imports import check_saved_map, check_scales, kind_of
from assay.project.ledger import baselines_folder, ledger_folder
from assay.release.baseline import names
from assay.services.evaluations import check_name, default_name, find_evaluation
from assay.services.importing import ImportedRuns, import_runs, totals
from assay.views.evaluation import evaluation_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from assay.importers.tally import ImportTally
    from assay.scoring.profile import Profile
    from assay.services.storing import MadeEvaluation, Store


def store_evaluations(
    options: Options, imported: ImportedRuns, *, profile: Profile | None, folder: str
) -> list[MadeEvaluation]:
    """Grade imported runs and store their evaluations; nothing if nothing is to be stored.
    `profile` was made from their metrics.
    """
    if options.name is not None:
        check_name(options.name)
    with storing(options) as store:
        if store is None:
            return []
        if options.name is not None:
            _check_taken(options, store)
        made = evaluate_file(options, store, imported.spool, imported, profile, folder=folder)
        store.put()
    return made


def _check_taken(options: Options, store: Store) -> None:
    """Refuse the name of a baseline, and report an earlier evaluation of the same name: from now on
    the name alone means the new one.
    """
    from assay.store.baselines import baseline_names

    name, ledger = options.name, store.ledger
    folder = baselines_folder()
    if name in (*names(folder), *baseline_names(ledger, project=store.project)):
        raise UsageError(
            "CLI-001",
            f"{name!r} is the name of a baseline.",
            fix="Give the evaluation another name with --name.",
        )
    before = find_evaluation(ledger, name, project=store.project)
    if before is not None:
        evaluation = before.evaluation
        store.note(
            f"{name} was {evaluation.id}, {evaluation.workflow.id}@{evaluation.workflow.version} on"
            f" {evaluation.dataset.id}@{evaluation.dataset.version}. It is {name}~1 now."
        )


def evaluate_file(
    options: Options,
    store: Store,
    spool: str,
    imported: ImportedRuns | None = None,
    profile: Profile | None = None,
    *,
    folder: str,
) -> list[MadeEvaluation]:
    """Grade the runs of a file, and let their evaluations wait in the store. If they are
    `imported`, `profile` was made from their metrics, and what the import notes is kept with the
    evaluations.
    """
    from assay.services.storing import EvaluationBuilder, basis_of, evaluate_runs, run_groups

    choice = graded_choice(options, of_tool=profile is not None).choice.dated()
    if profile is not None:
        path = os.path.join(folder, f"{profile.id}.yaml")
        write_file(path, pretty(profile))
        choice = structs.replace(choice, profile=path)
    grader, basis = choice.grader(), basis_of(choice.read_cards(), choice.now)
    now = opt.moment(options.now) or datetime.now(UTC)
    files = options.files if imported is None else imported.files
    settings = {
        "importer": None if imported is None else imported.importer.name,
        "files": [_file(path) for path in files],
        "profile": options.profile,
        "policy": options.policy,
        "rubric": options.rubric,
        "own_profile": None if profile is None else {"profile": profile, "rubric": None},
        **({} if imported is None else noted(imported.tally)),
    }
    groups = run_groups(document.tree for document in read_documents(spool))
    made: list[MadeEvaluation] = []
    names: Counter[str] = Counter()
    if basis.drafts:
        store.add(list(basis.drafts))
    for group in groups:
        name = options.name or default_name(group.workflow.id, now)
        names[name] += 1
        name = name if names[name] == 1 else f"{name}-{names[name]}"
        if not (options.name or options.now):
            name = _free(name, store, made)
        started, finished = group.span(now)
        documents = (
            structs.replace(document, file=files[0])
            for document in read_documents(spool)
            if len(groups) == 1 or group.has(document.tree)
        )
        made.append(
            evaluate_runs(
                documents,
                grader,
                EvaluationBuilder(  # which is as large as its evaluation: not kept
                    name=name,
                    workflow=group.workflow,
                    dataset=group.dataset,
                    settings=settings,
                    started=started,
                    source="import",
                ),
                store.add,
                finished=finished,
                basis=basis,
            )
        )
    return made


def _free(name: str, store: Store, made: Sequence[MadeEvaluation]) -> str:
    """A name that no evaluation has yet: two may be imported within one second."""
    taken = {imported.evaluation.name for imported in made}
    return next(
        each
        for each in (name, *(f"{name}-{number}" for number in range(2, 10_000)))
        if each not in taken and find_evaluation(store.ledger, each, project=store.project) is None
    )


def _file(path: str) -> dict[str, str]:
    if path == "-" or not os.path.isfile(path):  # a pipe can't be read again
        return {"name": "<stdin>" if path == "-" else os.path.basename(path)}
    return {"name": os.path.basename(path), "sha256": file_digest(path)}


def shown(made: Sequence[MadeEvaluation]) -> list[dict[str, Any]]:
    """The evaluations in brief, for `--json`."""
    return [
        {
            "id": stored.evaluation.id,
            "name": stored.evaluation.name,
            "totals": stored.evaluation.totals,
            "ungraded": dict(stored.ungraded),
        }
        for stored in made
    ]


def tell_evaluations(options: Options, made: Sequence[MadeEvaluation], out: IO[str]) -> None:
    """Print what was stored, why runs have no grade, and which commands show more."""
    for stored in made:
        out.write(f"{printable(evaluation_line(stored.evaluation))}\n")
        for reason, times in sorted(stored.ungraded.items()):
            out.write(f"  not graded: {times:,}, {printable(reason)}\n")
    if made:
        name, more = made[0].evaluation.name, ledger_options(options)
        out.write(f"See details: {command('explain', name, options=options)}{more}\n")
        browse = command("view", name, options=options, carry=("--library",))
        out.write(f"In your browser: {browse}{more}\n")


FORMATS = (".jsonl", ".json")

_PROFILE = ".profile.yaml"


def run(options: Options) -> int:
    """Run the verb."""
    paths = opt.outputs(options)
    with tempfile.TemporaryDirectory() as folder:
        outcome = import_files(options, folder)
        imported, profile, made, problem = outcome
        written = _write(paths, imported, profile)
        if options.save_map:
            written.append(save_map(options, imported.tally.mapping))
        # runs have people's texts in them: they are printed only where they would otherwise be lost
        printed = not paths and not made and problem is None
        if options.json:
            opt.print_json(outcome.document(written, with_runs=not paths and problem is None))
        else:
            if printed:
                with open(imported.spool, "rb") as stream:
                    shutil.copyfileobj(stream, sys.stdout.buffer)
                sys.stdout.buffer.flush()
            out = sys.stderr if printed else sys.stdout
            saved = options.save_map or (not options.map and bool(reading_of(options).mapping))
            _tell(imported, profile, out, saved=saved)
            opt.report_written(options, written)
            tell_evaluations(options, made, out)
            _hint(options, paths, profile, out)
    if problem is not None:
        raise problem
    return ExitCode.PASSED


class ImportOutcome(NamedTuple):
    """Imported runs, the profile made from their metrics, the evaluations they were stored as, and
    why they could not be graded.
    """

    imported: ImportedRuns
    profile: Profile | None
    made: list[MadeEvaluation]
    problem: NotEnoughEvidence | None

    def document(self, written: list[str], *, with_runs: bool) -> dict[str, Any]:
        """As JSON shows it."""
        document = _document(self.imported, self.profile, written, with_runs=with_runs)
        return {**document, "evaluations": shown(self.made)}


def import_files(options: Options, folder: str) -> ImportOutcome:
    """Import the files of the options, and store the evaluations where the options ask for that;
    the runs wait in the folder.
    """
    read = read_files(options, folder)
    if read.problem is not None:
        return read
    made = store_evaluations(options, read.imported, profile=read.profile, folder=folder)
    return read._replace(made=made)


def read_files(options: Options, folder: str) -> ImportOutcome:
    """Import the files of the options, and store nothing; the runs wait in the folder."""
    reading = reading_of(options)
    kind = kind_of(reading, options.files)
    if kind is None and "-" not in options.files:
        for head in map(head_of, options.files):
            if not fitting(head, reading.mapping):
                check_saved_map(head, reading)
    imported = import_runs(options.files, folder, kind=kind, wanted=_wanted(options))
    check_scales(reading, imported)
    profile, problem = _made_profile(options, imported)
    return ImportOutcome(imported, profile, [], problem)


def _wanted(options: Options) -> Wanted:
    workflow = None if options.workflow is None else named(options.workflow, "--workflow")
    return Wanted(
        workflow,
        options.family,
        None if options.dataset is None else named(options.dataset, "--dataset"),
        reading_of(options).mapping,
    )


def _made_profile(
    options: Options, imported: ImportedRuns
) -> tuple[Profile | None, NotEnoughEvidence | None]:
    """The profile made from the file's metrics, where no other is chosen; or why there is none."""
    if options.profile is not None or options.family is not None:
        return None, None
    try:
        return imported.made_profile(), None
    except NotEnoughEvidence as problem:  # the runs are worth having all the same
        return None, problem


def _write(paths: list[str], imported: ImportedRuns, profile: Profile | None) -> list[str]:
    """Write the outputs, with the profile next to each, and name what was written."""
    written = []
    for path in paths:
        with atomic_write(path) as out:
            _copy(imported.spool, out, as_list=path.endswith(".json"))
        written.append(path)
        if profile is not None:
            write_file(profile_path(path), _profile_text(profile))
            written.append(profile_path(path))
    return written


def _profile_text(profile: Profile) -> bytes:
    """The profile as editable YAML."""
    import yaml  # only where one is written

    text = yaml.safe_dump(plain(profile), sort_keys=False, allow_unicode=True, width=100)
    return (
        f"# {profile.title}. To change weights or add floors, give it a name of your own.\n{text}"
    ).encode()


def profile_path(path: str) -> str:
    """Where the profile of runs is written.

    >>> profile_path("out/runs.jsonl")
    'out/runs.profile.yaml'
    """
    return path.rpartition(".")[0] + _PROFILE


def _copy(spool: str, out: IO[bytes], *, as_list: bool) -> None:
    with open(spool, "rb") as stream:
        if not as_list:
            shutil.copyfileobj(stream, out, 1024 * 1024)
            return
        joint = b"[\n"
        for line in stream:
            out.write(joint + line.rstrip(b"\n"))
            joint = b",\n"
        out.write(b"\n]\n")


def _document(
    imported: ImportedRuns, profile: Profile | None, written: list[str], *, with_runs: bool
) -> dict[str, Any]:
    tally = imported.tally
    return {
        "runs": _lines(imported.spool) if with_runs else [],
        "importer": imported.importer.name,
        "counts": {
            "runs": imported.n,
            "read": dict(tally.read),
            "dropped": dict(tally.dropped),
        },
        "errors": tally.errors,
        "totals": totals(tally) if tally.samples else [],
        "map": tally.mapping,
        "profile": profile,
        "notes": tally.notes,
        "written": written,
    }


def _lines(spool: str) -> list[Any]:
    import msgspec

    with open(spool, "rb") as stream:
        return [msgspec.Raw(line) for line in stream]


def _tell(imported: ImportedRuns, profile: Profile | None, out: IO[str], *, saved: bool) -> None:
    """What was read and what was left out, and the tool's totals next to ours."""
    tally = imported.tally
    what = "columns" if imported.importer.name == "table" else "scales"
    how = "" if saved else " (--save-map writes it)"
    lines = [
        f"{count(imported.n, 'run')} from {tally.read_text()}: {imported.importer.title}",
        *([f"  errors: {tally.errors:,} of {tally.samples:,} samples"] if tally.errors else []),
        *(f"  {printable(line)}" for line in left_out(tally)),
        *([f"  the {what} as a block for assay.yaml{how}:"] if tally.mapping else []),
        *(f"    {printable(line)}" for line in map_lines(tally.mapping) if tally.mapping),
        *(_total_lines(tally) if tally.samples else []),
        *([] if profile is None else _profile_lines(profile)),
    ]
    out.writelines(f"{line}\n" for line in lines)


def _profile_lines(profile: Profile) -> list[str]:
    criteria = ", ".join(item.label for item in profile.criteria)
    gates = "".join(f"; gate {ref.id}" for ref in profile.gates)
    return [
        f"  profile {profile.id}, made from {profile.made_from}",
        f"    {printable(criteria)}, equal weights, no floors{gates}",
    ]


def _total_lines(tally: ImportTally) -> Iterator[str]:
    rows = totals(tally)
    width = max(len(row["total"]) for row in rows)
    has_theirs = any(row["theirs"] is not None for row in rows)
    if has_theirs:
        yield f"  {'':<{width}}  {'theirs':>10}  {'ours':>10}"
    for row in rows:
        n = f"  n={row['n']:,}" if "n" in row else ""
        theirs = f"  {_number(row['theirs']):>10}" if has_theirs else ""
        yield f"  {printable(row['total']):<{width}}{theirs}  {_number(row['ours']):>10}{n}"


def _number(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:,}" if isinstance(value, int) else f"{float(value):.4f}"


def _hint(options: Options, paths: list[str], profile: Profile | None, out: IO[str]) -> None:
    if paths and profile is not None:
        words = command("grade", paths[0], "--profile", profile_path(paths[0]), options=options)
        out.write(f"Grade them again: {words}\n")


_BLOCK = re.compile(r"^map:.*\n?(?:(?:[ \t].*|[ \t]*)(?:\n|\Z))*?(?=^\S|\Z)", re.MULTILINE)


def map_lines(mapping: Mapping[str, str]) -> list[str]:
    """The lines of the block.

    >>> map_lines({"id": "ticket", "score:quality": "stars:1..5"})
    ['map:', '  id: "ticket"', '  "score:quality": "stars:1..5"']
    """
    keys = {key: key if key.isidentifier() else json.dumps(key) for key in mapping}
    return ["map:", *(f"  {keys[key]}: {json.dumps(text)}" for key, text in mapping.items())]


def save_map(options: Options, mapping: Mapping[str, str]) -> str:
    """Write the block into the configuration, in the place of the one before, and give the path.
    Nothing else in the file changes.
    """
    if not mapping:
        raise UsageError(
            "CLI-001",
            "there is no mapping to save: the file is not a table of columns, and --map"
            " sets no scale.",
            fix="Leave out --save-map.",
        )
    config = options.config
    if config is None:
        # one that was not read, else next to the ledger: in any other folder it would start a new
        # project with another ledger
        path = find_config() or os.path.normpath(os.path.join(ledger_folder(), "..", CONFIG_FILE))
    else:
        path = config.path
    before = ""
    if os.path.exists(path):
        with open(path, encoding="utf-8") as stream:
            before = stream.read()
    block = "\n".join(map_lines(mapping)) + "\n"
    if _BLOCK.search(before):
        after = _BLOCK.sub(lambda _: block, before, count=1)
    else:
        after = before + ("" if not before or before.endswith("\n") else "\n") + block
    write_file(path, after.encode())
    read_config(path)
    return path


COMMANDS = {
    "import": Command(
        run,
        "Turn another tool's results into evidence (assay.run/1), grade it and store it as"
        " an evaluation. Anything left out is counted and named. It exits 0 even if runs"
        " fail.",
        "assay import results.json -o runs.jsonl --workflow triage@3",
        (
            arg(
                "files",
                nargs="+",
                metavar="FILE",
                help="another tool's result files, or - for standard input",
            ),
            arg(
                "--from",
                heading="other tools' files",
                offers="importers",
                kind="text",
                trust="freely",
                dest="kind",
                metavar="KIND",
                help=(f"the tool that wrote them: {', '.join(sorted(KNOWN))} (default: detected)"),
            ),
            arg(
                "--workflow",
                kind="text",
                trust="freely",
                metavar="ID@VERSION",
                help="the workflow that ran, if the files don't name it",
            ),
            arg(
                "--family",
                kind="text",
                trust="freely",
                metavar="F",
                help="the family of the workflow, which chooses the profile",
            ),
            arg(
                "--dataset",
                kind="text",
                trust="freely",
                metavar="ID@VERSION",
                help="the dataset it ran on, if the files don't name it",
            ),
            arg(
                "--name",
                kind="text",
                trust="freely",
                metavar="NAME",
                help="the name of the evaluation (default: the workflow and the time)",
            ),
            "--map",
            flag("--save-map", "save the column mapping in assay.yaml"),
            *CHOICES,
            *STORE,
            "--no-store",
        ),
        formats=FORMATS,
        # another tool's results are graded by what that tool measured
        without=("profile", "policy", "rubric"),
    ),
}
