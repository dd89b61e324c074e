"""Placement cases that other schedulers' projects publish."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.__main__ import main
from tests.conformance.files import judge_file
from tests.conformance.verdict import Compare, Verdict, counted
from tests.not_run import not_run


def _judged(folder: Path, name: str) -> Sequence[Verdict]:
    path = folder / "conformance" / name
    if not path.is_file():
        not_run(f"no {path}")
    return judge_file(path).verdicts


@pytest.fixture(scope="module")
def kueue_verdicts(data_dir: Path) -> Sequence[Verdict]:
    return _judged(data_dir, "kueue_tas_cases.json")


@pytest.fixture(scope="module")
def kai_verdicts(data_dir: Path) -> Sequence[Verdict]:
    return _judged(data_dir, "kai_cases.json")


@pytest.mark.parametrize("compare", [Compare.FEASIBLE, Compare.DOMAINS, Compare.EXACT])
def test_every_kueue_case_is_answered_as_kueue_does(
    kueue_verdicts: Sequence[Verdict], compare: Compare
) -> None:
    missed = [v for v in kueue_verdicts if not v.agrees[compare]]

    assert not missed
    assert counted(kueue_verdicts, compare) == (75, 75)


@pytest.mark.parametrize("compare", [Compare.FEASIBLE, Compare.NODES])
def test_every_kai_case_with_a_topology_that_only_places_is_answered_as_kai_does(
    kai_verdicts: Sequence[Verdict], compare: Compare
) -> None:
    judged = [verdict for verdict in kai_verdicts if not verdict.left_out]

    assert len(judged) == 9
    assert not [verdict for verdict in judged if not verdict.agrees.get(compare, True)]


def test_the_command_tells_a_line_a_level(
    data_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = data_dir / "conformance" / "kueue_tas_cases.json"
    if not path.is_file():
        not_run(f"no {path}")

    assert main([str(path)]) == 0
    assert capsys.readouterr().out.splitlines()[:4] == [
        "kueue_tas_cases.json",
        "L0 75/75",
        "L1 75/75",
        "L2 75/75",
    ]


def test_a_file_of_another_form_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "other.json"
    path.write_text('{"cases": [{"id": "x"}]}')

    assert main([str(path)]) == 2
    assert "neither" in capsys.readouterr().err


KUEUE: dict[str, Any] = {
    "id": "k1",
    "levels": ["rack", "kubernetes.io/hostname"],
    "algorithm": {"flavour": "best_fit", "feature_gates_set_by_case": {}},
    "nodes": [
        {"labels": {"rack": "r1", "kubernetes.io/hostname": "x1"}, "free": {"cpu": 4, "pods": 9}}
    ],
    "request": {"count": 2, "per_pod": {"cpu": 2}, "mode": "required", "level": "rack"},
    "expected": {"feasible": True, "assignment": [{"domain": ["x1"], "count": 2}]},
}
KAI: dict[str, Any] = {
    "id": "a1",
    "actions": "allocate",
    "topologies": [{"name": "t", "levels": ["rack"]}],
    "nodes": [{"name": "n1", "gpus": 2, "labels": {"rack": "r1"}}],
    "jobs": [
        {
            "Name": "j",
            "RequiredGPUsPerTask": 1,
            "Tasks": [{"State": "Pending"}],
            "topology": {"topology": "t", "required": "rack"},
        }
    ],
    "expected": {"jobs": {"j": {"Status": "Binding", "NodeName": "n1"}}},
}


@pytest.mark.parametrize(
    ("case", "line"),
    [
        pytest.param(KUEUE, "L2 1/1", id="a Kueue case without what may be left out"),
        pytest.param(KAI, "nodes 1/1", id="a KAI case without what may be left out"),
        pytest.param(
            {
                **KUEUE,
                "id": None,
                "nodes": [{**KUEUE["nodes"][0], "taints": [{"key": "a", "effect": "NoSchedule"}]}],
            },
            "  differs at L0, L1, L2: None (): main: expected r1/x1:2, got no placement",
            id="a taint keeps pods away",
        ),
    ],
)
def test_cases_are_judged_whatever_they_leave_out(
    case: Mapping[str, Any], line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "cases.json"
    path.write_text(json.dumps({"cases": [case]}))

    assert main([str(path)]) == 0
    assert line in capsys.readouterr().out.splitlines()


@pytest.mark.parametrize(
    ("case", "reason"),
    [
        pytest.param(
            {**KUEUE, "nodes": [{"labels": {}}]}, "nodes.0.free: Field required", id="free"
        ),
        pytest.param(
            {**KUEUE, "request": {**KUEUE["request"], "mode": "near"}},
            "request: unknown mode 'near'",
            id="mode",
        ),
        pytest.param(
            {
                **KUEUE,
                "expected": {"feasible": True, "assignment": [{"domain": ["x9"], "count": 1}]},
            },
            "there is no node x9",
            id="unknown node",
        ),
        pytest.param(
            {
                **KUEUE,
                "request": {
                    **KUEUE["request"],
                    "node_affinity": {"required": [{"match": [{"key": "a", "operator": "Near"}]}]},
                },
            },
            "operator 'Near' with values []",
            id="operator",
        ),
        pytest.param(
            {**KAI, "topologies": [{"name": "other", "levels": ["rack"]}]},
            "j names the topology t: there is none",
            id="unknown topology",
        ),
        pytest.param(
            {**KAI, "jobs": [{"Name": "j", "Tasks": [{"State": "Running", "NodeName": "n9"}]}]},
            "j runs on n9: there is no such node",
            id="runs nowhere",
        ),
    ],
)
def test_what_can_not_be_read_is_named(
    case: Mapping[str, Any], reason: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "cases.json"
    path.write_text(json.dumps({"cases": [case]}))

    assert main([str(path)]) == 2
    out = capsys.readouterr().out.splitlines()
    assert out[1] == "L0 0/1"
    assert f"  can not be read: {case['id']}: {reason}" in out
