"""`assay serve`: the API over a ledger."""

from __future__ import annotations

import signal
import socket
import sys
from typing import TYPE_CHECKING

from assay.cli.frame import Bounds, Command, Options, arg, flag
from assay.errors import ExitCode, UsageError
from assay.installing import install_hint
from assay.project.ledger import url_of
from assay.sandbox.safe_path import safe_path

if TYPE_CHECKING:
    from assay.server.settings import ServerSettings


def _serve(options: Options) -> int:
    return serve(settings_of(options), port=options.port, workers=options.workers)


def settings_of(options: Options) -> ServerSettings:
    """What the options ask for."""
    import os

    try:
        from assay.cli.release_settings import release_settings
        from assay.server.settings import ServerSettings, is_loopback
        from assay.store.ledger import known_project
    except ModuleNotFoundError as error:
        raise UsageError(
            "CLI-001",
            f"`assay serve` needs {error.name}, which is not installed.",
            fix=f"Run: {install_hint('server')}",
        ) from None
    if options.allow_anonymous and not is_loopback(options.host):
        raise UsageError(
            "CLI-001",
            f"--allow-anonymous is for this machine only, and {options.host} is not: anyone could"
            " write.",
            fix="Use tokens: `assay token create`.",
        )
    if options.schemas is not None and not os.path.isdir(options.schemas):
        raise UsageError("FIL-001", "there is no such folder.", where=options.schemas)
    if options.otlp_endpoint is not None and not options.otlp_endpoint.lower().startswith(
        ("http://", "https://")
    ):
        raise UsageError(
            "CLI-001",
            "--otlp-endpoint must begin with http:// or https://.",
            fix="Write it as --otlp-endpoint http://localhost:4318.",
        )
    _check_offered(options)
    return ServerSettings(
        db=url_of(options.db),
        library=options.library or os.environ.get("ASSAY_LIBRARY"),
        policy=options.policy,
        schemas=options.schemas,
        workflows=None if options.workflows is None else os.path.abspath(options.workflows),
        datasets=None if options.datasets is None else os.path.abspath(options.datasets),
        run_concurrency=options.run_concurrency,
        run_memory_bytes=options.run_memory * 1024 * 1024 or None,
        cards=tuple(options.judge_card),
        release=release_settings(options),
        allow_anonymous=options.allow_anonymous,
        anonymous_project=known_project(options.project),
        host=options.host,
        max_body_bytes=options.max_body,
        otlp_grace_s=options.otlp_grace,
        otlp_limit_s=options.otlp_limit,
        otlp_keep_s=options.otlp_keep * 24 * 3600,
        otlp_endpoint=options.otlp_endpoint,
        log_requests=not options.quiet,
    )


def _check_offered(options: Options) -> None:
    """Read the offered workflows and datasets, so that a mistake in a file is reported at the
    start.
    """
    from assay.running.catalogue import Offered

    if options.datasets is not None and options.workflows is None:
        raise UsageError(
            "CLI-001",
            "--datasets needs --workflows.",
            fix="Give the folder of the workflow files too.",
        )
    if options.workflows is not None:
        Offered(options.workflows, options.datasets).check()


def serve(settings: ServerSettings, *, port: int, workers: int) -> int:
    """Serve until a signal arrives."""
    try:
        import uvicorn

        from assay.server.http_protocol import HttpProtocol
        from assay.server.logs import uvicorn_config
        from assay.server.settings import to_environment
        from assay.server.workers import shared_folder
        from assay.store.ledger import open_ledger
    except ModuleNotFoundError as error:
        raise UsageError(
            "CLI-001",
            f"`assay serve` needs {error.name}, which is not installed.",
            fix=f"Run: {install_hint('server')}",
        ) from None
    with open_ledger(
        settings.db
    ) as ledger:  # what is wrong with the ledger is said once, here, and not by every worker
        where = ledger.where
    _check_free(settings.host, port)
    own = f"http://{settings.host}:{port}"
    way_in = (
        f"project '{settings.anonymous_project}' is open to this machine without a token"
        if settings.allow_anonymous
        else "log in with a token of `assay token create`"
    )
    sys.stderr.write(
        f"assay: serving {where}, {workers} worker{'s' if workers != 1 else ''}: pages on {own}/,"
        f" the API on {own}/api/v1; {way_in}\n"
    )
    sys.stderr.flush()
    signal.signal(
        signal.SIGTERM, signal.SIG_DFL
    )  # the web server has its own way to end, and finishes what it has accepted
    with shared_folder(settings, workers=workers) as given, safe_path():
        to_environment(given)
        uvicorn.run(
            "assay.server.app:from_parent",
            factory=True,
            host=settings.host,
            port=port,
            workers=workers,
            log_config=uvicorn_config(),
            access_log=False,
            http=HttpProtocol,
            ws="none",
            proxy_headers=False,
            server_header=False,
            date_header=False,
            backlog=8192,
            timeout_graceful_shutdown=round(settings.shutdown_s),
            timeout_keep_alive=30,
            timeout_worker_healthcheck=30,  # on a busy machine a start alone can take more than 5 s
        )
    return ExitCode.PASSED


