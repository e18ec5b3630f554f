"""The API and its event streams over the ledger. Needs the extra `server`."""
