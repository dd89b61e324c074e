"""The digits of ../numpy-ddp with JAX: one process a worker, gradients summed by psum.

`launcher: jax` sets JAX_COORDINATOR_ADDRESS, which JAX reads itself, and number and count of the
processes, which it is given here. On CPUs the processes talk through gloo.
"""

import argparse
import hashlib
import importlib.util
import os
import sys
import time
from functools import partial
from pathlib import Path

import dally_runtime as dally
import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec

PIXELS, CLASSES, HIDDEN = 64, 10, 128
TRAINING_IMAGES = 1500
SEED = 1
STOPPED = 128 + 15
"""Exit code of a worker that was told to stop: the training is not complete."""

Weights = dict[str, jax.Array]


def options() -> argparse.Namespace:
    """What can be set."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=120)
    parser.add_argument("--batch", type=int, default=256, help="images a step, of all workers")
    parser.add_argument("--learning-rate", type=float, default=0.5)
    parser.add_argument("--checkpoint-steps", type=int, default=20)
    parser.add_argument("--accuracy-min", type=float, default=0.95)
    return parser.parse_args()


def digits() -> tuple[np.ndarray, np.ndarray]:
    """Handwritten digits and what they show: the data set that ships with scikit-learn."""
    library = importlib.util.find_spec("sklearn")
    if library is None or not library.submodule_search_locations:
        sys.exit("the digits come with scikit-learn: pip install scikit-learn")
    folder = Path(library.submodule_search_locations[0])
    rows = np.loadtxt(folder / "datasets" / "data" / "digits.csv.gz", delimiter=",")
    rows = np.random.default_rng(SEED).permutation(rows)
    return (rows[:, :PIXELS] / 16.0).astype(np.float32), rows[:, PIXELS].astype(np.int32)


def first_weights() -> Weights:
    """The same on every worker."""
    first, second = jax.random.split(jax.random.key(SEED))
    return {
        "w1": jax.random.normal(first, (PIXELS, HIDDEN)) * (2.0 / PIXELS) ** 0.5,
        "b1": jnp.zeros(HIDDEN),
        "w2": jax.random.normal(second, (HIDDEN, CLASSES)) * (2.0 / HIDDEN) ** 0.5,
        "b2": jnp.zeros(CLASSES),
    }


def scores(weights: Weights, images: jax.Array) -> jax.Array:
    """A score a class."""
    hidden = jax.nn.relu(images @ weights["w1"] + weights["b1"])
    return hidden @ weights["w2"] + weights["b2"]


def loss_of(weights: Weights, images: jax.Array, labels: jax.Array) -> jax.Array:
    """Mean cross-entropy of a worker's share."""
    chances = jax.nn.log_softmax(scores(weights, images))
    return -jnp.take_along_axis(chances, labels[:, None], axis=1).mean()


def one_step(
    weights: Weights, images: jax.Array, labels: jax.Array, stop: jax.Array, *, rate: float
) -> tuple[Weights, jax.Array, jax.Array]:
    """On every worker: its share of the batch, then the mean over all; the stop request too."""
    loss, gradient = jax.value_and_grad(loss_of)(weights, images, labels)
    workers = jax.lax.psum(1, "workers")
    gradient, loss = jax.lax.psum((gradient, loss), "workers")
    moved = jax.tree.map(lambda w, g: w - rate * g / workers, weights, gradient)
    return moved, loss / workers, jax.lax.psum(stop.sum(), "workers")


class Training:
    """Weights and the step they stand at."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        self.rank, self.size = jax.process_index(), jax.process_count()
        mesh = Mesh(np.array(jax.devices()), ("workers",))
        everywhere, shared_out = PartitionSpec(), PartitionSpec("workers")
        self._share = NamedSharding(mesh, shared_out)
        self._same = NamedSharding(mesh, everywhere)
        self._step = jax.jit(
            jax.shard_map(
                partial(one_step, rate=args.learning_rate),
                mesh=mesh,
                in_specs=(everywhere, shared_out, shared_out, shared_out),
                out_specs=(everywhere, everywhere, everywhere),
                check_vma=False,
            )
        )
        self.weights = self._on_all(first_weights())
        self.step = 0
        self.loss = 0.0
        self.step_s = 0.0
        folder = dally.checkpoint_dir()
        self._path = folder / "latest.npz" if folder else None
        images, labels = digits()
        self.images, self.held_out = np.split(images, [TRAINING_IMAGES])
        self.labels, self.held_out_labels = np.split(labels, [TRAINING_IMAGES])

    def resume(self) -> None:
        """Every worker reads the checkpoint, which lies where all of them see it."""
        if self._path and self._path.exists():
            with np.load(self._path) as saved:
                self.step = int(saved["step"])
                self.weights = self._on_all({name: saved[name] for name in self.weights})

    def save(self) -> None:
        """Rank 0 writes the checkpoint: whole, or not at all."""
        if self.rank == 0 and self._path:
            with dally.atomic_file(self._path) as path, path.open("wb") as file:
                np.savez(file, step=self.step, **self.local_weights())

    def one_step(self) -> bool:
        """Train on one batch; whether the gang has to stop."""
        started = time.perf_counter()
        rng = np.random.default_rng((SEED, self.step))
        share = rng.integers(len(self.images), size=self.args.batch)[self.rank :: self.size]
        mine = self.images[share], self.labels[share], np.array([float(dally.should_stop())])
        parts = [jax.make_array_from_process_local_data(self._share, part) for part in mine]
        self.weights, loss, stop = self._step(self.weights, *parts)
        self.step += 1
        self.loss = float(loss)
        self.step_s = time.perf_counter() - started
        return float(stop) > 0

    def local_weights(self) -> dict[str, np.ndarray]:
        """This worker's copy."""
        return {name: np.asarray(w.addressable_data(0)) for name, w in self.weights.items()}

    def _on_all(self, weights: Weights) -> Weights:
        return {
            name: jax.make_array_from_process_local_data(self._same, np.asarray(w))
            for name, w in weights.items()
        }


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
    weights = training.local_weights()
    digest = hashlib.sha256(b"".join(w.tobytes() for w in weights.values())).digest()
    digests = multihost_utils.process_allgather(np.frombuffer(digest, np.uint8))
    if (digests != digests[0]).any():
        sys.exit(f"rank {training.rank}: the workers hold different weights")
    found = np.asarray(scores(weights, training.held_out)).argmax(axis=1)
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
    jax.distributed.initialize(
        num_processes=int(os.environ["JAX_NUM_PROCESSES"]),
        process_id=int(os.environ["JAX_PROCESS_ID"]),
    )
    dally.should_stop()  # From here on a stop is noticed. JAX would take the signal, so after it.
    print(
        f"rank {jax.process_index()} of {jax.process_count()}, {jax.device_count()} devices in all"
    )
    training = Training(options())
    training.resume()
    if training.step:
        say(training, f"resumed at step {training.step} in attempt {dally.attempt()}")
    train(training)
    check(training)
    jax.distributed.shutdown()


if __name__ == "__main__":
    main()
