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
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote

from assay.cli import options as opt
from assay.cli.frame import CHOICES, Command, Options, arg, flag
from assay.errors import AssayError, ExitCode, UsageError, printable
from assay.installing import install_hint
from assay.project.ledger import open_for, url_of
from assay.registry import is_path

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
    from assay.cli.references import ledger_names

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
    from assay.cli.view_files import evaluate_viewed

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
