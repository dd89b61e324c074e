"""Events of a job, a project or the whole service."""
