"""The first tables: records and their chain, links, steps, tool calls, tags, tombstones; and the
triggers that refuse to change them.

A trigger does not stop whoever owns the database. It stops a slip, and a program that was written
against the rule; the rest `assay verify` finds.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "v0001"
down_revision = None
branch_labels = None
depends_on = None

_INDEXED = (
    "workflow",
    "family",
    "dataset",
    "sample_id",
    "grade",
    "passed",
    "policy",
    "profile",
    "status",
    "started_at",
)
_FACETS = (
    "run_id",
    "workflow",
    "workflow_version",
    "family",
    "dataset",
    "dataset_version",
    *_INDEXED[3:],
)
_FIXED = ("project", "seq", "digest", "chain", "kind", "schema", "created_at", "author", "reason")
"""What stays of a record when its body is forgotten."""
_NEVER = ("links", "tombstones")
_SIDES = ("steps", "tool_calls", "tags")
_SAYS = "the ledger is append-only"


def upgrade() -> None:
    """Make the tables."""
    _make_records()
    _make_sides()
    if op.get_bind().dialect.name == "sqlite":
        _guard_sqlite()
    else:
        _guard_postgresql()


def downgrade() -> None:
    """Take them away, with everything in them."""
    for name in (
        "tombstones",
        "tags",
        "tool_calls",
        "steps",
        "links",
        "records",
        "counts",
        "heads",
    ):
        op.drop_table(name)
    if op.get_bind().dialect.name != "sqlite":
        for name in ("never", "records", "sides", "heads"):
            op.execute(f"DROP FUNCTION assay_{name}()")


def _text(name: str, *, nullable: bool = True) -> sa.Column[str]:
    return sa.Column(name, sa.Text(), nullable=nullable)


def _binary(name: str, *, nullable: bool = False) -> sa.Column[bytes]:
    return sa.Column(name, sa.LargeBinary(), nullable=nullable)


def _number(name: str) -> sa.Column[int]:
    return sa.Column(name, sa.BigInteger(), nullable=False)


def _of_record(name: str) -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint(
        ["project", "seq"], ["records.project", "records.seq"], name=f"{name}_record"
    )


def _make_records() -> None:
    op.create_table(
        "heads",
        _text("project", nullable=False),
        _number("seq"),
        _binary("chain"),
        sa.PrimaryKeyConstraint("project", name="heads_pk"),
    )
    op.create_table(
        "counts",
        _text("project", nullable=False),
        _text("kind", nullable=False),
        _number("n"),
        sa.PrimaryKeyConstraint("project", "kind", name="counts_pk"),
    )
    op.create_table(
        "records",
        _text("project", nullable=False),
        _number("seq"),
        _binary("digest"),
        _binary("chain"),
        _text("kind", nullable=False),
        _text("schema"),
        _text("created_at", nullable=False),
        _text("author"),
        _text("reason"),
        *(sa.Column(name, sa.Boolean()) if name == "passed" else _text(name) for name in _FACETS),
        _binary("body", nullable=True),
        sa.PrimaryKeyConstraint("project", "seq", name="records_pk"),
        sa.UniqueConstraint("project", "digest", name="records_digest"),
    )
    op.create_index("records_by_kind", "records", ["project", "kind", "seq"])
    given = sa.text("run_id IS NOT NULL")
    op.create_index(
        "records_by_run",
        "records",
        ["project", "run_id", "seq"],
        sqlite_where=given,
        postgresql_where=given,
    )
    for name in _INDEXED:
        given = sa.text(f"{name} IS NOT NULL")
        op.create_index(
            f"records_by_{name}",
            "records",
            ["project", "kind", name, "seq"],
            sqlite_where=given,
            postgresql_where=given,
        )


def _make_sides() -> None:
    def rows(name: str, *columns: sa.Column[Any] | sa.Constraint) -> None:
        key = sa.PrimaryKeyConstraint("project", "seq", "position", name=f"{name}_pk")
        place = (_text("project", nullable=False), _number("seq"), _number("position"))
        op.create_table(name, *place, *columns, key, _of_record(name), sqlite_with_rowid=False)

    rows(
        "links",
        _binary("source"),
        _text("relation", nullable=False),
        _binary("target"),
        sa.ForeignKeyConstraint(
            ["project", "source"], ["records.project", "records.digest"], name="links_source"
        ),
        sa.ForeignKeyConstraint(
            ["project", "target"], ["records.project", "records.digest"], name="links_target"
        ),
    )
    op.create_index("links_by_source", "links", ["project", "source"])
    op.create_index("links_by_target", "links", ["project", "target"])
    numbers = ("duration_ms", "retries", "model", "tier", "tokens", "cost_usd", "scores", "error")
    rows(
        "steps",
        *map(_text, ("name", "agent", "status")),
        sa.Column("critical", sa.Boolean()),
        *map(_text, numbers),
    )
    rows(
        "tool_calls",
        *map(_text, ("step", "name")),
        sa.Column("valid", sa.Boolean()),
        *map(_text, ("arguments", "error")),
    )
    rows("tags", _text("kind", nullable=False), _text("tag", nullable=False))
    op.create_index("tags_by_tag", "tags", ["project", "kind", "tag", "seq"])
    op.create_table(
        "tombstones",
        _text("project", nullable=False),
        _number("seq"),
        _binary("digest"),
        *(_text(name, nullable=False) for name in ("author", "reason", "at")),
        sa.PrimaryKeyConstraint("project", "digest", name="tombstones_pk"),
        _of_record("tombstones"),
    )


# --- nothing is changed in place


def _guard_sqlite() -> None:
    refuse = f"BEGIN SELECT RAISE(ABORT, '{_SAYS}'); END"
    for name in _NEVER:
        op.execute(f"CREATE TRIGGER {name}_update BEFORE UPDATE ON {name} {refuse}")
        op.execute(f"CREATE TRIGGER {name}_delete BEFORE DELETE ON {name} {refuse}")
    same = " AND ".join(f'NEW."{name}" IS OLD."{name}"' for name in _FIXED)
    gone = (
        "EXISTS (SELECT 1 FROM tombstones t WHERE t.project = OLD.project AND t.digest ="
        " OLD.digest)"
    )
    op.execute(
        "CREATE TRIGGER records_update BEFORE UPDATE ON records WHEN NOT (NEW.body IS NULL AND"
        f" {same} AND {gone}) {refuse}"
    )
    op.execute(f"CREATE TRIGGER records_delete BEFORE DELETE ON records {refuse}")
    for name in _SIDES:
        op.execute(f"CREATE TRIGGER {name}_update BEFORE UPDATE ON {name} {refuse}")
        forgotten = (
            "EXISTS (SELECT 1 FROM records r JOIN tombstones t ON t.project = r.project AND"
            " t.digest = r.digest WHERE r.project = OLD.project AND r.seq = OLD.seq)"
        )
        op.execute(
            f"CREATE TRIGGER {name}_delete BEFORE DELETE ON {name} WHEN NOT {forgotten} {refuse}"
        )
    op.execute(
        "CREATE TRIGGER heads_update BEFORE UPDATE ON heads WHEN NOT (NEW.project IS OLD.project"
        f" AND NEW.seq > OLD.seq) {refuse}"
    )
    op.execute(f"CREATE TRIGGER heads_delete BEFORE DELETE ON heads {refuse}")


def _guard_postgresql() -> None:
    refuse = f"RAISE EXCEPTION '{_SAYS}'"
    same = " AND ".join(f'NEW."{name}" IS NOT DISTINCT FROM OLD."{name}"' for name in _FIXED)
    bodies = {
        "never": f"BEGIN {refuse}; END",
        "records": (
            # constants of this file
            f"BEGIN IF TG_OP = 'UPDATE' THEN IF NEW.body IS NULL AND {same} AND EXISTS "  # noqa: S608
            "(SELECT 1 FROM tombstones t WHERE t.project = OLD.project AND t.digest = OLD.digest) "
            f"THEN RETURN NEW; END IF; END IF; {refuse}; END"
        ),
        "sides": (
            "BEGIN IF TG_OP = 'DELETE' THEN IF EXISTS "  # as above  # noqa: S608
            "(SELECT 1 FROM records r JOIN tombstones t ON t.project = r.project AND t.digest ="
            " r.digest "
            "WHERE r.project = OLD.project AND r.seq = OLD.seq) THEN RETURN OLD; END IF; END IF;"
            f" {refuse}; END"
        ),
        "heads": (
            "BEGIN IF TG_OP = 'UPDATE' THEN IF NEW.project = OLD.project AND NEW.seq > OLD.seq"
            f" THEN RETURN NEW; END IF; END IF; {refuse}; END"
        ),
    }
    for name, body in bodies.items():
        op.execute(
            f"CREATE FUNCTION assay_{name}() RETURNS trigger LANGUAGE plpgsql AS $body$"
            f" {body} $body$"
        )
    of_table = {
        "records": "records",
        "heads": "heads",
        **dict.fromkeys(_NEVER, "never"),
        **dict.fromkeys(_SIDES, "sides"),
    }
    for table, name in of_table.items():
        op.execute(
            f"CREATE TRIGGER {table}_kept BEFORE UPDATE OR DELETE ON {table} FOR EACH ROW EXECUTE"
            f" FUNCTION assay_{name}()"
        )
        op.execute(
            f"CREATE TRIGGER {table}_whole BEFORE TRUNCATE ON {table} FOR EACH STATEMENT EXECUTE"
            " FUNCTION assay_never()"
        )
