"""The ledger of a command: which one it is, and opening it to store results or to read."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import TYPE_CHECKING

from assay.cli import options as opt
from assay.errors import AssayError
from assay.files.inputs import Source
from assay.project.ledger import open_store

if TYPE_CHECKING:
    from assay.cli.parsing import Options
    from assay.project.config import Config
    from assay.services.choice import Choice
    from assay.services.storing import EvaluationBuilder, Result, Store, StoredStream


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
    return storing(options, by_default=any(map(_is_evaluation, options.files)))


def _is_evaluation(source: Source) -> bool:
    return getattr(source, "evaluation", None) is not None


@contextmanager
def _unasked(options: Options, config: Config | None) -> Iterator[Store | None]:
    """The ledger of a verb that stores by default: if it can't be opened, a note reports that and
    the verb continues, because its evidence is in files.
    """
    url: str = getattr(options, "db", "")
    if not url and config is not None and not os.environ.get("ASSAY_DB"):
        from assay.project.settings import ledger_url

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


def _opened(
    options: Options, url: str, *, read_only: bool = False, needed: bool = True
) -> AbstractContextManager[Store]:
    return open_store(url, options.project, opt.note, read_only=read_only, needed=needed)


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
