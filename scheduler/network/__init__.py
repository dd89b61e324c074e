"""Pure network model: collective costs, link sharing, iteration time, sensitivity to placement."""
