"""The ledger: records and SQL, append-only, on SQLite and PostgreSQL. It doesn't know what a record
means.
"""
