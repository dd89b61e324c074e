"""API tokens: who may call; made, listed and revoked by an admin."""
