"""Secondary indexes of a store: what they are, and the errors of their functions and arguments.

An index finds the rows of a store by a part of their values. A topology declares it as
:class:`IndexSpec`; the store writes its entries with the rows, and reads them for ``by`` and
``by_range``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from logstate.contracts.error_text import text_of
from logstate.contracts.errors import (
    SerdeError,
    StoreAccessError,
    StoreArgumentError,
    StoreError,
)
from logstate.contracts.record_parts import shown
from logstate.contracts.serde import Serde


class IndexedBytes(bytes):
    """The bytes of an indexed value, or of its first parts, as another instance has sent them."""

    __slots__ = ()


@dataclass(frozen=True)
class IndexSpec:
    """An index of a store.

    ``of`` returns the indexed value of a row's value; None: the row is not in the index. ``serde``
    writes indexed values as bytes in their order.
    """

    name: str
    of: Callable[[Any], Any]
    serde: Serde[Any]
    #: where ``of`` is defined: ``function at file:line``
    site: str
    encode: Callable[[Any], bytes] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "encode", self.serde.serializer("", True))

    def bound(self, value: Any) -> bytes:
        """Return the bytes that the entries of a value begin with, or of the first parts of tuples.

        Raises SerdeError or TypeError for a value of another type.
        """
        if type(value) is IndexedBytes:
            return bytes(value)
        if isinstance(value, tuple):
            first_parts = self.serde.prefix_bytes(value)
            if first_parts is not None:
                return first_parts
        return self.encode(value)

    def describe(self) -> Mapping[str, Any]:
        """Return the type of the indexed values as data for JSON."""
        return self.serde.describe()


def index_named(store: str, indexes: Sequence[IndexSpec], name: Any) -> IndexSpec:
    """Return an index of a store; raise StoreArgumentError for a name that it does not have."""
    for one in indexes:
        if one.name == name:
            return one
    has = ", ".join(repr(one.name) for one in indexes)
    remedy = f"It has {has}" if indexes else "It has none: declare Materialized(indexes=...)"
    raise StoreArgumentError(f"store {store!r} has no index {shown(name)}. {remedy}")


def check_indexed(store: str, one: IndexSpec, argument: str, value: Any) -> None:
    """Raise StoreArgumentError for a value that an index cannot have."""
    try:
        one.bound(value)
    except (SerdeError, TypeError, ValueError) as error:
        raise StoreArgumentError(
            f"store {store!r}: {argument} takes values of index {one.name!r}, found {shown(value)}"
            f" ({type(value).__name__}): {text_of(error)}"
        ) from error


def index_error(
    store: str, one: IndexSpec, key: object, error: Exception, *, is_put: bool = False
) -> StoreError:
    """Return the error for an index function that raised, or whose result has another type.

    ``is_put``: for a row that is put, which is the fault of the record that is processed. The other
    rows are stored already.
    """
    failed = (
        f"index {one.name!r} of store {store!r} failed for the row of key {shown(key)}: {one.site}:"
        f" {type(error).__name__}: {text_of(error)}"
    )
    remedy = (
        "The function has to return a value of the index's type for every row, or None for rows"
        " that are not indexed"
    )
    if is_put:
        return StoreAccessError(f"{failed}. The row was not written. {remedy}")
    return StoreError(f"{failed}. The row is stored already, and has no entry. {remedy}")
