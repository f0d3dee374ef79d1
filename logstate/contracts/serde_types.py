"""The types of ``key=`` and ``value=``, which tie them to the results of callbacks.

``map_values(f, value=int)`` is an error for type checkers if ``f`` returns text. With ``value:
type[V]`` and ``f: Callable[..., V]`` pyright would find a V that fits both, ``int | str``, because
``type`` is covariant. :class:`TypeOf` is ``type`` for a V that has to be exactly the class; mypy
takes V from the argument first, so it needs only ``type``.
"""

from __future__ import annotations

from types import UnionType
from typing import Protocol, TypeAlias, TypeVar

from logstate.contracts.serde import Serde

T = TypeVar("T")

#: mypy takes this name as true, and knows no protocol that classes implement by their metaclass
MYPY = False

if MYPY:
    from builtins import type as TypeOf  # noqa: N812  it is a type here
else:

    class TypeOf(Protocol[T]):
        """The class T itself.

        Every class has this method, and its result, a list, is invariant.
        """

        def __subclasses__(self) -> list[type[T]]: ...


#: ``T | None``, the name of a serde, and None, which say nothing about T
Untyped: TypeAlias = UnionType | str | None
#: the type of the objects, a serde of them, or one of those; quoted, because pyright would follow
#: both of the branches above
SerdeLike: TypeAlias = "TypeOf[T] | Serde[T] | UnionType | str | None"
#: those of them that say T
TypedSerde: TypeAlias = "TypeOf[T] | Serde[T]"
