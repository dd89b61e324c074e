"""Gangs that the cluster has and the database does not know."""
