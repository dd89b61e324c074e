"""Tests of `scheduler.engine`."""
