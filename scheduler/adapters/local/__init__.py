"""Gangs as processes on this machine: the embedded default."""
