"""The digits of ../numpy-ddp under MPI: mpirun starts the processes, Allreduce sums the gradients.

Rank 0 of the job runs mpirun, which finds the hosts and slots of the whole gang by itself.
"""

import argparse
import hashlib
import importlib.util
import os
import sys
import time
from pathlib import Path

# One thread a process: several processes share this machine. NumPy reads it when it is imported.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import dally_runtime as dally
import numpy as np
from mpi4py import MPI

PIXELS, CLASSES = 64, 10
TRAINING_IMAGES = 1500
SEED = 1
STOPPED = 128 + 15
"""Exit code of a process that was told to stop: the training is not complete."""


def options() -> argparse.Namespace:
    """What can be set."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--batch", type=int, default=256, help="images a step, of all processes")
    parser.add_argument("--learning-rate", type=float, default=0.5)
    parser.add_argument("--checkpoint-steps", type=int, default=100)
    parser.add_argument("--accuracy-min", type=float, default=0.9)
    return parser.parse_args()


def digits() -> tuple[np.ndarray, np.ndarray]:
    """Handwritten digits and what they show: the data set that ships with scikit-learn."""
    library = importlib.util.find_spec("sklearn")
    if library is None or not library.submodule_search_locations:
        sys.exit("the digits come with scikit-learn: pip install scikit-learn")
    folder = Path(library.submodule_search_locations[0])
    rows = np.loadtxt(folder / "datasets" / "data" / "digits.csv.gz", delimiter=",")
    rows = np.random.default_rng(SEED).permutation(rows)
    # A column of ones makes the bias a weight like the others.
    images = np.hstack([rows[:, :PIXELS] / 16.0, np.ones((len(rows), 1))])
    return images, rows[:, PIXELS].astype(np.int64)


class Training:
    """Weights of a softmax regression and the step they stand at."""

    def __init__(self, args: argparse.Namespace, processes: MPI.Comm) -> None:
        self.args = args
        self.processes = processes
        self.rank, self.size = processes.Get_rank(), processes.Get_size()
        self.weights = np.zeros((PIXELS + 1, CLASSES))
        self.step = 0
        self.loss = 0.0
        self.step_s = 0.0
        folder = dally.checkpoint_dir()
        self._path = folder / "latest.npz" if folder else None
        images, labels = digits()
        self.images, self.held_out = np.split(images, [TRAINING_IMAGES])
        self.labels, self.held_out_labels = np.split(labels, [TRAINING_IMAGES])

    def resume(self) -> None:
        """Rank 0 reads the checkpoint, if there is one, and tells the others."""
        if self.rank == 0 and self._path and self._path.exists():
            with np.load(self._path) as saved:
                self.step, self.weights = int(saved["step"]), saved["weights"]
        self.step = self.processes.bcast(self.step)
        self.weights = self.processes.bcast(self.weights)

    def save(self) -> None:
        """Rank 0 writes the checkpoint: whole, or not at all."""
        if self.rank == 0 and self._path:
            with dally.atomic_file(self._path) as path, path.open("wb") as file:
                np.savez(file, step=self.step, weights=self.weights)

    def one_step(self) -> bool:
        """Train on one batch; whether all processes have to stop."""
        started = time.perf_counter()
        rng = np.random.default_rng((SEED, self.step))
        share = rng.integers(len(self.images), size=self.args.batch)[self.rank :: self.size]
        images, labels = self.images[share], self.labels[share]
        rows = np.arange(len(share))
        scores = images @ self.weights
        scores -= scores.max(axis=1, keepdims=True)
        errors = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
        loss = -np.log(errors[rows, labels]).sum()
        errors[rows, labels] -= 1.0
        gradient = (images.T @ errors).ravel()
        message = np.concatenate([gradient, [loss, float(dally.should_stop())]])
        self.processes.Allreduce(MPI.IN_PLACE, message, MPI.SUM)
        mean = message[:-2].reshape(self.weights.shape) / self.args.batch
        self.weights -= self.args.learning_rate * mean
        self.step += 1
        self.loss = message[-2] / self.args.batch
        self.step_s = time.perf_counter() - started
        return bool(message[-1] > 0)


def train(training: Training) -> None:
    """All steps that are left; leaves the process if it is told to stop."""
    args = training.args
    while training.step < args.steps:
        has_to_stop = training.one_step()
        report(training)
        if training.step % args.checkpoint_steps == 0 or has_to_stop:
            training.save()
            numbers = f"loss {training.loss:.4f}  step time {training.step_s * 1000:.2f} ms"
            say(training, f"step {training.step} of {args.steps}  {numbers}")
        if has_to_stop:
            say(training, f"stopped after step {training.step}; the checkpoint is written")
            MPI.Finalize()
            sys.exit(STOPPED)


def check(training: Training) -> None:
    """All processes must hold the same weights, and these must have learnt something."""
    digest = hashlib.sha256(training.weights.tobytes()).digest()
    if set(training.processes.allgather(digest)) != {digest}:
        sys.exit(f"rank {training.rank}: the processes hold different weights")
    found = (training.held_out @ training.weights).argmax(axis=1)
    accuracy = float((found == training.held_out_labels).mean())
    report(training, accuracy)
    say(training, f"{training.size} workers hold equal weights {digest.hex()[:12]}")
    say(training, f"accuracy {accuracy:.4f} on {len(found)} held-out images")
    if accuracy < training.args.accuracy_min:
        sys.exit(f"rank {training.rank}: accuracy {accuracy:.4f} is too low")


def report(training: Training, accuracy: float | None = None) -> None:
    """Tell the service where the training stands."""
    dally.progress(
        training.step,
        training.step_s,
        loss=training.loss,
        accuracy=accuracy,
        steps_total=training.args.steps,
    )


def say(training: Training, text: str) -> None:
    """Rank 0 speaks for all."""
    if training.rank == 0:
        print(text, flush=True)


def main() -> None:
    """Train, then check."""
    dally.should_stop()  # From here on a stop is noticed.
    training = Training(options(), MPI.COMM_WORLD)
    print(f"rank {training.rank} of {training.size}", flush=True)
    training.resume()
    if training.step:
        say(training, f"resumed at step {training.step} in attempt {dally.attempt()}")
    train(training)
    check(training)


if __name__ == "__main__":
    main()
