"""`assay verify` and `assay replay`, and what other verbs need to store their results."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from assay.cli import options as opt
from assay.cli.progress import Progress
from assay.errors import ExitCode, InputError, UsageError, printable

if TYPE_CHECKING:
    import argparse

    from assay.cli.keeping import Keeping
    from assay.cli.stream import Choice
    from assay.jobs import Replayed
    from assay.store.drafts import Draft, Item
    from assay.store.ledger import Ledger
    from assay.store.verify import Report

DEFAULT_URL = "sqlite:///.assay/ledger.db"
BATCH = 1500
"""Records stored in one transaction: enough to be quick, few enough that others get their turn."""


def run(verb: str, argv: list[str]) -> int:
    """Run one of the verbs of this file."""
    return _verify(argv) if verb == "verify" else _replay(argv)


def add_store(made: argparse.ArgumentParser) -> None:
    """The options of a verb that can store its results."""
    made.add_argument(
        "--store",
        metavar="URL",
        nargs="?",
        const="",
        help=f"also keep evidence and results in a ledger: sqlite:///FILE or postgresql://... (default: $ASSAY_DB, else {DEFAULT_URL})",
    )
    _add_project(made)


def _add_project(made: argparse.ArgumentParser) -> None:
    made.add_argument("--project", metavar="NAME", default="default", help="the project of the ledger (default: default)")


def _add_db(made: argparse.ArgumentParser) -> None:
    made.add_argument("--db", metavar="URL", default="", help=f"the ledger: sqlite:///FILE or postgresql://... (default: $ASSAY_DB, else {DEFAULT_URL})")


@contextmanager
def _extra() -> Iterator[None]:
    """Around an import of what a ledger needs: an extra, and a third of a second to load."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise UsageError("FIL-001", f"a ledger needs {error.name}, which is not installed.", fix="pip install 'assay[store]'") from None


def open_for(url: str, *, read_only: bool = False) -> Ledger:
    """The ledger of a URL, or of the default where it is empty."""
    with _extra():
        from assay.store.ledger import open_ledger
    return open_ledger(url or os.environ.get("ASSAY_DB") or DEFAULT_URL, read_only=read_only)


def keep(options: argparse.Namespace, choice: Choice, stack: ExitStack) -> Keeping | None:
    """What `--store` asks for; None where it is not given."""
    if options.store is None:
        return None
    with _extra():
        from assay.cli.keeping import Keeping
    return Keeping.of(options, choice, stack)


class Kept(NamedTuple):
    """How many records were stored, and how many were there before."""

    new: int
    known: int


