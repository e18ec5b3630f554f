"""`assay view`: the pages of a ledger or of a file, on this machine, in this user's browser.

It starts a server on a free port of the loopback address, which answers one browser
only: see `server.one_visitor`. A file is shown from a temporary ledger, which is gone when the
command ends. Its folder contains evidence, so a killed command must not leave it behind: it is
locked while the command runs, and the next `assay view` deletes every such folder of this user that
no process has locked.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import socket
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

from assay.canon import encode
from assay.cli import options as opt
from assay.cli.frame import CHOICES, Command, arg, flag
from assay.cli.grade import choice_of
from assay.cli.imported_inputs import left_out
from assay.cli.importing import evaluate_file, read_files
from assay.cli.parsing import Options
from assay.cli.references import ledger_names, reading_of
from assay.errors import AssayError, ExitCode, InputError, NotEnoughEvidence, UsageError, printable
from assay.files.json_files import Document, read_documents
from assay.installing import install_hint
from assay.project.imports import is_importable
from assay.project.ledger import open_for, url_of
from assay.records.evaluation import Evaluation, VersionedName
from assay.records.grade import is_graded
from assay.records.reading import read_run
from assay.registry import is_path
from assay.services.evaluations import default_name
from assay.services.given_grades import grades_of
from assay.services.grading import Graded
from assay.services.storing import EvaluationBuilder, MadeEvaluation, Store
from assay.store.drafts import graded_drafts
from assay.store.ledger import open_ledger

if TYPE_CHECKING:
    from assay.server.one_visitor import OneVisitor


class View(NamedTuple):
    """What is shown: a ledger, and the first page of it."""

    url: str
    page: str
    what: str
    is_temporary: bool = False


def run(options: Options) -> int:
    """Show it until a signal ends the command."""
    try:
        from assay.server.one_visitor import HOST
    except ModuleNotFoundError as error:
        raise UsageError(
            "CLI-001",
            f"`assay view` needs {error.name}, which is not installed.",
            fix=f"Run: {install_hint('server')}",
        ) from None
    sweep()
    with ExitStack() as stack:
        view = _view_of(options, stack)
        listening = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_STREAM))
        listening.bind((HOST, 0))
        listening.listen()  # a browser that comes early waits
        _serve(options, view, listening)
    return ExitCode.PASSED


def _view_of(options: Options, stack: ExitStack) -> View:
    if options.target is not None and is_path(options.target):
        return _file_view(options, stack)
    if options.target is None:
        return _ledger_view(options)

    with ledger_names(options) as names:
        named = names.get(options.target)
    url = url_of(options.db)
    if named.evaluation is None:
        return View(url, f"/runs/{quote(options.target, safe='')}", f"run {options.target}")
    evaluation = named.evaluation.evaluation
    return View(url, _page_of(evaluation.id), evaluation.name)


def _ledger_view(options: Options) -> View:
    try:
        with open_for(options.db, read_only=True) as ledger:
            return View(url_of(options.db), "/", ledger.where)
    except AssayError as error:
        if not os.path.exists(url_of(options.db).removeprefix("sqlite:///")):
            error.fix = (
                "`assay run` and `assay import` make one. To look at a file, name it:"
                " `assay view results.json`."
            )
        raise


def _file_view(options: Options, stack: ExitStack) -> View:

    folder = stack.enter_context(temporary_folder())
    url = f"sqlite:///{os.path.join(folder, 'ledger.db')}"
    viewed = evaluate_viewed(options, folder, url)
    for note in viewed.notes:
        opt.note(note)
    pages = [_page_of(evaluation.id) for evaluation in viewed.evaluations]
    page = pages[0] if len(pages) == 1 else "/evaluations"
    return View(url, page, options.target, is_temporary=True)


def _page_of(evaluation: str) -> str:
    return f"/evaluations/{quote(evaluation, safe='')}"


def _serve(options: Options, view: View, listening: socket.socket) -> None:
    import uvicorn

    from assay.cli.release_settings import release_settings
    from assay.server.app import create_app
    from assay.server.http_protocol import HttpProtocol
    from assay.server.logs import Log, uvicorn_config
    from assay.server.one_visitor import HOST, OneVisitor
    from assay.server.settings import ServerSettings

    settings = ServerSettings(
        db=view.url,
        library=options.library or os.environ.get("ASSAY_LIBRARY"),
        policy=options.policy,
        cards=tuple(options.judge_card),
        release=release_settings(options),
        allow_anonymous=True,  # only past the door of `OneVisitor`
        anonymous_project=options.project,
        is_temporary=view.is_temporary,
        is_view=True,
        host=HOST,
        log_requests=False,
    )
    visitor = OneVisitor(
        create_app(settings, log=Log(requests=False, only_errors=True)),
        port=listening.getsockname()[1],
        page=view.page,
    )
    # the server ends on these itself, and raises them again afterwards: by then they are done
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
    _announce(options, view, visitor)
    logging = uvicorn_config()
    logging["loggers"]["uvicorn"]["level"] = "ERROR"
    logging["loggers"]["uvicorn.error"]["level"] = "ERROR"
    uvicorn.Server(
        uvicorn.Config(
            visitor,
            log_config=logging,
            access_log=False,
            http=HttpProtocol,
            ws="none",
            proxy_headers=False,
            server_header=False,
            date_header=False,
            timeout_graceful_shutdown=round(settings.shutdown_s),
        )
    ).run(sockets=[listening])


def _announce(options: Options, view: View, visitor: OneVisitor) -> None:
    """Open the browser, and always print the address, because it is unknown whether a window
    opened.
    """
    opened = not options.no_browser and _open_browser(visitor.address)
    if options.json:
        opt.print_json({"address": visitor.address, "page": view.page, "opened": opened})
        sys.stdout.flush()
        return
    kept = " Nothing you do there is saved." if view.is_temporary else ""
    words = "If no window opens, open" if opened else "Open"
    sys.stdout.write(
        f"Showing {printable(view.what)}.{kept} Ctrl+C ends it.\n"
        f"{words} this address, which works once:\n  {visitor.address}\n"
    )
    sys.stdout.flush()


def _open_browser(address: str) -> bool:
    """Whether a browser was asked to open the address. A text browser is not, because it would take
    over the terminal.
    """
    has_display = sys.platform in ("darwin", "win32") or any(
        os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")
    )
    if not has_display:
        return False
    import webbrowser

    try:
        return webbrowser.open(address)
    except webbrowser.Error:
        return False


FOLDER = "assay-view-"

"""How the name of a folder begins."""


@contextmanager
def temporary_folder() -> Iterator[str]:
    """A new folder that only this user can read."""
    with tempfile.TemporaryDirectory(prefix=FOLDER, ignore_cleanup_errors=True) as folder:
        lock = os.open(folder, os.O_RDONLY)
        try:
            fcntl.flock(lock, fcntl.LOCK_SH)  # before anything is in it: see `sweep`
            yield folder
        finally:
            os.close(lock)


def sweep() -> None:
    """Delete what killed commands of this user left. An empty folder may be one that another
    command has just made and not locked yet, so it stays.
    """
    try:
        with os.scandir(tempfile.gettempdir()) as entries:
            paths = [entry.path for entry in entries if entry.name.startswith(FOLDER)]
    except OSError:
        return
    for path in paths:
        try:
            _delete(path)
        except OSError:  # another user's, locked, or gone already
            continue


def _delete(path: str) -> None:
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        if os.fstat(folder).st_uid != os.getuid():
            return
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.listdir(folder):
            shutil.rmtree(path, ignore_errors=True)
    finally:
        os.close(folder)


class ViewedFile(NamedTuple):
    """The result of reading a file: its evaluations, without their lists of runs, and notes about
    it.
    """

    evaluations: Sequence[Evaluation]
    notes: Sequence[str]


def evaluate_viewed(options: Options, folder: str, url: str) -> ViewedFile:
    """Put the evaluations of the file into a new ledger. `folder` is for what waits on the way."""
    options = options.with_values(
        files=[options.target], name=None, workflow=None, family=None, dataset=None
    )
    with (
        tempfile.TemporaryDirectory(dir=folder) as waiting,
        tempfile.TemporaryFile(dir=folder) as drafts,
        open_ledger(url) as ledger,
    ):
        store = Store(ledger, options.project, drafts, lambda _: None)
        if is_importable(options.target, reading_of(options)):
            viewed = _imported(options, store, waiting)
        else:
            viewed = _own(options, store, waiting)
        store.put()
    return viewed


def _imported(options: Options, store: Store, folder: str) -> ViewedFile:
    read = read_files(options, folder)
    if read.problem is not None:
        raise read.problem
    made = evaluate_file(
        options, store, read.imported.spool, read.imported, read.profile, folder=folder
    )
    return _viewed(made, left_out(read.imported.tally))


def _viewed(made: Sequence[MadeEvaluation], notes: Sequence[str] = ()) -> ViewedFile:
    ungraded = [
        f"not graded: {count:,}, {reason}"
        for imported in made
        for reason, count in imported.ungraded.items()
    ]
    return ViewedFile([imported.evaluation for imported in made], [*notes, *ungraded])


def _own(options: Options, store: Store, folder: str) -> ViewedFile:
    """Runs or grades of Assay's own."""
    spool, n = os.path.join(folder, "runs.jsonl"), 0
    with open(spool, "xb") as stream:
        for document in read_documents(options.target):
            if is_graded(document.tree):
                return _graded(options, store)
            _check(document)
            stream.write(encode(document.tree) + b"\n")
            n += 1
    if not n:
        raise NotEnoughEvidence("FIL-005", "there is nothing to show.", where=options.target)
    return _viewed(evaluate_file(options, store, spool, folder=folder))


