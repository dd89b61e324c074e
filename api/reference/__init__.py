"""What the server says of itself: the schema of a job file, the meaning of reasons."""
