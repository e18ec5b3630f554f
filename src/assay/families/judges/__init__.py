"""Measuring judges: their cards, audits, calibration and drift, and the labels of people."""
