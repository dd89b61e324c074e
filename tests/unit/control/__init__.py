"""Claims about the control loop."""
