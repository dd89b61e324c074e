"""Distinct types for the names and numbers that identify things."""

from typing import NewType

JobId = NewType("JobId", str)
"""Unique id of a job (a UUIDv7 as text), made by whoever submits it; never reused."""

JobName = NewType("JobName", str)
"""A job's name: a DNS label, unique in its project among jobs that are not deleted."""

ProjectName = NewType("ProjectName", str)
QueueName = NewType("QueueName", str)
RoleName = NewType("RoleName", str)
NodeName = NewType("NodeName", str)
PoolName = NewType("PoolName", str)
LevelName = NewType("LevelName", str)
GpuModel = NewType("GpuModel", str)
"""A GPU model, e.g. `H100-80GB`; the empty string where the model is not known."""

AttemptNumber = NewType("AttemptNumber", int)
"""Number of one start of a job, counted from 0."""

Rank = NewType("Rank", int)
"""A worker's number in its gang, counted from 0 role by role, inside a role in topology order."""

Epoch = NewType("Epoch", int)
"""Number of a leadership term; a write with an older epoch than the store's is refused."""

Sequence = NewType("Sequence", int)
"""Place of a change in the store's total order; larger is later."""
