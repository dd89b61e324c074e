"""MPI on Kubernetes without sshd: how `mpirun` reaches the other workers of its gang.

    python3 -m dally_runtime.mpi lead -- mpirun train      rank 0: runs the command of the job file
    python3 -m dally_runtime.mpi agent                     the others: start what mpirun asks for
    python3 -m dally_runtime.mpi rsh HOST COMMAND...       what mpirun runs in place of ssh

Dally writes the first two into the pods of a job with `launcher: mpi`, and names the third in the
variables of Open MPI. All three know the secret of the attempt.
"""
