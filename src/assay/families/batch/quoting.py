"""Names and literals in SQL, quoted: names come from files of others. Plans are written in DuckDB's
dialect, which needs nothing but doubled quotes; `sqlglot`, which takes a fifth of a second to load,
translates queries for any other engine.
"""

from __future__ import annotations

from decimal import Decimal
from functools import cache
from typing import Any

from assay.installing import import_extra

DIALECT = "duckdb"


def identifier(name: str) -> str:
    """A column's or a view's name, quoted.

    >>> identifier('the "raw" score')
    '"the ""raw"" score"'
    """
    return '"' + name.replace('"', '""') + '"'


def text(value: str) -> str:
    """A text literal.

    >>> text("it's")
    "'it''s'"
    """
    return "'" + value.replace("'", "''") + "'"


def double(value: float) -> str:
    """A literal of type DOUBLE in every dialect: one without an exponent would be a decimal.

    >>> double(0.5), double(4000.0), double(-2.0)
    ('5e-1', '4e3', '-2e0')
    """
    return f"{Decimal(repr(value)).normalize():e}".replace("+", "")


def in_dialect(sql: str, dialect: str) -> str:
    """The same query for an engine; as it is for the one whose dialect it is written in."""
    if dialect == DIALECT:
        return sql
    return str(sqlglot().transpile(sql, read=DIALECT, write=dialect)[0])


def pretty(sql: str, dialect: str) -> str:
    """A query of an engine, for people."""
    return str(sqlglot().transpile(sql, read=dialect, write=dialect, pretty=True)[0])


@cache
def sqlglot() -> Any:
    """The library that translates."""
    return import_extra("sqlglot", "batch", "a batch needs duckdb and sqlglot.")
