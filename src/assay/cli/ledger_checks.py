"""`assay ledger`: check a whole ledger, and recompute what it stores."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from assay.cli import options as opt
from assay.cli.frame import Command, Options, arg, repeated
from assay.cli.memory import uncollected
from assay.cli.progress import Progress
from assay.errors import AssayError, ExitCode, InputError, ShelfError, UsageError, count, printable
from assay.library.shelf import Shelf
from assay.project.ledger import open_for
from assay.services.evaluation_checks import replay_evaluation, verify_ledger
from assay.services.evaluations import find_evaluation
from assay.services.replay import Replayed, replay, replay_decision, stored_gates
from assay.services.storing import grade_of_run, shelf_with_own, verb_of
from assay.store.drafts import Item
from assay.store.ledger import Ledger
from assay.store.verify import VerifyReport
from assay.views.grade_line import passed_word


def _verify(options: Options) -> int:
    expected = dict(map(_head, options.head))
    with open_for(options.db, read_only=True) as ledger:
        total = 0
        with suppress(
            AssayError
        ):  # only how long it takes; what is wrong with the ledger is found below
            total = sum(ledger.count(project=project).n for project in ledger.projects())
        progress = Progress(total, "verify", unit="records")
        report = verify_ledger(ledger, progress.add, expected=expected)
        progress.end()
        where = ledger.where
    clean = ExitCode.PASSED if report.records else ExitCode.NOT_ENOUGH
    code = clean if report.clean else ExitCode.FAILED
    return opt.give(options, _report(report, where), _report_lines(report, where), code)


def _head(text: str) -> tuple[str, tuple[int, str]]:
    project, _, rest = text.partition(":")
    seq, _, chain = rest.partition(":")
    if not project or not seq.isdigit() or not chain.startswith("sha256:"):
        raise UsageError(
            "CLI-001",
            f"--head is {text!r}.",
            fix="Write it as `assay ledger verify` prints it: default:120:sha256:...",
        )
    return project, (int(seq), chain)


def _report(report: VerifyReport, where: str) -> dict[str, Any]:
    return {
        "schema": "assay.verified-ledger/1",
        "ledger": where,
        "clean": report.clean and (True if report.records else None),
        "records": report.records,
        "links": report.links,
        "forgotten": report.forgotten,
        "projects": {
            name: {"records": seq, "head": f"{name}:{seq}:{chain}"}
            for name, (seq, chain) in report.heads.items()
        },
        "faults": [flaw._asdict() for flaw in report.flaws],
        "fault_count": report.flaw_count,
    }


def _report_lines(report: VerifyReport, where: str) -> Iterator[str]:
    verdict = (
        ("clean" if report.records else "the ledger has no records, so nothing was verified")
        if report.clean
        else count(report.flaw_count, "fault")
    )
    colour = "green" if report.clean and report.records else "red"
    yield opt.paint(f"{printable(where)}: {verdict}", colour, "bold")
    for flaw in report.flaws[:50]:
        parts = (flaw.project, flaw.seq, flaw.digest)
        place = " ".join(str(part) for part in parts if part not in (None, "")) or where
        yield "  " + printable(f"{place}: {flaw.what} {flaw.fix}")
    if report.flaw_count > 50:
        yield (
            f"  ... and {report.flaw_count - 50:,} more; --json lists {len(report.flaws):,} of"
            " them."
        )
    yield (
        f"{count(report.records, 'record')}, {count(report.links, 'link')}, {report.forgotten:,}"
        " forgotten"
    )
    if report.clean and not report.records:
        yield (
            "If it ever had records, name its last head: --head PROJECT:SEQ:CHAIN, as `--store`"
            " and `assay ledger verify` print it."
        )
    yield from (f"head {name}:{seq}:{chain}" for name, (seq, chain) in report.heads.items())


# --- replay


def _replay(options: Options) -> int:
    shelf = opt.shelf_of(options)
    with open_for(options.db, read_only=True) as ledger:
        item = replayable(ledger, options.id, project=options.project)
        try:
            replayed = _made_again(ledger, item, shelf, options.project)
        except ShelfError as error:
            if error.code != "LIB-001":
                raise
            try:
                with tempfile.TemporaryDirectory() as folder:
                    own = shelf_with_own(shelf, ledger, item, folder, project=options.project)
                    replayed = _made_again(ledger, item, own, options.project)
            except ShelfError as lacking:
                if lacking.code == "LIB-001" and lacking.fix:
                    lacking.fix = "Give the library that it was made with: --library FOLDER."
                raise
    return opt.give(
        options, _replayed(replayed), _replayed_lines(replayed), ExitCode.of(replayed.same)
    )


def _made_again(ledger: Ledger, item: Item, shelf: Shelf, project: str) -> Replayed:
    if item.kind == "decision":
        with uncollected():
            return replay_decision(ledger, item, shelf, project=project)
    if item.kind == "evaluation":
        return replay_evaluation(ledger, item, shelf, project=project)
    return replay(ledger, item, shelf, project=project)


def replayable(ledger: Ledger, wanted: str, *, project: str = "default") -> Item:
    """The stored grade, decision or evaluation that a person means: by digest, by the beginning of
    one, an evaluation by its name, or a grade by its run.
    """
    digits = wanted.removeprefix("sha256:").lower()
    if 8 <= len(digits) <= 64 and set(digits) <= set("0123456789abcdef"):
        items = ledger.starting_with(digits, project=project)
        made = [item for item in items if item.kind in ("grade", "decision", "evaluation")]
        if len(made) == 1:
            return made[0]
        if len(made) > 1:
            raise UsageError(
                "CLI-001",
                f"{len(made)} records or more begin with {wanted!r}.",
                where=ledger.where,
                fix="Give more digits.",
            )
        if items:
            raise _not_replayable(items[0])
    evaluation = find_evaluation(ledger, wanted, project=project)
    if evaluation is not None:
        return ledger.get_many([evaluation.digest], project=project)[evaluation.digest]
    grade = grade_of_run(ledger, wanted, project=project)
    if grade is None:
        raise InputError(
            "STO-012",
            f"no evaluation and no graded run is named {wanted!r} in the project '{project}'.",
            where=ledger.where,
            fix="Give a digest, an evaluation's name or a run id; `assay evals` lists evaluations.",
        )
    return grade


def _not_replayable(item: Item) -> InputError:
    verb = verb_of(item.schema) if item.kind == "result" else None
    fix = (
        f"`assay {verb}` makes it again from its input."
        if verb
        else "Run the command that made it again."
        if item.kind == "result"
        else ""
    )
    return InputError(
        "STO-017",
        f"this record is of kind '{item.kind}'; only grades, decisions and evaluations can be"
        " replayed.",
        where=item.digest,
        fix=fix,
    )


def _replayed(replayed: Replayed) -> dict[str, Any]:
    stored = replayed.stored
    return {
        "schema": "assay.replay/1",
        "digest": replayed.item.digest,
        **{
            name: stored[name]
            for name in (
                ("run_id", "grade")
                if replayed.item.kind == "grade"
                else ("id", "name")
                if replayed.item.kind == "evaluation"
                else ("outcome",)
                if "outcome" in stored
                else ("passed",)
            )
        },
        "same": replayed.same,
        "difference": None if replayed.difference is None else replayed.difference._asdict(),
        **{
            name: stored.get(name)
            for name in ("policy", "profile", "rubric", "scoringSystem", "gradingSystem")
        },
    }


def _replayed_lines(replayed: Replayed) -> Iterator[str]:
    stored = replayed.stored
    if replayed.item.kind == "grade":
        name, outcome = stored["run_id"], f"{stored['grade']} {stored['weighted_score']}"
    elif replayed.item.kind == "evaluation":
        totals = stored["totals"]
        name, outcome = stored["name"], f"{totals['passed']:,} of {totals['n']:,} runs passed,"
    else:
        gate = stored_gates().get(stored["schema"])
        name = "decision" if gate is None else gate.name
        outcome = stored.get("outcome") or passed_word(stored["passed"])
    head = (
        f"{name}: {'the same' if replayed.same else 'DIFFERENT'}, {outcome} {replayed.item.digest}"
    )
    yield opt.paint(printable(head), "green" if replayed.same else "red", "bold")
    if replayed.difference is not None:
        place, here, there = replayed.difference
        yield f"  {printable(f'{place}: stored {_short(here)}, recomputed {_short(there)}')}"
    used = " · ".join(
        str(stored[name])
        for name in ("profile", "rubric", "policy", "scoringSystem", "gradingSystem")
        if stored.get(name) is not None
    )
    if used:
        yield opt.paint(f"  {printable(used)}", "dim")


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 120 else text[:117] + "..."


COMMANDS = {
    "ledger verify": Command(
        _verify,
        "Check a whole ledger: every digest, every link, the chain of every project, the totals of"
        " every evaluation. Exit 0 if nothing was changed, 1 if something was, 4 if the"
        " ledger is empty.",
        "assay ledger verify --db sqlite:///.assay/ledger.db",
        (
            "--db",
            repeated(
                "--head",
                "PROJECT:SEQ:CHAIN",
                "the head of a project, as printed earlier; detects that the newest records were"
                " cut off; may be repeated",
                kind="text",
                trust="never",
            ),
        ),
    ),
    "ledger replay": Command(
        _replay,
        "Recompute a stored grade, decision or evaluation from its evidence under the"
        " recorded versions, and compare the bytes. Exit 0 if they are the same.",
        "assay ledger replay r-001 --db sqlite:///.assay/ledger.db",
        (
            arg(
                "id",
                kind="text",
                metavar="ID",
                help=(
                    "the digest of a grade, decision or evaluation, the beginning of one (8 digits"
                    " or more), an evaluation's name, or a run id: then its newest grade"
                ),
            ),
            "--db",
            "--project",
            "--library",
        ),
    ),
}
