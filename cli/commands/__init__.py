"""The commands of `dally`, a module for each group that belongs together."""
