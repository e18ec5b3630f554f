"""The tables of a server: tokens, answers by idempotency key, runs in progress and their events,
jobs.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "v0002"
down_revision = "v0001"
branch_labels = None
depends_on = None


def _text(name: str, *, nullable: bool = False) -> sa.Column[str]:
    return sa.Column(name, sa.Text(), nullable=nullable)


def _binary(name: str) -> sa.Column[bytes]:
    return sa.Column(name, sa.LargeBinary(), nullable=False)


def _number(name: str) -> sa.Column[int]:
    return sa.Column(name, sa.BigInteger(), nullable=False)


def upgrade() -> None:
    """Make the tables."""
    op.create_table(
        "tokens",
        *map(_text, ("id", "project", "name", "scopes", "hash", "created_at")),
        _text("expires_at", nullable=True),
        _text("revoked_at", nullable=True),
        sa.PrimaryKeyConstraint("id", name="tokens_pk"),
    )
    op.create_table(
        "answers",
        *map(_text, ("project", "key", "request")),
        sa.Column("status", sa.Integer(), nullable=False),
        _text("location", nullable=True),
        _binary("body"),
        _text("created_at"),
        sa.PrimaryKeyConstraint("project", "key", name="answers_pk"),
    )
    op.create_table(
        "live_runs",
        *map(_text, ("project", "run_id", "state")),
        _binary("head"),
        _number("events"),
        _text("digest", nullable=True),
        _text("author", nullable=True),
        _text("created_at"),
        sa.PrimaryKeyConstraint("project", "run_id", name="live_runs_pk"),
    )
    op.create_table(
        "live_events",
        *map(_text, ("project", "run_id")),
        _number("position"),
        _text("kind"),
        _binary("body"),
        sa.PrimaryKeyConstraint("project", "run_id", "position", name="live_events_pk"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "jobs",
        *map(_text, ("id", "project", "state")),
        _binary("asked"),
        _binary("progress"),
        _text("owner", nullable=True),
        _number("beat"),
        _text("created_at"),
        _text("author", nullable=True),
        sa.PrimaryKeyConstraint("id", name="jobs_pk"),
    )
    op.create_index("jobs_by_project", "jobs", ["project", "created_at"])
    op.create_index("jobs_by_state", "jobs", ["state", "beat"])


def downgrade() -> None:
    """Take them away, with everything in them."""
    for name in ("jobs", "live_events", "live_runs", "answers", "tokens"):
        op.drop_table(name)
