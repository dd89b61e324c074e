"""What was said of the policy knobs, and by whom.

default  ◁  seeded: dallyd.yaml, read at each start  ◁  changed: live, until it is reset

Values are kept in JSON as the codec writes them, so that a sheet outlives the knobs it was made of.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from scheduler.domain.codec import decode, dump, encode, load
from scheduler.domain.knobs import PolicyKnobs

KnobTexts = Mapping[str, str]
"""Values in JSON by their names in PolicyKnobs."""

CLUSTER_KNOBS = frozenset(
    {
        "placing",
        "node_lost_after",
        "order",
        "order_stops",
        "ends_min",
        "aging_after",
        "hold_after",
        "hold_share_max",
        "protected_share",
        "residual_samples_min",
        "residual_default",
        "promote_after",
        "skew_min",
        "time_slice",
        "lease",
        "fairness_filter",
    }
)
"""Knobs that hold for all queues together; a queue can not have its own."""


class KnobSource(StrEnum):
    """Where a knob's value comes from."""

    DEFAULT = "default"
    FILE = "file"
    """dallyd.yaml says so of the cluster."""
    LIVE = "live"
    """Set while the service ran."""
    QUEUE_FILE = "queue-file"
    """dallyd.yaml says so of the queue."""
    QUEUE_LIVE = "queue-live"


@dataclass(frozen=True, slots=True, kw_only=True)
class KnobSheet:
    """Knobs of the cluster, or what is different in one queue."""

    seeded: KnobTexts = field(default_factory=dict)
    changed: KnobTexts = field(default_factory=dict)

    def over(self, base: PolicyKnobs) -> PolicyKnobs:
        """`base` with what the sheet says. Raises DecodeError where it says what can not be."""
        said = {**self.seeded, **self.changed}
        if not said:
            return base
        values = encode(base)
        assert isinstance(values, dict)
        values |= {name: load(text) for name, text in said.items()}
        return decode(PolicyKnobs, values)

    def with_changes(self, changed: KnobTexts, reset: tuple[str, ...] = ()) -> "KnobSheet":
        """The same with some knobs set, and others left to the file again."""
        kept = {name: text for name, text in self.changed.items() if name not in reset}
        return replace(self, changed={**kept, **changed})


NOTHING_SAID = KnobSheet()


def knob_texts(knobs: PolicyKnobs) -> dict[str, str]:
    """Every knob as a sheet says it."""
    values = encode(knobs)
    assert isinstance(values, dict)
    return {name: dump(value) for name, value in values.items()}


def source_of(name: str, cluster: KnobSheet, queue: KnobSheet | None = None) -> KnobSource:
    """Who said what a knob is, for the cluster or in one queue."""
    sources = (
        (KnobSource.QUEUE_LIVE, queue.changed if queue else {}),
        (KnobSource.QUEUE_FILE, queue.seeded if queue else {}),
        (KnobSource.LIVE, cluster.changed),
        (KnobSource.FILE, cluster.seeded),
    )
    return next((source for source, said in sources if name in said), KnobSource.DEFAULT)
