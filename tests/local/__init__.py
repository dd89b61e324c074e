"""The local executor with real processes."""
