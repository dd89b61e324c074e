"""A worker of the real run: steps as long as the network model says of where its gang stands.

    main() with the arguments STEPS RACKS TIER=SECONDS...

It computes nothing and keeps to a clock instead, so that 16 of them fit two cores. The workers of a
gang meet in the folder of their checkpoints before the first step, and there each learns where the
others are: RACKS is `NODE=RACK,NODE=RACK,...`. Told to stop, rank 0 saves the steps that are done,
and the next attempt goes on from them. On stdout rank 0 tells when its steps began and ended.
"""

import json
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path

MEET_S_MAX = 120.0
LOOK_EVERY_S = 0.02
SAVED = "steps"
STOPPED = 128 + 15
"""Exit code of a worker that was told to stop."""


def main() -> int:
    """Returns the exit code."""
    steps, racks = int(sys.argv[1]), pairs(sys.argv[2])
    step_s_by_tier = {tier: float(text) for tier, text in map(pair, sys.argv[3:])}
    folder, rank = Path(os.environ["DALLY_CHECKPOINT_DIR"]), int(os.environ["DALLY_RANK"])
    tier = tier_of(meet(folder, rank), racks)
    step_s = step_s_by_tier[tier]
    if rank == 0:
        return lead(folder, steps, step_s)
    # The others end by SIGTERM at once: they have nothing to save.
    time.sleep((steps - saved_steps(folder)) * step_s)
    return 0


def lead(folder: Path, steps: int, step_s: float) -> int:
    """Take the steps that are left; returns the exit code."""
    import dally_runtime  # noqa: PLC0415 - takes longer to import than all else here

    dally_runtime.should_stop()  # From here on a stop is noticed.
    first = saved_steps(folder)
    began_s = time.monotonic()
    tell("began", first)
    for step in range(first + 1, steps + 1):
        time.sleep(max(0.0, began_s + (step - first) * step_s - time.monotonic()))
        dally_runtime.progress(step, step_s, steps_total=steps)
        if dally_runtime.should_stop() and step < steps:
            (folder / SAVED).write_text(str(step), encoding="ascii")
            tell("ended", step)
            return STOPPED
    tell("ended", steps)
    return 0


def tell(what: str, step: int) -> None:
    """One line for whoever reads the log."""
    print(json.dumps({"what": what, "at_s": time.time(), "step": step}), flush=True)


def saved_steps(folder: Path) -> int:
    """Steps that an earlier attempt has done."""
    file = folder / SAVED
    return int(file.read_text(encoding="ascii")) if file.exists() else 0


def meet(folder: Path, rank: int) -> list[str]:
    """Wait until every worker of the gang is there; returns the node of each."""
    place = folder / f"attempt-{os.environ['DALLY_ATTEMPT']}"
    place.mkdir(parents=True, exist_ok=True)
    mine = place / f"{rank}.new"
    mine.write_text(os.environ["DALLY_NODE"], encoding="ascii")
    mine.rename(place / f"{rank}")
    others = [place / f"{number}" for number in range(int(os.environ["DALLY_WORKERS"]))]
    give_up_at_s = time.monotonic() + MEET_S_MAX
    while not all(other.exists() for other in others):
        if time.monotonic() > give_up_at_s:
            sys.exit(f"not all of {len(others)} workers came within {MEET_S_MAX:.0f} s")
        time.sleep(LOOK_EVERY_S)
    return [other.read_text(encoding="ascii") for other in others]


def tier_of(nodes: list[str], racks: Mapping[str, str]) -> str:
    """The closest level that holds the whole gang."""
    if len(set(nodes)) == 1:
        return "node"
    return "rack" if len({racks[node] for node in nodes}) == 1 else "cluster"


def pairs(text: str) -> dict[str, str]:
    """`a=b,c=d` as a mapping."""
    return dict(map(pair, text.split(",")))


def pair(text: str) -> tuple[str, str]:
    """`a=b` in two."""
    name, _, value = text.partition("=")
    return name, value
