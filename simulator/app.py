"""The command tree of `dally-sim`."""
