"""`assay serve`: the API over a ledger."""

from __future__ import annotations

import signal
import sys
from typing import TYPE_CHECKING

from assay.cli import options as opt
from assay.cli.ledger import add_db, url_of
from assay.errors import ExitCode, UsageError

if TYPE_CHECKING:
    import argparse

    from assay.server.settings import ServerSettings

INSTALL = "pip install 'assay[server]'"


def run(verb: str, argv: list[str]) -> int:
    """Serve until told to stop."""
    made = opt.parser(
        "serve",
        "Serve the API and its event streams over a ledger. SIGTERM ends it cleanly: what was begun"
        " is finished, jobs go back into the queue.",
        "assay serve --db postgresql://assay@db/assay --workers 4",
    )
    add_db(made)
    made.add_argument(
        "--host",
        metavar="H",
        default="127.0.0.1",
        help="the address to listen on (default: 127.0.0.1)",
    )
    made.add_argument(
        "--port", metavar="N", type=int, default=8321, help="the port to listen on (default: 8321)"
    )
    made.add_argument(
        "--workers", metavar="N", type=int, default=1, help="processes that answer (default: 1)"
    )
    made.add_argument(
        "--allow-anonymous",
        action="store_true",
        help=(
            "let requests of this machine in without a token, as project 'default'; only on"
            " loopback"
        ),
    )
    made.add_argument(
        "--schemas", metavar="DIR", help="a tree of graded tool schemas to show, read-only"
    )
    made.add_argument(
        "--workflows",
        metavar="DIR",
        help=(
            "workflow files that clients may have run here, by their id; without it nothing is run"
        ),
    )
    made.add_argument(
        "--datasets", metavar="DIR", help="datasets that clients may name for them, by their id"
    )
    made.add_argument(
        "--run-concurrency",
        metavar="N",
        type=int,
        default=8,
        help="runs of one execution at the same time, at most (default: 8)",
    )
    made.add_argument(
        "--run-memory",
        metavar="MIB",
        type=int,
        default=8192,
        help="memory of the process that runs a workflow; 0 for no limit (default: 8192)",
    )
    made.add_argument(
        "--policy",
        metavar="Q",
        default="workflow",
        help="the policy that grades (default: workflow)",
    )
    made.add_argument(
        "--judge-card",
        metavar="FILE",
        action="append",
        default=[],
        help="the card of a judge; may be repeated",
    )
    made.add_argument(
        "--rate",
        metavar="N",
        type=float,
        default=2000.0,
        help=(
            "requests a second for each token, shared out among the workers; 0 for no limit"
            " (default: 2000)"
        ),
    )
    made.add_argument(
        "--max-body",
        metavar="BYTES",
        type=int,
        default=16 * 1024 * 1024,
        help="the largest body that is read whole (default: 16 MiB)",
    )
    made.add_argument(
        "--otlp-endpoint",
        metavar="URL",
        help=(
            "send each grade there as OpenTelemetry events (default: $OTEL_EXPORTER_OTLP_ENDPOINT,"
            " else nowhere)"
        ),
    )
    made.add_argument(
        "--otlp-grace",
        metavar="S",
        type=float,
        default=6.0,
        help="seconds a trace must be quiet after its root span came (default: 6)",
    )
    made.add_argument(
        "--otlp-limit",
        metavar="S",
        type=float,
        default=300.0,
        help="seconds a trace may be quiet without its root span (default: 300)",
    )
    made.add_argument(
        "--otlp-keep",
        metavar="DAYS",
        type=float,
        default=7.0,
        help="days the spans of traces stay that made no run (default: 7)",
    )
    made.add_argument("--quiet", action="store_true", help="log no line for each request")
    opt.add_library(made)
    options = made.parse_args(argv)
    return serve(settings_of(options), port=options.port, workers=options.workers)


