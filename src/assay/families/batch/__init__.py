"""Many rows at once: scorecards and grades as one relational plan, run by DuckDB or Spark."""
