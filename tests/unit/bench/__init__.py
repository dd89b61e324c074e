"""Unit tests of the benchmarks' shared parts."""
