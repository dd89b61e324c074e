"""dallyd.yaml is checked as a whole; every mistake is named with its place."""

from dataclasses import fields
from pathlib import Path

import pytest
from pydantic.alias_generators import to_camel

from scheduler.config_file import Config, ConfigError, empty_config, parse_config, read_config
from scheduler.domain.ids import GpuModel, ProjectName
from scheduler.domain.instants import seconds
from scheduler.domain.knob_sheet import KnobSheet
from scheduler.domain.knobs import PolicyKnobs, WaitClock
from scheduler.domain.links import FabricPlan, NodeLinksPlan
from scheduler.domain.topology import Uplink
from scheduler.knob_settings import KNOB_TEXTS, knob_names, read_knobs, written_knobs

POLICIES = ("fifo", "fifo-backfill")
FABRICS = ("a100-hdr", "h100-roce")


def parsed(text: str) -> Config:
    return parse_config(text, source="dallyd.yaml", policies=POLICIES, fabrics=FABRICS)


def problems(text: str) -> list[str]:
    with pytest.raises(ConfigError) as raised:
        parsed(text)
    return [f"{problem.place}: {problem.detail}" for problem in raised.value.problems]


def test_an_empty_file_is_the_same_as_none() -> None:
    assert parsed("") == empty_config()
    assert (empty_config().queues, empty_config().projects) == ((), ())
    assert dict(empty_config().priorities) == {"low": -100, "normal": 0, "high": 100}


