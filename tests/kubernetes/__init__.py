"""Tests: kubernetes."""
