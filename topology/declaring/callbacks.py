"""The signatures that callbacks may have, decided once while the topology is declared.

==================  =======================================================
callback            signatures, distinguished by the number of required parameters
==================  =======================================================
predicate, mapper,  ``(value)`` or ``(key, value)``
action
reducer             ``(old, new)``
aggregator          ``(aggregate, value)`` or ``(key, value, aggregate)``
joiner              ``(left, right)`` or ``(key, left, right)``
session merger      ``(a, b)`` or ``(key, a, b)``
initializer         ``()``
topic chooser       ``(key, value)`` or ``(key, value, context)``
==================  =======================================================

A callable without a readable signature (``int``, ``str``, some C functions) counts as taking one
parameter if that is a shape; elsewhere the error asks for a lambda. ``*args`` is refused: it
would fit every shape and so mean none. Operators get the longest shape only. Where an adapter was
needed it keeps the original as ``by_value``, so that a hot closure can call it directly.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from types import FunctionType
from typing import Any

from logstate.contracts.errors import TopologyError
from logstate.contracts.setting_rules import shown
from logstate.topology.declaring.declaration_site import (
    declaration_error,
    function_site,
)
from logstate.topology.declaring.late_binding import note_variables
from logstate.topology.declaring.plain_functions import (
    check_awaited,
    check_methods,
    check_plain,
    check_result_type,
    check_returns,
)

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def mapper(
    function: Callable[..., Any],
    what: str = "mapper",
    *,
    yields: bool = False,
    key: object = None,
    value: object = None,
) -> Callable[[Any, Any], Any]:
    """A ``(key, value)`` callable of a mapper, predicate or action.

    ``yields``: the result is any iterable, so a generator function will do. ``key`` or ``value`` is
    the declared type of the result, with which its annotation is compared.
    """
    check_plain(function, what, yields=yields)
    note_variables(function, what)
    if what != "action":
        check_returns(function, what)
    check_result_type(function, what, key=key, value=value)
    return _by_key_and_value(function, what)


def async_mapper(function: Callable[..., Any], *, value: object = None) -> Callable[..., Any]:
    """A ``(key, value)`` callable of a mapper whose result is awaited."""
    check_awaited(function, "mapper")
    note_variables(function, "mapper")
    check_returns(function, "mapper")
    check_result_type(function, "mapper", value=value)
    return _by_key_and_value(function, "mapper")


def _by_key_and_value(function: Callable[..., Any], what: str) -> Callable[[Any, Any], Any]:
    if _parameter_count(function, what, ("(value)", "(key, value)"), (1, 2)) == 2:
        return function

    def by_key_and_value(_key: Any, value: Any) -> Any:
        return function(value)

    by_key_and_value.by_value = function  # type: ignore[attr-defined]
    return by_key_and_value


def predicate(function: Callable[..., Any]) -> Callable[[Any, Any], Any]:
    """A ``(key, value)`` callable of a predicate."""
    return mapper(function, "predicate")


def action(function: Callable[..., Any]) -> Callable[[Any, Any], Any]:
    """A ``(key, value)`` callable of a foreach or peek action."""
    return mapper(function, "action")


def reducer(function: Callable[..., Any], what: str = "reducer") -> Callable[[Any, Any], Any]:
    """A ``(old, new)`` callable; ``max`` and ``min`` too, whose signatures cannot be read."""
    _check_result(function, what)
    if function is not max and function is not min:
        _parameter_count(function, what, ("(old, new)",), (2,))
    return function


def aggregator(
    function: Callable[..., Any], what: str = "aggregator"
) -> Callable[[Any, Any, Any], Any]:
    """A ``(key, value, aggregate)`` callable. Mind the order: the short shape starts with the
    aggregate, as ``functools.reduce`` does; the long one is Kafka Streams' own.
    """
    _check_result(function, what)
    if (
        _parameter_count(function, what, ("(aggregate, value)", "(key, value, aggregate)"), (2, 3))
        == 3
    ):
        return function

    def with_key(_key: Any, value: Any, aggregate: Any) -> Any:
        return function(aggregate, value)

    with_key.by_value = function  # type: ignore[attr-defined]
    return with_key


def joiner(
    function: Callable[..., Any], what: str = "joiner", *, value: object = None
) -> Callable[[Any, Any, Any], Any]:
    """A ``(key, left, right)`` callable; ``value`` is the declared type of its result."""
    _check_result(function, what)
    check_result_type(function, what, value=value)
    if _parameter_count(function, what, ("(left, right)", "(key, left, right)"), (2, 3)) == 3:
        return function

    def with_key(_key: Any, left: Any, right: Any) -> Any:
        return function(left, right)

    with_key.by_value = function  # type: ignore[attr-defined]
    return with_key


def merger(function: Callable[..., Any]) -> Callable[[Any, Any, Any], Any]:
    """A ``(key, a, b)`` callable that merges two sessions' aggregates."""
    _check_result(function, "session merger")
    if _parameter_count(function, "session merger", ("(a, b)", "(key, a, b)"), (2, 3)) == 3:
        return function

    def with_key(_key: Any, a: Any, b: Any) -> Any:
        return function(a, b)

    return with_key


def initializer(function: Callable[..., Any]) -> Callable[[], Any]:
    """A callable without parameters: ``int``, ``list``, ``lambda: 0``, a class."""
    _check_callable("initializer", function, ("()",))
    check_plain(function, "initializer")
    note_variables(function, "initializer")
    if _required(function):
        raise _error("initializer", function, "it has required parameters", ("()",))
    return function


