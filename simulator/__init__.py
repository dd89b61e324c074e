"""`dally-sim`: the same control loop, policies and network model behind a simulated clock and cluster."""
