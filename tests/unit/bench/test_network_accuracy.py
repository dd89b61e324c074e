"""The committed model on files that nobody here has seen: it is evaluated, or says why not."""

from pathlib import Path

import pytest

from bench.network_accuracy import main
from bench.reporting import Row

COLLECTIVES = """\
system,gpu,nodes,gpus,collective,size_bytes,time_us,network,nic_GBps_per_node
new box,H100,1,8,all_reduce,1073741824,4000,-,
new box,H100,1,8,all_gather,1073741824,2600,-,
new pair,H100,2,16,all_reduce,1073741824,5200,InfiniBand NDR,400
"""

SLOWDOWNS = """\
model,gpus,gpu_type,placement_A,placement_B,slowdown_B_over_A,confidence,local_batch,network
unheard-of,8,P100,8,4+4,1.9,ok,8,TCP
unheard-of,8,P100,8,4+4,1.6,ok,16,TCP
bert-large,4,T4,4,2+2,3.1,suspect,8,TCP
"""

PROFILES = """\
model,gpu,gpus,nodes,local_batch,iter_time_s,param_count,source
our-net,T4,1,1,8,0.50,25000000,us
our-net,T4,2,2,8,0.62,25000000,us
other-net,T4,2,2,8,0.62,,us
"""


def rows_of(tmp_path: Path, *arguments: str) -> dict[str, Row]:
    """The rows by name; nothing recorded lies beside the files."""
    report = main([*arguments, "--data", str(tmp_path / "nothing"), "--json"])
    return {row.name: row for row in report.rows}


def a_file(tmp_path: Path, text: str, name: str = "points.csv", *, encoding: str = "utf-8") -> str:
    path = tmp_path / name
    path.write_bytes(text.encode(encoding))
    return str(path)


def test_collectives_of_other_systems_are_evaluated_by_system(tmp_path: Path) -> None:
    rows = rows_of(tmp_path, "--collectives", a_file(tmp_path, COLLECTIVES))
    assert rows["collectives_points[on=all]"].value == 3
    assert rows["collectives_median_error[on=other systems]"].reference == 25
    error = rows["collectives_median_error[on=all]"]
    assert error.unit == "percent"
    assert error.value is not None
    assert 0 < error.value < 50
    assert "collectives_system_error[on=new pair,n=1]" in rows
    assert not any("systems of the fit" in name for name in rows)


def test_a_system_of_the_fit_is_told_from_others(tmp_path: Path) -> None:
    text = COLLECTIVES.replace("new box", "8xH100 node")
    rows = rows_of(tmp_path, "--collectives", a_file(tmp_path, text))
    assert rows["collectives_points[on=systems of the fit]"].value == 2
    assert rows["collectives_points[on=other systems]"].value == 1


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        pytest.param(COLLECTIVES, "utf-8-sig", id="byte order mark"),
        pytest.param(COLLECTIVES.replace("\n", "\r\n"), "utf-8", id="CRLF"),
        pytest.param(COLLECTIVES.replace("\n", "\n\n"), "utf-8", id="empty lines"),
        pytest.param(COLLECTIVES.replace(",", " , "), "utf-8", id="spaces around cells"),
        pytest.param(COLLECTIVES.replace("all_reduce", "AllReduce"), "utf-8", id="other spelling"),
        pytest.param(COLLECTIVES.replace("all_gather", "reduce"), "utf-8", id="reduce"),
        pytest.param(COLLECTIVES.replace(",-,\n", "\n"), "utf-8", id="short rows"),
        pytest.param(COLLECTIVES.replace(",400\n", ",400,x,y\n"), "utf-8", id="long rows"),
    ],
)
def test_how_a_file_is_written_plays_no_part(tmp_path: Path, text: str, encoding: str) -> None:
    rows = rows_of(tmp_path, "--collectives", a_file(tmp_path, text, encoding=encoding))
    assert rows["collectives_points[on=all]"].value == 3


