"""Servers that are killed: nothing accepted is lost, nothing is done twice, nothing leaks."""
