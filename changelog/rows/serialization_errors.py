"""Keys and values that the serdes of a store refuse: the error names the store and the part.

A serde does not know whose it is, and the fastest of them are functions of C, whose errors say
nothing but types. So a store catches what they raise where it calls them, which costs nothing until
something is raised. What it raises then has the traceback and the cause of theirs, and tells types
as they do: keys and values do not belong into logs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from logstate.contracts.error_text import text_of
from logstate.contracts.errors import SerdeError


def key_serialization_error(store: str, key: Any, error: Exception) -> Exception:
    """The error of the same class that says of which store the key is.

    >>> try:
    ...     str.encode(5)
    ... except TypeError as error:
    ...     str(key_serialization_error("totals", 5, error))
    "the key given to store 'totals' does not fit: a str is needed, found int: make it one, or \
declare the type that it really has"
    """
    if key is None:
        what = f"store {store!r} was given None as key, and keys are never None"
        return _told(error, f"{what}: leave such a record out, or give it a key")
    return _told(error, f"the key given to store {store!r} does not fit: {text_of(error)}")


def naming_store(store: str, encode: Callable[[Any], bytes]) -> Callable[[Any], bytes]:
    """``encode`` of keys, which names the store where it raises, at the price of a call."""

    def raw_key(key: Any) -> bytes:
        try:
            return encode(key)
        except Exception as error:  # noqa: BLE001  serdes raise anything
            raise key_serialization_error(store, key, error) from error.__cause__

    return raw_key


def value_serialization_error(store: str, error: Exception) -> Exception:
    """The error of the same class that says of which store the value is."""
    return _told(error, f"the value given to store {store!r} does not fit: {text_of(error)}")


def _told(error: Exception, text: str) -> Exception:
    """A registry's error, and what a user's serde has a class of its own for, stays what it is."""
    if type(error) not in (TypeError, SerdeError):
        return error
    return type(error)(text).with_traceback(error.__traceback__)
