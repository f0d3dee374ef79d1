"""Values in modules that functions of a topology read: settings, flags, class attributes.

A worker process imports the modules of the topology again, so a value that the main program set
after an import does not exist there. The values are collected in both processes and compared.

Collected are the plain values (numbers, strings, and lists, tuples, sets and dicts of them) that a
function of the user's reads by a name such as ``FACTOR``, ``settings.FACTOR`` or ``Rate.value``,
and those that the functions which it calls by such a name read. Not collected:

- values of the program that was started (``__main__``): its functions are sent with them,
- values of the standard library, and of installed packages that no operator has a function from,
- variables that the function assigns itself, results of calls, and properties.
"""

from __future__ import annotations

import dis
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from types import CodeType, FunctionType, ModuleType
from typing import Any, Final, NamedTuple, TypeAlias

from logstate.contracts.record_parts import shown
from logstate.topology.declaring.declaration_site import function_site, is_library_file
from logstate.topology.declaring.late_binding import functions_of, names_of

_FUNCTIONS_MAX: Final = 1_000
_ITEMS_MAX: Final = 1_000
_SCALARS: Final = (str, int, float, bool, bytes, complex, type(None))
_ABSENT: Final = object()
_INSTALLED: Final = tuple(
    sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")
)


class ModuleValue(NamedTuple):
    """A value that a function reads. ``digest`` is equal where the values are."""

    value: str
    digest: str
    read_by: str


#: by the name of the value, such as ``shop.settings.FACTOR``
ModuleValues: TypeAlias = "Mapping[str, ModuleValue]"


def module_values(declared: Iterable[object]) -> ModuleValues:
    """The values that the functions of a topology read from modules that a worker process imports.

    ``declared``: the functions and serdes of its operators.
    """
    found: dict[str, ModuleValue] = {}
    pending = list(dict.fromkeys(one for given in declared for one in functions_of(given)))
    packages = frozenset(_package(function.__module__) for function in pending)
    seen = set(pending)
    while pending and len(seen) < _FUNCTIONS_MAX:
        function = pending.pop()
        for path in _names_read(function.__code__):
            module, name, value = _resolved(function.__globals__, path)
            if isinstance(value, FunctionType):
                if value not in seen and _is_imported(value.__module__, packages):
                    seen.add(value)
                    pending.append(value)
            elif name not in found and _is_imported(module, packages):
                digest = _digest(value)
                if digest is not None:
                    found[name] = ModuleValue(shown(value), digest, function_site(function))
    return found


def changed_values(main: ModuleValues, here: ModuleValues) -> Iterator[str]:
    """A sentence for each value that is another one in the main process than in this one."""
    for name, value in main.items():
        found = here.get(name)
        if found is not None and found.digest != value.digest:
            yield (
                f"{value.read_by} reads {name}, which is {value.value} in the main process and"
                f" {found.value} in the worker processes"
            )


@lru_cache(maxsize=10_000)
def _names_read(code: CodeType) -> tuple[tuple[str, ...], ...]:
    """The globals that code reads, with the attributes that it reads of them."""
    found: dict[tuple[str, ...], None] = {}
    path: tuple[str, ...] = ()
    for instruction in dis.get_instructions(code):
        if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            path = (instruction.argval,)
        elif instruction.opname in ("LOAD_ATTR", "LOAD_METHOD") and path:
            path = (*path, instruction.argval)
        elif instruction.opname not in ("CACHE", "EXTENDED_ARG"):
            path = ()
        if path:
            found[path] = None
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            found |= dict.fromkeys(_names_read(inner))
    assigned = names_of(code).assigned
    return tuple(one for one in found if one[0] not in assigned)


def _resolved(scope: Mapping[str, Any], path: tuple[str, ...]) -> tuple[str, str, object]:
    """The module that defines a path, its full name, and its value."""
    module, prefix, value = str(scope.get("__name__")), "", scope.get(path[0], _ABSENT)
    for attribute in path[1:]:
        if isinstance(value, ModuleType):
            module, prefix = value.__name__, ""
        elif isinstance(value, type):
            module, prefix = value.__module__, f"{value.__qualname__}."
        else:
            return module, "", _ABSENT
        value = _attribute(value, attribute)
    return module, f"{module}.{prefix}{path[-1]}", value


def _attribute(value: ModuleType | type, name: str) -> object:
    """An attribute, without calling code of a module's ``__getattr__`` or of a descriptor."""
    scopes = [value] if isinstance(value, ModuleType) else value.__mro__
    return next((vars(scope)[name] for scope in scopes if name in vars(scope)), _ABSENT)


def _is_imported(module: str | None, packages: frozenset[str]) -> bool:
    """Whether a worker process imports the user's module, and so has its own values of it."""
    if module is None or module == "__main__":
        return False
    file = getattr(sys.modules.get(module), "__file__", None)
    if file is None or is_library_file(file):
        return False
    return _package(module) in packages or not file.startswith(_INSTALLED)


def _package(module: str | None) -> str:
    return (module or "").partition(".")[0]


def _digest(value: object) -> str | None:
    """A text that equal plain values share; None of any other value."""
    if type(value) in _SCALARS:
        return f"{type(value).__name__} {value!r}"
    if isinstance(value, list | tuple | set | frozenset | dict) and len(value) <= _ITEMS_MAX:
        items = value.items() if isinstance(value, dict) else value
        digests = [_digest(item) for item in items]
        if None not in digests:
            texts = [text for text in digests if text is not None]
            ordered = sorted(texts) if isinstance(value, set | frozenset | dict) else texts
            return f"{type(value).__name__} [{', '.join(ordered)}]"
    return None
