"""Grading tool schemas: FlowMCP schemas and the tools of any MCP server. Reads and validates
schemas, asks judges, grades, and stores entries with their index.
"""
