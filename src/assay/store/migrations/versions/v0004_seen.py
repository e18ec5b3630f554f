"""Workflows and datasets are counted as runs come, and SQLite is told how large the tables grow.

Without numbers SQLite takes a project for ten records: it then goes through a whole project where
an index would lead straight to a record, and a page of runs with their grades takes hours. The
numbers are those of a large ledger; on a small one every plan is quick.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "v0004"
down_revision = "v0002"
branch_labels = None
depends_on = None

_MANY = 3_000_000
_KIND = 1_000_000
_SAME = {
    "workflow": 20_000,
    "family": 250_000,
    "dataset": 20_000,
    "sample_id": 500,
    "grade": 200_000,
    "passed": 500_000,
    "policy": 200_000,
    "profile": 200_000,
    "status": 200_000,
    "started_at": 2,
}
"""About how many records of a project and a kind have the same value."""
_STATS: dict[str, dict[str, tuple[int, ...]]] = {
    "records": {
        "sqlite_autoindex_records_1": (_MANY, _MANY, 1),
        "sqlite_autoindex_records_2": (_MANY, _MANY, 1),
        "records_by_kind": (_MANY, _MANY, _KIND, 1),
        "records_by_run": (_MANY, _MANY, 4, 1),
        **{f"records_by_{name}": (_MANY, _MANY, _KIND, same, 1) for name, same in _SAME.items()},
    },
    "links": {
        "links": (_MANY, _MANY, 2, 1),
        "links_by_source": (_MANY, _MANY, 2),
        "links_by_target": (_MANY, _MANY, 2),
    },
    "steps": {"steps": (_MANY, _MANY, 5, 1)},
    "tool_calls": {"tool_calls": (_MANY, _MANY, 5, 1)},
    "tags": {"tags": (_MANY, _MANY, 3, 1), "tags_by_tag": (_MANY, _MANY, _KIND, 20_000, 1)},
}


def upgrade() -> None:
    """Make the table and count what is there."""
    op.create_table(
        "seen",
        *(
            sa.Column(name, sa.Text(), nullable=False)
            for name in ("project", "what", "id", "version")
        ),
        sa.Column("runs", sa.BigInteger(), nullable=False),
        sa.Column("newest_seq", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("project", "what", "id", "version", name="seen_pk"),
        sqlite_with_rowid=False,
    )
    for what in ("workflow", "dataset"):
        op.execute(
            # constants of this file
            "INSERT INTO seen (project, what, id, version, runs, newest_seq) "  # noqa: S608
            f"SELECT project, '{what}', {what}, COALESCE({what}_version, ''), COUNT(*), MAX(seq) "
            f"FROM records WHERE kind = 'run' AND {what} IS NOT NULL GROUP BY project, {what},"
            f" COALESCE({what}_version, '')"
        )
    if op.get_bind().dialect.name == "sqlite":
        op.execute("ANALYZE sqlite_master")  # makes the table of numbers, empty
        op.execute("DELETE FROM sqlite_stat1")
        for table, indexes in _STATS.items():
            for index, numbers in indexes.items():
                op.execute(
                    f"INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES ('{table}', '{index}',"  # noqa: S608
                    f" '{' '.join(map(str, numbers))}')"
                )  # as above
        op.execute("ANALYZE sqlite_master")  # reads it


def downgrade() -> None:
    """Take it away; what was counted is still in the runs."""
    op.drop_table("seen")
    if op.get_bind().dialect.name == "sqlite":
        op.execute("DROP TABLE IF EXISTS sqlite_stat1")
