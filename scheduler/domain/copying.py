"""`replace`, `quickly_made` and what follows from them: as those of dataclasses, for the many small
records that a cycle makes and copies, in a fraction of the time.

A frozen dataclass sets each field by a call that is let past its own guard. Here the fields of a
new record are set while it is of a twin class, which has the same slots and no guard; then it
becomes what it is to be, and `__post_init__` is called. A copy is made by a function that is
written once for each class and set of fields that differ. Classes that have no twin (without slots,
with a base that has some, or with fields that `__init__` does not take) are left to the standard
library.

Calling a class is most of what a small record costs then. Where records are made or copied several
times for every job, a plain function does it (`maker_of`, `copier_of`), made once for the module.
"""

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

if TYPE_CHECKING:
    from dataclasses import replace

    def quickly_made(kind: type[T]) -> type[T]:
        """Class decorator: the frozen dataclass with an `__init__` that takes less time."""
        return kind

    def maker_of(kind: Callable[P, T]) -> Callable[P, T]:
        """A function that makes what this class makes of the same arguments."""
        return kind

    def copier_of(kind: type[T], *names: str) -> Callable[..., T]:
        """A function as `replace` for records of this class, with values for all these fields."""
        assert names
        return kind

else:

    def _twin_of(kind):
        """A class whose instances can become those of `kind`, and those of `kind` its own; None if
        there is none."""
        fields = dataclasses.fields(kind)
        names = [field.name for field in fields]
        is_plain = kind.__bases__ == (object,) and all(field.init for field in fields)
        if not is_plain or sorted(kind.__dict__.get("__slots__", ())) != sorted(names):
            return None
        # A subclass that adds no slots has the same ones: that is seen without comparing them.
        unguarded = {
            "__slots__": (),
            "__setattr__": object.__setattr__,
            "__delattr__": object.__delattr__,
        }
        return type(f"{kind.__name__}InTheMaking", (kind,), unguarded)

    _TWINS = {}

    def copier_of(kind, *names):
        """What copies records of `kind` in which the fields of these names differ."""
        if kind not in _TWINS:
            _TWINS[kind] = _twin_of(kind)
        if _TWINS[kind] is None:
            return dataclasses.replace
        fields = [field.name for field in dataclasses.fields(kind)]
        for name in names:
            if name not in fields:
                raise TypeError(f"{kind.__name__} has no field {name!r}")
        sources = {field: field if field in names else f"_thing.{field}" for field in fields}
        lines = [
            f"def copy_of({', '.join(('_thing', *names))}):",
            "    _copy = _new(_twin)",
            *[f"    _copy.{field} = {source}" for field, source in sources.items()],
            "    _copy.__class__ = _kind",
            *(["    _copy.__post_init__()"] if hasattr(kind, "__post_init__") else []),
            "    return _copy",
        ]
        known = {"_new": object.__new__, "_twin": _TWINS[kind], "_kind": kind}
        return _made("copy_of", lines, known)

    def _made(name, lines, known):
        """The function of that name that these lines define."""
        # As the standard library does: only source text makes a function with these parameters.
        exec("\n".join(lines), known)  # noqa: S102 - of names of fields of our own classes
        return known[name]

    _COPIERS = {}
    """By class, and the names of the fields that differ in the order they were given."""

    def replace(thing, /, **changes):
        """A copy of a dataclass instance in which these fields differ."""
        key = (thing.__class__, *changes)
        copier = _COPIERS.get(key)
        if copier is None:
            copier = _COPIERS[key] = copier_of(thing.__class__, *changes)
        return copier(thing, **changes)

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

    def _parameters(kind, known):
        """The list of parameters of its `__init__`, without the first."""
        fields = dataclasses.fields(kind)
        first = [_parameter(field, known) for field in fields if not field.kw_only]
        named = [_parameter(field, known) for field in fields if field.kw_only]
        return [*first, *(["*", *named] if named else [])]

    def _filling(kind):
        """Lines that make a record of the twin class one of `kind`."""
        return [
            *map(_assignment, dataclasses.fields(kind)),
            "    self.__class__ = _kind",
            *(["    self.__post_init__()"] if hasattr(kind, "__post_init__") else []),
        ]

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
        lines = [
            f"def __init__({', '.join(['self', *_parameters(kind, known)])}):",
            "    _set_class(self, _twin)",
            *_filling(kind),
        ]
        made = _made("__init__", lines, known)
        made.__qualname__, made.__module__ = f"{kind.__qualname__}.__init__", kind.__module__
        made.__annotations__ = kind.__init__.__annotations__
        kind.__init__ = made
        return kind

    _MAKERS = {}

    def maker_of(kind):
        """A function that makes what this class makes of the same arguments."""
        maker = _MAKERS.get(kind)
        if maker is None:
            twin = _twin_of(kind)
            assert twin is not None, f"{kind.__name__} has no twin"
            known = {"_missing": _MISSING, "_kind": kind, "_twin": twin, "_new": object.__new__}
            lines = [
                f"def maker({', '.join(_parameters(kind, known))}):",
                "    self = _new(_twin)",
                *_filling(kind),
                "    return self",
            ]
            maker = _MAKERS[kind] = _made("maker", lines, known)
        return maker


__all__ = ["copier_of", "maker_of", "quickly_made", "replace"]
