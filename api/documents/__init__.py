"""Bodies of requests as plain values: JSON and YAML under a budget, and pointers into them."""
