"""Readable claims about the product, kind by kind."""
