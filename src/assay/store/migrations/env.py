"""The environment in which Alembic runs each step: on the connection that `store.migrating` hands
over, inside its transaction.
"""

from __future__ import annotations

from alembic import context

from assay.store.tables import VERSION_TABLE, metadata


def _run() -> None:
    context.configure(
        connection=context.config.attributes["connection"],
        target_metadata=metadata,
        version_table=VERSION_TABLE,
        transactional_ddl=True,
    )
    with context.begin_transaction():
        context.run_migrations()


if __name__ != "assay.store.migrations.env":  # Alembic runs this file under another name
    _run()
