"""A server on another data folder does not take running workers for lost ones."""

from pathlib import Path

import pytest

from scheduler.domain.errors import AlreadyServingError
from scheduler.domain.instants import seconds
from scheduler.ports.unit import SaveNodes, Unit
from server.executor_home import LABEL, executor_id, labelled, refuse_workers_of_others
from tests.builders import a_job
from tests.worlds import World


def a_world_served_from(folder: Path) -> World:
    world = World()
    world.submit(a_job("a"))
    world.run(seconds(5))
    levels, nodes = world.store.topology()
    marked = tuple(labelled(nodes, executor_id(folder)))
    world.store.write(Unit(changes=(SaveNodes(levels=levels, nodes=marked, at=world.clock.now()),)))
    return world


def test_the_folder_itself_serves_on(tmp_path: Path) -> None:
    world = a_world_served_from(tmp_path)
    refuse_workers_of_others(world.store, tmp_path)
    _, nodes = world.store.topology()
    assert {node.labels[LABEL] for node in nodes} == {executor_id(tmp_path)}


def test_another_folder_is_refused_while_jobs_run(tmp_path: Path) -> None:
    home, other = tmp_path / "home", tmp_path / "other"
    home.mkdir()
    other.mkdir()
    world = a_world_served_from(home)
    with pytest.raises(AlreadyServingError, match="another data folder runs 1 job of"):
        refuse_workers_of_others(world.store, other)
    world.cancel("a", at_once=True)
    world.run(seconds(5))
    refuse_workers_of_others(world.store, other)
