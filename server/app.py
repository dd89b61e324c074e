"""The command tree of `dallyd`."""
