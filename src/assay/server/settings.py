"""The settings of a server. Every limit is here with its unit; nothing is read from elsewhere
later.

With several workers, each process gets the same settings as JSON in its environment.
"""

from __future__ import annotations

import os
from decimal import Decimal
from functools import lru_cache

import msgspec

from assay.errors import UsageError
from assay.project.release import ReleaseSettings
from assay.sandbox.safe_path import end_safe_path

VARIABLE = "ASSAY_SERVER_SETTINGS"
"""Where worker processes find their settings."""
DEFAULT_DB = "sqlite:///assay.db"


class ServerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How one server behaves."""

    db: str = DEFAULT_DB
    library: str | None = None
    policy: str = "workflow"
    schemas: str | None = None
    """A tool-schema tree to show, read-only."""
    workflows: str | None = None
    """A folder of workflow files that clients may run; without it, this server runs nothing."""
    datasets: str | None = None
    """A folder of datasets that clients may choose for these workflows."""
    run_concurrency: int = 8
    """How many runs of one execution run at the same time, whatever a client requests."""
    run_samples: int = 10_000
    """How many runs one execution may have."""
    run_queue: int = 100
    """How many unfinished executions one project may have."""
    run_memory_bytes: int | None = 8 * 1024 * 1024 * 1024
    """Memory limit of the process that runs a workflow."""
    cards: tuple[str, ...] = ()
    """Files with the cards of judges; those in the ledger are used as well."""
    release: ReleaseSettings = ReleaseSettings()
    """The rules by which pages decide."""
    allow_anonymous: bool = False
    anonymous_project: str = "default"
    is_view: bool = False
    """Whether this is `assay view`, for one person without login."""
    is_temporary: bool = False
    """Whether the ledger is deleted at the end."""
    host: str = "127.0.0.1"
    max_body_bytes: int = 16 * 1024 * 1024
    max_stream_bytes: int = 1024 * 1024 * 1024
    """For bodies of lines, which are never in memory as a whole."""
    body_timeout_s: float = 30.0
    """The longest pause between two parts of a body; a whole body may take ten times as long."""
    heartbeat_s: float = 15.0
    poll_s: float = 1.0
    """How often a stream looks for events that another process stored."""
    token_cache_s: float = 2.0
    """How long a worker that has just seen a token may accept it after it was revoked."""
    shutdown_s: float = 2.0
    patience_s: float = 10.0
    """How long a request waits for a locked or unavailable database."""
    live_limit_s: float = 24 * 3600.0
    """How long the runner of a live run may be silent before the run is stored as failed."""
    otlp_grace_s: float = 6.0
    """How long a trace must be quiet after its root span arrived before its run is built; exporters
    send every five seconds.
    """
    otlp_limit_s: float = 300.0
    """How long a trace without a root span may be quiet before its run is built as a broken one."""
    otlp_keep_s: float = 7 * 24 * 3600.0
    """How long the spans of a failed trace are kept."""
    otlp_endpoint: str | None = None
    """Where grades are sent as events; by default, the endpoint in the environment."""
    log_requests: bool = True
    shared: str | None = None
    """The folder that several workers share."""


def to_environment(settings: ServerSettings) -> None:
    """Put the settings where worker processes find them: in the environment, because the address of
    the database may contain a password.
    """
    # a weight or a margin must stay the number it is: as text, it would be another rule
    encoder = msgspec.json.Encoder(decimal_format="number")
    os.environ[VARIABLE] = encoder.encode(settings).decode()


def from_environment() -> ServerSettings:
    """The settings that the parent process put there."""
    end_safe_path()
    text = os.environ.get(VARIABLE)
    if text is None:
        raise UsageError(
            "CLI-001", f"${VARIABLE} is not set.", fix="Start the server with `assay serve`."
        )
    return msgspec.json.Decoder(ServerSettings, float_hook=Decimal).decode(text)


def is_loopback(host: str | None) -> bool:
    """Whether an address is of this machine only.

    >>> is_loopback("127.0.0.1"), is_loopback("::1"), is_loopback("0.0.0.0"), is_loopback(None)
    (True, True, False, False)
    """
    return host is not None and _is_loopback(host)


@lru_cache(maxsize=256)
def _is_loopback(host: str) -> bool:
    import ipaddress  # needed only for requests without a token

    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
