"""Placement cases that other schedulers' projects publish."""

from collections.abc import Sequence
from pathlib import Path

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