def supplier(function: Callable[..., Any]) -> Callable[[], Any]:
    """A callable that makes a new processor per task: a class or a function without parameters."""
    if not callable(function):
        raise declaration_error(
            f"The processor supplier {function!r} is not callable. Every task needs a processor of"
            " its own, so give the class (or a function that makes one), not an object."
        )
    check_plain(function, "supplier")
    note_variables(function, "processor supplier")
    if inspect.isclass(function):
        check_methods(function, function.__qualname__)
    if names := _required(function):
        made = getattr(function, "__name__", "make")
        raise declaration_error(
            f"The processor supplier {function_site(function)} is called without arguments, once"
            f" for each task, and needs {', '.join(names)}. Give lambda: {made}(...), with what it"
            " needs."
        )
    return function


def of_shape(function: Callable[..., Any], what: str, shape: str, count: int) -> None:
    """Refuse a callable that cannot be called with exactly ``count`` arguments."""
    _check_callable(what, function, (shape,))
    _check_result(function, what)
    if (why := _call_error(function, count)) is not None:
        raise _error(what, function, str(why), (shape,)) from why


def signature_problems(function: object, what: str, shape: str, count: int) -> Iterator[str]:
    """Return the problems of a function among settings that is called with ``count`` arguments.

    Objects that are not functions, that do nothing when called, or with other parameters.
    """
    if not callable(function):
        yield f"{what} must be a function of {shape}; got {shown(function)}"
        return
    try:
        check_plain(function, what)
    except TopologyError as error:
        yield str(error)
        return
    if (why := _call_error(function, count)) is not None:
        yield (
            f"{what} {function_site(function)} is called with {shape}, and does not take that:"
            f" {why}"
        )


def topic_chooser(function: Callable[..., Any]) -> bool:
    """Whether a chooser of topics is given the record's context: wherever it can take it."""
    shapes = ("(key, value)", "(key, value, context)")
    _check_callable("topic chooser", function, shapes)
    _check_result(function, "topic chooser")
    if _call_error(function, 3) is None:
        return True
    if _call_error(function, 2) is None:
        return False
    raise _error("topic chooser", function, f"it takes {inspect.signature(function)}", shapes)


def partitioner(function: Callable[..., Any] | None) -> None:
    """Refuse a partitioner of another shape; None is the default one."""
    if function is not None:
        of_shape(function, "partitioner", "(topic, key, value, partition_count)", 4)


def scheduled(function: Callable[..., Any]) -> None:
    """Refuse a scheduled callback that does nothing, or cannot be called with a time."""
    what, shapes = "scheduled callback", ("(timestamp)",)
    _check_callable(what, function, shapes)
    check_plain(function, what)
    if _surely_takes(function, 1):
        return  # nearly always, and it is asked at every start of every task
    if (why := _call_error(function, 1)) is not None:
        raise _error(what, function, str(why), shapes) from why


def _surely_takes(function: Any, count: int) -> bool:
    """Whether it is a plain function of so many parameters; False proves nothing."""
    plain = getattr(function, "__func__", function)
    if type(plain) is not FunctionType:
        return False
    code, given = plain.__code__, count + (plain is not function)
    return code.co_argcount == given and not code.co_kwonlyargcount


def _call_error(function: Callable[..., Any], count: int) -> TypeError | None:
    """Return why it cannot be called with so many arguments; None also if that is unknown."""
    try:
        inspect.signature(function).bind(*range(count))
    except TypeError as error:
        return error
    except ValueError:
        pass
    return None


def _check_result(function: Callable[..., Any], what: str) -> None:
    check_plain(function, what)
    note_variables(function, what)
    check_returns(function, what)


def _required(function: Callable[..., Any]) -> list[str]:
    """The parameters that it has to be given; none where that cannot be known."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return []
    return [parameter.name for parameter in parameters if _is_required(parameter)]


def _is_required(parameter: inspect.Parameter) -> bool:
    return (
        parameter.default is parameter.empty
        and parameter.kind is not parameter.VAR_POSITIONAL
        and parameter.kind is not parameter.VAR_KEYWORD
    )


def _parameter_count(
    function: Callable[..., Any], what: str, shapes: Sequence[str], counts: Sequence[int]
) -> int:
    """How many parameters to call ``function`` with; one of ``counts`` (ascending)."""
    _check_callable(what, function, shapes)
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        if counts[0] == 1:
            return 1
        raise _error(
            what, function, "it has no readable signature; wrap it in a lambda", shapes
        ) from None
    if any(p.kind is p.VAR_POSITIONAL for p in parameters):
        raise _error(what, function, "it takes *args, which fits every shape", shapes)
    if any(p.kind is p.KEYWORD_ONLY and _is_required(p) for p in parameters):
        raise _error(what, function, "it has required keyword-only parameters", shapes)
    positional = [p for p in parameters if p.kind in _POSITIONAL]
    required = sum(1 for p in positional if p.default is p.empty)
    if required in counts:
        return required
    if required < counts[0] <= len(positional):
        return counts[0]
    found = f"it takes {required} required parameter{'' if required == 1 else 's'}"
    raise _error(what, function, found, shapes)


def _check_callable(what: str, function: object, shapes: Sequence[str]) -> None:
    if not callable(function):
        raise declaration_error(
            f"The {what} {function!r} is not callable. Accepted: {' or '.join(shapes)}."
        )


def _error(
    what: str, function: Callable[..., Any], found: str, shapes: Sequence[str]
) -> TopologyError:
    return declaration_error(
        f"The {what} {function_site(function)} does not fit: {found}. Accepted:"
        f" {' or '.join(shapes)}."
    )
