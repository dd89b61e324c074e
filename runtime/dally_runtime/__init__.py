"""What a training script may import: step reports, graceful stop, checkpoints.

Standard library only. Outside a Dally job every call does nothing.
"""

from dally_runtime.checkpoints import atomic_file, attempt, checkpoint_dir
from dally_runtime.reporting import flush, progress
from dally_runtime.stopping import seconds_left, should_stop

__all__ = [
    "atomic_file",
    "attempt",
    "checkpoint_dir",
    "flush",
    "progress",
    "seconds_left",
    "should_stop",
]
