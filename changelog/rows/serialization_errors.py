"""Keys and values that the serdes of a store refuse: the error names the store and the part.

A serde does not know its store, and the fastest serdes are C functions, whose errors only mention
types. So a store catches their errors where it calls them, which costs nothing until one is raised.
The new error has the original traceback and cause, and mentions types only, because keys and values
must not appear in logs.
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
        return _with_text(error, f"{what}: leave such a record out, or give it a key")
    return _with_text(error, f"the key given to store {store!r} does not fit: {text_of(error)}")


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
    return _with_text(error, f"the value given to store {store!r} does not fit: {text_of(error)}")


def _with_text(error: Exception, text: str) -> Exception:
    """Return the error with a new text; errors of other classes are returned unchanged."""
    if type(error) not in (TypeError, SerdeError):
        return error
    return type(error)(text).with_traceback(error.__traceback__)
