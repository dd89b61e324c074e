"""The command tree of `dally`."""
