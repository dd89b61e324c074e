"""Output of workers: read and followed."""
