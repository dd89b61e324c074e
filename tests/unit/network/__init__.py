"""The network model against step-by-step simulations."""
