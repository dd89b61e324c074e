"""The root of the command tree, to which each module of cli/commands adds its commands."""

from types import MappingProxyType

import click

from cli.command import DallyGroup
from cli.config import Choices

MODULES = {
    "cli.commands.changing": ("cancel", "delete", "hold", "release", "wait"),
    "cli.commands.configuring": ("auth", "completion", "config", "explain", "version"),
    "cli.commands.describing": ("describe", "why"),
    "cli.commands.distance": ("estimate",),
    "cli.commands.listing": ("api-resources", "events", "get"),
    "cli.commands.logs": ("logs",),
    "cli.commands.setting": ("set",),
    "cli.commands.nodes": ("cordon", "drain", "uncordon"),
    "cli.commands.planning": ("plan",),
    "cli.commands.profiles": ("create",),
    "cli.commands.strays": ("admin",),
    "cli.commands.submitting": ("apply", "run"),
}
"""Commands by the module that adds them."""


@click.group(cls=DallyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="dally", prog_name="dally", message="%(prog)s %(version)s")
@click.option("--server", metavar="URL", help="Server to talk to [DALLY_SERVER].")
@click.option("--token", metavar="TOKEN", help="Token to show [DALLY_TOKEN].")
@click.option("--context", metavar="NAME", help="Context of the config file [DALLY_CONTEXT].")
@click.option("-p", "--project", metavar="NAME", help="Project of the jobs.")
@click.pass_context
def dally(
    ctx: click.Context,
    server: str | None,
    token: str | None,
    context: str | None,
    project: str | None,
) -> None:
    """Dally schedules distributed deep-learning jobs on GPU clusters."""
    ctx.obj = Choices(server=server, token=token, context=context, project=project)


assert isinstance(dally, DallyGroup)
dally.modules = MappingProxyType(
    {command: module for module, commands in MODULES.items() for command in commands}
)
