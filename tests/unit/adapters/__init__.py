"""Tests of adapters that need no I/O."""
