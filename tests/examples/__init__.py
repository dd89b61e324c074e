"""The examples, run for real: they prove the environment contract against real frameworks."""
