"""Options, rows and output that all benchmarks share."""

import json

import pytest

from bench.reporting import Options, Report, options_of, parser, percentile, run_bench, table


def measure_two(_options: Options, report: Report) -> None:
    report.add("decision_p99", 12.5, "ms", reference=5, case={"gang": 512, "load": 0.95})
    report.add("memory", None, "MiB")


def test_json_is_one_object_a_line_with_null_where_there_is_nothing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    run_bench("Two figures.", measure_two, ["--json"])
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == [
        {
            "name": "decision_p99[gang=512,load=0.95]",
            "value": 12.5,
            "unit": "ms",
            "reference": 5,
            "ratio": 2.5,
        },
        {"name": "memory", "value": None, "unit": "MiB", "reference": None, "ratio": None},
    ]


def test_the_table_names_the_machine_and_aligns_the_columns(
    capsys: pytest.CaptureFixture[str],
) -> None:
    run_bench("Two figures.", measure_two, [])
    machine, head, first, second = capsys.readouterr().out.splitlines()
    assert machine.startswith("# ")
    assert head.index("VALUE") == first.index("12.5")
    assert second.split() == ["memory", "-", "MiB", "-", "-"]


def test_rows_measured_before_a_failure_are_still_shown(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def breaks(_options: Options, report: Report) -> None:
        report.add("made_it", 1, "s")
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        run_bench("Breaks half way.", breaks, [])
    assert "made_it" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("value", "reference", "ratio"),
    [
        pytest.param(3.0, 2.0, 1.5, id="both measured"),
        pytest.param(3.0, None, None, id="no reference"),
        pytest.param(3.0, 0.0, None, id="a reference of nothing"),
        pytest.param(None, 2.0, None, id="nothing measured"),
        pytest.param(float("nan"), 2.0, None, id="not a number"),
    ],
)
def test_the_ratio_is_value_over_reference_where_both_exist(
    value: float | None, reference: float | None, ratio: float | None
) -> None:
    report = Report(options_of(parser("").parse_args([])))
    assert report.add("x", value, "s", reference=reference).ratio == ratio


def test_a_figure_is_reported_once() -> None:
    report = Report(options_of(parser("").parse_args([])))
    report.add("x", 1, "s", case={"n": 1})
    report.add("x", 1, "s", case={"n": 2})
    with pytest.raises(AssertionError, match="twice"):
        report.add("x", 1, "s", case={"n": 2})


@pytest.mark.parametrize(
    ("share", "expected"),
    [
        pytest.param(0.0, 1, id="least"),
        pytest.param(0.5, 50, id="half"),
        pytest.param(0.99, 99, id="p99"),
        pytest.param(1.0, 100, id="greatest"),
    ],
)
def test_a_percentile_is_one_of_the_samples(share: float, expected: float) -> None:
    assert percentile(range(100, 0, -1), share) == expected


def test_a_table_without_rows_is_its_head() -> None:
    assert table([]) == ["NAME  VALUE  UNIT  REFERENCE  RATIO"]
