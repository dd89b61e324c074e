"""The job file: its wire types, how text becomes one, and how one becomes a JobSpec."""
