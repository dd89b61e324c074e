"""Who is compared: policies as they are, and variants of them with knobs of their own."""

import re
from collections.abc import Sequence
from typing import Annotated

import typer

from simulator.commands import options as opts
from simulator.comparing import Variant
from simulator.errors import OptionError
from simulator.staging import check_policy

VARIANT_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
"""Folders of runs are named so."""

PolicyNames = Annotated[str, typer.Option(help="Policies, with commas between them.")]
VariantTexts = Annotated[
    list[str] | None,
    typer.Option(
        "--variant",
        metavar="NAME=POLICY,KNOB=VALUE,...",
        help="One more to compare: a policy with knobs of its own (repeat it for more).",
    ),
]
Baseline = Annotated[
    str, typer.Option(help="Policy or variant the others are measured against; else the first.")
]


def chosen_variants(policies: str, more: Sequence[str]) -> list[Variant]:
    """All that are compared, in the order in which they are named. Raises OptionError."""
    found = [Variant(name=name, policy=name) for name in _names_of(policies)]
    for each in found:
        check_policy(each.policy, option="--policies")
    found += [_variant(text) for text in more]
    if not found:
        raise OptionError("--policies", "name some, or a --variant")
    names = [each.name for each in found]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise OptionError("--variant", f"{twice!r} is the name of two; which is meant?")
    return found


def baseline_of(variants: Sequence[Variant], name: str) -> Variant:
    """The one of that name; for the empty name the first. Raises OptionError."""
    found = next((each for each in variants if name in ("", each.name)), None)
    if found is None:
        raise OptionError("--baseline", f"{name!r} is not among the policies and variants")
    return found


def _names_of(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    if len(set(names)) < len(names):
        raise OptionError("--policies", f"{text!r} is not a list of different names")
    return names


def _variant(text: str) -> Variant:
    name, _, said = text.partition("=")
    policy, *settings = said.split(",")
    if not (VARIANT_NAME.fullmatch(name) and policy):
        detail = f"{text!r} is not NAME=POLICY,KNOB=VALUE,...; a name has letters, digits, -, _, ."
        raise OptionError("--variant", detail)
    check_policy(policy, option=f"--variant {name}")
    return Variant(
        name=name, policy=policy, knobs=opts.knobs_of(settings, option=f"--variant {name}")
    )
