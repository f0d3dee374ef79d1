"""Variables that change between the declaration of a function and ``build()``.

A function reads a variable of the scope around it when it runs, not when it is made. Functions that
a loop makes all read the last value of the loop's variable: three filters for three countries then
let pass the records of one. So the values are noted where a function is declared, and compared when
the topology is built; one that became another stops the build.

Which variables count:

- the variables of enclosing functions that the function, or one that it calls, reads;
- the globals that it reads, if code that was running at the declaration assigns them afterwards: a
  loop of the module around the declaration, or a later line. A global that another function sets,
  such as a setting that ``main()`` reads from the command line, is meant to be read late.

Which do not: a variable without a value at the declaration, as of a function that is defined
further down or that calls itself; one that the function assigns itself (a counter); a mutable
object that is still the same object; a value that was replaced by an equal one.
"""

from __future__ import annotations

import dis
import functools
import inspect
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import count
from types import CellType, CodeType, FrameType, FunctionType, MethodType
from typing import Any, Final, NamedTuple
from weakref import WeakKeyDictionary

from logstate.contracts.errors import TopologyError
from logstate.contracts.record_parts import shown
from logstate.contracts.serde import Serde
from logstate.topology.declaring.declaration_site import (
    declaration_site,
    function_site,
    is_library_file,
)

_FUNCTIONS_MAX: Final = 200
_NOTES_MAX: Final = 1_000
_SCALARS: Final = frozenset({str, int, float, bool, bytes, tuple, type(None)})
_ABSENT: Final = object()
#: where classes above those of users come from
_NOT_USERS: Final = frozenset({"abc", "builtins", "logstate", "typing"})
_NUMBERS = count(1)


class _Variable(NamedTuple):
    name: str
    #: the cell, or the globals of the function's module
    scope: CellType | dict[str, Any]
    value: Any

    def now(self) -> Any:
        """Its value at this moment."""
        return _value(self.scope, self.name)


class _DeclaredFunction(NamedTuple):
    number: int
    what: str
    declared_at: str
    variables: tuple[_Variable, ...]


#: by the function that reads them
_NOTES: WeakKeyDictionary[FunctionType, list[_DeclaredFunction]] = WeakKeyDictionary()


def next_declaration() -> int:
    """A number below those of everything that is declared from here on."""
    return next(_NUMBERS)


def note_variables(declared: object, what: str) -> None:
    """Record the current values of variables that a callable, class or serde reads."""
    site: str | None = None
    for function in functions_of(declared):
        variables = tuple(_variables(function))
        if variables:
            site = site or declaration_site()
            notes = _NOTES.setdefault(function, [])
            notes.append(_DeclaredFunction(next(_NUMBERS), what, site, variables))
            del notes[:-_NOTES_MAX]


def refuse_late_binding(declared: Iterable[object], since: int) -> None:
    """Raise TopologyError for the first variable that has another value than it was declared with.

    ``declared``: what the operators were given. ``since``: what :func:`next_declaration` said when
    the builder was made.
    """
    for function in dict.fromkeys(one for given in declared for one in functions_of(given)):
        for note in _NOTES.pop(function, ()):
            if note.number > since:
                for variable in note.variables:
                    _check(function, note, variable)


def _check(function: FunctionType, note: _DeclaredFunction, variable: _Variable) -> None:
    now = variable.now()
    if now is _ABSENT or now is variable.value or _is_equal(now, variable.value):
        return
    name = variable.name
    raise TopologyError(
        f"The {note.what} {function_site(function)} reads the variable {name!r}, which was"
        f" {shown(variable.value)} when the {note.what} was declared and is {shown(now)} at"
        " build(): a function reads a variable when it runs, so every function that a loop makes"
        f" uses the last value. Bind it: `{_with_default_argument(function, name)}`, or make the"
        f" function in a function that takes {name!r} as an argument.",
        declared_at=note.declared_at,
    )


def _is_equal(now: Any, then: Any) -> bool:
    return type(now) is type(then) and type(now) in _SCALARS and bool(now == then)


def _with_default_argument(function: FunctionType, name: str) -> str:
    """How the function is written with its variable bound."""
    code = function.__code__
    arguments = [*code.co_varnames[: code.co_argcount], f"{name}={name}"]
    if function.__name__ == "<lambda>":
        return f"lambda {', '.join(arguments)}: …"
    return f"def {function.__name__}({', '.join(arguments)}): …"


# --- the functions of declared objects ------------------------------------------------------------


def functions_of(declared: object) -> Iterator[FunctionType]:
    """The user's functions that run where this is called or used, itself first."""
    pending, seen = [declared], set[int]()
    while pending and len(seen) < _FUNCTIONS_MAX:
        one = pending.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        if isinstance(one, FunctionType):
            is_users = not is_library_file(one.__code__.co_filename)
            if is_users:
                yield one
            pending.extend(_called_by(one, is_users=is_users))
        else:
            pending.extend(_parts(one))