def test_a_rate_stands_in_for_a_time(tmp_path: Path) -> None:
    by_time = rows_of(tmp_path, "--collectives", a_file(tmp_path, COLLECTIVES))
    for column, rates in (
        ("busbw_GBps", (469.762048, 361.3553, 387.1571)),
        ("algbw_GBps", (268.435456, 412.9776, 206.4888)),
    ):
        text = COLLECTIVES.replace("time_us", column)
        for time_us, rate in zip(("4000", "2600", "5200"), rates, strict=True):
            text = text.replace(f",{time_us},", f",{rate},")
        by_rate = rows_of(tmp_path, "--collectives", a_file(tmp_path, text))
        name = "collectives_median_error[on=all]"
        assert by_rate[name].value == pytest.approx(by_time[name].value, abs=0.01)


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        pytest.param(
            "x,H100,1,8,all_reduce,64,soon,-,",
            "time_us is no number of at least 0: 'soon' in line 5",
            id="no number",
        ),
        pytest.param(
            "x,H100,1,8,all_reduce,64,nan,-,",
            "time_us is no number of at least 0: 'nan' in line 5",
            id="not a number",
        ),
        pytest.param(
            "x,H100,1,8,all_reduce,inf,3,-,",
            "size_bytes is no number of at least 0: 'inf' in line 5",
            id="infinite",
        ),
        pytest.param(
            "x,H100,1,8,all_reduce,64,-3,-,",
            "time_us is no number of at least 0: '-3' in line 5",
            id="negative",
        ),
        pytest.param(
            "x,H100,1,8,all_reduce,64,0,-,", "time_us is not above 0: '0' in line 5", id="zero"
        ),
        pytest.param(
            "x,H100,1,7.5,all_reduce,64,3,-,", "gpus is no count: '7.5' in line 5", id="half a GPU"
        ),
        pytest.param("x,H100,,8,all_reduce,64,3,-,", "gpus or nodes are not stated", id="no nodes"),
        pytest.param("x,H100,1,1,all_reduce,64,3,-,", "one GPU sends nothing", id="one GPU"),
        pytest.param(
            "x,H100,2,9,all_reduce,64,3,EDR,50",
            "9 GPUs are not spread evenly over 2 nodes",
            id="uneven",
        ),
        pytest.param(
            "x,H100,1,8,gatherv,64,3,-,", "collective gatherv is not modelled", id="other op"
        ),
        pytest.param("x,H100,1,8,,64,3,-,", "collective is not stated", id="no op"),
        pytest.param("x,H100,2,16,all_reduce,64,3,EDR,", "NICs not stated", id="no NICs"),
        pytest.param("x,,1,8,all_reduce,64,3,-,", "hardware not stated", id="no GPU"),
        pytest.param(
            "x,H100,1,8,all_reduce,64,,-,", "no time, and a rate too small for its digits", id="-"
        ),
    ],
)
def test_a_row_that_can_not_be_compared_is_named(tmp_path: Path, row: str, reason: str) -> None:
    rows = rows_of(tmp_path, "--collectives", a_file(tmp_path, f"{COLLECTIVES}{row}\n"))
    assert rows[f"collectives_not_compared[on=x,why={reason}]"].value == 1
    assert rows["collectives_points[on=all]"].value == 3


@pytest.mark.parametrize("option", ["--collectives", "--slowdowns", "--profiles"])
@pytest.mark.parametrize(
    ("content", "message"),
    [
        pytest.param(b"", "the file is empty", id="empty"),
        pytest.param(b"\xef\xbb\xbf\r\n\r\n", "the file is empty", id="only a mark"),
        pytest.param(b"a,b\n1,2\n", "no column", id="other columns"),
        pytest.param(b"\xff\xfe\x00a", "not a text file in UTF-8", id="not text"),
        pytest.param(b"a;b;c\n1;2;3\n", "no column", id="semicolons"),
    ],
)
def test_a_file_that_can_not_be_used_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], option: str, content: bytes, message: str
) -> None:
    path = tmp_path / "points.csv"
    path.write_bytes(content)
    with pytest.raises(SystemExit) as stopped:
        main([option, str(path), "--json"])
    assert stopped.value.code == 1
    told = capsys.readouterr().err
    assert f"error: {path}: " in told
    assert message in told
    assert "Traceback" not in told


@pytest.mark.parametrize(
    ("option", "text", "message"),
    [
        pytest.param("--collectives", COLLECTIVES.splitlines()[0], "no rows below the header"),
        pytest.param(
            "--collectives", COLLECTIVES.replace("all_", "no_"), "no row can be compared", id="ops"
        ),
        pytest.param(
            "--slowdowns", SLOWDOWNS.replace("ok", "suspect"), "no row can be compared", id="trust"
        ),
        pytest.param("--profiles", PROFILES.replace("our", "a"), "no row can be compared", id="p"),
        pytest.param(
            "--collectives", COLLECTIVES.replace("network", "gpu"), "stands there twice", id="twice"
        ),
    ],
)
def test_a_file_without_anything_to_compare_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], option: str, text: str, message: str
) -> None:
    text = text.replace("T4,1,1,8,0.50", "T4,1,1,8,")
    with pytest.raises(SystemExit) as stopped:
        rows_of(tmp_path, option, a_file(tmp_path, text))
    assert stopped.value.code == 1
    assert message in capsys.readouterr().err


def test_a_file_that_is_not_there_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for arguments in (["--slowdowns", str(tmp_path)], ["--data", str(tmp_path), "--quick"]):
        with pytest.raises(SystemExit) as stopped:
            main(arguments)
        assert stopped.value.code == 1
        assert "error: " in capsys.readouterr().err


