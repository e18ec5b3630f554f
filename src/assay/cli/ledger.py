"""The ledger of a command: which one it is, and opening it to store results or to read."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING

from assay.cli import options as opt
from assay.errors import AssayError, UsageError
from assay.files.atomic import refuse_links_out
from assay.files.inputs import StoredInput
from assay.files.upwards import CONFIG_FILE, find_upwards

if TYPE_CHECKING:
    from assay.cli.parsing import Options
    from assay.running.config import Config
    from assay.services.choice import Choice
    from assay.services.storing import EvaluationBuilder, Result, Store, StoredStream
    from assay.store.ledger import Ledger


def open_for(url: str, *, read_only: bool = False) -> Ledger:
    """The ledger of a URL, or of the default where it is empty."""
    from assay.store.ledger import open_ledger

    if not read_only and not url and not os.environ.get("ASSAY_DB"):
        _make_folder(ledger_folder())
    return open_ledger(url_of(url), read_only=read_only)


def url_of(url: str) -> str:
    """The URL of a ledger; where it is empty, the one that every verb takes."""
    return url or os.environ.get("ASSAY_DB") or f"sqlite:///{ledger_folder()}/ledger.db"


FOLDER = ".assay"
_IGNORED = """# The ledger of Assay. Git ignores all but baselines and the schema of assay.yaml.
*
!baselines/
!baselines/*
!config.schema.json
"""


def ledger_folder() -> str:
    """The folder of the default ledger: `.assay` in the nearest folder, from the working folder
    upwards, that has one or has an `assay.yaml`; else in the working folder.
    """
    places = []
    for mark in (FOLDER, CONFIG_FILE):
        with suppress(UsageError):  # another user's, in a shared folder above: not ours to use
            if (path := find_upwards(mark)) is not None:
                places.append(os.path.dirname(os.path.abspath(path)))
    nearest = max(places, key=len, default=os.getcwd())
    return os.path.relpath(os.path.join(nearest, FOLDER))


def baselines_folder() -> str:
    """The default folder of stored baselines: next to the default ledger, wherever that is found,
    so that a baseline stored from a folder below is found from every other.
    """
    return os.path.join(ledger_folder(), "baselines")


def _make_folder(folder: str) -> None:
    """Make the folder of the default ledger, kept out of Git. If it can't be made, opening the
    ledger reports that.
    """
    ignored = os.path.join(folder, ".gitignore")
    refuse_links_out(ignored, follow=True)
    with suppress(OSError):
        os.makedirs(folder, exist_ok=True)
        with open(ignored, "x", encoding="utf-8") as stream:
            stream.write(_IGNORED)


def stored_stream(
    options: Options,
    choice: Choice,
    stack: ExitStack,
    *,
    builder: EvaluationBuilder | None = None,
) -> StoredStream | None:
    """Where a stream of grades waits for the ledger, or to become an evaluation; None if neither is
    asked for.
    """
    store = stack.enter_context(storing(options))
    if store is None and builder is None:
        return None
    from assay.services.storing import StoredStream

    return StoredStream(store, choice, stack, builder=builder)


def storing(options: Options, *, by_default: bool = True) -> AbstractContextManager[Store | None]:
    """The ledger around the work of a verb; None if nothing is to be stored. Nothing is stored
    before the verb calls `put`.

    It is the one that `--store` names. A verb with `--no-store` stores by default, unless
    `by_default` is false; if it can't, it reports that and continues.
    """
    if getattr(options, "no_store", False):
        return nullcontext()
    if options.store is not None:
        return _opened(options, options.store)
    config = options.config
    if "no_store" not in options or (config and config.spec.ledger.store is False):
        return nullcontext()
    return _unasked(options, config) if by_default else nullcontext()


def storing_evaluated(options: Options) -> AbstractContextManager[Store | None]:
    """The same for what is made from `options.files`: by default it is stored only if they are
    evaluations of the ledger.
    """
    return storing(options, by_default=any(_is_evaluation(path) for path in options.files))


def _is_evaluation(path: str) -> bool:
    return isinstance(path, StoredInput) and path.evaluation is not None


@contextmanager
def _unasked(options: Options, config: Config | None) -> Iterator[Store | None]:
    """The ledger of a verb that stores by default: if it can't be opened, a note reports that and
    the verb continues, because its evidence is in files.
    """
    url: str = getattr(options, "db", "")
    if not url and config is not None and not os.environ.get("ASSAY_DB"):
        from assay.cli.configured import ledger_url

        url = ledger_url(config) or ""
    with ExitStack() as stack:
        try:
            store = stack.enter_context(_opened(options, url, needed=False))
        except AssayError as error:
            opt.note(f"nothing is stored in a ledger: {error}")
            store = None
        yield store


def looking(options: Options) -> AbstractContextManager[Store | None]:
    """The ledger of `--store` for a verb that only reads it; None if it is not given."""
    if options.store is None:
        return nullcontext()
    return _opened(options, options.store, read_only=True)


def stored(
    work: Callable[[Options, Store | None], int],
) -> Callable[[Options], int]:
    """A verb that can store its result."""

    def run(options: Options) -> int:
        with storing(options) as store:
            return work(options, store)

    return run


@contextmanager
def storing_result(options: Options, verb: str) -> Iterator[Result | None]:
    """The ledger of `--store`, around the work of a verb that only computes; None if it is not
    given.
    """
    with storing(options, by_default=False) as store:
        if store is None:
            yield None
            return
        from assay.services.storing import Result

        yield Result(store, verb)


@contextmanager
def _opened(
    options: Options, url: str, *, read_only: bool = False, needed: bool = True
) -> Iterator[Store]:
    import tempfile

    from assay.services.storing import IN_MEMORY, Store
    from assay.store.ledger import known_project

    project = known_project(options.project)
    with open_for(url, read_only=read_only) as ledger:
        # it opens again by itself; a connection must not go into the worker processes, nor wait
        # while a judge thinks
        ledger.close()
        with tempfile.SpooledTemporaryFile(IN_MEMORY) as waiting:
            store = Store(ledger, project, waiting, opt.note, needed=needed)
            yield store
            if read_only:  # once the work is done: a verb that fails reports why, and nothing else
                store.report_notes()


def ledger_options(options: Options) -> str:
    """The options that chose the ledger on the command line, to print behind a command that reads
    it.
    """
    sources = options.sources
    words = ""
    url = getattr(options, "db", "") or getattr(options, "store", None) or ""
    if url and "command line" in (sources.get("db", "command line"), sources.get("store")):
        words += f" --db {shlex.quote(url)}"
    if options.project != "default" and sources.get("project", "command line") == "command line":
        words += f" --project {shlex.quote(options.project)}"
    return words
