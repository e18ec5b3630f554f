"""A link holds where its two records stand in place of their digests, which come at random and
change a page of each index with every link.

Nothing is lost by it: a place has one digest, and a digest one place. A link that leads to no
record has neither, so a ledger that has one is refused before anything is changed. The table is
made anew, because SQLite cannot change its keys.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

from assay.errors import InputError

revision = "v0008"
down_revision = "v0007"
branch_labels = None
depends_on = None

_SAYS = "the ledger is append-only"
_MANY = 3_000_000
_STATS = {
    "links": (_MANY, _MANY, 2, 1),
    "links_by_source": (_MANY, _MANY, 2),
    "links_by_target": (_MANY, _MANY, 2),
}
"""What SQLite is told about the table (see v0004); it forgets that with the table."""


def upgrade() -> None:
    """From digests to places."""
    _refuse_lost("digest", "source", "target")
    _make_anew(_number("source_seq"), _number("target_seq"), by="seq")
    _fill(
        "SELECT l.project, l.seq, l.position, s.seq, l.relation, e.seq",
        "digest",
        "source",
        "target",
    )
    _finish("source_seq", "target_seq", by="seq")


def downgrade() -> None:
    """From places to digests."""
    _refuse_lost("seq", "source_seq", "target_seq")
    _make_anew(_binary("source"), _binary("target"), by="digest")
    _fill(
        "SELECT l.project, l.seq, l.position, s.digest, l.relation, e.digest",
        "seq",
        "source_seq",
        "target_seq",
    )
    _finish("source", "target", by="digest")


def _number(name: str) -> sa.Column[int]:
    return sa.Column(name, sa.BigInteger(), nullable=False)


def _binary(name: str) -> sa.Column[bytes]:
    return sa.Column(name, sa.LargeBinary(), nullable=False)


def _from(table: str, by: str, source: str, target: str) -> str:
    """Links with the records at their ends. Joined to the left: a link that leads to none stays,
    and is found or refused.
    """
    return (
        f"FROM {table} l LEFT JOIN records s ON s.project = l.project AND s.{by} = l.{source} "
        f"LEFT JOIN records e ON e.project = l.project AND e.{by} = l.{target}"
    )


def _refuse_lost(by: str, source: str, target: str) -> None:
    """Links that lead to no record, or came with none: such a ledger was changed from outside, and
    what it lost cannot be written down as a place.
    """
    query = sa.text(
        f"SELECT l.project, l.seq, l.position, l.relation, l.{source}, l.{target}, o.seq IS NULL,"
        f" s.seq IS NULL {_from('links', by, source, target)} LEFT JOIN records o ON o.project ="
        " l.project AND o.seq = l.seq WHERE s.seq IS NULL OR e.seq IS NULL OR o.seq IS NULL ORDER"
        " BY l.project, l.seq, l.position LIMIT 1"
    )
    row = op.get_bind().execute(query).first()
    if row is None:
        return
    if row[6]:
        what = f"is of record {row[1]}, which is not there"
    else:
        end, place = ("source", row[4]) if row[7] else ("target", row[5])
        what = f"of record {row[1]} has no record at its {end} ({_shown(place)})"
    raise InputError(
        "STO-003",
        f"this ledger is damaged: link {row[2]} '{row[3]}' {what}. Its tables stay as they are.",
        where=f"project '{row[0]}'",
        fix="Rows were removed or put in from outside; restore the ledger from a copy.",
    )


def _shown(place: object) -> str:
    return (
        f"sha256:{bytes(place).hex()}"
        if isinstance(place, bytes | memoryview)
        else f"record {place!r}"
    )


def _keys(source: str, target: str, by: str) -> tuple[tuple[str, str, str], ...]:
    """The foreign keys of the table: the name, the column, and the column of `records`."""
    return (
        ("links_record", "seq", "seq"),
        ("links_source", source, by),
        ("links_target", target, by),
    )


def _make_anew(source: sa.Column[Any], target: sa.Column[Any], *, by: str) -> None:
    """Put the table aside and make an empty one."""
    sqlite = op.get_bind().dialect.name == "sqlite"
    keys = _keys(source.name, target.name, by)
    for name in ("links_by_source", "links_by_target"):
        op.drop_index(name, "links")
    op.rename_table("links", "links_before")
    if not sqlite:
        op.execute("ALTER INDEX links_pk RENAME TO links_before_pk")
    op.create_table(
        "links",
        sa.Column("project", sa.Text(), nullable=False),
        _number("seq"),
        _number("position"),
        source,
        sa.Column("relation", sa.Text(), nullable=False),
        target,
        sa.PrimaryKeyConstraint("project", "seq", "position", name="links_pk"),
        *(
            sa.ForeignKeyConstraint(
                ["project", here], ["records.project", f"records.{there}"], name=name
            )
            for name, here, there in keys
            if sqlite
        ),
        sqlite_with_rowid=False,
    )


def _fill(selected: str, by: str, source: str, target: str) -> None:
    """Copy the links; one that leads to no record would leave a column empty, which the table does
    not take.
    """
    op.execute(
        f"INSERT INTO links {selected} {_from('links_before', by, source, target)} ORDER BY"
        " l.project, l.seq, l.position"
    )


def _finish(source: str, target: str, *, by: str) -> None:
    """Take the old table away, and give the new one what it had: its indexes, and the triggers that
    refuse to change it.
    """
    op.drop_table("links_before")
    op.create_index("links_by_source", "links", ["project", source])
    op.create_index("links_by_target", "links", ["project", target])
    if op.get_bind().dialect.name != "sqlite":
        for name, here, there in _keys(
            source, target, by
        ):  # now, so that they are checked all at once and not row by row
            op.create_foreign_key(name, "links", "records", ["project", here], ["project", there])
        op.execute(
            "CREATE TRIGGER links_kept BEFORE UPDATE OR DELETE ON links FOR EACH ROW EXECUTE"
            " FUNCTION assay_never()"
        )
        op.execute(
            "CREATE TRIGGER links_whole BEFORE TRUNCATE ON links FOR EACH STATEMENT EXECUTE"
            " FUNCTION assay_never()"
        )
        op.execute("ANALYZE links")
        return
    for what in ("update", "delete"):
        op.execute(
            f"CREATE TRIGGER links_{what} BEFORE {what.upper()} ON links BEGIN SELECT RAISE(ABORT,"
            f" '{_SAYS}'); END"
        )
    op.execute("DELETE FROM sqlite_stat1 WHERE tbl IN ('links', 'links_before')")
    for index, numbers in _STATS.items():
        op.execute(
            f"INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES ('links', '{index}',"  # noqa: S608
            f" '{' '.join(map(str, numbers))}')"
        )  # constants of this file
    op.execute("ANALYZE sqlite_master")  # reads them
