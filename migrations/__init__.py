"""The schema of the store and its revisions (Alembic)."""
