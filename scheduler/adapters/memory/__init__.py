"""Store and cluster in memory, for the simulator and for tests."""
