"""create_app(deps): the FastAPI application; no import-time side effects."""
