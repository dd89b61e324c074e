"""A node on which gangs fail is left alone, over a restart, until an admin says otherwise."""

from tests.kubernetes.served import ServedCluster
from tests.polling import wait_until
from tests.servers import Server


def left_alone(server: Server) -> str:
    """Why the only node is left alone."""
    (node,) = server.request("GET", "/api/v1/nodes").json()["items"]
    return str(node["leftAloneReason"])


def test_a_suspect_node_stays_suspect_over_a_restart_and_is_used_again_by_an_order(
    served: ServedCluster,
) -> None:
    served.add_nodes(1)
    served.server.start()
    for name in ("one", "two"):
        served.submit(name, "false", failurePolicy={"maxRestarts": 0})
        served.wait_for(name, "Failed")
    wait_until(lambda: left_alone(served.server) == "SuspectNode", "two jobs have failed there")
    served.server.kill()
    served.server.start()
    served.submit("three", "true")
    why = "/api/v1/projects/default/jobs/three/why"
    wait_until(lambda: "left alone" in served.server.request("GET", why).text, "it waits")
    assert left_alone(served.server) == "SuspectNode"
    answer = served.server.request("POST", "/api/v1/nodes/n000/uncordon", body={})
    assert answer.json()["leftAloneReason"] == ""
    served.wait_for("three", "Succeeded")
    assert left_alone(served.server) == ""
