"""Jobs that meet on links: closed forms, conservation, order, and the two kinds of sharing."""

from collections.abc import Mapping
from itertools import permutations
from random import Random

import pytest

from scheduler.network.max_min import AlwaysOnLinks, coupled_rates
from scheduler.network.sharing import Load, SharedLinks, fair_share

LINK = "uplink"


def a_load(
    *, compute_s: float = 9.0, exchange_s: float = 1.0, rate: float = 10.0, **numbers: float
) -> Load[str]:
    """A job that sends at `rate` while it communicates."""
    return Load(
        compute_s=compute_s,
        exchange_s=exchange_s,
        bytes_by_link={LINK: rate * exchange_s},
        **numbers,
    )


def stretches(loads: Mapping[str, Load[str]], capacity: float = 10.0) -> dict[str, float]:
    links: SharedLinks[str, str] = SharedLinks({LINK: capacity})
    for name, load in loads.items():
        links.start(name, load)
    return {name: links.stretch(name) for name in loads}


def test_two_jobs_that_are_rarely_on_the_link_hardly_meet() -> None:
    # Each communicates a tenth of the time: 1.1 times as long, not twice.
    found = stretches({"a": a_load(), "b": a_load()})
    assert found["a"] == pytest.approx(1.1, abs=0.01)
    assert found["a"] == pytest.approx(found["b"], rel=1e-3)


def test_two_jobs_that_always_communicate_share_half_and_half() -> None:
    found = stretches({"a": a_load(compute_s=0.0), "b": a_load(compute_s=0.0)})
    assert found == pytest.approx({"a": 2.0, "b": 2.0})


def test_the_pair_settles_at_the_fixed_point_of_the_formula() -> None:
    # x = 1 + u, u = x V / (T1 + x V) for two equal jobs whose exchange hides behind nothing.
    stretch = 1.0
    for _ in range(200):
        stretch = 1.0 + stretch * 2.0 / (8.0 + stretch * 2.0)
    load = a_load(compute_s=8.0, exchange_s=2.0)
    assert stretches({"a": load, "b": load})["a"] == pytest.approx(stretch, rel=2e-3)


def test_a_job_alone_is_not_stretched() -> None:
    assert stretches({"a": a_load()}) == {"a": 1.0}


def test_jobs_that_fit_on_the_link_together_are_not_stretched() -> None:
    small = a_load(compute_s=0.0, rate=3.0)
    assert set(stretches({"a": small, "b": small, "c": small}).values()) == {1.0}


def test_many_small_jobs_cannot_exceed_the_link() -> None:
    # Ten jobs, each a quarter of the link nine tenths of the time: pairs never collide, all do.
    load = a_load(compute_s=1.0, exchange_s=9.0, rate=2.5)
    found = stretches({f"j{i}": load for i in range(10)})
    carried = sum(2.5 * 9.0 / load.step_s(stretch) for stretch in found.values())
    assert carried <= 10.0 * 1.001
    assert max(found.values()) > 2.0


@pytest.mark.parametrize("seed", range(30))
def test_time_shared_links_are_never_slower_than_always_on(seed: int) -> None:
    rng = Random(seed)
    capacity = 10.0
    loads = {
        f"j{i}": a_load(
            compute_s=rng.uniform(0.0, 5.0),
            exchange_s=rng.uniform(0.1, 5.0),
            rate=rng.uniform(0.5, 10.0),
        )
        for i in range(rng.randint(2, 8))
    }
    always = coupled_rates(
        {name: {LINK: 1.0} for name in loads},
        {LINK: capacity},
        wanted={name: load.rate(LINK) for name, load in loads.items()},
    )
    for name, stretch in stretches(loads, capacity).items():
        assert 1.0 <= stretch <= loads[name].rate(LINK) / always[name] * (1 + 1e-9)


@pytest.mark.parametrize("seed", range(10))
def test_the_order_of_arrival_does_not_matter_much(seed: int) -> None:
    rng = Random(seed)
    loads = {
        f"j{i}": a_load(compute_s=rng.uniform(1, 5), exchange_s=rng.uniform(1, 5), rate=6.0)
        for i in range(4)
    }
    results = [
        stretches({name: loads[name] for name in order}) for order in permutations(sorted(loads))
    ]
    for result in results:
        assert result == pytest.approx(results[0], rel=0.01)


def test_starting_and_ending_touches_only_the_jobs_on_the_same_links() -> None:
    links: SharedLinks[str, str] = SharedLinks({"x": 10.0, "y": 10.0})

    def load(*names: str) -> Load[str]:
        return Load(compute_s=1.0, exchange_s=1.0, bytes_by_link=dict.fromkeys(names, 10.0))

    assert links.start("far", load("y")) == ("far",)
    assert set(links.start("a", load("x"))) == {"a"}
    assert set(links.start("b", load("x"))) == {"a", "b"}
    far = links.stretch("far")
    assert set(links.end("b")) == {"a"}
    assert links.stretch("a") == 1.0
    assert links.stretch("far") == far == 1.0


