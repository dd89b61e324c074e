"""Unit tests of the job file."""
