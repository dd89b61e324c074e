"""Environment and file -> Settings; read once."""
