"""`replace` and `quickly_made`: as those of dataclasses, for the many small records that a cycle
makes and copies, in a fraction of the time.

A frozen dataclass sets each field by a call that is let past its own guard. Here the fields of a
new record are set while it is of a twin class, which has the same slots and no guard; then it
becomes what it is to be, and `__post_init__` is called. Classes that have no twin (without slots,
with a base that has some, or with fields that `__init__` does not take) are left to the standard
library.
"""

import dataclasses
from typing import TYPE_CHECKING, TypeVar

T = TypeVar("T")

if TYPE_CHECKING:
    from dataclasses import replace

    def quickly_made(kind: type[T]) -> type[T]:
        """Class decorator: the frozen dataclass with an `__init__` that takes less time."""
        return kind

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

    _MISSING = object()

    def _parameter(field, known):
        """How a field stands in the list of parameters; `known` gets its default."""
        if field.default is not dataclasses.MISSING:
            known[f"_default_{field.name}"] = field.default
            return f"{field.name}=_default_{field.name}"
        if field.default_factory is not dataclasses.MISSING:
            known[f"_make_{field.name}"] = field.default_factory
            return f"{field.name}=_missing"
        return field.name

    def _assignment(field):
        if field.default_factory is dataclasses.MISSING:
            return f"    self.{field.name} = {field.name}"
        value = f"_make_{field.name}() if {field.name} is _missing else {field.name}"
        return f"    self.{field.name} = {value}"

    def quickly_made(kind):
        """Class decorator: the frozen dataclass with an `__init__` that takes less time."""
        twin = _twin_of(kind)
        assert twin is not None, f"{kind.__name__} has no twin"
        known = {
            "_missing": _MISSING,
            "_kind": kind,
            "_twin": twin,
            "_set_class": object.__dict__["__class__"].__set__,
        }
        fields = dataclasses.fields(kind)
        first = [_parameter(field, known) for field in fields if not field.kw_only]
        named = [_parameter(field, known) for field in fields if field.kw_only]
        parameters = ["self", *first, *(["*", *named] if named else [])]
        lines = [
            f"def __init__({', '.join(parameters)}):",
            "    _set_class(self, _twin)",
            *map(_assignment, fields),
            "    self.__class__ = _kind",
            *(["    self.__post_init__()"] if hasattr(kind, "__post_init__") else []),
        ]
        # As the standard library does: only source text makes a function with these parameters.
        exec("\n".join(lines), known)  # noqa: S102 - of names of fields of our own classes
        made = known["__init__"]
        made.__qualname__, made.__module__ = f"{kind.__qualname__}.__init__", kind.__module__
        made.__annotations__ = kind.__init__.__annotations__
        kind.__init__ = made
        return kind


__all__ = ["quickly_made", "replace"]
