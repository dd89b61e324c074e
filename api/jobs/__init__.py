"""Jobs: submit, list, watch, cancel, hold, release, delete, and what is known of each."""
