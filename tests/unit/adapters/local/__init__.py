"""Parts of the local executor that start no process."""
