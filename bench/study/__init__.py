"""The study: policies over traces, loads and congestion. `python -m bench.study run | report`."""
