"""Exams: exam files, normalisation, item breakdowns, gates, diagnosis, spaced-repetition export."""
