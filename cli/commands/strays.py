"""`admin adopt`, `admin release`: gangs on the cluster that the database does not know."""

from collections.abc import Sequence

import click
from pydantic import TypeAdapter

from api.strays.schemas import StrayView
from cli import output
from cli.client import Client
from cli.command import DallyGroup, Session, command
from cli.failures import CommandError
from cli.root import dally

admin = DallyGroup("admin", help="What only admins may do.")
dally.add_command(admin)

STRAYS = "/api/v1/strays"

_ITEMS: TypeAdapter[list[StrayView]] = TypeAdapter(list[StrayView])

names_argument = click.argument("names", nargs=-1)
all_option = click.option("--all", "is_all", is_flag=True, help="Every stray there is.")


@command(
    admin,
    "adopt",
    examples=("dally admin adopt --all", "dally admin adopt 0197c3a2-7d10-7c1f-9d2e-0f3a/0"),
)
@names_argument
@all_option
def adopt(session: Session, *, names: tuple[str, ...], is_all: bool) -> None:
    """Have the database take gangs up as the cluster has them; named by id (dally get strays) or
    by PROJECT/NAME.

    They run on, and end as jobs of theirs. What the database does not know of them any more, such
    as former restarts, stays lost.
    """
    _order(session, names, "adopt", is_all=is_all)


@command(
    admin,
    "release",
    examples=("dally admin release vision/resnet50", "dally admin release --all"),
)
@names_argument
@all_option
def release(session: Session, *, names: tuple[str, ...], is_all: bool) -> None:
    """Let gangs run on as nobody's: their pods lose our label, count as those of others, and are
    never touched again. Delete them with kubectl when they are not wanted."""
    _order(session, names, "release", is_all=is_all)


def _order(session: Session, names: tuple[str, ...], verb: str, *, is_all: bool) -> None:
    with session.connect() as client:
        chosen = _chosen(client, names, is_all=is_all)
        for stray in chosen:
            client.send("POST", f"{STRAYS}/{stray.job}/{stray.attempt}/{verb}", body={})
            output.line(f"stray/{stray.id} is to be {verb}{'d' if verb[-1] == 'e' else 'ed'}")
    if chosen:
        output.note("what comes of it: dally get strays")


def _chosen(client: Client, names: Sequence[str], *, is_all: bool) -> list[StrayView]:
    if bool(names) == is_all:
        raise click.UsageError("name strays, or say --all")
    strays = _ITEMS.validate_python(client.listed(STRAYS).items)
    if is_all:
        return strays
    chosen = [stray for stray in strays if names_of(stray) & set(names)]
    known = {name for stray in chosen for name in names_of(stray)}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise CommandError(
            f"no stray is called {', '.join(unknown)}",
            reason="NotFound",
            way_out="dally get strays",
        )
    return chosen


def names_of(stray: StrayView) -> set[str]:
    """What a stray may be called by."""
    named = {f"{stray.project}/{stray.name}"} if stray.name else set()
    return {stray.id, f"stray/{stray.id}"} | named
