"""Unit tests of open answers."""