def _check(document: Document) -> None:
    tree: Any = document.tree
    kind = tree.get("schema") if isinstance(tree, dict) else None
    if kind == "assay.exam/1":
        raise InputError(
            "FIL-006",
            "is a graded exam, which has no runs to show.",
            where=document.file,
            fix="`assay exam gate` decides on it; `assay exam grade ... -o exam.html` writes a"
            " page.",
        )
    if kind == "assay.scorecard/1":
        raise InputError(
            "FIL-006",
            "contains scorecards, which have no question and no answer to show.",
            where=document.file,
            fix="View the runs they were made from; `assay explain FILE` explains a scorecard.",
        )
    read_run(document)


def _graded(options: Options, store: Store) -> ViewedFile:
    """Grades without their runs: each is shown with a run that has only what the grade says."""
    grader, now = choice_of(options).grader(), datetime.now(UTC)
    graded_runs = (
        one for document in read_documents(options.target) for one in grades_of(document, grader)
    )
    builders: dict[tuple[Any, ...], EvaluationBuilder] = {}
    for graded in graded_runs:
        run, key = _stated_run(graded, options.target)
        builder = builders.get(key)
        if builder is None:
            name = default_name(key[0], now) + (f"-{len(builders) + 1}" if builders else "")
            builder = builders[key] = EvaluationBuilder(
                name=name,
                workflow=VersionedName(id=key[0], version=key[1]),
                dataset=VersionedName(id=key[2], version=key[3]),
                settings={"importer": None, "files": [], "policy": options.policy},
                started=now,
                source="import",
            )
        drafts = graded_drafts(run, graded.grade.scorecard, graded.payload())
        store.add(drafts)
        builder.add_stored(drafts[0].body, drafts[-1].body)
    if not builders:
        raise NotEnoughEvidence("FIL-005", "there is nothing to show.", where=options.target)
    made = []
    for builder in builders.values():
        evaluation, draft = builder.drafted(now)
        store.add([draft])
        made.append(evaluation)
    note = "these are grades without their runs: questions and answers are not in the file"
    return ViewedFile(made, [note])


