"""The parts of the Kubernetes adapter that need no cluster."""
