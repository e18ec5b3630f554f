"""A job says of which kind it is, and the runs of an execution stand in their order."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "v0005"
down_revision = "v0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Every job there is scores or grades again."""
    op.add_column("jobs", sa.Column("kind", sa.Text(), nullable=False, server_default="again"))
    op.create_table(
        "execution_runs",
        sa.Column("execution", sa.Text(), nullable=False),
        sa.Column("place", sa.BigInteger(), nullable=False),
        sa.Column("project", sa.Text(), nullable=False),
        sa.Column("run_key", sa.Text(), nullable=False),
        sa.Column("run_id", sa.LargeBinary(), nullable=False),
        sa.Column("sample_id", sa.LargeBinary(), nullable=False),
        sa.Column("attempt", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("execution", "place", name="execution_runs_pk"),
        sqlite_with_rowid=False,
    )


def downgrade() -> None:
    """Take both away; an execution that waits is forgotten, what it recorded stays."""
    op.drop_table("execution_runs")
    op.execute("DELETE FROM jobs WHERE kind <> 'again'")
    op.drop_column("jobs", "kind")