def _stated_run(graded: Graded, where: str) -> tuple[dict[str, Any], tuple[Any, ...]]:
    """The run of a grade as far as the grade says it, and the versions that it is of."""
    card = graded.grade.scorecard
    if card.workflow is None or card.dataset is None:
        raise InputError(
            "FIL-006",
            f"the grade of {graded.grade.run_id!r} names no workflow or no dataset.",
            where=where,
            fix="View the runs it was made from; `assay explain FILE` explains a grade.",
        )
    run = {
        "schema": "assay.run/1",
        "run_id": graded.grade.run_id,
        "workflow": card.workflow,
        "dataset": card.dataset,
        "status": card.status,
    }
    return run, (card.workflow.id, card.workflow.version, card.dataset.id, card.dataset.version)


COMMANDS = {
    "view": Command(
        run,
        "Open the pages of the ledger, an evaluation or a result file in your browser. Only"
        " this browser has access; no token is needed. Ctrl+C stops it, with exit 0.",
        "assay view results.json",
        (
            arg(
                "target",
                nargs="?",
                metavar="WHAT",
                help=(
                    "an evaluation, latest, a run's id, or a file: runs, grades or another tool's"
                    " results, shown from a temporary ledger (default: the whole ledger)"
                ),
            ),
            flag("--no-browser", "print the address instead of opening a browser"),
            "--from",
            "--map",
            *CHOICES,
            "--db",
            "--project",
        ),
    ),
}
