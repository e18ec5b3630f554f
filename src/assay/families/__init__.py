"""Families: products on the core, each in one folder. `assay.family` lists them."""
