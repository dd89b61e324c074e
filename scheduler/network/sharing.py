"""Jobs that meet on links: how much longer each one's communication takes.

A job uses a link only for the share of time that it communicates: u = V / T. Two jobs that are each
on a link a tenth of the time hardly meet. For job j with the others i on a link:

    V_j x (1 + sum over i of u_i x (b_j / share_ij - 1))       share_ij: j's part while both send

to which two bounds apply: on average a link can not carry more than its capacity (many jobs that
never collide in pairs may still be too many), and nobody is slower than if all were sending all the
time (max-min fair shares). Starting or ending a job touches only the jobs that share a link with
it; a few sweeps over these settle their shares.
"""

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

SWEEPS_MAX = 5
"""Sweeps over the jobs concerned; shares move little after the second."""

SETTLED = 1e-4
"""Stretches that moved less than this, relatively, are settled."""

J = TypeVar("J", bound=Hashable)
"""What names a job."""

L = TypeVar("L", bound=Hashable)
"""What names a link."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load(Generic[L]):
    """What a job would do with all links for itself, and what it asks of each shared link."""

    compute_s: float
    """Computation and communication that no shared link carries."""
    exchange_s: float
    """Communication over shared links, per step (V)."""
    hideable_s: float = 0.0
    """Computation the exchange hides behind."""
    last_s: float = 0.0
    """The part of the exchange that nothing hides."""
    bytes_by_link: Mapping[L, float] = field(default_factory=dict)
    """Per step and direction."""

    def step_s(self, stretch: float = 1.0) -> float:
        """The step when the exchange takes `stretch` times as long."""
        shown = max(self.last_s * stretch, self.exchange_s * stretch - self.hideable_s)
        return self.compute_s + shown

    def stretch_at(self, step_s: float) -> float:
        """The stretch at which a step takes that long; at least 1."""
        room_s = step_s - self.compute_s
        found = (room_s + self.hideable_s) / self.exchange_s
        if self.last_s > 0.0:
            found = min(found, room_s / self.last_s)
        return max(1.0, found)

    def rate(self, link: L) -> float:
        """Bytes per second on a link while the job communicates, were it alone."""
        return self.bytes_by_link[link] / self.exchange_s if self.exchange_s else 0.0


@dataclass(slots=True, eq=False)
class _Link(Generic[J, L]):
    capacity: float
    rates: dict["_Job[J, L]", float] = field(default_factory=dict)
    """Of every job on it; a dict, so that their order is that of arrival."""
    wanted: float = 0.0
    """Sum of the rates."""

    def add(self, job: "_Job[J, L]", rate: float) -> None:
        self.rates[job] = rate
        self.wanted = sum(self.rates.values())

    def remove(self, job: "_Job[J, L]") -> None:
        del self.rates[job]
        self.wanted = sum(self.rates.values())


@dataclass(slots=True, eq=False)
class _Job(Generic[J, L]):
    key: J
    load: Load[L]
    uses: list[tuple[_Link[J, L], float]]
    """Links and the job's rate on each."""
    stretch: float = 1.0
    busy: float = 0.0
    """Share of time it communicates (u)."""
    duty: float = 0.0
    """Bytes it sends divided by what it would send were it never idle."""
    duty_alone: float = 0.0
    """The same with all links for itself."""

    def settle(self, stretch: float) -> None:
        self.stretch = stretch
        exchange_s = self.load.exchange_s
        step_s = self.load.step_s(stretch)
        if step_s:
            self.busy = min(1.0, exchange_s * stretch / step_s)
            self.duty = exchange_s / step_s
            self.duty_alone = exchange_s / self.load.step_s()


