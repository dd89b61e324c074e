"""One parser per trace format; units stated, nothing dropped silently."""
