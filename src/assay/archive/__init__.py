"""Keep results and replay them, for the command line and the server alike."""
