"""Values whose type changes over time: each row contains the version of its type.

A row is one byte with its version, then the bytes of the serde of that version. Rows of earlier
versions are read by their own serde and upgraded step by step; they are only rewritten at their
next update, so a deployment does not delay the start. The costs: a byte per row; for a row of an
earlier version its own decoding and a call per step, at every read; and other libraries cannot
read such rows directly.

Rows that were written before versions were used have no such byte. They can be recognized if they
are JSON, which begins with none of the bytes that versions may then have.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

from logstate.contracts.errors import SerdeError
from logstate.contracts.serde import Deserializer, Serde, Serializer
from logstate.serdes.built_in import serde_of

T = TypeVar("T")
Upgrade = Callable[[Any], Any]

#: first characters of a JSON text: white space, and the first characters of values
_JSON_BEGINNINGS = frozenset(b' \t\n\r"-0123456789[{fnt')


class UpgradableSerde(Serde[T], Generic[T]):
    """A serde of versioned values; see :func:`upgradable`."""

    def __init__(
        self,
        current: Serde[T],
        version: int,
        earlier: Mapping[int, tuple[Serde[Any], Upgrade]],
        unversioned: int | None,
    ) -> None:
        self.current = current
        self.version = version
        self.earlier = dict(sorted(earlier.items()))
        self.unversioned = unversioned
        self.immutable = current.immutable

    def serializer(self, topic: str, is_key: bool) -> Serializer[T]:
        if is_key:
            raise SerdeError(
                f"upgradable() is for values, and was given for the keys of {topic!r}: equal keys"
                " of two versions would have different bytes"
            )
        serialize = self.current.serializer(topic, is_key)
        version = bytes((self.version,))
        return lambda value: version + serialize(value)

    def deserializer(self, topic: str, is_key: bool) -> Deserializer[T]:
        version = self.version
        read = self.current.deserializer(topic, is_key)
        read_earlier = {
            number: _upgrading(serde.deserializer(topic, is_key), self._steps_from(number))
            for number, (serde, _) in self.earlier.items()
        }
        unversioned = None if self.unversioned is None else read_earlier[self.unversioned]

        def deserialize(data: bytes) -> T:
            number = data[0] if data else 0
            if number == version:
                return read(data[1:])
            if number in read_earlier:
                return read_earlier[number](data[1:])  # type: ignore[no-any-return]
            if unversioned is not None and number in _JSON_BEGINNINGS:
                return unversioned(data)  # type: ignore[no-any-return]
            raise SerdeError(self._unknown_version(number))

        return deserialize

    def describe(self) -> dict[str, Any]:
        serdes = {number: serde for number, (serde, _) in self.earlier.items()}
        serdes[self.version] = self.current
        return {
            "format": "upgradable",
            "schema": None,
            "version": self.version,
            "versions": {str(number): serde.describe() for number, serde in serdes.items()},
            "unversioned": self.unversioned,
        }

    def equality_key(self) -> Any:
        return self.current, self.version, self.earlier, self.unversioned

    def _steps_from(self, version: int) -> list[Upgrade]:
        return [upgrade for number, (_, upgrade) in self.earlier.items() if number >= version]

    def _unknown_version(self, number: int) -> str:
        known = [*self.earlier, self.version]
        if number > self.version:
            return (
                f"the row says that it is of version {number}; this instance reads {known}. A newer"
                " instance wrote it: finish the upgrade of all instances"
            )
        return (
            f"the row begins with byte {number}, which is not a version that is read here: {known}."
            " Was it written before versions were used? Then give unversioned=; or declare the"
            " version that is missing"
        )


def upgradable(
    value: Any,
    *,
    version: int,
    earlier: Mapping[int, tuple[Any, Upgrade]] | None = None,
    unversioned: int | None = None,
) -> UpgradableSerde[Any]:
    r"""Return a serde for a type that changed: rows of earlier versions are upgraded when read.

    >>> import msgspec
    >>> class Price(msgspec.Struct, frozen=True):
    ...     cents: int
    >>> class PriceOfOld(msgspec.Struct, frozen=True):
    ...     euros: float
    >>> prices = upgradable(
    ...     Price,
    ...     version=2,
    ...     earlier={1: (PriceOfOld, lambda old: Price(round(old.euros * 100)))},
    ...     unversioned=1,  # rows that were written before versions were used
    ... )
    >>> prices.serializer("prices", False)(Price(250))
    b'\x02{"cents":250}'
    >>> prices.deserializer("prices", False)(b'{"euros":2.5}')
    Price(cents=250)

    Args:
        value: the type or serde of the current version.
        version: its number, from 1 to 255; raise it whenever the type changes.
        earlier: each version that rows may still be of, with its type or serde and the function
            that converts a value of this version to the next version.
        unversioned: the version of rows without a version byte, which must be JSON.

    Raises:
        SerdeError: an invalid version number, a gap between the versions, a coroutine function,
            rows that cannot be distinguished from versioned ones; when a row is read, a version
            that is not declared, or an upgrade that raises.
    """
    earlier = earlier or {}
    serdes = {
        number: (serde_of(spec, what=f"version {number}"), upgrade)
        for number, (spec, upgrade) in earlier.items()
    }
    _check_numbers(version, set(earlier))
    for number, (_, upgrade) in serdes.items():
        _check_upgrade(number, upgrade)
    if unversioned is not None:
        _check_unversioned(unversioned, version, serdes)
    current = serde_of(value, what=f"version {version}")
    return UpgradableSerde(current, version, serdes, unversioned)


def _upgrading(read: Deserializer[Any], steps: list[Upgrade]) -> Deserializer[Any]:
    def deserialize(data: bytes) -> Any:
        value = read(data)
        for step in steps:
            try:
                value = step(value)
            except Exception as error:
                raise SerdeError(
                    f"the upgrade {_function_site(step)} raised {type(error).__name__}: {error}"
                ) from error
        return value

    return deserialize


def _check_numbers(version: int, earlier: set[int]) -> None:
    wrong = [n for n in (version, *earlier) if n not in range(1, 256)]
    if wrong:
        raise SerdeError(f"versions are numbers from 1 to 255; got {wrong}")
    if earlier and earlier != set(range(min(earlier), version)):
        raise SerdeError(
            f"versions {sorted(earlier)} do not lead to version {version}: an upgrade makes a value"
            " of the next version, so from the earliest on each one is needed"
        )


def _check_upgrade(number: int, upgrade: Any) -> None:
    if not callable(upgrade):
        raise SerdeError(f"the upgrade of version {number} is not a function: {upgrade!r}")
    if inspect.iscoroutinefunction(upgrade) or inspect.isgeneratorfunction(upgrade):
        raise SerdeError(
            f"the upgrade {_function_site(upgrade)} of version {number} is a coroutine or generator"
            " function; write a plain one that returns the new value"
        )


def _check_unversioned(
    unversioned: int, version: int, serdes: Mapping[int, tuple[Serde[Any], Upgrade]]
) -> None:
    if unversioned not in serdes:
        raise SerdeError(f"unversioned={unversioned} is none of the earlier versions {[*serdes]}")
    found = serdes[unversioned][0].describe()["format"]
    if found != "json":
        raise SerdeError(
            f"rows of format {found} without a version cannot be distinguished from rows that have"
            " one; only JSON can. Use a store of another name"
        )
    taken = sorted({version, *serdes} & _JSON_BEGINNINGS)
    if taken:
        raise SerdeError(
            f"versions {taken} are bytes that JSON may begin with, so rows without a version would"
            " be ambiguous: use other numbers, or leave out unversioned="
        )


def _function_site(function: Any) -> str:
    code = getattr(function, "__code__", None)
    name = getattr(function, "__qualname__", repr(function))
    return name if code is None else f"{name} at {code.co_filename}:{code.co_firstlineno}"
