"""Gangs as pods on a Kubernetes cluster."""