def store_grades(ledger: Ledger, groups: Iterable[list[Draft]], *, project: str = "default") -> Kept:
    """Store grades, each a group of drafts with its evidence (see `jobs.Kept.drafts`). A group is stored whole or not at all."""
    new = known = 0
    waiting = iter(groups)
    while batch := [one for group in islice(waiting, BATCH // 3) for one in group]:
        for stored in ledger.put_many(batch, project=project):
            new += stored.new
            known += not stored.new
    return Kept(new, known)


# --- verify -------------------------------------------------------------------------------------------------------------------------------


def _verify(argv: list[str]) -> int:
    made = opt.parser(
        "verify",
        "Check a whole ledger: every digest, every link, the chain of every project. Exit 0 if all of it is as it was written, 1 if not.",
        "assay verify --db sqlite:///.assay/ledger.db",
    )
    _add_db(made)
    made.add_argument(
        "--head",
        metavar="PROJECT:SEQ:CHAIN",
        action="append",
        default=[],
        help="the head of a project as it was once printed: tells when the newest records were cut off; may be repeated",
    )
    options = made.parse_args(argv)
    expected = dict(map(_head, options.head))
    with open_for(options.db, read_only=True) as ledger:
        from assay.store.verify import verify

        total = sum(ledger.count(project=project).n for project in ledger.projects())
        progress = Progress(total, "verify", unit="records")
        report = verify(ledger, progress.add, expected=expected)
        progress.end()
        where = ledger.where
    if options.json:
        opt.print_json(_report(report, where))
    else:
        _say_report(report, where)
    return ExitCode.PASSED if report.clean else ExitCode.FAILED


def _head(text: str) -> tuple[str, tuple[int, str]]:
    project, _, rest = text.partition(":")
    seq, _, chain = rest.partition(":")
    if not project or not seq.isdigit() or not chain.startswith("sha256:"):
        raise UsageError("CLI-001", f"--head is {text!r}.", fix="Write it as `assay verify` prints it: default:120:sha256:...")
    return project, (int(seq), chain)


def _report(report: Report, where: str) -> dict[str, Any]:
    return {
        "schema": "assay.verified-ledger/1",
        "ledger": where,
        "clean": report.clean,
        "records": report.records,
        "links": report.links,
        "forgotten": report.forgotten,
        "projects": {name: {"records": seq, "head": f"{name}:{seq}:{chain}"} for name, (seq, chain) in report.heads.items()},
        "faults": [flaw._asdict() for flaw in report.flaws],
        "fault_count": report.flaw_count,
    }


def _say_report(report: Report, where: str) -> None:
    on = opt.colour()
    out = sys.stdout
    verdict = "clean" if report.clean else f"{report.flaw_count:,} fault{'s' if report.flaw_count != 1 else ''}"
    out.write(opt.paint(f"{printable(where)}: {verdict}", "green" if report.clean else "red", "bold", on=on) + "\n")
    for flaw in report.flaws[:50]:
        place = " ".join(str(part) for part in (flaw.project, flaw.seq, flaw.digest) if part is not None)
        out.write(f"  {printable(f'{place}: {flaw.what} {flaw.fix}')}\n")
    if report.flaw_count > 50:
        out.write(f"  ... and {report.flaw_count - 50:,} more; --json lists {len(report.flaws):,} of them.\n")
    out.write(f"{report.records:,} records, {report.links:,} links, {report.forgotten:,} forgotten\n")
    for name, (seq, chain) in report.heads.items():
        out.write(f"head {name}:{seq}:{chain}\n")


# --- replay -------------------------------------------------------------------------------------------------------------------------------


def _replay(argv: list[str]) -> int:
    made = opt.parser(
        "replay",
        "Make a stored grade again from its stored evidence and the recorded versions, and compare the bytes. Exit 0 if they are the same, 1 if not.",
        "assay replay r-001 --db sqlite:///.assay/ledger.db",
    )
    made.add_argument("id", metavar="ID", help="the digest of a grade, the beginning of one (8 digits or more), or a run id: then its newest grade")
    _add_db(made)
    _add_project(made)
    opt.add_library(made)
    options = made.parse_args(argv)
    shelf = opt.shelf_of(options)
    with open_for(options.db, read_only=True) as ledger:
        from assay.jobs import replay

        found = replay(ledger, grade_of(ledger, options.id, project=options.project), shelf, project=options.project)
    if options.json:
        opt.print_json(_replayed(found))
    else:
        _say_replayed(found)
    return ExitCode.PASSED if found.same else ExitCode.FAILED


def grade_of(ledger: Ledger, wanted: str, *, project: str = "default") -> Item:
    """The stored grade that a person means: by digest, by the beginning of one, or by run."""
    digits = wanted.removeprefix("sha256:").lower()
    if 8 <= len(digits) <= 64 and all(sign in "0123456789abcdef" for sign in digits):
        found = ledger.starting_with(digits, project=project)
        grades = [item for item in found if item.kind == "grade"]
        if len(grades) == 1:
            return grades[0]
        if len(grades) > 1:
            raise UsageError("CLI-001", f"{len(grades)} grades or more begin with {wanted!r}.", where=ledger.where, fix="Give more digits.")
        if found:
            raise InputError("FIL-006", f"this record is of kind '{found[0].kind}'; only a grade can be replayed.", where=found[0].digest)
    page = ledger.find("grade", {"run_id": wanted}, project=project, limit=1, newest_first=True)
    if not page.items:
        raise InputError("FIL-001", f"no grade of {wanted!r} is in the project '{project}'.", where=ledger.where, fix="Give a digest or a run id.")
    return page.items[0]


def _replayed(found: Replayed) -> dict[str, Any]:
    stored = found.stored
    return {
        "schema": "assay.replay/1",
        "digest": found.grade.digest,
        "run_id": stored["run_id"],
        "grade": stored["grade"],
        "same": found.same,
        "difference": None if found.difference is None else found.difference._asdict(),
        **{name: stored.get(name) for name in ("policy", "profile", "rubric", "scoringSystem", "gradingSystem")},
    }


def _say_replayed(found: Replayed) -> None:
    on = opt.colour()
    out = sys.stdout
    stored = found.stored
    head = f"{stored['run_id']}: {'the same' if found.same else 'DIFFERENT'}, {stored['grade']} {stored['weighted_score']} {found.grade.digest}"
    out.write(opt.paint(printable(head), "green" if found.same else "red", "bold", on=on) + "\n")
    if found.difference is not None:
        place, here, there = found.difference
        out.write(f"  {printable(f'{place}: stored {_short(here)}, made again {_short(there)}')}\n")
    used = " · ".join(str(stored[name]) for name in ("profile", "rubric", "policy", "scoringSystem", "gradingSystem") if stored.get(name) is not None)
    out.write(opt.paint(f"  {printable(used)}", "dim", on=on) + "\n")


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 120 else text[:117] + "..."
