"""What would become of a job: when it starts and ends, and where."""
