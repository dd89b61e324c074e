"""Tests: the parts of the CLI that need no server."""
