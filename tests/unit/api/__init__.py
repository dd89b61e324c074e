"""Unit tests of the API."""
