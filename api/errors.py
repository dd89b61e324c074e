"""Domain error -> HTTP status and problem body; nowhere else."""
