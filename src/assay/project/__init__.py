"""A project: its assay.yaml, what its names mean, and what grades its runs."""
