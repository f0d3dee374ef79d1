"""The first aggregates of keys, which must be new ones: what two keys share, both change.

``lambda: EMPTY``, a default argument and a class attribute give one object again and again. An
aggregator that changes it in place counts the records of one key for the next. Where an object, or
a part of it, is returned a second time it is looked at each time, and told when it has changed.

Only mutable values are looked at, and only until the second one turns out to share nothing with the
first. What was seen is kept by function, because the tasks of a process share what a function does.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from weakref import WeakKeyDictionary

from logstate.contracts.stores import StoreSpec
from logstate.topology.declaring.declaration_site import function_site
from logstate.topology.declaring.plain_functions import ResultError

_SCALARS = (str, bytes, int, float, complex, type(None), type)
_MOST_PARTS = 1_000


class InitialValues:
    """The results of one initializer."""

    def __init__(self) -> None:
        self._are_new = False
        #: the mutable parts of the first one, kept alive, and what they were
        self._first: list[tuple[Any, str]] | None = None

    def bound(self, initializer: Callable[[], Any]) -> Callable[[], Any]:
        """The initializer, looked at."""

        def start() -> Any:
            value = initializer()
            if not self._are_new:
                self._look_at(value, initializer)
            return value

        return start

    def _look_at(self, value: Any, initializer: Callable[[], Any]) -> None:
        if self._first is None:
            self._first = [(part, _as_text(part)) for part in _mutable_parts(value)]
            return
        found = {id(part) for part in _mutable_parts(value)}
        shared = [(part, before) for part, before in self._first if id(part) in found]
        if not shared:
            self._are_new = True
            self._first = []
        for part, before in shared:
            if _as_text(part) != before:
                raise _told(value, part, initializer)


#: of each function that makes mutable values
_SEEN: WeakKeyDictionary[Callable[[], Any], InitialValues] = WeakKeyDictionary()


def new_values(initializer: Callable[[], Any], store: StoreSpec) -> Callable[[], Any]:
    """An initializer for the rows of ``store``; the same one if its values cannot be changed."""
    if store.value.immutable:
        return initializer
    try:
        seen = _SEEN.setdefault(initializer, InitialValues())
    except TypeError:  # neither hashable nor weakly referenced
        seen = InitialValues()
    return seen.bound(initializer)


def _mutable_parts(value: Any) -> Iterator[Any]:
    """Each object of a value that may be changed, the value too."""
    waiting, seen = [value], set[int]()
    while waiting and len(seen) < _MOST_PARTS:
        part = waiting.pop()
        if isinstance(part, _SCALARS) or id(part) in seen:
            continue
        seen.add(id(part))
        if not isinstance(part, tuple | frozenset):
            yield part
        if isinstance(part, Mapping):
            waiting += part.values()
        elif isinstance(part, list | tuple | set | frozenset | deque):
            waiting += part
        else:
            waiting += getattr(part, "__dict__", {}).values()
            waiting += (getattr(part, name, None) for name in getattr(type(part), "__slots__", ()))
            fields = getattr(type(part), "__struct_fields__", ())
            waiting += (getattr(part, name, None) for name in fields)


def _as_text(part: Any) -> str:
    """What an object holds, to be compared and never shown."""
    try:
        return f"{part!r} {getattr(part, '__dict__', '')!r}"
    except Exception:  # noqa: BLE001  a user's __repr__: nothing can be told of it then
        return ""


def _told(value: Any, part: Any, initializer: Callable[[], Any]) -> ResultError:
    what = f"the same {type(part).__name__}"
    if part is not value:
        what = f"a {type(value).__name__} with {what} in it"
    return ResultError(
        f"the initializer {function_site(initializer)} returned {what} for two keys or windows, and"
        " it was changed in between: each would hold what belongs to the other. Make a new one at"
        " every call, such as `list` or `lambda: Cart(items=[])`; a default argument, a class"
        " attribute and a global are made once"
    )
