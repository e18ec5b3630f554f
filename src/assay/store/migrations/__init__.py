"""The steps that bring the tables of a ledger from one version to the next, and back."""
