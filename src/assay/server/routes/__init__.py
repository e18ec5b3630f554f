"""One file for each group of routes. Each route says which scope it needs; only health and
readiness need none.
"""
