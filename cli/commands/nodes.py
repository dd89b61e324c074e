"""`cordon`, `drain`, `uncordon`: keep workers from nodes, empty nodes, open them again."""

import click
from pydantic import TypeAdapter

from api.nodes.schemas import NodeView
from cli import output
from cli.client import Client, segment
from cli.command import Session, command
from cli.kinds import NODE, without_noun
from cli.root import dally
from cli.times import pause

LOOK_S = 1.0
_ITEMS = TypeAdapter(list[NodeView])

nodes_argument = click.argument("nodes", metavar="NODE ...", nargs=-1, required=True)
reason_option = click.option("--reason", default="", help="Told in `why`, events and `describe`.")


@command(
    dally,
    "cordon",
    examples=("dally cordon gpu-07", "dally cordon gpu-07 gpu-08 --reason 'new firmware'"),
)
@nodes_argument
@reason_option
def cordon(session: Session, *, nodes: tuple[str, ...], reason: str) -> None:
    """Keep new workers from nodes; what runs there runs on. For admins."""
    _order(session, nodes, "cordon", reason, done="cordoned")


@command(
    dally,
    "uncordon",
    examples=("dally uncordon gpu-07", "dally uncordon gpu-07 --reason 'firmware is in'"),
)
@nodes_argument
@reason_option
def uncordon(session: Session, *, nodes: tuple[str, ...], reason: str) -> None:
    """Let workers come to nodes again, after `cordon` or `drain`. For admins.

    A node that is left alone for a while, e.g. as `SuspectNode`, is used again at once.
    """
    for view in _order(session, nodes, "uncordon", reason, done="uncordoned"):
        if view.is_cordoned:
            output.note(f"note: the cluster itself keeps workers from {view.name}")


@command(
    dally,
    "drain",
    examples=("dally drain gpu-07 --reason 'new firmware'", "dally drain node gpu-07 --wait"),
)
@nodes_argument
@reason_option
@click.option("--wait", is_flag=True, help="Wait until no job holds anything on them.")
def drain(session: Session, *, nodes: tuple[str, ...], reason: str, wait: bool) -> None:
    """Keep new workers from nodes and stop the gangs on them, each with its grace. For admins.

    The gangs start again elsewhere, at no cost to their `maxRestarts`.
    """
    views = _order(session, nodes, "drain", reason, done="draining")
    if not wait:
        return
    with session.connect() as client:
        for view in views:
            while _is_in_use(client, view.name):
                pause(LOOK_S)
            output.line(f"node/{view.name} drained")


def _is_in_use(client: Client, name: str) -> bool:
    nodes = _ITEMS.validate_python(client.listed(NODE.path).items)
    return any(node.gpus_held or node.jobs for node in nodes if node.name == name)


def _order(
    session: Session, nodes: tuple[str, ...], verb: str, reason: str, *, done: str
) -> list[NodeView]:
    plain = [name.removeprefix("node/") for name in without_noun(NODE, nodes)]
    found: list[NodeView] = []
    with session.connect() as client:
        for name in plain:
            answer = client.send(
                "POST", f"{NODE.path}/{segment('node', name)}/{verb}", body={"reason": reason}
            )
            found.append(NodeView.model_validate(answer))
            output.line(f"node/{name} {done}")
    return found
