"""The simulator: traces, workloads, the simulated cluster, metrics, reports."""
