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
    from operator import attrgetter

    def _twin_of(kind):
        """A class whose instances can become those of `kind`; None if there is none."""
        fields = dataclasses.fields(kind)
        names = [field.name for field in fields]
        is_plain = kind.__bases__ == (object,) and all(field.init for field in fields)
        if not is_plain or sorted(kind.__dict__.get("__slots__", ())) != sorted(names):
            return None
        name = f"{kind.__name__}InTheMaking"
        return dataclasses.make_dataclass(name, names, slots=True, repr=False, eq=False)

    class _Copier:
        """How to copy one class."""

        __slots__ = ("has_check", "read", "twin")

        def __init__(self, kind, twin):
            names = [field.name for field in dataclasses.fields(kind)]
            self.twin = twin
            self.read = attrgetter(*names)
            self.has_check = hasattr(kind, "__post_init__")

    def _copier_of(kind):
        twin = _twin_of(kind) if len(dataclasses.fields(kind)) > 1 else None
        return None if twin is None else _Copier(kind, twin)

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
        copy = copier.twin(*copier.read(thing))
        for name, value in changes.items():
            try:
                setattr(copy, name, value)
            except AttributeError as error:
                raise TypeError(f"{kind.__name__} has no field {name!r}") from error
        copy.__class__ = kind
        if copier.has_check:
            copy.__post_init__()
        return copy


__all__ = ["replace"]
