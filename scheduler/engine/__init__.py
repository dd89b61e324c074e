"""Decisions: pure functions from a Snapshot to a Plan; no clock, no I/O, no chance."""
