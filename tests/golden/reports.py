"""The golden traces and what runs of them say: every start and end, and the metrics.

On `trace.jsonl` there is nearly always room; on `busy.jsonl` jobs hold out for closer GPUs, give up
holding out, and move.
"""

import json
from pathlib import Path

from scheduler.domain.ids import LevelName
from scheduler.domain.instants import SECOND
from scheduler.domain.knobs import NetworkMoves
from simulator.fabric import NetworkOptions
from simulator.metrics import measured
from simulator.profiles import ProfileView
from simulator.replay import replay
from simulator.staging import RunOptions, staged
from simulator.topology_file import LevelPlan, NodeGroup, Topology
from simulator.traces.formats import read_trace
from simulator.world import Costs

FOLDER = Path(__file__).parent
TRACE_OF_POLICY = {
    "fifo": "trace",
    "nowait": "trace",
    "las": "trace",
    "srtf": "trace",
    "dally": "busy",
    "dally-classic": "busy",
    "gittins-nowait": "busy",
}
POLICIES = tuple(TRACE_OF_POLICY)

MOVES_ON = {"preemption": NetworkMoves.ON, "upgrades": NetworkMoves.ON}

RACK = LevelPlan(name=LevelName("rack"), nodes=2, oversubscription=2)
CLUSTER = Topology(
    name="golden", levels=(RACK,), groups=(NodeGroup(count=6, gpus=4),), fabric="v100-tcp"
)


def expected_file(policy: str) -> Path:
    """Where the report of a policy stands."""
    return FOLDER / f"{policy}.json"


def written(policy: str) -> str:
    """The report of a policy, as its file has it; times in whole seconds, to be read."""
    options = RunOptions(
        policy=policy,
        network=NetworkOptions(congestion=4),
        view=ProfileView.EXACT,
        costs=Costs(),
        knobs=MOVES_ON,
    )
    trace = read_trace(FOLDER / f"{TRACE_OF_POLICY[policy]}.jsonl")
    outcome = replay(staged(trace, CLUSTER, options).scenario)
    metrics = {
        name: round(value, 3) if isinstance(value, float) else value
        for name, value in measured(outcome).facts().items()
        if name != "held_share_by_tier"
    }
    jobs = [
        f"{job.name}: {job.gpus} GPUs, {job.model}, there at {job.arrival // SECOND}, "
        f"first GPUs at {job.first_start // SECOND}, ended at {job.end // SECOND}, "
        f"{job.preemptions} preemptions"
        for job in outcome.jobs
    ]
    return json.dumps({"metrics": metrics, "jobs": jobs}, indent=1) + "\n"
