"""PolicyKnobs: the numbers of a policy; kept in the store, changed live, carried in snapshots."""

from dataclasses import dataclass
from enum import StrEnum

from scheduler.domain.instants import DAY, HOUR, MINUTE, Duration, seconds


class Algorithm(StrEnum):
    """How domains and nodes are chosen for a gang."""

    BEST_FIT = "best-fit"
    """The tightest domain that holds it, inside it as few sub-domains as can be."""
    LEAST_FREE = "least-free"
    """At the closest level that holds it the smallest holes first."""
    BALANCED = "balanced"
    """As evenly as can be over as few domains as hold it."""
    FIRST_FIT = "first-fit"
    """The first in topology order that have room."""


class WaitClock(StrEnum):
    """When the clock of a waiting job runs."""

    IDLE = "idle"
    """While its offer was declined and GPUs it could have used stay idle: waiting costs them."""
    DECLINED = "declined"
    """While its offer was declined."""
    PENDING = "pending"
    """Always."""


class Timers(StrEnum):
    """Where the timers of waiting jobs come from."""

    TUNED = "tuned"
    """Learned from past waits; no longer than waiting is worth."""
    NAIVE = "naive"
    """Mean + deviation of accepted waits: shows the collapse that censoring prevents."""
    VALUE = "value"
    """What waiting is worth, alone."""
    FIXED = "fixed"
    """`fixed_timer`, whatever waiting is worth."""
    ZERO = "zero"
    """Nobody waits."""
    INFINITE = "infinite"
    """Everybody waits for his best tier, however long."""


class JobOrder(StrEnum):
    """What goes first among jobs of one priority."""

    GITTINS = "gittins"
    LAS = "las"
    N1 = "n1"
    N2 = "n2"
    N3 = "n3"
    N4 = "n4"


class NetworkMoves(StrEnum):
    """Which running gangs may be stopped so that another one runs closer together."""

    OFF = "off"
    SAME_QUEUE = "same-queue"
    ON = "on"
    """Also gangs of other queues on GPUs that they borrow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyKnobs:
    """Numbers of the scheduling policy; each has a description in settings.py."""

    policy: str = "dally"
    placing: Algorithm = Algorithm.BEST_FIT
    start_timeout: Duration = seconds(600)
    """Time from reservation to all workers running; after it the gang is unwound."""
    restart_backoff: Duration = seconds(10)
    """First wait after a failed attempt; doubles up to `restart_backoff_max`."""
    restart_backoff_max: Duration = seconds(300)
    healthy_after: Duration = seconds(600)
    """A run of this length resets the back-off."""
    restarts_infra_max: int = 10
    """Restarts after failures of the cluster without a healthy run between them."""
    node_lost_after: Duration = seconds(300)
    """A node that is unready for so long has lost its workers: their gangs restart elsewhere."""

    # Waiting for a closer tier.
    clock: WaitClock = WaitClock.IDLE
    timers: Timers = Timers.TUNED
    fixed_timer: Duration = Duration(10 * MINUTE)
    """Timer of each tier with `timers: fixed`."""
    wait_max: Duration = Duration(24 * HOUR)
    """The timers of one job add up to no more than this."""
    moves_cap_timers: bool = True
    """A job that can be moved waits no longer than starting wide and moving later would cost."""
    crowding_weight: float = 1.0
    """What a wide gang and those on its links are expected to lose by each other counts so much in
    how long it holds out; 0: every gang is taken to have its links for itself."""
    offer_speed_min: float = 0.95
    """An offer counts as its tier if it is at least so fast as the tier's reference shape."""
    residual_samples_min: int = 20
    """Ended jobs from which the remaining time of another one is estimated."""
    residual_default: Duration = Duration(6 * HOUR)
    """Remaining time of a job of which nothing is known; what it has run, if that is longer."""
    idle_gpus_max: int = 0
    """GPUs a queue's jobs may leave idle by declining them; 0: as many as there are."""

    # The auto-tuner.
    timer_quantile: float = 0.9
    """Share of past waits that a timer outlasts."""
    timer_floor: Duration = Duration(0)
    tuner_window: Duration = Duration(7 * DAY)
    tuner_half_life: Duration = Duration(24 * HOUR)
    """A wait of this age counts half."""
    tuner_newest: int = 100
    """At most so many waits of one demand and tier are looked at."""
    tuner_accepted_min: int = 20
    """Fewer accepted waits teach nothing."""

    # Order.
    order: JobOrder = JobOrder.GITTINS
    ends_min: int = 5
    """Jobs that must have succeeded before lengths order others; of a queue, for its own."""
    aging_after: Duration = Duration(0)
    """A job that has not started for so long since it was submitted goes first; 0: never."""

    # Large gangs.
    hold_after: Duration = Duration(24 * HOUR)
    """A job that has not started for so long holds a domain; 0: never."""
    hold_share_max: float = 0.25
    """Share of the GPUs that all held domains together may have (one job may always hold)."""
    protected_share: float = 0.5
    """A job that held is not stopped for this share of its wait."""

    # Stopping gangs for others' proximity, and moving them for their own.
    preemption: NetworkMoves = NetworkMoves.SAME_QUEUE
    upgrades: NetworkMoves = NetworkMoves.SAME_QUEUE
    order_stops: bool = False
    """Whether gangs that stand it are stopped for jobs that the order puts before them."""
    preemption_margin: float = 0.1
    """With orders N1-N4: a victim's key is worse by more than this share."""
    benefit_min: float = 2.0
    """What a stop or move saves, divided by what it costs, is at least this."""
    lost_share_max: float = 0.1
    """Share of a job's run time that stops and moves may cost it."""
    evictions_per_hour: int = 3
    """Of one job, moves included."""
    quantum_restarts: float = 10.0
    """A gang runs at least so many times its restart cost before it is stopped."""
    quantum_checkpoints: float = 2.0
    """And so many checkpoint intervals."""
    restart_cost: Duration = seconds(60)
    """Of a job that declares none."""
    checkpoint_interval: Duration = Duration(30 * MINUTE)
    """Of a job that declares none."""

    # Of baselines.
    promote_after: float = 8.0
    """`tiresias`: a job that waited so many times as long as it ran goes first; 0: never."""
    skew_min: float = 0.5
    """`tiresias`: a model of which the largest tensor is this share holds out for its best tier."""
    time_slice: Duration = seconds(60)
    """`gandiva`: a gang runs so long before others have their turn."""
    lease: Duration = Duration(20 * MINUTE)
    """`themis`: a gang keeps its GPUs so long at least."""
    fairness_filter: float = 0.8
    """`themis`: GPUs are offered first to the rest of this share of the jobs, the worst-off."""
