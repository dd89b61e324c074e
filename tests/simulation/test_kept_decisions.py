"""A decision on what the loop has kept equals one made anew from the snapshot, in all that it says.

Whole runs in trouble, under every policy: servers die, users act, knobs change while gangs run.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

import pytest

from scheduler.domain.ids import JobId
from scheduler.domain.instants import seconds
from scheduler.domain.knobs import JobOrder, PolicyKnobs
from scheduler.domain.plan import Plan
from scheduler.domain.snapshot import RunningGang, Snapshot
from scheduler.engine.cycle import decide_by_knobs, has_nobody_to_move
from scheduler.engine.decision import Decision, answers_of
from scheduler.engine.standing import Standing
from scheduler.policies.registry import POLICIES
from scheduler.ports.unit import SaveKnobs, Unit
from tests.proof import times
from tests.simulation.sensitive_world import SOON, SensitiveWorld

SEEDS = times(ci=12, proof=1_000)


class RestlessWorld(SensitiveWorld):
    """Any policy, and now and then another one or other numbers."""

    def knobs(self) -> PolicyKnobs:
        """Numbers with which gangs change their places within minutes."""
        rng = self.rng
        return replace(
            SOON,
            policy=rng.choice(sorted(POLICIES)),
            order=rng.choice([JobOrder.GITTINS, JobOrder.LAS, JobOrder.N4, JobOrder.N1]),
            order_stops=rng.random() < 0.8,
            ends_min=rng.choice([3, 50]),
            quantum_checkpoints=rng.choice([0.0, 2.0]),
            lost_share_max=rng.choice([0.05, 0.3, 1.0]),
            promote_after=rng.choice([0.0, 0.5]),
            lease=seconds(rng.choice([10, 100])),
            time_slice=seconds(rng.choice([20, 60])),
        )

    def _trouble(self) -> None:
        if self.rng.random() < 0.004:
            self.store.write(Unit(changes=(SaveKnobs(knobs=self.knobs()),)))
        super()._trouble()


def by_id(gangs: Iterable[RunningGang]) -> Mapping[JobId, RunningGang]:
    """The gangs in no order."""
    return {gang.job.id: gang for gang in gangs}


def decided_twice(standing: Standing, snapshot: Snapshot) -> Decision:
    """The decision, after a look at whether it is the one that nothing was kept for."""
    bare = replace(snapshot, spread=None)
    assert by_id(snapshot.on_several_nodes) == by_id(bare.on_several_nodes)
    anew = Standing.of(bare)
    expected = decide_by_knobs(anew, bare)
    if has_nobody_to_move(standing, snapshot.knobs):
        assert expected.plan == Plan(made_on=snapshot.version)
    found = decide_by_knobs(standing, snapshot)
    assert found.plan == expected.plan, snapshot.knobs.policy
    now = snapshot.now
    assert answers_of(found, standing, now) == answers_of(expected, anew, now)
    return found


@pytest.mark.proof
@pytest.mark.parametrize("seed", range(SEEDS))
def test_what_is_kept_changes_no_decision(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    run = RestlessWorld(seed)
    monkeypatch.setattr("scheduler.control.loop.decide_by_knobs", decided_twice)
    monkeypatch.setattr("scheduler.control.loop.has_nobody_to_move", lambda *_: False)
    run.run()
    assert len(run.ended) > 3, f"reproduce with seed={seed}"