def test_placements_of_models_nobody_knows_are_ranked_after_a_prior(tmp_path: Path) -> None:
    rows = rows_of(tmp_path, "--slowdowns", a_file(tmp_path, SLOWDOWNS))
    assert rows["ranking_pairs[on=all]"].value == 2
    assert rows["ranking_right[on=all]"].value == 100
    assert rows["ranking_not_compared[on=bert-large on T4,why=suspect]"].value == 1


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        pytest.param("m,2,T4,2,1+1,fast,ok,8,TCP", "slowdown_B_over_A is no number", id="bad"),
        pytest.param("m,2,T4,2,1+1,0,ok,8,TCP", "slowdown_B_over_A is not above 0", id="zero"),
        pytest.param("m,2,T4,2,1+1,,ok,8,TCP", "slowdown_B_over_A is not stated", id="none"),
        pytest.param("m,2,T4,2,1+2,3,ok,8,TCP", "not two placements of one job", id="other gang"),
        pytest.param("m,2,T4,2,0+2,3,ok,8,TCP", "not two placements of one job", id="no GPU"),
        pytest.param("m,2,T4,2,here,3,ok,8,TCP", "not two placements of one job", id="words"),
        pytest.param("m,4,T4,1 node,0 nodes,3,ok,8,TCP", "not two placements", id="no nodes"),
        pytest.param("m,2,T4,2,1+1,1.05,ok,8,TCP", "measured gap of 10% or less", id="no gap"),
    ],
)
def test_a_pair_that_can_not_be_ranked_is_named(tmp_path: Path, row: str, reason: str) -> None:
    rows = rows_of(tmp_path, "--slowdowns", a_file(tmp_path, f"{SLOWDOWNS}{row}\n"))
    assert any(f"ranking_not_compared[on=m on T4,why={reason}" in name for name in rows), rows
    assert rows["ranking_pairs[on=all]"].value == 2


def test_repeats_that_disagree_are_not_ranked(tmp_path: Path) -> None:
    text = f"{SLOWDOWNS}m,2,T4,2,1+1,2.0,ok,8,TCP\nm,2,T4,2,1+1,0.5,ok,16,TCP\n"
    rows = rows_of(tmp_path, "--slowdowns", a_file(tmp_path, text))
    why = "repeats with other batches disagree"
    assert rows[f"ranking_not_compared[on=m on T4,why={why}]"].value == 2


def test_steps_of_own_profiles_are_evaluated_and_others_named(tmp_path: Path) -> None:
    rows = rows_of(tmp_path, "--profiles", a_file(tmp_path, PROFILES))
    assert rows["iteration_points[on=all]"].value == 1
    assert rows["iteration_median_error[on=all]"].value is not None
    why = "no profile: parameters or a single GPU's step at that batch are missing"
    assert rows[f"iteration_not_compared[on=other-net on T4 (us),why={why}]"].value == 1


@pytest.mark.parametrize(
    "row",
    [
        pytest.param("our-net,T4,2,2,8,fast,25000000,us", id="time"),
        pytest.param("our-net,T4,two,2,8,0.6,25000000,us", id="gpus"),
        pytest.param("our-net,T4,3,2,8,0.6,25000000,us", id="uneven"),
        pytest.param("our-net,T4,2,2,many,0.6,25000000,us", id="batch"),
    ],
)
def test_a_step_that_can_not_be_compared_is_named(tmp_path: Path, row: str) -> None:
    rows = rows_of(tmp_path, "--profiles", a_file(tmp_path, f"{PROFILES}{row}\n"))
    assert rows["iteration_points[on=all]"].value == 1
    assert any("iteration_not_compared[on=our-net on T4 (us),why=" in name for name in rows)


def test_a_single_gpu_that_says_nonsense_is_named(tmp_path: Path) -> None:
    text = f"{PROFILES}our-net,T4,1,1,8,nan,25000000,us\n"
    rows = rows_of(tmp_path, "--profiles", a_file(tmp_path, text))
    assert rows["iteration_points[on=all]"].value == 1
    assert any(
        name.startswith("profiles_not_used[on=our-net on T4 (us),why=iter_") for name in rows
    )


def test_steps_from_the_built_in_table_are_those_of_the_rows_precision(tmp_path: Path) -> None:
    errors = {}
    for precision in ("tf32", "amp"):
        # On one GPU a step of this batch takes 0.269 s in TF32 and 0.179 s in FP16.
        text = (
            "model,gpu,gpus,nodes,local_batch,iter_time_s,precision\n"
            f"bert-large,A100,8,1,64,0.275,{precision}\n"
        )
        rows = rows_of(tmp_path, "--profiles", a_file(tmp_path, text))
        errors[precision] = rows["iteration_median_error[on=all]"].value or 0.0
    assert errors["tf32"] < 10
    assert errors["amp"] > 25
