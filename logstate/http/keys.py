"""Parse keys in the path of a request, and show rows as JSON, for people and for any program."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any
from uuid import UUID

import msgspec

from logstate.changelog.stores.store_kind import StoreKind
from logstate.contracts.error_text import text_of
from logstate.contracts.errors import SerdeError
from logstate.contracts.formats import ORDERED, SCALARS
from logstate.contracts.records import Windowed
from logstate.contracts.serde import Serde
from logstate.contracts.stores import StoreSpec, ValueAndTimestamp, VersionedRecord
from logstate.http.plain_objects import data_of

KEY_MAX = 8_192
#: both alphabets of base64 are accepted
_STANDARD = str.maketrans("-_", "+/")
#: keys of these types are written in a path like in Python
_IN_PATHS = (str, int, float, UUID)


def key_of(text: str, serde: Serde[Any], store: str, *, is_base64: bool, what: str = "key") -> Any:
    """Return the key in a path: plain for text and numbers, JSON for JSON keys.

    Keys of every other format are the base64 of their bytes (``?key=base64``). Raises SerdeError.
    """
    if len(text) > KEY_MAX:
        raise SerdeError(
            f"the {what} has {len(text)} characters, but at most {KEY_MAX} are allowed"
        )
    name = str(serde.describe()["format"])
    decode = serde.deserializer(f"{store}-changelog", True)
    try:
        if is_base64:
            padded = text.rstrip("=") + "=" * (-len(text.rstrip("=")) % 4)
            return decode(base64.b64decode(padded.translate(_STANDARD), validate=True))
        known = SCALARS.get(name)
        if known is not None and known.type_ in _IN_PATHS:
            key = known.type_(text)
            serde.serializer(f"{store}-changelog", True)(key)
            return key
        if name == ORDERED:
            serde_of_parts: Any = serde
            return serde_of_parts.of_text(text)
        if name == "json":
            return decode(text.encode())
    except Exception as exc:
        article = "an" if what == "element" else "a"
        raise SerdeError(
            f"{text!r:.100} is not {article} {what} of store {store!r}, whose {what}s are {name}:"
            f" {exc}"
        ) from exc
    raise SerdeError(
        f"{what}s of store {store!r} are {name}, which a path cannot contain: give the base64 of"
        " its bytes, and ?key=base64"
    )


def element_of(text: str, spec: StoreSpec) -> Any:
    """Return the element of a key that a parameter names, as :func:`key_of` reads keys."""
    assert spec.element is not None, "only stores of elements have such parameters"
    return key_of(text, spec.element, spec.name, is_base64=False, what="element")


def plain(value: Any) -> Any:
    """Return a value of a store as JSON data."""
    if isinstance(value, ValueAndTimestamp):
        return {"value": plain(value.value), "timestamp": value.timestamp}
    if isinstance(value, VersionedRecord):
        return {
            "value": plain(value.value),
            "valid_from": value.valid_from,
            "valid_to": value.valid_to,
        }
    if isinstance(value, Windowed):
        return {"key": plain(value.key), "start_ms": value.start_ms, "end_ms": value.end_ms}
    try:
        return msgspec.to_builtins(value, str_keys=True, enc_hook=data_of)
    except (TypeError, ValueError):  # errors of msgspec and pydantic are such
        return str(value)


def plain_row(row: Any) -> Any:
    """Return a row of a scan as JSON data."""
    if isinstance(row, tuple) and not isinstance(row, VersionedRecord) and len(row) == 2:
        left, value = row
        found = plain(value)
        rest = found if isinstance(value, ValueAndTimestamp) else {"value": found}
        left = plain(left)
        return {**left, **rest} if isinstance(row[0], Windowed) else {"key": left, **rest}
    return plain(row)


def row_shower(kind: StoreKind, read: str) -> Callable[[Any], Any]:
    """Return the function that shows a row of a read of a store as JSON data."""
    if read == "values":
        return plain
    name = kind.element_name
    if read == "items":
        return lambda row: {name: plain(row[0]), "value": plain(row[1])}
    if not name:
        return plain_row
    return lambda row: {
        "key": plain(row[0][0]),
        name: plain(row[0][1]),
        "value": plain(row[1]),
    }


def document(content: Any) -> bytes:
    """Encode rows as JSON; raise SerdeError if JSON cannot represent them."""
    try:
        return msgspec.json.encode(content)
    except Exception as exc:
        raise SerdeError(
            f"{content!r:.200} cannot be shown as JSON: {type(exc).__name__}: {text_of(exc)}. Read"
            " it in Python: remote_store() reads rows with their serdes"
        ) from exc
