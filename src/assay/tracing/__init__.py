"""Spans and framework events in, runs out: the one way from a framework to evidence."""
