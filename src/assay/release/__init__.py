"""From grades to rankings, summaries and decisions."""
