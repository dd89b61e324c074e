"""The commands of `dally-sim`: reading flags and showing results; the work is done elsewhere."""