def test_a_whole_file() -> None:
    config = parsed(
        """
        server: {port: 9000}
        topology:
          levels: [{name: rack}]
          racks:
            - {name: r1, nodes: 2, gpus: 4, gpuModel: H100-80GB, pool: h100}
            - {name: r2, nodes: 1, gpus: 8}
        pools: [{name: h100, mode: shared}]
        queues:
          - {name: team-a, policy: fifo-backfill, knobs: {startTimeout: 5m}}
        priorityClasses: [{name: urgent, value: 500}]
        policy: {policy: fifo-backfill, restartsInfraMax: 3, healthyAfter: 1h}
        projects: [{name: vision, queues: [team-a, default]}]
        """
    )
    assert [(node.name, node.gpus, node.path) for node in config.topology.nodes] == [
        ("r1-n0", 4, ("r1",)),
        ("r1-n1", 4, ("r1",)),
        ("r2-n0", 8, ("r2",)),
    ]
    assert [(queue.name, queue.policy) for queue in config.queues] == [("team-a", "fifo-backfill")]
    assert [(project.name, project.queues) for project in config.projects] == [
        ("vision", ("team-a", "default")),
    ]
    assert config.priorities["urgent"] == 500
    assert KnobSheet(seeded=config.policy).over(PolicyKnobs()) == PolicyKnobs(
        policy="fifo-backfill", restarts_infra_max=3, healthy_after=seconds(3600)
    )
    assert config.server == {"port": 9000}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param("quues: []", ["quues: there is no such key; did you mean queues?"], id="key"),
        pytest.param(
            "topology: {nodes: [{gpu: 1}]}",
            [
                "topology.nodes[0].gpus: field required",
                "topology.nodes[0].gpu: there is no such key; did you mean gpus?",
            ],
            id="inner key",
        ),
        pytest.param(
            "topology: {nodes: [{gpus: -1}, {gpus: 1, memory: lots}]}",
            [
                "topology.nodes[0].gpus: input should be greater than or equal to 0",
                "topology.nodes[1].memory: is not a number of bytes: 'lots'; write 256Gi or 64GB",
            ],
            id="values",
        ),
        pytest.param(
            "topology: {levels: [{name: node}]}",
            ["topology.levels[0].name: node is implied; leave it out"],
            id="implied level",
        ),
        pytest.param(
            "topology: {levels: [{name: a, nodes: 4}, {name: b, nodes: 6}]}",
            ["topology.levels[1].nodes: 6 nodes are not made of whole as"],
            id="levels that do not nest",
        ),
        pytest.param(
            "topology: {nodes: [{gpus: 1, in: {rok: r1}}]}",
            ["topology.nodes[0].in.rok: no such level here; there are: rack"],
            id="level of a node",
        ),
        pytest.param(
            "topology:\n  fabric: h100-roec\n"
            "  links: [{gpuModel: A, fabric: x}, {gpuModel: A, nicBandwidth: 0}]",
            [
                "topology.fabric: there is no fabric 'h100-roec'; there are: a100-hdr, h100-roce",
                "topology.links[0].fabric: there is no fabric 'x'; there are: a100-hdr, h100-roce",
                "topology.links[0].gpuModel: the links of 'A' are said 2 times",
                "topology.links[1].gpuModel: the links of 'A' are said 2 times",
                "topology.links[1].nicBandwidth: must be more than 0",
            ],
            id="links",
        ),
        pytest.param(
            "topology: {levels: [{name: a, oversubscription: 2, bandwidth: 400GB}]}",
            [
                "topology.levels[0].oversubscription: says the same as bandwidth;"
                " leave one of them out"
            ],
            id="a level's rate said twice",
        ),
        pytest.param(
            "topology: {levels: [{name: a, latencySeconds: -1, uplinks: -2, nvlink: 1}]}",
            [
                "topology.levels[0].latencySeconds: input should be greater than or equal to 0",
                "topology.levels[0].uplinks: input should be greater than or equal to 0",
                "topology.levels[0].nvlink: input should be a valid boolean",
            ],
            id="values of a level",
        ),
        pytest.param(
            "topology: {nodes: [{name: n, gpus: 1}, {name: n, gpus: 1}]}",
            ["topology.nodes[0]: 2 nodes are named n"],
            id="names of nodes",
        ),
        pytest.param(
            "topology: {nodes: [{gpus: 1, pool: big}]}",
            ["topology.nodes[0].pool: there is no pool big"],
            id="pool",
        ),
        pytest.param(
            "policy: {startTimout: 1m, healthyAfter: 5, policy: fofo}",
            [
                "policy.startTimout: there is no such knob; did you mean startTimeout?",
                "policy.healthyAfter: must be a time with its unit: 90s, 10m, 24h or 1h30m",
                "policy.policy: there is no policy 'fofo'; there are: fifo, fifo-backfill",
            ],
            id="knobs",
        ),
        pytest.param(
            "queues: [{name: a, policy: x}, {name: a, knobs: {y: 1}}]",
            [
                "queues[0].name: the name a is used 2 times",
                "queues[1].name: the name a is used 2 times",
                "queues[0].policy: there is no policy 'x'; there are: fifo, fifo-backfill",
                "queues[1].knobs.y: there is no such knob",
            ],
            id="queues",
        ),
        pytest.param(
            "queues: [{name: a, policy: fifo, knobs: {startTimeout: 5, clock: x, policy: fofo}}]",
            [
                "queues[0].knobs.startTimeout: must be a time with its unit: 90s, 10m, 24h or "
                "1h30m",
                "queues[0].knobs.clock: must be one of idle, declined, pending",
                "queues[0].knobs.policy: there is no policy 'fofo'; there are: fifo, fifo-backfill",
                "queues[0].knobs.policy: is not the policy fifo that the queue names itself",
            ],
            id="knobs of a queue",
        ),
        pytest.param(
            "queues: [{name: team-a}]\nprojects: [{name: p, queues: [team-b]}]",
            ["projects[0].queues[0]: there is no queue team-b; did you mean team-a?"],
            id="queue of a project",
        ),
        pytest.param("- a", ["(file): must be a section: keys with values"], id="list"),
        pytest.param("queues: {a: 1}", ["queues: must be a list"], id="a section of queues"),
        pytest.param(
            "policy: {timerQuantile: .nan}",
            ["policy.timerQuantile: input should be a finite number"],
            id="no number",
        ),
        pytest.param("a: " + "[" * 3000, [": is nested too deeply"], id="deep lists"),
        pytest.param("a: " + "{a: " * 3000, [": is nested too deeply"], id="deep sections"),
        pytest.param("a: 2026-13-45", [": month must be in 1..12"], id="no date"),
        pytest.param(
            "a: [",
            [
                ": line 1, column 5: expected the node content, but found '<stream end>'",
            ],
            id="half a list",
        ),
        pytest.param("topology: 5", ["topology: must be a section: keys with values"], id="number"),
    ],
)
def test_a_mistake_is_named_with_its_place(text: str, said: list[str]) -> None:
    assert problems(text) == said


