"""docs/reference/metrics.md: every metric of a server, from the registry that serves them."""

from collections.abc import Iterator

from prometheus_client import CollectorRegistry
from prometheus_client.metrics import MetricWrapperBase
from pydantic.alias_generators import to_camel

from scheduler.adapters.prometheus import Metrics
from scheduler.settings import variable_of
from tools.reference import markdown

_TEXT = f"""`GET /metrics` is what Prometheus reads. On the API's own port it needs a token like any
other path; with `server.{to_camel("metrics_port")}` (`{variable_of("metrics_port")}`) it is also
on a port of its own, without one, on the same address. Labels have few values that are known
beforehand: no job, user, node or pod is ever one. Counters count what this process did: with
several replicas, scrape each and not their service. What only a leader knows is absent on the
others."""

_QUERIES = """## Some questions

| question | query |
|---|---|
| Share of GPUs left idle by choice | `sum(dally_idle_by_choice_gpus) / sum(dally_gpus{state="total"})` |
| GPU hours a day left idle by choice, by queue | `increase(dally_idle_by_choice_gpu_seconds_total[1d]) / 3600` |
| GPU time saved for each one left idle | `increase(dally_waits_saved_gpu_seconds_total[1d]) / increase(dally_idle_by_choice_gpu_seconds_total[1d])` |
| Decisions slower than a second | `rate(dally_scheduling_round_seconds_count[5m]) - ignoring(le) rate(dally_scheduling_round_seconds_bucket{le="1.0"}[5m])` |
| Nobody leads | `sum(dally_leader) < 1` |
"""  # noqa: E501 - a table's rows are lines


def page() -> str:
    """The whole page."""
    lines = markdown.head("Metrics", _TEXT)
    lines += markdown.table(
        ("metric", "type", "labels", "says"),
        (
            (markdown.code(name), kind, ", ".join(map(markdown.code, labels)), text)
            for name, kind, labels, text in sorted(described())
        ),
    )
    return markdown.page([*lines, *_QUERIES.splitlines(), ""])


def described() -> Iterator[tuple[str, str, tuple[str, ...], str]]:
    """Name as Prometheus shows it, type, labels and text of every metric."""
    for metric in registered(Metrics(version="").registry):
        kind = metric._type or ""  # noqa: SLF001 - the library tells it in no other way
        name = metric._name + ("_total" if kind == "counter" else "")  # noqa: SLF001 - as above
        yield name, kind, tuple(metric._labelnames), metric._documentation  # noqa: SLF001 - as above


def registered(registry: CollectorRegistry) -> Iterator[MetricWrapperBase]:
    """Every metric of a registry."""
    for collector in registry._collector_to_names:  # noqa: SLF001 - as above
        assert isinstance(collector, MetricWrapperBase)
        yield collector
