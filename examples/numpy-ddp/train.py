"""Data-parallel training of a small network on handwritten digits, with NumPy and sockets alone.

Every worker holds all weights and a share of each batch; the gradients are summed around a ring
(ring.py). Rank 0 reports steps and writes checkpoints; stopped, the gang saves its state and the
next attempt goes on from there. At the end all workers compare their weights.

Alone (`python3 train.py`) it is a gang of one.
"""

import argparse
import hashlib
import importlib.util
import os
import platform
import sys
import time
from pathlib import Path

# One thread a worker: several workers share this machine. NumPy reads it when it is imported.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import dally_runtime as dally
import numpy as np
import numpy.typing as npt
from ring import Member, Ring

Array = npt.NDArray[np.float64]
Labels = npt.NDArray[np.int64]

PIXELS, CLASSES = 64, 10
TRAINING_IMAGES = 1500
SEED = 1
STOPPED = 128 + 15
"""Exit code of a worker that was told to stop: the training is not complete."""


def options() -> argparse.Namespace:
    """What can be set."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--batch", type=int, default=256, help="images a step, of all workers")
    parser.add_argument("--hidden", type=int, default=256)
    parser.add_argument("--learning-rate", type=float, default=0.1)
    parser.add_argument("--momentum", type=float, default=0.9)
    parser.add_argument("--checkpoint-steps", type=int, default=100)
    parser.add_argument("--accuracy-min", type=float, default=0.95)
    return parser.parse_args()


def member() -> Member:
    """This process in the gang, as the environment says."""
    return Member(
        rank=int(os.environ.get("RANK", "0")),
        size=int(os.environ.get("WORLD_SIZE", "1")),
        master=(
            os.environ.get("MASTER_ADDR", "127.0.0.1"),
            int(os.environ.get("MASTER_PORT", "0")),
        ),
        gang="/".join(os.environ.get(f"DALLY_{part}", "") for part in ("JOB_UID", "ATTEMPT")),
    )


def digits() -> tuple[Array, Labels]:
    """Images of handwritten digits and what they show: the data set that ships with scikit-learn.

    Read from its file, because importing the library takes longer than the training.
    """
    library = importlib.util.find_spec("sklearn")
    if library is None or not library.submodule_search_locations:
        sys.exit("the digits come with scikit-learn: pip install scikit-learn")
    folder = Path(library.submodule_search_locations[0])
    rows = np.loadtxt(folder / "datasets" / "data" / "digits.csv.gz", delimiter=",")
    return rows[:, :PIXELS] / 16.0, rows[:, PIXELS].astype(np.int64)


class Network:
    """Two dense layers; the weights are views into one flat array, which is what travels."""

    def __init__(self, hidden: int) -> None:
        shapes = [(PIXELS, hidden), (hidden,), (hidden, CLASSES), (CLASSES,)]
        sizes = [int(np.prod(shape)) for shape in shapes]
        self.flat = np.zeros(sum(sizes))
        self._shapes, self._cuts = shapes, np.cumsum(sizes)[:-1]
        rng = np.random.default_rng(SEED)
        for view in self._views(self.flat)[::2]:
            view[:] = rng.normal(0.0, np.sqrt(2.0 / view.shape[0]), view.shape)

    def scores(self, images: Array) -> tuple[Array, Array]:
        """Activations of the hidden layer, and a score a class."""
        w1, b1, w2, b2 = self._views(self.flat)
        hidden = np.maximum(images @ w1 + b1, 0.0)
        return hidden, hidden @ w2 + b2

    def loss_and_gradient(self, images: Array, labels: Labels) -> tuple[float, Array]:
        """Cross-entropy and its gradient, both summed over the images."""
        _, _, w2, _ = self._views(self.flat)
        hidden, scores = self.scores(images)
        scores -= scores.max(axis=1, keepdims=True)
        log_sums = np.log(np.exp(scores).sum(axis=1))
        rows = np.arange(len(labels))
        loss = float((log_sums - scores[rows, labels]).sum())
        errors = np.exp(scores - log_sums[:, None])
        errors[rows, labels] -= 1.0
        gradient = np.empty_like(self.flat)
        g1, gb1, g2, gb2 = self._views(gradient)
        g2[:], gb2[:] = hidden.T @ errors, errors.sum(axis=0)
        back = (errors @ w2.T) * (hidden > 0)
        g1[:], gb1[:] = images.T @ back, back.sum(axis=0)
        return loss, gradient

    def accuracy(self, images: Array, labels: Labels) -> float:
        """Share of images whose best score is the right class."""
        return float((self.scores(images)[1].argmax(axis=1) == labels).mean())

    def _views(self, flat: Array) -> list[Array]:
        parts = np.split(flat, self._cuts)
        return [part.reshape(shape) for part, shape in zip(parts, self._shapes, strict=True)]


class Training:
    """Weights, momentum and the step they stand at; one state, whoever holds it."""

    def __init__(self, args: argparse.Namespace, ring: Ring) -> None:
        self.args = args
        self.ring = ring
        self.network = Network(args.hidden)
        self.velocity = np.zeros_like(self.network.flat)
        self.step = 0
        self.loss = 0.0
        self.step_s = 0.0
        folder = dally.checkpoint_dir()
        self._path = folder / "latest.npz" if folder else None
        images, labels = digits()
        order = np.random.default_rng(SEED).permutation(len(labels))
        self.images, self.held_out = np.split(images[order], [TRAINING_IMAGES])
        self.labels, self.held_out_labels = np.split(labels[order], [TRAINING_IMAGES])

    def resume(self) -> None:
        """Rank 0 reads the checkpoint, if there is one, and the others get it from rank 0."""
        state = np.zeros(1 + 2 * len(self.network.flat))
        if self.ring.rank == 0:
            parts = [[self.step], self.network.flat, self.velocity]
            if self._path and self._path.exists():
                with np.load(self._path) as saved:
                    parts = [[saved["step"]], saved["weights"], saved["velocity"]]
            state[:] = np.concatenate(parts)
        self.ring.all_reduce(state)
        self.step = int(state[0])
        self.network.flat[:], self.velocity[:] = np.split(state[1:], 2)

    def save(self) -> None:
        """Rank 0 writes the checkpoint: whole, or not at all."""
        if self.ring.rank == 0 and self._path:
            with dally.atomic_file(self._path) as path, path.open("wb") as file:
                np.savez(file, step=self.step, weights=self.network.flat, velocity=self.velocity)

    def one_step(self) -> bool:
        """Train on one batch; whether the gang has to stop."""
        started = time.perf_counter()
        args, ring = self.args, self.ring
        batch = np.random.default_rng((SEED, self.step)).integers(len(self.images), size=args.batch)
        share = batch[ring.rank :: ring.size]
        loss, gradient = self.network.loss_and_gradient(self.images[share], self.labels[share])
        # Loss and stop request travel with the gradient, so that all workers know the same and
        # leave after the same step.
        message = np.concatenate([gradient, [loss, float(dally.should_stop())]])
        ring.all_reduce(message)
        self.velocity *= args.momentum
        self.velocity -= args.learning_rate * message[:-2] / args.batch
        self.network.flat += self.velocity
        self.step += 1
        self.loss = float(message[-2]) / args.batch
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
            sys.exit(STOPPED)


def check(training: Training) -> None:
    """All workers must hold the same weights, and the network must have learnt something."""
    ring, network = training.ring, training.network
    digest = hashlib.sha256(network.flat.tobytes()).digest()
    if set(ring.all_gather(digest)) != {digest}:
        sys.exit(f"rank {ring.rank}: the workers hold different weights")
    accuracy = network.accuracy(training.held_out, training.held_out_labels)
    report(training, accuracy=accuracy)
    say(training, f"{ring.size} workers hold equal weights {digest.hex()[:12]}")
    say(training, f"accuracy {accuracy:.4f} on {len(training.held_out)} held-out images")
    if accuracy < training.args.accuracy_min:
        sys.exit(f"rank {ring.rank}: accuracy {accuracy:.4f} < {training.args.accuracy_min}")


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
    if training.ring.rank == 0:
        print(text, flush=True)


def main() -> None:
    """Train, then check."""
    dally.should_stop()  # From here on a stop is noticed.
    me = member()
    print(f"rank {me.rank} of {me.size} on {platform.node()}", flush=True)
    training = Training(options(), Ring(me))
    training.resume()
    if training.step:
        say(training, f"resumed at step {training.step} in attempt {dally.attempt()}")
    train(training)
    check(training)


if __name__ == "__main__":
    main()
