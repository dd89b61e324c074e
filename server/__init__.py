"""`dallyd`: the composition root and the drivers; the only package that knows every adapter."""
