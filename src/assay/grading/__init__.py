"""Scorecard -> Grade. Does not know scoring; has its own version, `gradingSystem/1.0.0`."""
