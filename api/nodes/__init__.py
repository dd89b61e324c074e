"""Nodes and the tree of topology domains, as last observed."""
