"""Every rule of a job file, broken once: its pointer, its reason, and what helps."""

import pytest

from api.documents.document import Document, Json
from api.job_files.rules import MASK
from tests.unit.api.job_files.reading import a_document, problems, read, yaml_problems

Spec = dict[str, Json]

A_ROLE: Json = {"name": "a", "workers": 1, "gpusPerWorker": 1, "command": ["x"]}


def roles(*members: Json, **more: Json) -> Spec:
    """A spec of roles."""
    return {"gpusPerWorker": None, "command": None, "roles": list(members), **more}


def a_role(**fields: Json) -> Json:
    """A role with other fields."""
    assert isinstance(A_ROLE, dict)
    return {**A_ROLE, **fields}


BROKEN = [
    # Types.
    pytest.param({"workers": "4"}, "/spec/workers", "WrongType", id="text for a number"),
    pytest.param({"workers": 1.5}, "/spec/workers", "WrongType", id="half a worker"),
    pytest.param({"workers": True}, "/spec/workers", "WrongType", id="true for a number"),
    pytest.param({"workers": []}, "/spec/workers", "WrongType", id="a list for a number"),
    pytest.param({"preemptible": "yes"}, "/spec/preemptible", "WrongType", id="yes for true"),
    pytest.param({"image": 5}, "/spec/image", "WrongType", id="a number for text"),
    pytest.param({"command": "python x"}, "/spec/command", "WrongType", id="a shell line"),
    pytest.param({"command": [1]}, "/spec/command", "WrongType", id="a number in the command"),
    pytest.param({"env": {"A": 1}}, "/spec/env/A", "WrongType", id="a number as variable"),
    pytest.param({"env": ["A=1"]}, "/spec/env", "WrongType", id="variables as a list"),
    pytest.param({"topology": "rack"}, "/spec/topology", "WrongType", id="text for a section"),
    pytest.param({"gpuModels": "H100"}, "/spec/gpuModels", "WrongType", id="text for a list"),
    pytest.param({"launcher": 1}, "/spec/launcher", "WrongType", id="a number for a word"),
    # Bounds.
    pytest.param({"workers": 0}, "/spec/workers", "OutOfRange", id="no worker"),
    pytest.param({"workers": -1}, "/spec/workers", "OutOfRange", id="minus one worker"),
    pytest.param({"workers": 10**9}, "/spec/workers", "OutOfRange", id="a billion workers"),
    pytest.param({"gpusPerWorker": -8}, "/spec/gpusPerWorker", "OutOfRange", id="minus GPUs"),
    pytest.param({"command": []}, "/spec/command", "InvalidValue", id="no command"),
    pytest.param({"command": [""]}, "/spec/command", "InvalidValue", id="an empty program"),
    pytest.param({"command": ["x" * 200_000]}, "/spec/command", "OutOfRange", id="long command"),
    pytest.param({"env": {"A": "x" * 5_000}}, "/spec/env/A", "OutOfRange", id="long variable"),
    pytest.param(
        {"env": {f"A{n}": "x" * 4_000 for n in range(40)}},
        "/spec/env",
        "OutOfRange",
        id="too much environment",
    ),
    pytest.param(
        {"failurePolicy": {"maxRestarts": -1}},
        "/spec/failurePolicy/maxRestarts",
        "OutOfRange",
        id="minus restarts",
    ),
    pytest.param(
        {"failurePolicy": {"rules": [{"onExitCodes": [0], "action": "Fail"}]}},
        "/spec/failurePolicy/rules/0/onExitCodes/0",
        "OutOfRange",
        id="success is no failure",
    ),
    pytest.param(
        {"checkpoint": {"grace": "2h"}}, "/spec/checkpoint/grace", "OutOfRange", id="long grace"
    ),
    pytest.param(
        {"checkpoint": {"grace": "0s"}}, "/spec/checkpoint/grace", "OutOfRange", id="no grace"
    ),
    pytest.param({"hangTimeout": "1ms"}, "/spec/hangTimeout", "OutOfRange", id="short patience"),
    pytest.param(
        {"duration": {"maxRuntime": "0s"}},
        "/spec/duration/maxRuntime",
        "OutOfRange",
        id="no time to run",
    ),
    pytest.param(
        {"workers": 2, "gpusPerWorker": 8, "communication": {"parallel": {"tensor": 3}}},
        "/spec/communication/parallel",
        "InvalidValue",
        id="axes that do not divide the gang",
    ),
    pytest.param(
        {"communication": {"overlap": 1.5}},
        "/spec/communication/overlap",
        "OutOfRange",
        id="more overlap than all",
    ),
    pytest.param(
        {"env": {f"A{n}": "x" for n in range(513)}}, "/spec/env", "OutOfRange", id="513 variables"
    ),
    pytest.param(
        {f"unknown{n}": 1 for n in range(600)}, "/spec", "OutOfRange", id="600 unknown fields"
    ),
    # Amounts.
    pytest.param(
        {"resources": {"memory": "256X"}},
        "/spec/resources/memory",
        "InvalidQuantity",
        id="no such unit",
    ),
    pytest.param(
        {"resources": {"memory": "-1Gi"}},
        "/spec/resources/memory",
        "InvalidQuantity",
        id="minus memory",
    ),
    pytest.param(
        {"resources": {"cpus": "many"}}, "/spec/resources/cpus", "InvalidQuantity", id="many cores"
    ),
    pytest.param({"hangTimeout": 30}, "/spec/hangTimeout", "InvalidQuantity", id="no unit"),
    pytest.param({"hangTimeout": "soon"}, "/spec/hangTimeout", "InvalidQuantity", id="no time"),
    # Words.
    pytest.param({"launcher": "torchrn"}, "/spec/launcher", "UnknownValue", id="launcher"),
    pytest.param(
        {"communication": {"strategy": "dp"}},
        "/spec/communication/strategy",
        "UnknownValue",
        id="strategy",
    ),
    pytest.param({"successPolicy": "most"}, "/spec/successPolicy", "UnknownValue", id="success"),
    pytest.param(
        {"successPolicy": {"role": "chief"}},
        "/spec/successPolicy/role",
        "UnknownRole",
        id="a role that is not there",
    ),
    pytest.param({"queue": "team-x"}, "/spec/queue", "UnknownQueue", id="queue"),
    pytest.param({"queue": "team-b"}, "/spec/queue", "QueueNotAllowed", id="queue of others"),
    pytest.param({"priority": "hihg"}, "/spec/priority", "UnknownPriority", id="priority"),
    pytest.param({"pool": "h200"}, "/spec/pool", "UnknownPool", id="pool"),
    pytest.param(
        {"topology": {"required": "rak"}}, "/spec/topology/required", "UnknownLevel", id="level"
    ),
    pytest.param(
        {"topology": {"slices": [{"workers": 1, "within": "rak"}]}},
        "/spec/topology/slices/0/within",
        "UnknownLevel",
        id="level of a slice",
    ),
    # Groups.
    pytest.param(
        {"workers": 6, "topology": {"slices": [{"workers": 4, "within": "rack"}]}},
        "/spec/topology/slices/0/workers",
        "InvalidValue",
        id="a group that does not divide the gang",
    ),
    pytest.param(
        {
            "workers": 8,
            "topology": {
                "slices": [{"workers": 4, "within": "rack"}, {"workers": 3, "within": "node"}]
            },
        },
        "/spec/topology/slices/1/workers",
        "InvalidValue",
        id="a group that does not divide the one around it",
    ),
    pytest.param(
        {
            "workers": 8,
            "topology": {
                "slices": [{"workers": 4, "within": "node"}, {"workers": 2, "within": "rack"}]
            },
        },
        "/spec/topology/slices/1/within",
        "InvalidValue",
        id="a group wider than the one around it",
    ),
    # Axes.
    pytest.param(
        {"topology": {"axes": [{"axis": "tensor", "within": "rack"}]}},
        "/spec/topology/axes/0/axis",
        "InvalidValue",
        id="an axis without a size",
    ),
    pytest.param(
        {
            "workers": 2,
            "gpusPerWorker": 8,
            "communication": {"parallel": {"tensor": 16}},
            "topology": {
                "axes": [
                    {"axis": "tensor", "within": "rack"},
                    {"axis": "tensor", "within": "rack"},
                ]
            },
        },
        "/spec/topology/axes/1/axis",
        "InvalidValue",
        id="an axis named twice",
    ),
    pytest.param(
        {
            "workers": 4,
            "communication": {"parallel": {"tensor": 16}},
            "topology": {
                "slices": [{"workers": 2, "within": "rack"}],
                "axes": [{"axis": "tensor", "within": "rack"}],
            },
        },
        "/spec/topology/axes",
        "InvalidValue",
        id="axes beside slices",
    ),
    pytest.param(
        {
            "workers": 3,
            "gpusPerWorker": 8,
            "communication": {"parallel": {"tensor": 16}},
            "topology": {"axes": [{"axis": "tensor", "within": "rack"}]},
        },
        "/spec/topology/axes",
        "InvalidValue",
        id="groups of an axis that do not divide the gang",
    ),
    pytest.param(
        {
            "workers": 8,
            "gpusPerWorker": 8,
            "communication": {"parallel": {"tensor": 16, "pipeline": 2}},
            "topology": {
                "axes": [
                    {"axis": "tensor", "within": "rack"},
                    {"axis": "pipeline", "within": "node"},
                ]
            },
        },
        "/spec/topology/axes",
        "InvalidValue",
        id="an axis wider than the one around it",
    ),
    # Names.
    pytest.param({"env": {"RANK": "0"}}, "/spec/env/RANK", "ReservedName", id="RANK is ours"),
    pytest.param({"env": {"DALLY_X": "0"}}, "/spec/env/DALLY_X", "ReservedName", id="so is DALLY_"),
    pytest.param({"env": {"A B": "0"}}, "/spec/env/A B", "InvalidName", id="space in a variable"),
    pytest.param({"env": {"1A": "0"}}, "/spec/env/1A", "InvalidName", id="digit first"),
    pytest.param({"env": {"A": MASK}}, "/spec/env/A", "MaskedValue", id="a mask as value"),
    pytest.param({"workingDir": "a/b"}, "/spec/workingDir", "InvalidValue", id="relative folder"),
    pytest.param({"workingDir": "/a/../b"}, "/spec/workingDir", "InvalidValue", id="folder up"),
    # What must be given.
    pytest.param({"command": None}, "/spec/command", "MissingField", id="no command at all"),
    pytest.param({"gpusPerWorker": None}, "/spec/gpusPerWorker", "MissingField", id="no GPUs"),
    pytest.param({"comand": ["x"]}, "/spec/comand", "UnknownField", id="a typo"),
    pytest.param({"gpus_per_worker": 1}, "/spec/gpus_per_worker", "UnknownField", id="snake case"),
    pytest.param(
        {"topology": {"requird": "rack"}}, "/spec/topology/requird", "UnknownField", id="deep typo"
    ),
    # Roles.
    pytest.param(roles(A_ROLE, workers=1), "/spec/workers", "InvalidValue", id="both forms"),
    pytest.param(roles(A_ROLE, A_ROLE), "/spec/roles/1/name", "DuplicateName", id="same role"),
    pytest.param(
        roles(a_role(command=None)), "/spec/roles/0/command", "MissingField", id="no command in it"
    ),
    pytest.param(
        roles(a_role(preemptible=False), preemptible=True),
        "/spec/roles/0/preemptible",
        "InvalidValue",
        id="a gang stops whole",
    ),
    pytest.param(
        roles(a_role(workers=60_000), a_role(name="b", workers=60_000)),
        "/spec/roles",
        "OutOfRange",
        id="too many together",
    ),
    pytest.param(
        roles(a_role(env={"RANK": "1"})), "/spec/roles/0/env/RANK", "ReservedName", id="role env"
    ),
    pytest.param(roles(a_role(name="A")), "/spec/roles/0/name", "InvalidName", id="role name"),
    # Communication.
    pytest.param(
        {"communication": {"parallel": {"order": ["tensor", "tensor"]}}},
        "/spec/communication/parallel/order",
        "InvalidValue",
        id="an axis twice",
    ),
    pytest.param(
        {"communication": {"phases": [{"untilStep": 5}, {"untilStep": 5}]}},
        "/spec/communication/phases",
        "InvalidValue",
        id="phases out of order",
    ),
    # What has not landed.
    pytest.param({"array": {"count": 3}}, "/spec/array", "NotSupportedYet", id="array"),
    pytest.param(
        {"elastic": {"minWorkers": 1, "maxWorkers": 2}},
        "/spec/elastic",
        "NotSupportedYet",
        id="elastic",
    ),
    pytest.param(
        {"checkpoint": {"warning": "30s"}}, "/spec/checkpoint/warning", "NotSupportedYet", id="warn"
    ),
    pytest.param({"spares": 1}, "/spec/spares", "NotSupportedYet", id="spares"),
    pytest.param({"dependsOn": [{"job": "a"}]}, "/spec/dependsOn", "NotSupportedYet", id="depends"),
    # What is for pods alone.
    pytest.param(
        {"secrets": [{"env": "A", "secretRef": "a/b"}]},
        "/spec/secrets",
        "NeedsKubernetes",
        id="secrets",
    ),
    pytest.param(
        {"volumes": [{"name": "a", "claim": "b", "mountPath": "/c"}]},
        "/spec/volumes",
        "NeedsKubernetes",
        id="volumes",
    ),
    pytest.param({"podProfile": "rdma"}, "/spec/podProfile", "NeedsKubernetes", id="profile"),
    pytest.param(
        {"communication": {"stepPattern": "iter_time=([0-9.]+"}},
        "/spec/communication/stepPattern",
        "InvalidValue",
        id="a step pattern that does not parse",
    ),
    pytest.param(
        {"communication": {"stepPattern": "(?<=time=)([0-9.]+)"}},
        "/spec/communication/stepPattern",
        "InvalidValue",
        id="a step pattern that looks around",
    ),
    pytest.param(
        {"communication": {"stepPattern": "[0-9.]+"}},
        "/spec/communication/stepPattern",
        "InvalidValue",
        id="a step pattern without a group",
    ),
]


