"""Queues: what waits and what runs in each."""
