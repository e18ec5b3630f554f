"""The evaluations that `assay import` makes of imported runs."""

from __future__ import annotations

import os
from collections import Counter
from datetime import UTC, datetime
from typing import IO, TYPE_CHECKING, Any

from msgspec import structs

from assay.canon import pretty
from assay.cli import options as opt
from assay.cli.grade import choice_of
from assay.cli.hints import command
from assay.cli.imported_inputs import noted
from assay.cli.ledger import baselines_folder, ledger_options, storing
from assay.errors import UsageError, printable
from assay.files.atomic import write_file
from assay.files.inputs import file_digest
from assay.files.json_files import read_documents
from assay.views.evaluation import evaluation_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from assay.cli.parsing import Options
    from assay.scoring.profile import Profile
    from assay.services.importing import ImportedRuns
    from assay.services.storing import MadeEvaluation, Store


def store_evaluations(
    options: Options, imported: ImportedRuns, *, profile: Profile | None, folder: str
) -> list[MadeEvaluation]:
    """Grade imported runs and store their evaluations; nothing if nothing is to be stored.
    `profile` was made from their metrics.
    """
    if options.name is not None:
        from assay.services.evaluations import check_name

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
    from assay.release.baseline import names
    from assay.services.evaluations import find_evaluation
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
    from assay.services.evaluations import default_name
    from assay.services.storing import EvaluationBuilder, basis_of, evaluate_runs, run_groups

    if profile is not None:
        options.made_profile = profile  # what a team's scorers add belongs to its own profile
    choice = choice_of(options).dated()
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
    from assay.services.evaluations import find_evaluation

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
        for reason, count in sorted(stored.ungraded.items()):
            out.write(f"  not graded: {count:,}, {printable(reason)}\n")
    if made:
        name, more = made[0].evaluation.name, ledger_options(options)
        out.write(f"See details: {command('explain', name, options=options)}{more}\n")
        browse = command("view", name, options=options, carry=("--library",))
        out.write(f"In your browser: {browse}{more}\n")