def settings_of(options: argparse.Namespace) -> ServerSettings:
    """What the options ask for."""
    import os

    try:
        from assay.server.settings import ServerSettings, is_loopback
    except ModuleNotFoundError as error:
        raise UsageError("CLI-001", f"{error.name} is not installed.", fix=INSTALL) from None
    if not 0 <= options.port < 65536:
        raise UsageError("CLI-001", f"--port {options.port} is no port.")
    if options.workers < 1:
        raise UsageError("CLI-001", "--workers must be 1 or more.")
    if options.rate < 0 or options.max_body < 1024:
        raise UsageError("CLI-001", "--rate is 0 or more, --max-body 1024 or more.")
    if options.allow_anonymous and not is_loopback(options.host):
        raise UsageError(
            "CLI-001",
            f"--allow-anonymous is for this machine only, and {options.host} is not: anyone could"
            " write.",
            fix="Use tokens: `assay token create`.",
        )
    if options.schemas is not None and not os.path.isdir(options.schemas):
        raise UsageError("FIL-001", "there is no such folder.", where=options.schemas)
    _check_offered(options)
    _check_otlp(options)
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
        allow_anonymous=options.allow_anonymous,
        host=options.host,
        max_body_bytes=options.max_body,
        # a share and not the whole: whoever takes a connection to every worker would get so many
        # times what was allowed
        rate_per_s=options.rate / options.workers,
        rate_burst=max(1, int(2 * options.rate / options.workers)),
        otlp_grace_s=options.otlp_grace,
        otlp_limit_s=options.otlp_limit,
        otlp_keep_s=options.otlp_keep * 24 * 3600,
        otlp_endpoint=options.otlp_endpoint,
        log_requests=not options.quiet,
    )


def _check_otlp(options: argparse.Namespace) -> None:
    for name, value, most in (
        ("--otlp-grace", options.otlp_grace, 3600),
        ("--otlp-limit", options.otlp_limit, 86_400),
        ("--otlp-keep", options.otlp_keep, 36_500),
    ):
        if not 0 < value <= most:
            raise UsageError(
                "CLI-001", f"{name} is {value:g}; it is more than 0 and at most {most:,}."
            )
    if options.otlp_endpoint is not None and not options.otlp_endpoint.lower().startswith(
        ("http://", "https://")
    ):
        raise UsageError(
            "CLI-001",
            "--otlp-endpoint is no address that begins with http:// or https://.",
            fix="Write it as --otlp-endpoint http://localhost:4318.",
        )


def _check_offered(options: argparse.Namespace) -> None:
    """Read what is offered to be run: a slip in a file is the operator's to hear of, now."""
    from assay.running.catalogue import Offered

    if not 1 <= options.run_concurrency <= 10_000 or options.run_memory < 0:
        raise UsageError("CLI-001", "--run-concurrency is 1 to 10,000, --run-memory 0 or more.")
    if options.datasets is not None and options.workflows is None:
        raise UsageError(
            "CLI-001",
            "--datasets is of no use without --workflows.",
            fix="Give the folder of the workflow files too.",
        )
    if options.workflows is not None:
        Offered(options.workflows, options.datasets).check()


def serve(settings: ServerSettings, *, port: int, workers: int) -> int:
    """Listen until a signal comes."""
    try:
        import uvicorn

        from assay.server.logs import uvicorn_config
        from assay.server.settings import to_environment
        from assay.server.workers import shared_folder
        from assay.store.ledger import open_ledger
    except ModuleNotFoundError as error:
        raise UsageError("CLI-001", f"{error.name} is not installed.", fix=INSTALL) from None
    with open_ledger(
        settings.db
    ) as ledger:  # what is wrong with the ledger is said once, here, and not by every worker
        where = ledger.where
    own = f"http://{settings.host}:{port}"
    sys.stderr.write(
        f"assay: serving {where}, {workers} worker{'s' if workers != 1 else ''}: pages on {own}/,"
        f" the API on {own}/api/v1\n"
    )
    sys.stderr.flush()
    signal.signal(
        signal.SIGTERM, signal.SIG_DFL
    )  # the web server has its own way to end, and finishes what it has accepted
    with shared_folder(settings, workers=workers) as given:
        to_environment(given)
        uvicorn.run(
            "assay.server.app:from_parent",
            factory=True,
            host=settings.host,
            port=port,
            workers=workers,
            log_config=uvicorn_config(),
            access_log=False,
            proxy_headers=False,
            server_header=False,
            date_header=False,
            backlog=8192,
            timeout_graceful_shutdown=round(settings.shutdown_s),
            timeout_keep_alive=30,
        )
    return ExitCode.PASSED