@dataclass(slots=True)
class SharedLinks(Generic[J, L]):
    """The links of a fabric and the jobs on them; tells each job's stretch and step time."""

    capacities: Mapping[L, float]
    """Bytes per second of each link, in one direction."""
    _jobs: dict[J, _Job[J, L]] = field(default_factory=dict)
    _links: dict[L, _Link[J, L]] = field(default_factory=dict)

    def start(self, key: J, load: Load[L]) -> tuple[J, ...]:
        """A job begins to communicate. Returns the jobs whose step time may have changed."""
        assert key not in self._jobs
        uses = [(self._link(link), load.rate(link)) for link in load.bytes_by_link]
        job = _Job(key=key, load=load, uses=[(link, rate) for link, rate in uses if rate > 0.0])
        job.settle(1.0)
        self._jobs[key] = job
        for link, rate in job.uses:
            link.add(job, rate)
        return _settled(_neighbours(job))

    def end(self, key: J) -> tuple[J, ...]:
        """A job is gone. Returns the jobs whose step time may have changed."""
        job = self._jobs.pop(key)
        neighbours = _neighbours(job)
        del neighbours[job]
        for link, _ in job.uses:
            link.remove(job)
        return _settled(neighbours)

    def with_one_more(self, key: J, load: Load[L]) -> Mapping[J, float]:
        """Step times of a job and of all that share a link with it, were it to start now.

        Everything here stays as it is.
        """
        before = [
            (job, (job.stretch, job.busy, job.duty, job.duty_alone)) for job in self._jobs.values()
        ]
        steps = {concerned: self.step_s(concerned) for concerned in self.start(key, load)}
        newcomer = self._jobs.pop(key)
        for link, _ in newcomer.uses:
            link.remove(newcomer)
        for job, known in before:
            job.stretch, job.busy, job.duty, job.duty_alone = known
        return steps

    def settle_all(self) -> None:
        """Settle every job's share again, as if all had just started."""
        for job in self._jobs.values():
            job.settle(1.0)
        _settled(dict.fromkeys(self._jobs.values()), sweeps=10 * SWEEPS_MAX)

    def stretch(self, key: J) -> float:
        """How many times as long the job's communication takes as alone."""
        return self._jobs[key].stretch

    def step_s(self, key: J) -> float:
        """The job's step time now."""
        job = self._jobs[key]
        return job.load.step_s(job.stretch)

    def share(self, key: J) -> float:
        """The part of its own bandwidth that the job gets, as `iteration_time` wants it."""
        return 1.0 / self._jobs[key].stretch

    def _link(self, key: L) -> _Link[J, L]:
        link = self._links.get(key)
        if link is None:
            link = self._links[key] = _Link(capacity=self.capacities[key])
        return link


def fair_share(rate: float, others: Iterable[float], capacity: float) -> float:
    """What a job that wants `rate` gets of a link beside others, max-min fairly."""
    left = capacity
    wanting = sorted(others)
    waiting = len(wanting) + 1
    for other in wanting:
        # Whoever wants less than an equal part gets it; the rest is split among the others.
        if other * waiting >= left:
            break
        left -= other
        waiting -= 1
    return min(rate, max(left / waiting, 0.0))


def _neighbours(job: _Job[J, L]) -> dict[_Job[J, L], None]:
    """The job and all that share a link with it."""
    found: dict[_Job[J, L], None] = {job: None}
    for link, _ in job.uses:
        found.update(dict.fromkeys(link.rates))
    return found


def _settled(jobs: Mapping[_Job[J, L], None], *, sweeps: int = SWEEPS_MAX) -> tuple[J, ...]:
    # Whoever is on no crowded link is where it was alone, and stays there.
    moving = list(jobs)
    for _ in range(sweeps):
        # All stretches of a sweep stand on those of the sweep before: order plays no part.
        stretches = [_stretched(job) for job in moving]
        moved = []
        for job, stretch in zip(moving, stretches, strict=True):
            if abs(stretch - job.stretch) > SETTLED * job.stretch:
                moved.append(job)
                job.settle(stretch)
        if not moved:
            break
    return tuple(job.key for job in jobs)


def _stretched(job: _Job[J, L]) -> float:
    """The stretch of one job, the others as they are."""
    floor = ceiling = 1.0
    lost: dict[_Job[J, L], float] = {}
    for link, rate in job.uses:
        if link.wanted <= link.capacity or len(link.rates) == 1:
            continue
        means, rates = _met(job, link, rate, lost)
        mean = rate * job.duty_alone
        if mean + sum(means) > link.capacity:
            # On average the job gets no more than this part, so a step takes at least so long.
            part = fair_share(mean, means, link.capacity)
            step_s = job.load.exchange_s * rate / part
            floor = max(floor, job.load.stretch_at(step_s))
        ceiling = max(ceiling, rate / fair_share(rate, rates, link.capacity))
    if ceiling == 1.0:
        return 1.0
    return min(ceiling, max(floor, 1.0 + sum(lost.values())))


def _met(
    job: _Job[J, L], link: _Link[J, L], rate: float, lost: dict[_Job[J, L], float]
) -> tuple[list[float], list[float]]:
    """Mean and full rates of the others on a link; notes in `lost` what each of them costs."""
    half = link.capacity / 2
    means: list[float] = []
    rates: list[float] = []
    for other, other_rate in link.rates.items():
        if other is job:
            continue
        rates.append(other_rate)
        means.append(other_rate * other.duty)
        # What is left of the link beside this one alone, but no less than an equal part.
        share = link.capacity - other_rate if other_rate < half else half
        if share < rate:
            loss = other.busy * (rate / share - 1.0)
            if loss > lost.get(other, 0.0):
                lost[other] = loss
    return means, rates
