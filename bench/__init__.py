"""Benchmarks: each prints a table, and with --json one object a line."""
