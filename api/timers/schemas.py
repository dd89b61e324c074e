"""What the server says about the tuner's timers."""

from typing import Literal

from api.wire import API_VERSION, Reply


class TimerView(Reply):
    """How long gangs of one demand wait for one level, if they are declined now."""

    name: str
    """Demand and level, e.g. `8-rack`."""
    demand: int
    """GPUs of the gang, rounded up to a power of two."""
    level: str
    timer: str | None = None
    """A job waits no longer than this, and less where waiting is worth less to it. Absent: as long
    as waiting is worth to it."""
    source: Literal["learned", "smaller-demand", "value-of-waiting", "fixed"]
    """`learned` from past waits of this demand, or of the largest smaller one that has enough."""
    learned_from: int
    """The demand whose waits these are; 0 where nothing was learned."""
    accepted: int
    """Past waits of this demand that ended with an offer, as far as they count."""
    censored: int
    """Those that ended without: the timer ran out, or the job was cancelled."""
    update_time: str | None = None
    """When the newest wait that counts ended."""


class TimerList(Reply):
    """The timers of every demand and level with past waits, or that a live job could have."""

    api_version: str = API_VERSION
    kind: str = "TimerList"
    queue: str | None = None
    """Absent: by the knobs of the cluster."""
    policy: str
    in_use: bool
    """Whether jobs wait by timers under this policy."""
    items: list[TimerView]
