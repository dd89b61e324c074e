"""Unit tests of how bodies are read."""
