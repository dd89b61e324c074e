"""The digits of ../numpy-ddp with PyTorch's DistributedDataParallel over gloo.

Under torchrun, which learns everything from the variables that `launcher: torchrun` sets and gives
each of its processes RANK, WORLD_SIZE and LOCAL_RANK; or straight away (`launcher: plain`), when
these three are the worker's own.
"""

import argparse
import hashlib
import importlib.util
import os
import sys
import time
from pathlib import Path
from typing import NoReturn

import dally_runtime as dally
import numpy as np
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

PIXELS, CLASSES = 64, 10
TRAINING_IMAGES = 1500
SEED = 1
STOPPED = 128 + 15
"""Exit code of a worker that was told to stop: the training is not complete."""


def options() -> argparse.Namespace:
    """What can be set."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--batch", type=int, default=256, help="images a step, of all workers")
    parser.add_argument("--checkpoint-steps", type=int, default=50)
    parser.add_argument("--accuracy-min", type=float, default=0.95)
    return parser.parse_args()


def digits() -> tuple[torch.Tensor, torch.Tensor]:
    """Handwritten digits and what they show: the data set that ships with scikit-learn."""
    library = importlib.util.find_spec("sklearn")
    if library is None or not library.submodule_search_locations:
        sys.exit("the digits come with scikit-learn: pip install scikit-learn")
    folder = Path(library.submodule_search_locations[0])
    rows = np.loadtxt(folder / "datasets" / "data" / "digits.csv.gz", delimiter=",")
    rows = np.random.default_rng(SEED).permutation(rows)
    images = torch.tensor(rows[:, :PIXELS] / 16.0, dtype=torch.float32)
    return images, torch.tensor(rows[:, PIXELS], dtype=torch.int64)


class Training:
    """Model and optimiser, and the step they stand at."""

    def __init__(self, args: argparse.Namespace) -> None:
        torch.manual_seed(SEED)
        self.args = args
        self.rank, self.size = dist.get_rank(), dist.get_world_size()
        layers = torch.nn.Linear(PIXELS, 128), torch.nn.ReLU(), torch.nn.Linear(128, CLASSES)
        self.model = DistributedDataParallel(torch.nn.Sequential(*layers))
        self.optimiser = torch.optim.SGD(self.model.parameters(), lr=0.1, momentum=0.9)
        self.step = 0
        self.loss = 0.0
        self.step_s = 0.0
        folder = dally.checkpoint_dir()
        self._path = folder / "latest.pt" if folder else None
        images, labels = digits()
        self.images, self.held_out = images[:TRAINING_IMAGES], images[TRAINING_IMAGES:]
        self.labels, self.held_out_labels = labels[:TRAINING_IMAGES], labels[TRAINING_IMAGES:]

    def resume(self) -> None:
        """Every rank reads the checkpoint, which lies where all of them see it."""
        if self._path and self._path.exists():
            state = torch.load(self._path)
            self.step = state["step"]
            self.model.load_state_dict(state["model"])
            self.optimiser.load_state_dict(state["optimiser"])

    def save(self) -> None:
        """Rank 0 writes the checkpoint: whole, or not at all."""
        if self.rank == 0 and self._path:
            with dally.atomic_file(self._path) as path:
                state = {
                    "step": self.step,
                    "model": self.model.state_dict(),
                    "optimiser": self.optimiser.state_dict(),
                }
                torch.save(state, path)

    def one_step(self) -> bool:
        """Train on one batch; whether the gang has to stop."""
        started = time.perf_counter()
        rng = np.random.default_rng((SEED, self.step))
        share = rng.integers(len(self.images), size=self.args.batch)[self.rank :: self.size]
        self.optimiser.zero_grad()
        scores = self.model(self.images[share])
        loss = torch.nn.functional.cross_entropy(scores, self.labels[share])
        loss.backward()
        self.optimiser.step()
        self.step += 1
        # All workers must leave after the same step: they agree on loss and stop request.
        told = torch.tensor([loss.item() / self.size, float(dally.should_stop())])
        dist.all_reduce(told)
        self.loss = told[0].item()
        self.step_s = time.perf_counter() - started
        return told[1].item() > 0


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
            leave(STOPPED)


def check(training: Training) -> None:
    """All workers must hold the same weights, and the network must have learnt something."""
    weights = torch.cat([p.detach().flatten() for p in training.model.parameters()])
    digest = hashlib.sha256(weights.numpy().tobytes()).digest()
    digests: list[bytes] = [b""] * training.size
    dist.all_gather_object(digests, digest)
    if set(digests) != {digest}:
        leave(1, f"rank {training.rank}: the workers hold different weights")
    with torch.no_grad():
        found = training.model.module(training.held_out).argmax(dim=1)
    accuracy = (found == training.held_out_labels).float().mean().item()
    report(training, accuracy)
    say(training, f"{training.size} workers hold equal weights {digest.hex()[:12]}")
    say(training, f"accuracy {accuracy:.4f} on {len(found)} held-out images")
    if accuracy < training.args.accuracy_min:
        leave(1, f"rank {training.rank}: accuracy {accuracy:.4f} is too low")


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


def leave(code: int, why: str = "") -> NoReturn:
    """End at once, without destructors.

    The one of PyTorch's process group waits for a thread that may wait for the interpreter (seen
    with PyTorch 1.13).
    """
    dally.flush()
    print(why, end="", flush=True)
    os._exit(code)


def main() -> None:
    """Train, then check."""
    dally.should_stop()  # From here on a stop is noticed.
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    print(
        f"rank {dist.get_rank()} of {dist.get_world_size()}, local rank {os.environ['LOCAL_RANK']}"
    )
    training = Training(options())
    training.resume()
    if training.step:
        say(training, f"resumed at step {training.step} in attempt {dally.attempt()}")
    train(training)
    check(training)
    leave(0)


if __name__ == "__main__":
    main()
