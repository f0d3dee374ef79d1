"""Whether a store is what the caller of ``app.store()`` declares: its kind, its keys, its values.

The types of a result follow from the arguments, so a wrong argument would make every read of the
store something else than the type checker says. It is refused when the store is requested.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal, TypeAlias, get_args, get_origin

from logstate.contracts.error_text import text_of
from logstate.contracts.errors import SerdeError
from logstate.contracts.formats import SCALARS
from logstate.contracts.serde import Serde
from logstate.contracts.stores import StoreSpec
from logstate.serdes.built_in import serde_of
from logstate.serdes.scalars import ScalarSerde

#: the kinds of stores that queries can be typed by, named like those of ``StoreSpec``
QueryKind: TypeAlias = Literal[
    "timestamped_key_value", "key_value", "timestamped_window", "window", "session", "versioned"
]
DEFAULT_KIND: Final = "timestamped_key_value"
#: kinds that are read like another one
_READ_LIKE: Final[Mapping[str, str]] = {
    "key_value_lru": "key_value",
    "timestamped_key_value_lru": "timestamped_key_value",
}


def type_problems(
    call: str, spec: StoreSpec, key: object, value: object, kind: str | None
) -> Iterator[str]:
    """Yield how a store differs from what the caller declares; None is not compared.

    ``call`` is the call in messages. ``key`` and ``value`` are types or serdes. A type fits if the
    store's serde reads objects of it, or if that is not known; a serde fits if it does the same.
    """
    found = _READ_LIKE.get(spec.kind, spec.kind)
    kinds = get_args(QueryKind)
    if kind is not None and kind not in kinds:
        yield (
            f"{call}: unknown kind={kind!r}. The kinds are {', '.join(kinds)}; leave kind= out for"
            " the store of a table that is not windowed"
        )
    elif kind is not None and kind != found:
        remedy = f"Give kind={found!r}" if found in kinds else "Leave key= and value= out"
        yield (
            f"{call} declares a {kind} store, and {spec.name!r} is a {found} store, whose rows have"
            f" another type. {remedy}"
        )
    for part, declared, serde in (("key", key, spec.key), ("value", value, spec.value)):
        if declared is not None:
            yield from _differences(call, part, declared, serde)


def declaration_problems(call: str, spec: StoreSpec, declared: StoreSpec) -> Iterator[str]:
    """Yield how a store differs from its declaration, which the caller gives instead of a name."""
    kind = _READ_LIKE.get(declared.kind, declared.kind)
    if kind != _READ_LIKE.get(spec.kind, spec.kind):
        yield (
            f"{call}: the declaration is of a {declared.kind} store, and the topology's"
            f" {spec.name!r} is a {spec.kind} store. Give the declaration that the topology uses"
        )
    yield from type_problems(call, spec, declared.key, declared.value, None)


def _differences(call: str, part: str, declared: object, serde: Serde[Any]) -> Iterator[str]:
    try:
        wanted = serde_of(declared, what=f"{part}= of {call}")
    except SerdeError as error:
        yield text_of(error)
        return
    if _are_alike(wanted, serde):
        return
    if not isinstance(declared, Serde) and _reads(serde, declared, _type_of(wanted)):
        return
    type_ = _type_of(serde)
    reads = "" if type_ in (None, Any) else f", which reads {_name(type_)}"
    yield (
        f"{call} declares {part}={_name(declared)}, and the {part}s of the store have {serde!r}"
        f"{reads}. Give the type or the serde that the topology declares"
    )


def _are_alike(one: Serde[Any], other: Serde[Any]) -> bool:
    """Whether two serdes do the same; the class of a serde may have been imported twice."""
    return one == other or (
        type(one).__qualname__ == type(other).__qualname__ and one.describe() == other.describe()
    )


def _reads(serde: Serde[Any], declared: object, wanted: Any) -> bool:
    """Whether the objects that a serde reads may be of the type that is declared."""
    known = _type_of(serde)
    if known is None or declared in (Any, object):
        return True
    if known is Any:  # plain JSON
        return (get_origin(declared) or declared) in (dict, list)
    return (
        known == wanted
        or get_origin(known) is declared
        # A program that is started as a script imports its own classes twice.
        or (isinstance(known, type) and _name(known) == _name(wanted))
    )


def _type_of(serde: Any) -> Any:
    """Return the type of the objects that a serde reads; None if it is not known."""
    for part in ("inner", "current"):
        if isinstance(inner := getattr(serde, part, None), Serde):
            return _type_of(inner)
    if isinstance(serde, ScalarSerde):
        return SCALARS[serde.name].type_
    for attribute in ("type", "model", "message"):
        if (found := getattr(serde, attribute, None)) is not None:
            return found
    for base in getattr(type(serde), "__orig_bases__", ()):
        if get_origin(base) is Serde and isinstance(get_args(base)[0], type):
            return get_args(base)[0]
    return None


def _name(type_: object) -> str:
    return getattr(type_, "__qualname__", None) or repr(type_)
