"""Faults planted on purpose: for each, a test that finds it."""
