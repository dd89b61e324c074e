"""What the tuner has learned: how long gangs wait for closer GPUs."""
