"""One plugin of each kind that Assay takes."""