def test_a_key_that_stands_twice_is_refused() -> None:
    (problem,) = problems("queues: []\nqueues: []")
    assert problem == ": line 1, column 1: the key 'queues' stands twice"


def test_a_number_of_thousands_of_digits_is_refused() -> None:
    (problem,) = problems("server: {slots: " + "9" * 5000 + "}")
    assert problem.startswith(": Exceeds the limit")


def test_a_file_that_is_not_there_says_so(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="can not be read"):
        read_config(tmp_path / "none.yaml", policies=POLICIES, fabrics=FABRICS)


@pytest.mark.parametrize(
    ("topology", "nodes"),
    [
        pytest.param(
            "nodes: [{count: 2, gpus: 4}]", [("n0", ("",)), ("n1", ("",))], id="standing nowhere"
        ),
        pytest.param(
            "nodes: [{name: big, gpus: 4, in: {rack: r9}}]", [("big", ("r9",))], id="explicit"
        ),
        pytest.param(
            "nodes: [{name: x, count: 2, gpus: 4}]", [("x-n0", ("",)), ("x-n1", ("",))], id="named"
        ),
        pytest.param(
            "nodes: [{count: 2, gpus: 4, in: {rack: r2}}]",
            [("r2-n0", ("r2",)), ("r2-n1", ("r2",))],
            id="by pattern",
        ),
        pytest.param(
            "levels: [{name: rack, nodes: 2}, {name: block, nodes: 4}]\n"
            "nodes: [{count: 5, gpus: 4}]",
            [
                ("n0", ("block-1", "rack-1")),
                ("n1", ("block-1", "rack-1")),
                ("n2", ("block-1", "rack-2")),
                ("n3", ("block-1", "rack-2")),
                ("n4", ("block-2", "rack-3")),
            ],
            id="filling domains in turn",
        ),
        pytest.param(
            "levels: [{name: rack}, {name: block}]\n"
            "racks: [{name: r1, nodes: 1, gpus: 8, in: {block: b1}}]",
            [("r1-n0", ("b1", "r1"))],
            id="a rack in a block",
        ),
    ],
)
def test_nodes_by_pattern(topology: str, nodes: list[tuple[str, tuple[str, ...]]]) -> None:
    indented = "\n".join(f"  {line}" for line in topology.splitlines())
    config = parsed(f"topology:\n{indented}")
    assert [(node.name, node.path) for node in config.topology.nodes] == nodes


def test_the_links_of_a_cluster() -> None:
    topology = parsed(
        """
        topology:
          fabric: h100-roce
          links:
            - {gpuModel: H100-80GB, nics: 4, nicBandwidth: 25GB}
            - {gpuModel: A100-40GB, fabric: a100-hdr}
          levels:
            - {name: rack, oversubscription: 2, latencySeconds: 2.0e-6, uplinks: 4}
            - {name: block, bandwidth: 3200GB, nvlink: true}
        """
    ).topology
    assert topology.links == FabricPlan(
        preset="h100-roce",
        nodes=(
            NodeLinksPlan(gpu_model=GpuModel("H100-80GB"), nics=4, nic_bytes_per_s=25e9),
            NodeLinksPlan(gpu_model=GpuModel("A100-40GB"), fabric="a100-hdr"),
        ),
    )
    assert [level.uplink for level in topology.levels] == [
        Uplink(oversubscription=2.0, latency_s=2e-6, parallel=4),
        Uplink(bytes_per_s=3.2e12, is_nvlink=True),
    ]


def test_every_knob_has_a_description_and_can_be_written_and_read() -> None:
    assert set(KNOB_TEXTS) == {field.name for field in fields(PolicyKnobs)}
    assert knob_names() == tuple(to_camel(field.name) for field in fields(PolicyKnobs))
    knobs = PolicyKnobs(policy="fifo-backfill", start_timeout=seconds(61), clock=WaitClock.PENDING)
    assert read_knobs(dict(written_knobs(knobs)), PolicyKnobs()) == (knobs, ())


def test_a_choice_that_there_is_not_is_refused_with_those_there_are() -> None:
    _, wrong = read_knobs({"clock": "sometimes"}, PolicyKnobs())
    assert [problem.detail for problem in wrong] == ["must be one of idle, declined, pending"]


