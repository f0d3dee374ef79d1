"""Callbacks have to be plain functions: what they return is the result, there and then.

A coroutine function does nothing when it is called, and a generator function yields nothing until
it is iterated: as a predicate both are always true, as an action neither does anything. A
function that never returns a value makes None of every record. All of these are refused where the
topology is declared, as far as they can be detected: through partials, bound methods, callable
objects and decorators that keep ``__wrapped__``. The others raise :class:`ResultError`
at run time.
"""

from __future__ import annotations

import dis
import functools
import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import is_dataclass
from types import (
    CoroutineType,
    FunctionType,
    GeneratorType,
    ModuleType,
    NoneType,
    UnionType,
)
from typing import Any, Union, get_args, get_origin, get_type_hints
from weakref import WeakValueDictionary

from logstate.contracts.errors import TopologyError
from logstate.contracts.record_parts import shown
from logstate.topology.declaring.declaration_site import (
    declaration_error,
    function_site,
)

_ASYNC = (
    "Nothing here waits for it, so it would never run, and its record would count as processed."
    " Write a plain function, or give it to map_values_async(), which awaits what it returns"
)
#: what the code of coroutine functions and of all generators says of itself
_UNFINISHED = inspect.CO_COROUTINE | inspect.CO_GENERATOR | inspect.CO_ASYNC_GENERATOR


#: processors and transformers that tasks have, by identity
_TAKEN: WeakValueDictionary[int, Any] = WeakValueDictionary()


class ResultError(TypeError):
    """A callback returned what cannot be a result: something to be awaited or iterated."""


def check_plain(function: Callable[..., Any], what: str, *, yields: bool = False) -> None:
    """Refuse functions whose call does nothing. ``yields``: an iterable is the wanted result."""
    if _is_surely_plain(function):
        return  # nearly always, and it is asked at every start of every task
    for layer in _unwrapped(function):
        if inspect.iscoroutinefunction(layer):
            raise _error(what, function, "is a coroutine function (async def)", _ASYNC)
        if inspect.isasyncgenfunction(layer):
            raise _error(what, function, "is an async generator function", _ASYNC)
        if inspect.isgeneratorfunction(layer) and not yields:
            raise _error(
                what,
                function,
                "is a generator function (it has a yield)",
                "Calling it runs nothing of it. Return the value; where a record becomes several,"
                " use flat_map(), flat_map_values() or a processor that forwards each",
            )


def check_returns(function: Callable[..., Any], what: str) -> None:
    """Refuse a Python function that returns None whatever happens, where a value is wanted."""
    for layer in _unwrapped(function):
        if not inspect.isfunction(layer) or inspect.isgeneratorfunction(layer):
            continue
        if _returns_nothing(layer) and not _is_none_meant(layer):
            raise _error(
                what,
                function,
                "never returns a value",
                "Was `return` forgotten? Where None is meant for every record, say so:"
                " `return None` or `lambda ...: None`",
            )


def check_result_type(
    function: Callable[..., Any], what: str, *, key: object = None, value: object = None
) -> None:
    """Refuse a function whose annotated result is of another type than the declared one.

    Only types that exclude each other for certain are refused: two scalars, or a scalar and a
    container, struct or dataclass. The declared ``key`` or ``value`` may also be a serde; functions
    without annotations are accepted.
    """
    argument, declared = ("key=", key) if key is not None else ("value=", value)
    if declared is None or not _excludes(declared, found := _annotated_result(function)):
        return
    raise declaration_error(
        f"The {what} {function_site(function)} returns {getattr(found, '__qualname__', found)}"
        f" according to its annotation, and {argument}{getattr(declared, '__qualname__', declared)}"
        " declares another type. Correct one of them: records that do not fit the declared type"
        " cannot be written."
    )


def _annotated_result(function: Callable[..., Any]) -> object:
    """Return the type of the result; None if it is unknown."""
    if isinstance(function, type):
        return function
    try:
        return get_type_hints(inspect.unwrap(function)).get("return")
    except Exception:  # noqa: BLE001  annotations may name what does not exist at run time
        return None


