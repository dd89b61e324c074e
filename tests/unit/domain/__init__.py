"""Tests of `scheduler.domain`."""
