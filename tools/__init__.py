"""What the Makefile runs to lock, check and generate; no part of the product."""