def _check_free(host: str, port: int) -> None:
    """Refuse an address that can't be listened on, before the web server ends the process."""
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind) as listening:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind(address)
    except OSError as error:
        raise UsageError(
            "CLI-001",
            f"can't listen on {host}:{port}: {error.strerror}.",
            fix="Choose another --host or --port, or end the server that uses it.",
        ) from None


COMMANDS = {
    "serve": Command(
        _serve,
        "Serve the pages, the API and the event streams of a ledger. SIGTERM stops it cleanly:"
        " requests finish, executions go back into the queue.",
        "assay serve --db postgresql://assay@db/assay --workers 4",
        (
            "--db",
            arg(
                "--host",
                kind="text",
                trust="trusted",
                metavar="H",
                default="127.0.0.1",
                help="the address to listen on (default: 127.0.0.1)",
            ),
            arg(
                "--port",
                within=Bounds(0, 65_535),
                metavar="N",
                type=int,
                default=8321,
                help="the port to listen on (default: 8321)",
            ),
            arg(
                "--workers",
                within=Bounds(1, 1000),
                metavar="N",
                type=int,
                default=1,
                help="worker processes (default: 1)",
            ),
            flag(
                "--allow-anonymous",
                "accept requests from this machine without a token, to --project; only on loopback",
                trust="trusted",
            ),
            "--project",
            arg(
                "--schemas",
                kind="path",
                metavar="DIR",
                help="a tree of graded tool schemas to show, read-only",
            ),
            arg(
                "--workflows",
                kind="path",
                trust="trusted",
                metavar="DIR",
                help=(
                    "workflow files that clients may run here, by id; without it the server"
                    " runs none"
                ),
            ),
            arg(
                "--datasets",
                kind="path",
                metavar="DIR",
                help="datasets that clients may use for them, by id",
            ),
            arg(
                "--run-concurrency",
                within=Bounds(1, 10_000),
                metavar="N",
                type=int,
                default=8,
                help="runs of one execution at the same time, at most (default: 8)",
            ),
            arg(
                "--run-memory",
                within=Bounds(0, 1 << 40),
                metavar="MIB",
                type=int,
                default=8192,
                help="memory of the process that runs a workflow; 0 for no limit (default: 8192)",
            ),
            "--policy",
            "--judge-card",
            arg(
                "--max-body",
                within=Bounds(1024, 1 << 40),
                metavar="BYTES",
                type=int,
                default=16 * 1024 * 1024,
                help="the largest body to read into memory (default: 16 MiB)",
            ),
            "--otlp-endpoint",
            arg(
                "--otlp-grace",
                within=Bounds(0.001, 3600),
                metavar="S",
                type=float,
                default=6.0,
                help="seconds without spans after the root span that complete a trace (default: 6)",
            ),
            arg(
                "--otlp-limit",
                within=Bounds(0.001, 86_400),
                metavar="S",
                type=float,
                default=300.0,
                help="seconds a trace may be quiet without a root span (default: 300)",
            ),
            arg(
                "--otlp-keep",
                within=Bounds(0.000_001, 36_500),
                metavar="DAYS",
                type=float,
                default=7.0,
                help="days to keep spans for others that come late (default: 7)",
            ),
            flag("--quiet", "don't log requests"),
            "--library",
        ),
    )
}
