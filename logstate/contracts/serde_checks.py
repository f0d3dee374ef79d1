"""What users' serdes give, checked where it enters the engine: functions, and the bytes they make.

A serde that returns a text, None or a coroutine in the place of bytes would be found out late: at
the commit, where no record can be named, or after a restore, when the row is gone. The library's
own serdes are not asked, so they cost what they cost.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from types import CoroutineType
from typing import Any

from logstate.contracts.errors import SerdeError
from logstate.contracts.record_parts import shown

_LIKE_BYTES = (bytes, bytearray, memoryview)


def checked(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    """A user's ``serializer`` and its kin, which gives a plain function or raises SerdeError.

    What it gives is looked at once for a topic. A serializer is called through one function more.
    """

    @wraps(method)
    def bound(serde: object, topic: str, is_key: bool) -> Any:
        given = method(serde, topic, is_key)
        if given is None and name.startswith("header_"):
            return None
        _check_function(given, serde, name, topic, is_key=is_key)
        if name in ("deserializer", "header_deserializer"):
            return given
        return _bytes_only(given, serde, topic, is_key=is_key)

    return bound


def _check_function(given: object, serde: object, method: str, topic: str, *, is_key: bool) -> None:
    """Raises SerdeError for what a serde's method returned, unless it is a plain function."""
    what = f"{method}() of {_whose(serde, topic, is_key=is_key)} returned"
    if isinstance(given, CoroutineType):
        given.close()
        raise SerdeError(
            f"{what} a coroutine: it is declared with async def. Nothing here waits for it. Write a"
            " plain method that returns a plain function"
        )
    if not callable(given):
        raise SerdeError(
            f"{what} {shown(given)} ({type(given).__name__}), which is no function. It is asked"
            " once for a topic, and what it returns is called for every record"
        )
    called = given if inspect.isroutine(given) else getattr(given, "__call__", given)  # noqa: B004
    for function in (given, called):
        if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
            raise SerdeError(
                f"{what} {_site(given)}, a coroutine function (async def). Nothing here waits for"
                " it, so nothing of it would ever run. Write a plain function; what has to be"
                " awaited, such as a key for decryption, is fetched before it is needed"
            )
        if inspect.isgeneratorfunction(function):
            raise SerdeError(
                f"{what} {_site(given)}, a generator function (it has a yield). Calling it runs"
                " nothing of it. Return the result"
            )


def _bytes_only(
    serialize: Callable[..., Any], serde: object, topic: str, *, is_key: bool
) -> Callable[..., bytes]:
    """The serializer of a user's serde, whose results are bytes of their own, or errors.

    What is like bytes becomes bytes: a buffer may be filled anew for the next record.
    """

    def serialize_to_bytes(value: Any, *headers: Any) -> bytes:
        if is_key and value is None:
            raise SerdeError(f"{_whose(serde, topic, is_key=is_key)} was given None: keys are not")
        data = serialize(value, *headers)
        if type(data) is bytes:
            return data
        if isinstance(data, _LIKE_BYTES):
            return bytes(data)
        if isinstance(data, CoroutineType):
            data.close()
        remedy = "Return the bytes"
        if data is None:
            remedy = (
                "None is Kafka's null, and whoever makes the value says that it is none: return"
                " None from that function, and here the bytes or an error"
            )
        elif isinstance(data, str):
            remedy = 'Return text.encode("utf-8")'
        raise SerdeError(
            f"the serializer {_site(serialize)} of {_whose(serde, topic, is_key=is_key)} returned"
            f" {shown(data)} ({type(data).__name__}) for a {type(value).__name__}, and a serializer"
            f" returns bytes. {remedy}"
        )

    return serialize_to_bytes


def _whose(serde: object, topic: str, *, is_key: bool) -> str:
    part = "keys" if is_key else "values"
    return f"the serde {type(serde).__qualname__} for the {part} of topic {topic!r}"


def _site(function: Any) -> str:
    target = inspect.unwrap(function)
    name = getattr(target, "__qualname__", type(target).__qualname__)
    code = getattr(target, "__code__", None)
    if code is None:
        return str(name)
    return f"{name} at {Path(code.co_filename).name}:{code.co_firstlineno}"