def _excludes(declared: object, found: object) -> bool:
    declared = get_origin(declared) or declared
    if get_origin(found) in (Union, UnionType):
        return all(_excludes(declared, one) for one in get_args(found) if one is not NoneType)
    found = get_origin(found) or found
    if not (isinstance(declared, type) and isinstance(found, type)):
        return False
    kinds = (_is_scalar(declared), _is_scalar(found))
    if not any(kinds) or (not all(kinds) and not any(map(_is_compound, (declared, found)))):
        return False
    return not (
        issubclass(found, declared)
        or issubclass(declared, found)
        or (declared is float and issubclass(found, int))
    )


def _is_scalar(kind: type) -> bool:
    return issubclass(kind, str | int | float | bytes)


def _is_compound(kind: type) -> bool:
    is_struct = is_dataclass(kind) or hasattr(kind, "__struct_fields__")
    return is_struct or issubclass(kind, list | dict | tuple | set)


def check_methods(processor: object, what: str) -> None:
    """Refuse a processor or transformer, or its class, with a method whose call does nothing."""
    for name in ("init", "process", "transform", "close"):
        method = getattr(processor, name, None)
        if method is not None:
            check_plain(method, f"{name}() of {what}")


def made_by(supplier: Callable[[], Any], what: str, methods: Sequence[str]) -> Any:
    """Return a new processor of a supplier, with these methods, that no other task uses.

    Raises ResultError. ``end`` closes it.
    """
    made = supplier()
    if isinstance(made, type) or not all(callable(getattr(made, name, None)) for name in methods):
        refuse_unfinished(made, supplier, "supplier")
        is_class = isinstance(made, type)
        found = f"the class {made.__qualname__}" if is_class else shown(made)
        remedy = "an object of it" if is_class else f"a new {what}"
        raise ResultError(
            f"the supplier {function_site(supplier)} returned {found}, not a {what}: it needs"
            f" {', '.join(f'{name}()' for name in methods)}. Return {remedy}, or give the class as"
            " the supplier"
        )
    check_methods(made, type(made).__qualname__)
    if _TAKEN.get(id(made)) is made:
        raise ResultError(
            f"the supplier {function_site(supplier)} returned the same {type(made).__qualname__}"
            f" twice, and its first user still has it: every task needs a separate {what}, since"
            " each has its own context and stores. Make a new one at every call, or give the class"
        )
    with suppress(TypeError):  # reuse cannot be detected for a class with slots
        _TAKEN[id(made)] = made
    return made


def begin(made: Any, context: Any, what: str) -> None:
    """Call ``init`` of what ``made_by`` gave; raises ResultError where that ran nothing."""
    refuse_unfinished(made.init(context), made.init, f"init() of the {what}")


def end(made: Any, what: str) -> None:
    """Call its ``close``, likewise; it may be used again."""
    _TAKEN.pop(id(made), None)
    refuse_unfinished(made.close(), made.close, f"close() of the {what}")


def is_true(result: object, function: Callable[..., Any], what: str) -> bool:
    """The truth of a predicate's result that is neither True nor False.

    Raises ResultError for results that are always true, such as a function that was not
    called, and for results without a single truth, such as an array.
    """
    refuse_unfinished(result, function, what)
    if (why := _no_truth(result)) is None:
        try:
            return bool(result)
        except Exception as error:
            why = f"whose truth cannot be determined ({type(error).__name__}: {error})"
            raise _not_bool(result, function, what, why) from error
    raise _not_bool(result, function, what, why)


def _no_truth(result: object) -> str | None:
    """Why a result decides nothing; None where it does."""
    kind = type(result)
    if isinstance(result, type):
        return "a class, which is true for every record. Return what an object of it says"
    if result is NotImplemented or result is ...:
        return "which is true for every record. Return True or False"
    if hasattr(kind, "__array__") and getattr(result, "shape", None) != ():
        return "an array: one truth for each of its elements. Return .all() or .any() of it"
    if hasattr(kind, "__bool__") or hasattr(kind, "__len__"):
        return None
    if callable(result):
        return "which is true for every record. Was the call forgotten? Write () behind it"
    if isinstance(result, Iterator):
        return "an iterator, which is true for every record. Return any(...) or all(...) of it"
    if isinstance(result, ModuleType):
        return "a module, which is true for every record"
    return None