@pytest.mark.parametrize(("spec", "pointer", "reason"), BROKEN)
def test_a_broken_rule_is_told_by_pointer_and_reason(spec: Spec, pointer: str, reason: str) -> None:
    found = [(problem.pointer, problem.reason) for problem in problems(a_document(spec))]

    assert found == [(pointer, reason)]


NAMES_REFUSED = [
    pytest.param("", id="empty"),
    pytest.param("A", id="upper case"),
    pytest.param("7b-pretrain", id="a digit first"),
    pytest.param("a-", id="a dash last"),
    pytest.param("a_b", id="an underscore"),
    pytest.param("a.b", id="a dot"),
    pytest.param("a b", id="a space"),
    pytest.param("a/b", id="a slash"),
    pytest.param("ä", id="an umlaut"),
    pytest.param("а", id="a Cyrillic letter that looks Latin"),  # noqa: RUF001 - on purpose
    pytest.param("a\u202eb", id="text direction override"),
    pytest.param("a\n", id="a line break at the end"),
    pytest.param("a" * 41, id="41 letters"),
]


@pytest.mark.parametrize("name", NAMES_REFUSED)
def test_a_job_name_is_a_short_dns_label(name: str) -> None:
    found = problems(a_document(name=name))

    assert [(p.pointer, p.reason) for p in found] == [("/metadata/name", "InvalidName")]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("a\x00b", id="NUL"),
        pytest.param("\x1b[31mred", id="a terminal escape"),
        pytest.param("a\x7f", id="DEL"),
        pytest.param("a\x9bb", id="a C1 control"),
        pytest.param("a\ud800", id="half a surrogate pair"),
        pytest.param("a\u2028b", id="a line separator"),
    ],
)
def test_no_text_may_have_characters_that_act(text: str) -> None:
    for document in (
        a_document(name=text),
        a_document({"command": ["x", text]}),
        a_document({"env": {text: "x"}}),
        a_document(labels={"a": text}),
    ):
        assert {p.reason for p in problems(document)} == {"InvalidCharacter"}


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        pytest.param("", "InvalidLabel", id="empty"),
        pytest.param("a/b/c", "InvalidLabel", id="two slashes"),
        pytest.param("-a", "InvalidLabel", id="a dash first"),
        pytest.param("a" * 64, "InvalidLabel", id="too long"),
        pytest.param("UPPER.example/a", "InvalidLabel", id="upper case in the prefix"),
        pytest.param("dally.internal/epoch", "ReservedName", id="ours"),
        pytest.param("x.dally.internal/epoch", "ReservedName", id="below ours"),
    ],
)
def test_label_keys_follow_kubernetes_and_leave_ours_alone(key: str, reason: str) -> None:
    assert [p.reason for p in problems(a_document(labels={key: "a"}))] == [reason]


