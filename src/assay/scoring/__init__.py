"""Run -> Scorecard. Does not know grading; has its own version, `scoringSystem/1.0.0`."""
