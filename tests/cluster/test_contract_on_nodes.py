"""What every Cluster promises, kept by the Kubernetes adapter on whole nodes.

The tests are those of tests/contract; nodes_world.py says by what means.
"""

import pytest

from tests.contract.test_cluster import *  # noqa: F403 - the very same tests in another world

pytestmark = pytest.mark.cluster

NOT_ON_NODES = {
    "test_asked_again_the_earlier_kill_holds": "a kubelet waits for the end of the grace that it "
    "was told first, whatever it is told later (kubernetes/kubernetes#113606); what it does "
    "instead is in test_adapter_on_nodes.py",
}
"""Promises that can not be kept on real nodes, and why."""

for _name in NOT_ON_NODES:
    del globals()[_name]