@pytest.mark.parametrize("seed", range(10))
def test_updates_one_by_one_end_near_a_fresh_start(seed: int) -> None:
    rng = Random(seed)
    names = [f"l{i}" for i in range(12)]
    links: SharedLinks[int, str] = SharedLinks(dict.fromkeys(names, 10.0))
    running: list[int] = []
    for number in range(120):
        if len(running) < 8 or rng.random() < 0.5:
            used = rng.sample(names, 2)
            links.start(
                number,
                Load(
                    compute_s=rng.uniform(0.5, 3),
                    exchange_s=1.0,
                    bytes_by_link=dict.fromkeys(used, rng.uniform(2.0, 9.0)),
                ),
            )
            running.append(number)
        else:
            links.end(running.pop(rng.randrange(len(running))))
    as_updated = {job: links.step_s(job) for job in running}
    links.settle_all()
    fresh = {job: links.step_s(job) for job in running}
    assert as_updated == pytest.approx(fresh, rel=0.05)


def test_hidden_communication_is_stretched_and_still_hidden() -> None:
    load = a_load(compute_s=10.0, exchange_s=2.0, hideable_s=6.0, last_s=0.1)
    assert load.step_s() == pytest.approx(10.1)
    assert load.step_s(2.0) == pytest.approx(10.2)
    assert load.step_s(4.0) == pytest.approx(12.0)


@pytest.mark.parametrize(
    ("rate", "others", "share"),
    [
        pytest.param(10.0, [], 10.0, id="alone"),
        pytest.param(10.0, [10.0], 5.0, id="two equals"),
        pytest.param(10.0, [2.0], 8.0, id="beside a small one"),
        pytest.param(1.0, [10.0, 10.0], 1.0, id="a small one beside two large ones"),
        pytest.param(10.0, [2.0, 10.0], 4.0, id="the rest is split"),
    ],
)
def test_fair_shares_fill_up_the_smallest_first(
    rate: float, others: list[float], share: float
) -> None:
    assert fair_share(rate, others, 10.0) == pytest.approx(share)


@pytest.mark.parametrize("seed", range(30))
def test_coupled_rates_conserve_capacity_and_are_max_min_fair(seed: int) -> None:
    rng = Random(seed)
    links = {f"l{i}": rng.uniform(1, 10) for i in range(5)}
    weights = {
        f"j{i}": {link: rng.choice((1.0, 2.0)) for link in rng.sample(sorted(links), 2)}
        for i in range(8)
    }
    wanted = {job: rng.uniform(0.1, 10) for job in weights}
    rates = coupled_rates(weights, links, wanted=wanted)
    used = {
        link: sum(rates[job] * weights[job].get(link, 0.0) for job in weights) for link in links
    }
    for link, capacity in links.items():
        assert used[link] <= capacity * (1 + 1e-9)
    for job, rate in rates.items():
        # Nobody can have more without taking from someone who has no more.
        is_content = rate == pytest.approx(wanted[job])
        is_held = any(
            used[link] >= links[link] * (1 - 1e-9)
            and all(rates[o] <= rate * (1 + 1e-9) for o in weights if weights[o].get(link))
            for link in weights[job]
        )
        assert is_content or is_held, job
    shuffled = dict(sorted(weights.items(), reverse=True))
    assert coupled_rates(shuffled, links, wanted=wanted) == pytest.approx(rates)


def test_what_a_coupled_ring_leaves_free_goes_to_others() -> None:
    # The ring over both links runs at the rate of the crowded one.
    rates = coupled_rates(
        {"ring": {"x": 1.0, "y": 1.0}, "a": {"x": 1.0}, "b": {"x": 1.0}, "c": {"y": 1.0}},
        {"x": 9.0, "y": 9.0},
        wanted=dict.fromkeys(("ring", "a", "b", "c"), 100.0),
    )
    assert rates == pytest.approx({"ring": 3.0, "a": 3.0, "b": 3.0, "c": 6.0})


@pytest.mark.parametrize("seed", range(10))
def test_incremental_coupled_rates_equal_those_computed_at_once(seed: int) -> None:
    rng = Random(seed)
    capacities = {f"l{i}": rng.uniform(1, 10) for i in range(8)}
    links: AlwaysOnLinks[int, str] = AlwaysOnLinks(capacities)
    weights: dict[int, dict[str, float]] = {}
    wanted: dict[int, float] = {}
    for number in range(60):
        if len(weights) < 5 or rng.random() < 0.55:
            weights[number] = dict.fromkeys(rng.sample(sorted(capacities), 2), 1.0)
            wanted[number] = rng.uniform(0.5, 9)
            links.start(number, weights[number], wanted=wanted[number])
        else:
            gone = rng.choice(sorted(weights))
            del weights[gone], wanted[gone]
            links.end(gone)
    at_once = coupled_rates(weights, capacities, wanted=wanted)
    assert {job: links.rate(job) for job in weights} == pytest.approx(at_once)


def test_one_more_is_tried_as_if_it_started_and_leaves_all_as_they_were() -> None:
    loads = {"a": a_load(), "b": a_load(compute_s=2.0), "c": a_load(compute_s=0.5, rate=4.0)}
    newcomer = a_load(compute_s=1.0)
    links: SharedLinks[str, str] = SharedLinks({LINK: 10.0})
    started: SharedLinks[str, str] = SharedLinks({LINK: 10.0})
    for name, load in loads.items():
        links.start(name, load)
        started.start(name, load)
    before = {name: links.step_s(name) for name in loads}
    tried = [links.with_one_more("new", newcomer) for _ in range(2)]
    started.start("new", newcomer)
    assert tried[0] == tried[1] == {name: started.step_s(name) for name in (*loads, "new")}
    assert {name: links.step_s(name) for name in loads} == before
    assert tried[0]["b"] > before["b"]
