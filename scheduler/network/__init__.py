"""From a placement to a step time: collectives, link sharing, overlap, sensitivity. Pure functions.

Belongs here: what a step costs and why. Not here: when to start a job, or which nodes it gets.
"""
