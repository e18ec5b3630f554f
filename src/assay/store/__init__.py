"""The ledger: records and SQL, append-only, on SQLite and PostgreSQL. What a record means is not
known here.
"""
