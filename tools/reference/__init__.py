"""One module a generated page: text made from the code it describes."""
