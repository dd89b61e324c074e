"""`replace`: as that of dataclasses, for the many small copies that a cycle makes, many times as
fast.

A frozen dataclass sets each field by a call that is let past its own guard. Here the fields of the
copy are set while it is of a twin class, which has the same slots and no guard; then it becomes
what it is to be, and `__post_init__` is called. Classes that have no twin (without slots, with a
base that has some, or with fields that `__init__` does not take) are left to the standard library.
"""

import dataclasses
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dataclasses import replace
else:
    _new = object.__new__

    def _twin_of(kind):
        """A class whose instances can become those of `kind`; None if there is none."""
        fields = dataclasses.fields(kind)
        slots = kind.__dict__.get("__slots__", ())
        is_plain = kind.__bases__ == (object,) and all(field.init for field in fields)
        if not is_plain or sorted(slots) != sorted(field.name for field in fields):
            return None
        return type(f"{kind.__name__}InTheMaking", (), {"__slots__": tuple(slots)})

    def _copier_of(kind):
        """Copies a record of `kind` into one of its twin; None where there is none."""
        twin = _twin_of(kind)
        if twin is None:
            return None
        sets = [f" copy.{field.name} = thing.{field.name}" for field in dataclasses.fields(kind)]
        source = "\n".join(["def copied(thing):", " copy = new(twin)", *sets, " return copy"])
        scope = {"new": _new, "twin": twin}
        exec(source, scope)  # noqa: S102 - names of fields alone go in, as in dataclasses
        return scope["copied"]

    _COPIERS = {}

    def replace(thing, /, **changes):
        """A copy of a dataclass instance in which these fields differ."""
        kind = thing.__class__
        try:
            copier = _COPIERS[kind]
        except KeyError:
            copier = _COPIERS[kind] = _copier_of(kind)
        if copier is None:
            return dataclasses.replace(thing, **changes)
        copy = copier(thing)
        for name, value in changes.items():
            try:
                setattr(copy, name, value)
            except AttributeError as error:
                raise TypeError(f"{kind.__name__} has no field {name!r}") from error
        copy.__class__ = kind
        if hasattr(kind, "__post_init__"):
            copy.__post_init__()
        return copy


__all__ = ["replace"]