def test_lines_and_tabs_are_part_of_a_script() -> None:
    script = "set -e\n\tpython train.py\r\n"

    file = read(a_document({"command": ["bash", "-c", script], "env": {"MOTD": "a\tb"}}))

    assert file.spec.command == ("bash", "-c", script)


def test_all_mistakes_of_a_file_are_told_at_once_with_their_lines() -> None:
    text = """\
apiVersion: dally/v1
kind: Job
metadata: {name: Train}
spec:
  gpusPerWorker: "8"
  comand: [python, train.py]
  queue: team-x
  env: {RANK: "0"}
  array: {count: 3}
"""
    assert sorted(yaml_problems(text)) == [
        (3, "/metadata/name", "InvalidName"),
        (4, "/spec/command", "MissingField"),
        (5, "/spec/gpusPerWorker", "WrongType"),
        (6, "/spec/comand", "UnknownField"),
        (7, "/spec/queue", "UnknownQueue"),
        (8, "/spec/env/RANK", "ReservedName"),
        (9, "/spec/array", "NotSupportedYet"),
    ]


@pytest.mark.parametrize(
    ("spec", "hint"),
    [
        pytest.param({"comand": ["x"]}, 'did you mean "command"?', id="field"),
        pytest.param({"gpusperworker": 1}, 'did you mean "gpusPerWorker"?', id="case of a field"),
        pytest.param({"launcher": "torchrn"}, 'did you mean "torchrun"?', id="word"),
        pytest.param({"queue": "tem-a"}, 'did you mean "team-a"?', id="queue"),
        pytest.param({"priority": "hgh"}, 'did you mean "high"?', id="priority"),
        pytest.param({"command": "python x.py"}, "[python, x.py]", id="words of a shell line"),
        pytest.param({"workers": "4"}, "take the quotes away", id="needless quotes"),
        pytest.param({"env": {"A": 1}}, "put it in quotes", id="missing quotes"),
        pytest.param({"preemptible": "yes"}, "write true or false", id="yes"),
    ],
)
def test_a_mistake_comes_with_what_was_probably_meant(spec: Spec, hint: str) -> None:
    (problem,) = problems(a_document(spec))

    assert hint in problem.detail


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(None, id="nothing"),
        pytest.param([], id="a list"),
        pytest.param("x", id="text"),
        pytest.param(5, id="a number"),
        pytest.param({}, id="empty"),
        pytest.param({"metadata": None, "spec": None}, id="empty sections"),
        pytest.param({"metadata": {}, "spec": {}}, id="empty mappings"),
        pytest.param({"kind": "Pod", "metadata": {"name": "a"}, "spec": {}}, id="another kind"),
        pytest.param({"apiVersion": "v2", "metadata": {"name": "a"}, "spec": {}}, id="version"),
        pytest.param({"metadata": {"name": "a"}, "spec": {"roles": [None, 1, "x"]}}, id="roles"),
        pytest.param({"metadata": {"name": "a"}, "spec": {"roles": {"a": 1}}}, id="role mapping"),
    ],
)
def test_a_file_of_another_shape_is_refused_without_failing(value: Json) -> None:
    assert problems(Document(value=value))


def test_what_the_server_fills_in_is_accepted_and_ignored() -> None:
    document = a_document(uid="u", resourceVersion="7", createTime="x", createdBy="ada")
    assert isinstance(document.value, dict)
    document.value["status"] = {"phase": "Running"}

    assert read(document).metadata.name == "train"
