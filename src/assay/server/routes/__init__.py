"""One file for each group of routes. Each route declares the scope it needs; only health and
readiness need none.
"""
