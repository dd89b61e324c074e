"""Front door: what the pages promise, run against a real server."""
