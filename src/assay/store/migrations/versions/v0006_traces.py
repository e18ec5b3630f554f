"""The tables in which spans wait until their trace is whole."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "v0006"
down_revision = "v0005"
branch_labels = None
depends_on = None


def _text(name: str, *, nullable: bool = False) -> sa.Column[str]:
    return sa.Column(name, sa.Text(), nullable=nullable)


def _number(name: str, *, nullable: bool = False) -> sa.Column[int]:
    return sa.Column(name, sa.BigInteger(), nullable=nullable)


def upgrade() -> None:
    """Make the tables."""
    op.create_table(
        "traces",
        *map(_text, ("project", "trace_id", "state")),
        *map(_number, ("spans", "late", "refused", "first_ms", "last_ms")),
        _number("root_ms", nullable=True),
        _number("beat_ms"),
        sa.Column("asked", sa.LargeBinary(), nullable=False),
        *(_text(name, nullable=True) for name in ("author", "run_id", "digest", "reason")),
        sa.PrimaryKeyConstraint("project", "trace_id", name="traces_pk"),
    )
    op.create_index("traces_by_state", "traces", ["state", "last_ms"])
    op.create_table(
        "trace_spans",
        *map(_text, ("project", "trace_id", "span_id", "mark")),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("project", "trace_id", "span_id", "mark", name="trace_spans_pk"),
        sqlite_with_rowid=False,
    )


def downgrade() -> None:
    """Take them away, with everything in them."""
    for name in ("trace_spans", "traces"):
        op.drop_table(name)
