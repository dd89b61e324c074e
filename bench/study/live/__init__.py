"""One real run of the service on its local executor, and its replay in the simulator beside it."""
