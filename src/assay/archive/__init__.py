"""Store results and replay them, for both the command line and the server."""
