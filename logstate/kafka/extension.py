"""Whether the extension module in C moves the records, and why not.

It is optional: without it, each record passes through an object of the client, which costs more
time (``docs/native.md``). It is used unless the environment disables it, if everything is as it
expects: see :func:`extension`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from functools import cache
from types import ModuleType
from typing import Any, Final, NamedTuple, TypeAlias

from confluent_kafka import Producer

from logstate.contracts.records import ProducedFields
from logstate.kafka.librdkafka import librdkafka

#: this variable of the environment disables the extension if its value is "0"
VARIABLE: Final = "LOGSTATE_NATIVE"
#: major and minor versions in which the queue of a partition has no other events than expected
_KNOWN_VERSIONS: Final = (0x020E, 0x020F, 0x0210)


class ExtensionState(NamedTuple):
    """Whether the extension is used, as a sentence without its end."""

    is_used: bool
    reason: str


def extension() -> Any:
    """Return the extension module, or None if it is disabled, missing or cannot be used."""
    return _loaded()[0] if _is_enabled() else None


def extension_state() -> ExtensionState:
    """Return whether new clients use the extension, and why.

    >>> import os
    >>> os.environ["LOGSTATE_NATIVE"] = "0"
    >>> extension_state()
    ExtensionState(is_used=False, reason='LOGSTATE_NATIVE=0 disables it')
    >>> del os.environ["LOGSTATE_NATIVE"]
    """
    if not _is_enabled():
        return ExtensionState(is_used=False, reason=f"{VARIABLE}=0 disables it")
    module, reason = _loaded()
    return ExtensionState(is_used=module is not None, reason=reason)


def why_not_loaded() -> str:
    """Return why the extension cannot be used unless it is disabled; "" if it can."""
    module, reason = _loaded()
    return reason if module is None else ""


def _is_enabled() -> bool:
    return os.environ.get(VARIABLE) != "0"


@cache
def _loaded() -> tuple[ModuleType | None, str]:
    """Load the extension and pass librdkafka's functions to it; also return why (not)."""
    if not getattr(sys, "_is_gil_enabled", lambda: True)():
        return None, "this Python runs without its global lock"
    try:
        from logstate.kafka.native import _records
    except ImportError as exc:
        return None, f"it was not built when logstate was installed ({exc})"
    library = librdkafka()
    if library is None:
        return None, "librdkafka cannot be called directly; a warning in the log has the reason"
    version = library.version()
    number = ".".join(str(version >> shift & 0xFF) for shift in (24, 16, 8))
    if version >> 16 not in _KNOWN_VERSIONS:
        return None, f"librdkafka {number} is not one of the versions that it was tried with"
    try:
        addresses = {name: library.address_of(name) for name in _records.needed()}
        _records.bind(addresses)
    except (AttributeError, LookupError, ValueError) as exc:
        return None, f"librdkafka lacks a function ({exc})"
    return _records, f"it calls librdkafka {number} in batches"


#: Passes records[start:end] without delivery reports; returns the index of the first record that
#: the client's own call has to pass, which reports why: the client's queue is full, the record has
#: headers, ...
RecordSender: TypeAlias = Callable[[Sequence[ProducedFields], int, int], int]


def record_sender(producer: Producer, count_of: Callable[[str], int]) -> RecordSender | None:
    """Return the sender of a producer; None if the extension cannot be used.

    ``count_of`` returns the partition count of a topic, or raises. A failed delivery is not
    reported, so this is only for producers whose transaction fails then.
    """
    module, library = extension(), librdkafka()
    if module is None or library is None:
        return None
    handle = library.handle_of(producer)
    if handle is None:
        return None

    def send(records: Sequence[ProducedFields], start: int, end: int) -> int:
        return module.produce(producer, handle, records, start, end, count_of)  # type: ignore[no-any-return]

    return send
