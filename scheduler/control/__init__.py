"""Moves state through ports: observe, decide, check, apply; no policy of its own."""
