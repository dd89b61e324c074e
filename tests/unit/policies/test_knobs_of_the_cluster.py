"""What decisions read off the cluster's knobs alone, no queue may be told to have of its own."""

import re
from collections.abc import Iterator

import pytest
from pydantic.alias_generators import to_camel

from scheduler.domain.knob_sheet import CLUSTER_KNOBS
from scheduler.domain.knobs import PolicyKnobs
from scheduler.knob_settings import read_texts, written_knobs
from tests.source_tree import ROOT

ALIAS = re.compile(r"(\S+) = (?:self\._)?snapshot\.knobs$", re.MULTILINE)
"""A name under which a module has the cluster's knobs."""


def read_off_the_cluster() -> Iterator[tuple[str, str]]:
    """Knobs that policies and engine take from the cluster, with the module."""
    for folder in ("policies", "engine"):
        for path in sorted((ROOT / "scheduler" / folder).glob("*.py")):
            text = path.read_text()
            names = {"snapshot.knobs", *ALIAS.findall(text)} - {"knobs"}
            if "    knobs = snapshot.knobs\n" in text:
                names.add("knobs")
            for name in names:
                for knob in re.findall(rf"\b{re.escape(name)}\.(\w+)", text):
                    yield knob, path.name


def test_what_is_read_off_the_cluster_can_not_be_set_for_a_queue() -> None:
    read = dict(read_off_the_cluster())
    assert {"hold_after", "placing", "residual_default"} <= read.keys()
    # Each queue's own policy is looked up by those who may have one.
    assert read.keys() - {"policy"} <= CLUSTER_KNOBS, read


@pytest.mark.parametrize("knob", sorted(CLUSTER_KNOBS))
def test_a_knob_of_the_cluster_is_refused_for_a_queue(knob: str) -> None:
    written = to_camel(knob)
    value = dict(written_knobs(PolicyKnobs()))[written]
    assert [each.name for each in read_texts({written: value}, is_for_queue=True)[1]] == [written]
    assert read_texts({written: value}, is_for_queue=False)[1] == ()
