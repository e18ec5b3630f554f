"""The tables of a ledger and of the server on it, and the triggers that keep records unchanged.

A trigger does not stop the owner of the database. It stops slips, and programs that ignore the
append-only rule; `assay ledger verify` finds the rest. This file stays as it is once released, so
it repeats the tables of `store.tables` and `store.serving` instead of importing them.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "v0001"
down_revision = None
branch_labels = None
depends_on = None

_INDEXED = ("workflow", "dataset", "grade", "passed", "status", "started_at")
_FIXED = ("project", "seq", "digest", "chain", "kind", "schema", "created_at", "author", "reason")
"""The columns of a record that stay when its body is forgotten."""
_NEVER = ("links", "tombstones")
_REFUSAL = "the ledger is append-only"

_TYPES = {"text": sa.Text, "bytes": sa.LargeBinary, "number": sa.BigInteger, "flag": sa.Boolean}
_TABLES = {
    # columns, `?` after the ones that may be NULL; then the primary key
    "heads": ("project:text seq:number chain:bytes", "project"),
    "counts": ("project:text kind:text n:number", "project kind"),
    "records": (
        """project:text seq:number digest:bytes chain:bytes kind:text schema:text? created_at:text
        author:text? reason:text? run_id:text? workflow:text? workflow_version:text? family:text?
        dataset:text? dataset_version:text? sample_id:text? grade:text? passed:flag? policy:text?
        profile:text? status:text? started_at:text? body:bytes?""",
        "project seq",
    ),
    "links": (
        """project:text seq:number position:number source_seq:number relation:text
        target_seq:number""",
        "project seq position",
    ),
    "tags": ("project:text seq:number position:number kind:text tag:text", "project seq position"),
    "seen": (
        "project:text what:text id:text version:text runs:number newest_seq:number",
        "project what id version",
    ),
    "tombstones": (
        "project:text seq:number digest:bytes author:text reason:text at:text",
        "project digest",
    ),
    "tokens": (
        """id:text project:text name:text scopes:text hash:text created_at:text expires_at:text?
        revoked_at:text?""",
        "id",
    ),
    "live_runs": (
        """project:text run_id:text state:text head:bytes events:number digest:text? author:text?
        created_at:text owner:text? beat_ms:number""",
        "project run_id",
    ),
    "live_events": (
        "project:text run_id:text position:number kind:text body:bytes",
        "project run_id position",
    ),
    "jobs": (
        """id:text project:text state:text asked:bytes progress:bytes created_at:text author:text?
        owner:text? beat_ms:number""",
        "id",
    ),
    "execution_runs": (
        """execution:text place:number project:text run_key:text run_id:bytes sample_id:bytes
        attempt:number""",
        "execution place",
    ),
    "traces": (
        """project:text trace_id:text state:text spans:number late:number refused:number
        first_ms:number last_ms:number root_ms:number? asked:bytes author:text? run_id:text?
        digest:text? reason:text? owner:text? beat_ms:number""",
        "project trace_id",
    ),
    "trace_spans": (
        "project:text trace_id:text span_id:text mark:text body:bytes",
        "project trace_id span_id mark",
    ),
}
_WITHOUT_ROWID = {"links", "tags", "seen", "live_events", "execution_runs", "trace_spans"}
_OF_RECORDS = {
    "links": {"record": "seq", "source": "source_seq", "target": "target_seq"},
    **{name: {"record": "seq"} for name in ("tags", "tombstones")},
}
"""Foreign keys into `records`, by the end of their name."""
_INDEXES = {
    "records_by_kind": ("records", "project kind seq"),
    "links_by_source": ("links", "project source_seq"),
    "links_by_target": ("links", "project target_seq"),
    "tags_by_tag": ("tags", "project kind tag seq"),
    "live_runs_by_state": ("live_runs", "state project created_at"),
    "jobs_by_project": ("jobs", "project created_at"),
    "jobs_by_state": ("jobs", "state beat_ms"),
    "traces_by_state": ("traces", "state last_ms"),
}

# Without statistics SQLite assumes ten records in a project: it then scans a whole project where an
# index leads straight to a record, and a page of runs with their grades takes hours. These are the
# numbers of a large ledger; on a small one every plan is fast.
_MANY = 3_000_000
_KIND = 1_000_000
_SAME = {
    "workflow": 20_000,
    "dataset": 20_000,
    "grade": 200_000,
    "passed": 500_000,
    "status": 200_000,
    "started_at": 2,
}
"""About how many records of a project and a kind share a value."""
_STATISTICS: dict[str, dict[str, tuple[int, ...]]] = {
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
    "tags": {"tags": (_MANY, _MANY, 3, 1), "tags_by_tag": (_MANY, _MANY, _KIND, 20_000, 1)},
}


def upgrade() -> None:
    """Make the tables, their indexes and their triggers."""
    for name, (columns, key) in _TABLES.items():
        _create_table(name, columns, key)
    for name, (table, columns) in _INDEXES.items():
        op.create_index(name, table, columns.split())
    _create_partial_index("records_by_run", "run_id", ["project", "run_id", "seq"])
    for name in _INDEXED:
        _create_partial_index(f"records_by_{name}", name, ["project", "kind", name, "seq"])
    if op.get_bind().dialect.name == "sqlite":
        _guard_sqlite()
        _set_statistics()
    else:
        _guard_postgresql()


def _create_table(name: str, columns: str, key: str) -> None:
    parts: list[sa.Column[object] | sa.Constraint] = []
    for column in columns.split():
        column_name, kind = column.removesuffix("?").split(":")
        parts.append(sa.Column(column_name, _TYPES[kind](), nullable=column.endswith("?")))
    parts.append(sa.PrimaryKeyConstraint(*key.split(), name=f"{name}_pk"))
    if name == "records":
        parts.append(sa.UniqueConstraint("project", "digest", name="records_digest"))
    for end, column in _OF_RECORDS.get(name, {}).items():
        here, there = ["project", column], ["records.project", "records.seq"]
        parts.append(sa.ForeignKeyConstraint(here, there, name=f"{name}_{end}"))
    op.create_table(name, *parts, sqlite_with_rowid=name not in _WITHOUT_ROWID)


def _create_partial_index(name: str, present: str, columns: list[str]) -> None:
    present_only = sa.text(f"{present} IS NOT NULL")
    op.create_index(
        name, "records", columns, sqlite_where=present_only, postgresql_where=present_only
    )


def _set_statistics() -> None:
    op.execute("ANALYZE sqlite_master")  # creates sqlite_stat1, empty
    op.execute("DELETE FROM sqlite_stat1")
    for table, indexes in _STATISTICS.items():
        for index, numbers in indexes.items():
            op.execute(
                f"INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES ('{table}', '{index}',"  # noqa: S608
                f" '{' '.join(map(str, numbers))}')"
            )  # constants of this file
    op.execute("ANALYZE sqlite_master")  # loads it


# --- nothing is changed in place


def _guard_sqlite() -> None:
    same = " AND ".join(f'NEW."{name}" IS OLD."{name}"' for name in _FIXED)
    gone = (
        "EXISTS (SELECT 1 FROM tombstones t WHERE t.project = OLD.project AND t.digest ="
        " OLD.digest)"
    )
    forgotten = (
        "EXISTS (SELECT 1 FROM records r JOIN tombstones t ON t.project = r.project AND"
        " t.digest = r.digest WHERE r.project = OLD.project AND r.seq = OLD.seq)"
    )
    allowed = {
        "records_update": f"NEW.body IS NULL AND {same} AND {gone}",
        "heads_update": "NEW.project IS OLD.project AND NEW.seq > OLD.seq",
        "tags_delete": forgotten,
    }
    for table in ("records", "heads", *_NEVER, "tags"):
        for action in ("update", "delete"):
            name = f"{table}_{action}"
            unless = f"WHEN NOT ({allowed[name]}) " if name in allowed else ""
            op.execute(
                f"CREATE TRIGGER {name} BEFORE {action.upper()} ON {table} {unless}BEGIN SELECT"
                f" RAISE(ABORT, '{_REFUSAL}'); END"
            )


def _guard_postgresql() -> None:
    refuse = f"RAISE EXCEPTION '{_REFUSAL}'"
    same = " AND ".join(f'NEW."{name}" IS NOT DISTINCT FROM OLD."{name}"' for name in _FIXED)
    bodies = {
        "never": f"BEGIN {refuse}; END",
        "records": (
            # constants of this file
            f"BEGIN IF TG_OP = 'UPDATE' THEN IF NEW.body IS NULL AND {same} AND EXISTS "  # noqa: S608
            "(SELECT 1 FROM tombstones t WHERE t.project = OLD.project AND t.digest = OLD.digest) "
            f"THEN RETURN NEW; END IF; END IF; {refuse}; END"
        ),
        "tags": (
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
        "tags": "tags",
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
