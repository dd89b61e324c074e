"""The policy's knobs from the command line."""

import json

import pytest

from tests.cli.conftest import Dally, job_text


@pytest.fixture(autouse=True)
def as_it_was(dally: Dally) -> None:
    """Each test begins with nothing set live."""
    for flags in ([], ["--queue", "default"]):
        shown = json.loads(dally("get", "policy", *flags, "-o", "json").out)["items"]
        live = [each["name"] for each in shown if each["source"] in ("live", "queue-live")]
        for name in live:
            dally("set", "policy", *flags, "--reset", name)


def test_a_knob_is_set_shown_and_reset(dally: Dally) -> None:
    assert dally("set", "policy", "waitMax=3h").lines == ["waitMax is 3h (was 24h)"]
    assert dally("get", "policy", "waitMax", "--no-headers").out.split() == [
        "waitMax",
        "3h",
        "live",
    ]
    assert dally("set", "policy", "waitMax=3h").lines == ["policy unchanged"]
    assert dally("set", "policy", "--reset", "waitMax").lines == ["waitMax is 24h (was 3h)"]
    shown = dally("get", "knob", "restartBackoff", "-o", "wide").lines
    assert shown[0].split() == ["NAME", "VALUE", "SOURCE", "DEFAULT", "SCOPE", "DESCRIPTION"]
    assert shown[1].split()[:5] == ["restartBackoff", "1ms", "file", "10s", "queue"]


def test_a_queue_has_its_own(dally: Dally) -> None:
    said = dally("set", "policy", "-q", "default", "timerQuantile=0.8", "policy=fifo")
    assert "timerQuantile is 0.8 (was 0.9) in queue default" in said.lines
    assert dally("get", "policy", "timerQuantile", "-q", "default", "--no-headers").out.split() == [
        "timerQuantile",
        "0.8",
        "queue-live",
    ]
    assert "0.9" in dally("get", "policy", "timerQuantile").out


def test_a_change_is_told_in_an_event_with_its_reason(dally: Dally) -> None:
    dally("set", "policy", "evictionsPerHour=2", "--reason", "gently")
    told = [line for line in dally("events").lines if "PolicyChanged" in line]
    assert "evictionsPerHour is 2 (was 3), by admin: gently" in told[-1]


def test_wrong_knobs_are_all_told_with_what_is_near(dally: Dally) -> None:
    answer = dally("set", "policy", "waitMaks=3h", "timerQuantile=2")
    assert answer.code == 1
    assert 'did you mean "waitMax"?' in answer.err
    assert "/knobs/timerQuantile: must be more than 0, less than 1 (InvalidValue)" in answer.err


@pytest.mark.parametrize("value", ["nan", "inf", "-inf", "1e999"])
def test_what_json_has_no_number_for_is_told_by_the_server(dally: Dally, value: str) -> None:
    answer = dally("set", "policy", f"benefitMin={value}")
    assert answer.code == 1
    assert "/knobs/benefitMin: must be a number from 0 to 1000000" in answer.err


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param([], id="nothing"),
        pytest.param(["waitMax"], id="no value"),
        pytest.param(["=3h"], id="no name"),
        pytest.param(["waitMax="], id="an empty value"),
        pytest.param(["waitMax=3h", "waitMax=4h"], id="a knob twice"),
        pytest.param(["waitMax=3h", "--reset", "waitMax"], id="a knob set and reset"),
    ],
)
def test_what_is_no_assignment_is_a_mistake_in_usage(dally: Dally, arguments: list[str]) -> None:
    answer = dally("set", "policy", *arguments)
    assert answer.code == 64
    assert "KNOB=VALUE" in answer.err or "is named twice" in answer.err


def test_a_switch_is_shown_as_it_is_set(dally: Dally) -> None:
    assert dally("set", "policy", "movesCapTimers=false").lines == [
        "movesCapTimers is false (was true)"
    ]
    shown = dally("get", "policy", "movesCapTimers", "--no-headers").out.split()
    assert shown == ["movesCapTimers", "false", "live"]


def test_a_dry_run_changes_nothing(dally: Dally) -> None:
    answer = dally("set", "policy", "waitMax=3h", "--dry-run")
    assert (answer.lines, answer.err) == (
        ["waitMax is 3h (was 24h)"],
        "dry run: nothing was written\n",
    )
    assert dally("get", "policy", "waitMax", "--no-headers").out.split()[1] == "24h"
    assert json.loads(dally("set", "policy", "waitMax=3h", "--dry-run", "-o", "json").out)["items"]


def test_timers_are_listed_in_every_form(dally: Dally) -> None:
    dally("apply", "-f", "-", "--wait", stdin=job_text("timed", workers=2, gpusPerWorker=4))
    live = job_text("timing", workers=2, gpusPerWorker=4, command=["sleep", "60"])
    dally("apply", "-f", "-", stdin=live)
    shown = dally("get", "timers").lines
    assert shown[0].split() == [
        *("NAME", "DEMAND", "LEVEL", "TIMER", "SOURCE", "ACCEPTED", "CENSORED"),
    ]
    assert shown[1].split() == ["8-rack", "8", "rack", "worth", "value-of-waiting", "0", "0"]
    assert dally("get", "timers", "-o", "name").lines == ["timer/8-rack"]
    assert json.loads(dally("get", "timer", "8-rack", "-o", "json").out)["level"] == "rack"
    assert "LEARNED-FROM" in dally("get", "timers", "-o", "wide", "-q", "default").lines[0]
