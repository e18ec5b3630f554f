"""Grading tool schemas: FlowMCP schemas and the tools of any MCP server. Reads, validates, asks,
grades, keeps entries and their index.
"""