def _called_by(function: FunctionType, *, is_users: bool) -> Iterator[object]:
    found = [cell.cell_contents for cell in function.__closure__ or () if _has_value(cell)]
    found += [getattr(function, "by_value", None), getattr(function, "__wrapped__", None)]
    found += function.__defaults__ or ()
    if is_users:
        scope = function.__globals__
        called = [scope.get(name) for name in names_of(function.__code__).read]
        found += [one for one in called if getattr(one, "__globals__", None) is scope]
        return (one for one in found if isinstance(one, FunctionType | functools.partial))
    return (one for one in found if callable(one))


def _parts(one: object) -> Iterator[object]:
    if isinstance(one, functools.partial):
        yield one.func
        yield from filter(_is_function, (*one.args, *one.keywords.values()))
    elif isinstance(one, MethodType):
        yield one.__func__
        yield from _attributes(one.__self__)
    elif inspect.isclass(one):
        yield from _methods(one)
    elif not inspect.isroutine(one) and one is not None:
        yield from _methods(type(one))
        yield from _attributes(one)


def _methods(cls: type) -> Iterator[object]:
    """Those that the user's classes define; of a serde the library has wrapped some."""
    for above in cls.__mro__:
        if (above.__module__ or "").partition(".")[0] not in _NOT_USERS:
            for one in vars(above).values():
                function = getattr(one, "__func__", one)  # of a static method or a class method
                if isinstance(function, FunctionType):
                    yield function


def _attributes(one: object) -> Iterator[object]:
    yield from filter(_is_function, getattr(one, "__dict__", {}).values())


def _is_function(one: object) -> bool:
    return isinstance(one, FunctionType | functools.partial | MethodType | Serde)


# --- the variables that a function reads ----------------------------------------------------------


class _Names(NamedTuple):
    #: globals that it, or a function inside it, reads
    read: frozenset[str]
    #: variables around it, global or not, that it assigns
    assigned: frozenset[str]


@lru_cache(maxsize=10_000)
def names_of(code: CodeType) -> _Names:
    """The globals that code reads and the variables that it assigns, with its inner functions."""
    read, assigned = set[str](), set[str]()
    for instruction in dis.get_instructions(code):
        if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            read.add(instruction.argval)
        elif instruction.opname in ("STORE_GLOBAL", "STORE_DEREF", "DELETE_GLOBAL"):
            assigned.add(instruction.argval)
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            names = names_of(inner)
            read |= names.read
            assigned |= names.assigned
    return _Names(frozenset(read), frozenset(assigned))


def _variables(function: FunctionType) -> Iterator[_Variable]:
    code = function.__code__
    names = names_of(code)
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        if name not in names.assigned and name != "__class__" and _has_value(cell):
            yield _Variable(name, cell, cell.cell_contents)
    scope = function.__globals__
    for name in sorted(names.read - names.assigned):
        if name in scope and _is_assigned_later(name, scope):
            yield _Variable(name, scope, scope[name])


def _is_assigned_later(name: str, scope: dict[str, Any]) -> bool:
    """Whether running code of this module assigns the global when it continues."""
    frame: FrameType | None = inspect.currentframe()
    while frame is not None:
        if frame.f_globals is scope:
            position, assignments = frame.f_lasti, _assignments(frame.f_code)
            for offset in assignments.stores.get(name, ()):
                if offset > position or any(
                    first <= position <= last and first <= offset <= last
                    for first, last in assignments.loops
                ):
                    return True
        frame = frame.f_back
    return False


class _Assignments(NamedTuple):
    """Where code assigns globals, and where its loops begin and end, as offsets."""

    stores: dict[str, list[int]]
    loops: list[tuple[int, int]]


@lru_cache(maxsize=1_000)
def _assignments(code: CodeType) -> _Assignments:
    stores: dict[str, list[int]] = {}
    loops: list[tuple[int, int]] = []
    is_module = not code.co_flags & inspect.CO_NEWLOCALS
    assigning = ("STORE_GLOBAL", "STORE_NAME") if is_module else ("STORE_GLOBAL",)
    for instruction in dis.get_instructions(code):
        if instruction.opname in assigning:
            stores.setdefault(instruction.argval, []).append(instruction.offset)
        elif "JUMP_BACKWARD" in instruction.opname:
            loops.append((instruction.argval, instruction.offset))
    return _Assignments(stores, loops)


def _has_value(cell: CellType) -> bool:
    return _value(cell, "") is not _ABSENT


def _value(scope: CellType | dict[str, Any], name: str) -> Any:
    if isinstance(scope, dict):
        return scope.get(name, _ABSENT)
    try:
        return scope.cell_contents
    except ValueError:  # it has none yet, or none any more
        return _ABSENT