@pytest.mark.parametrize("value", [-0.5, 1_000_001, 1e308, float("inf"), float("nan"), 10**400])
def test_a_number_with_which_times_overflow_is_refused(value: float) -> None:
    _, wrong = read_knobs({"quantumRestarts": value}, PolicyKnobs())
    assert [problem.detail for problem in wrong] == ["must be a number from 0 to 1000000"]


PODS = """
pools: [{name: h100, podProfile: rdma}]
sharedMounts:
  - {name: datasets, nfs: {server: nfs.example.com, path: /data}, readOnly: true}
  - {name: models, claim: models, subPath: public}
podProfiles:
  - name: rdma
    resources: {rdma/hca: 1, hugepages-2Mi: 1Gi}
    capabilities: [IPC_LOCK]
    hostMounts: [{name: ib, hostPath: /dev/infiniband, mountPath: /dev/infiniband}]
    sidecars: [{name: exporter, image: "exporter:1", cpus: 0.5, memory: 64Mi}]
    claims: [{name: nic, template: nic}]
projects:
  - name: vision
    pods:
      {securityLevel: baseline, uid: null, gid: null, secrets: [wandb], claims: [ckpt],
       sharedMounts: [datasets], podProfiles: [rdma], podProfile: rdma}
"""


def test_what_holds_for_pods() -> None:
    pods = parsed(PODS).pods
    vision = pods.of(ProjectName("vision"))
    assert (vision.level, vision.user.uid, vision.user.fs_group) == ("baseline", None, 1000)
    assert [*vision.secrets, *(vision.claims or ())] == ["wandb", "ckpt"]
    assert [*(vision.shared or ()), *vision.profiles] == ["datasets", "rdma"]
    assert vision.profile == "rdma"
    assert pods.profiles["rdma"].resources == (("hugepages-2Mi", 1 << 30), ("rdma/hca", 1))
    assert pods.profiles["rdma"].sidecars[0].cpu_milli == 500
    assert pods.counted_resources == {"hugepages-2Mi", "rdma/hca"}
    assert (pods.shared["datasets"].nfs_path, pods.shared["models"].sub_path) == ("/data", "public")
    assert dict(pods.pool_profiles) == {"h100": "rdma"}
    other = pods.of(ProjectName("default"))
    assert (other.level, other.user.uid, other.secrets) == ("restricted", 1000, frozenset())


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param(
            "projects: [{name: a, pods: {uid: 0}}]", "projects[0].pods.uid: must be", id="root"
        ),
        pytest.param(
            "projects: [{name: a, pods: {uid: null}}]", "projects[0].pods.uid: must", id="anybody"
        ),
        pytest.param(
            "projects: [{name: a, pods: {podProfiles: [rdma]}}]",
            "projects[0].pods.podProfiles[0]: there is no pod profile rdma",
            id="profile",
        ),
        pytest.param(
            "projects: [{name: a, pods: {podProfile: rdma}}]",
            "projects[0].pods.podProfile: there is no pod profile rdma",
            id="default profile",
        ),
        pytest.param(
            "projects: [{name: a, pods: {sharedMounts: [x]}}]",
            "projects[0].pods.sharedMounts[0]: there is no shared mount x",
            id="mount",
        ),
        pytest.param(
            "pools: [{name: a, podProfile: rdma}]",
            "pools[0].podProfile: there is no pod profile rdma",
            id="profile of a pool",
        ),
        pytest.param(
            "sharedMounts: [{name: a, claim: b, hostPath: /c}]",
            "sharedMounts[0]: must have exactly one",
            id="two sources",
        ),
        pytest.param(
            "sharedMounts: [{name: a, claim: b, subPath: ../x}]",
            "sharedMounts[0].subPath: must be a path inside",
            id="a way up",
        ),
        pytest.param(
            "podProfiles: [{name: a, resources: {rdma/hca: one}}]",
            "podProfiles[0].resources.rdma/hca: must be a count",
            id="amount",
        ),
        pytest.param(
            "podProfiles: [{name: a, claims: [{name: x, template: t}, {name: x, template: u}]}]",
            "podProfiles[0]: the name x is used 2 times",
            id="a name twice",
        ),
    ],
)
def test_a_mistake_about_pods_is_named_with_its_place(text: str, said: str) -> None:
    assert any(problem.startswith(said) for problem in problems(text))
