"""Fewer indexes on records, which every run pays for, and one on the runs in progress, which every
page asks for.

No list is asked for by family, sample, policy or profile alone; jobs and decisions that are read
every record of their kind anyway.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "v0007"
down_revision = "v0006"
branch_labels = None
depends_on = None

_DROPPED = ("family", "sample_id", "policy", "profile")


def upgrade() -> None:
    """Take the four away and make the one."""
    for name in _DROPPED:
        op.drop_index(f"records_by_{name}", "records")
    op.create_index("live_runs_by_state", "live_runs", ["state", "project", "created_at"])


def downgrade() -> None:
    """The other way round."""
    op.drop_index("live_runs_by_state", "live_runs")
    for name in _DROPPED:
        given = sa.text(f"{name} IS NOT NULL")
        op.create_index(
            f"records_by_{name}",
            "records",
            ["project", "kind", name, "seq"],
            sqlite_where=given,
            postgresql_where=given,
        )