def _not_bool(result: object, function: Callable[..., Any], what: str, why: str) -> ResultError:
    site = function_site(getattr(function, "by_value", function))
    return ResultError(
        f"the {what} {site} returned {shown(result)} ({type(result).__name__}), {why}"
    )


def refuse_unfinished(result: object, function: Callable[..., Any], what: str) -> None:
    """Raise ResultError for a result that is not awaited or iterated: none of its code has run."""
    kind = type(result)
    if kind is GeneratorType or hasattr(kind, "__await__") or hasattr(kind, "__anext__"):
        if isinstance(result, CoroutineType | GeneratorType):
            result.close()
        function = getattr(function, "by_value", function)
        raise ResultError(
            f"the {what} {function_site(function)} returned a {kind.__name__}, of which nothing has"
            f" run. {_ASYNC}"
        )


def check_awaited(function: Callable[..., Any], what: str) -> None:
    """Refuse functions whose call returns nothing that can be awaited."""
    for layer in _unwrapped(function):
        for is_kind, kind in (
            (inspect.isasyncgenfunction, "an async generator function"),
            (inspect.isgeneratorfunction, "a generator function"),
        ):
            if is_kind(layer):
                found = f"is {kind} (it has a yield)"
                raise _error(what, function, found, "Return one value for each record")


def not_awaitable(result: object, function: Callable[..., Any], what: str) -> ResultError:
    """Return the error of a function whose result has to be awaited and cannot be."""
    site = function_site(getattr(function, "by_value", function))
    return ResultError(
        f"the function {site} of {what} returned {shown(result)} ({type(result).__name__}), which"
        " cannot be awaited. Declare the function with async def, or use map_values()"
    )


def _is_surely_plain(function: Any) -> bool:
    """Whether it is a plain function; False proves nothing."""
    plain = getattr(function, "__func__", function)
    return (
        type(plain) is FunctionType
        and not plain.__dict__  # what wraps another, or is marked as a coroutine, says so there
        and not plain.__code__.co_flags & _UNFINISHED
    )


def _unwrapped(function: Any) -> Iterator[Any]:
    """The callable, and everything it stands for."""
    seen: set[int] = set()
    while function is not None and id(function) not in seen:
        seen.add(id(function))
        yield function
        if isinstance(function, functools.partial):
            function = function.func
        elif inspect.ismethod(function):
            function = function.__func__
        elif hasattr(function, "__wrapped__"):
            function = function.__wrapped__
        elif not inspect.isroutine(function) and not inspect.isclass(function):
            function = type(function).__call__
        else:
            return


def _returns_nothing(function: Any) -> bool:
    """Whether every return of its bytecode returns the constant None, and there is one."""
    returned = []
    before: Any = object()
    for instruction in dis.get_instructions(function):
        if instruction.opname == "RETURN_CONST":
            returned.append(instruction.argval)
        elif instruction.opname == "RETURN_VALUE":
            # Where other code jumps to a return, the value comes from there.
            returned.append(... if instruction.is_jump_target else before)
        before = instruction.argval if instruction.opname == "LOAD_CONST" else ...
    return bool(returned) and all(value is None for value in returned)


def _is_none_meant(function: Any) -> bool:
    """Whether None is intended: in a lambda, or with ``return None`` in the source."""
    if function.__name__ == "<lambda>":
        return True
    try:
        source = inspect.getsource(function)
    except (OSError, TypeError):
        return True  # the source is unknown, so nothing is refused
    return "return None" in source


def _error(what: str, function: Callable[..., Any], found: str, remedy: str) -> TopologyError:
    return declaration_error(f"The {what} {function_site(function)} {found}. {remedy}.")
