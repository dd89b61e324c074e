"""`dallyd`: the composition root and the drivers that wait; the only package that knows every adapter."""
