"""Tests: helm."""
