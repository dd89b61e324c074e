"""docs/reference/configuration.md: every part of dallyd.yaml, from the code that reads it."""

from collections.abc import Iterator, Mapping
from typing import get_args

from pydantic.fields import FieldInfo

from scheduler.config_file import DEFAULT_PRIORITIES, ConfigFile
from scheduler.domain.knobs import PolicyKnobs
from scheduler.knob_settings import KNOB_TEXTS, knob_names, written_knobs
from scheduler.network.presets import PRESETS
from scheduler.topology_file import Section
from tools.reference import markdown

_TEXT = """One file tells `dallyd serve --config dallyd.yaml` what the cluster looks like and whose
it is. Every part may be left out. A key that is not listed here is refused with the nearest valid
name, all mistakes are reported at once with their places, and `dallyd check --config dallyd.yaml`
reports them without starting anything. Queues and projects that the file names are written to the
store at each start, and those that it does not name stay. Policy knobs come from the file at each
start, unless they were set live (`dally set policy`): what was set live wins until it is reset."""

_FABRICS = """Presets that `topology.fabric` and `topology.links[].fabric` name: what joins the GPUs
of a node, its NICs and the network between the nodes, as constants of the network model. Sizes of
nodes and levels are always those of the cluster, and its uplinks those of `topology.levels`."""

_KNOBS = """Knobs of the cluster. `queues[].knobs` takes the same, but for those that mean
something for all queues together alone (`dally get policy -o wide` shows the scope of each)."""

EXAMPLE = """server: {port: 8470}
topology:
  fabric: h100-roce
  levels: [{name: rack, oversubscription: 2}]
  racks:
    - {name: r1, nodes: 2, gpus: 4}
    - {name: r2, nodes: 2, gpus: 4}
queues:
  - {name: team-a, policy: fifo-backfill}
priorityClasses:
  - {name: urgent, value: 500}
policy: {policy: fifo, startTimeout: 10m}
projects:
  - {name: vision, queues: [team-a, default]}
"""


def page() -> str:
    """The whole page."""
    lines = markdown.head("The configuration file: dallyd.yaml", _TEXT)
    lines += ["```yaml", *EXAMPLE.splitlines(), "```", ""]
    for path, section in _sections("dallyd.yaml", ConfigFile):
        lines += [f"## {path}", "", (section.__doc__ or "").splitlines()[0], ""]
        lines += markdown.table(
            ("key", "type", "default", "means"),
            (
                (markdown.code(field.alias or name), _type(field), _default(field), _means(field))
                for name, field in section.model_fields.items()
            ),
        )
    defaults = dict(written_knobs(PolicyKnobs()))
    lines += ["## policy", "", _KNOBS, ""]
    lines += markdown.table(
        ("knob", "default", "means"),
        (
            (markdown.code(name), markdown.code(str(defaults[name])), text)
            for name, text in zip(knob_names(), KNOB_TEXTS.values(), strict=True)
        ),
    )
    lines += ["## Fabrics", "", _FABRICS, ""]
    lines += markdown.table(
        ("fabric", "links"), ((markdown.code(f.name), f.source) for f in PRESETS.values())
    )
    priorities = ", ".join(f"`{name}` ({value})" for name, value in DEFAULT_PRIORITIES.items())
    lines += ["## Priority classes that always exist", "", f"{priorities}.", ""]
    return markdown.page(lines)


def _sections(path: str, section: type[Section]) -> Iterator[tuple[str, type[Section]]]:
    yield path, section
    for name, field in section.model_fields.items():
        for inner in _inner(field.annotation):
            is_list = "tuple" in str(field.annotation)
            key = (field.alias or name) + ("[]" if is_list else "")
            yield from _sections(key if section is ConfigFile else f"{path}.{key}", inner)


def _inner(hint: object) -> Iterator[type[Section]]:
    if isinstance(hint, type) and issubclass(hint, Section):
        yield hint
    for argument in get_args(hint):
        yield from _inner(argument)


_KINDS: Mapping[object, str] = {str: "text", int: "number", float: "number", bool: "true or false"}


def _type(field: FieldInfo) -> str:
    hint = field.annotation
    text = str(hint)
    if "tuple" in text:
        return "list"
    if "dict" in text or any(_inner(hint)):
        return "mapping"
    if "Literal" in text:
        return " or ".join(markdown.code(str(choice)) for choice in get_args(hint))
    return next((_KINDS[kind] for kind in _plain(hint) if kind in _KINDS), "text")


def _plain(hint: object) -> Iterator[object]:
    yield hint
    for argument in get_args(hint):
        yield from _plain(argument)


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    default = field.default
    is_plain = isinstance(default, str | int | float) and default != ""
    return markdown.code(str(default)) if is_plain else ""


def _means(field: FieldInfo) -> str:
    return field.description or ""
