"""What the core needs from outside: protocols only, in our own words."""
