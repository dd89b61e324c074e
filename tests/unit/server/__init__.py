"""Claims about parts of the server."""
