"""`dally-sim`: the same loop, policies and network model behind a simulated clock and cluster."""
