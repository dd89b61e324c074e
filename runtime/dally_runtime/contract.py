"""What the environment says: is this a Dally job, and which of its processes is this one?"""

import os


def variable(name: str) -> str:
    """A variable of the contract; empty outside a job, or where it does not apply."""
    return os.environ.get(name, "")


def is_in_job() -> bool:
    """Whether this process belongs to a Dally job."""
    return bool(variable("DALLY_JOB_UID"))


def speaks_for_the_job() -> bool:
    """Whether this is the one process that reports: the first process of rank 0.

    torchrun and mpirun start several processes in a worker; each numbers them in a way of its own.
    """
    for number in ("OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK"):
        if variable(number):
            return variable(number) == "0"
    return variable("DALLY_RANK") == "0" and variable("LOCAL_RANK") in ("", "0")
