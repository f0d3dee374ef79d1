"""Check that an initializer returns new objects: two keys must not share a mutable object.

``lambda: EMPTY``, a default argument and a class attribute return the same object each time. An
aggregator that changes it in place would count the records of one key for the next. If an object,
or a part of it, is returned twice, it is checked at each call, and an error is raised when it has
changed.

Only mutable values are checked, and only until the second value shares nothing with the first.
Results are kept per function, because the tasks of a process share what a function returns.
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
        #: the mutable parts of the first one, kept alive, and their text at that time
        self._first: list[tuple[Any, str]] | None = None

    def bound(self, initializer: Callable[[], Any]) -> Callable[[], Any]:
        """Return the initializer, with the check."""

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
                raise _shared_object_error(value, part, initializer)


#: for each function that returns mutable values
_SEEN: WeakKeyDictionary[Callable[[], Any], InitialValues] = WeakKeyDictionary()


def new_values(initializer: Callable[[], Any], store: StoreSpec) -> Callable[[], Any]:
    """Return an initializer for rows of ``store``; unchecked if its values are immutable."""
    if store.value.immutable:
        return initializer
    try:
        seen = _SEEN.setdefault(initializer, InitialValues())
    except TypeError:  # neither hashable nor weakly referenced
        seen = InitialValues()
    return seen.bound(initializer)


def _mutable_parts(value: Any) -> Iterator[Any]:
    """Yield each object of a value that may be changed, including the value."""
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
    """Return the content of an object as text, to be compared and never displayed."""
    try:
        return f"{part!r} {getattr(part, '__dict__', '')!r}"
    except Exception:  # noqa: BLE001  a user's __repr__ failed: changes cannot be detected then
        return ""


def _shared_object_error(value: Any, part: Any, initializer: Callable[[], Any]) -> ResultError:
    what = f"the same {type(part).__name__}"
    if part is not value:
        what = f"a {type(value).__name__} with {what} in it"
    return ResultError(
        f"the initializer {function_site(initializer)} returned {what} for two keys or windows, and"
        " it was changed in between: each would contain data of the other. Create a new object in"
        " every call, such as `list` or `lambda: Cart(items=[])`; a default argument, a class"
        " attribute and a global are created only once"
    )
