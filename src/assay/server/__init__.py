"""The HTTP API, event streams and pages of a ledger. Needs the extra `server`."""
