"""Whether the extension module in C moves the records, and why not.

It is optional: without it, each record passes through an object of the client, which costs more
time (``docs/native.md``). It is used unless the environment disables it, if everything is as it
expects: see :func:`extension`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from types import ModuleType
from typing import Any, Final, NamedTuple

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


class RecordSender:
    """Passes records to librdkafka in batches for one producer, without objects of the client."""

    def __init__(
        self, module: Any, producer: Producer, handle: int, count_of: Callable[[str], int]
    ) -> None:
        self._module, self._producer, self._handle = module, producer, handle
        self._count_of = count_of

    def send(self, records: Sequence[ProducedFields], start: int, end: int) -> int:
        """Pass records[start:end]; return the index of the first record that was not passed.

        The client's own call has to pass that one. It reports why: the client's queue is full, the
        record has headers, ...
        """
        return self._module.produce(  # type: ignore[no-any-return]
            self._producer, self._handle, records, start, end, self._count_of
        )

    def take_failure(self) -> tuple[int, str, str] | None:
        """Return (code, topic, reason) of the first failed delivery since the last call, or None.

        Only for a producer of :func:`with_failure_reports`.
        """
        return self._module.take_failure(self._producer, self._handle)  # type: ignore[no-any-return]


def with_failure_reports(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the configuration of a producer whose failed deliveries the extension notes.

    librdkafka loads the extension as a plugin. Without the extension this is a copy.
    """
    module = extension()
    if module is None:
        return dict(config)
    return {**config, "plugin.library.paths": module.__file__}


def record_sender(
    producer: Producer, count_of: Callable[[str], int], *, reports_failures: bool = False
) -> RecordSender | None:
    """Return the sender of a producer; None if the extension cannot be used.

    ``count_of`` returns the partition count of a topic, or raises. ``reports_failures``: the
    producer has a configuration of :func:`with_failure_reports`. Without it, a failed delivery is
    not reported: only for producers whose transaction fails then.
    """
    module, library = extension(), librdkafka()
    if module is None or library is None:
        return None
    handle = library.handle_of(producer)
    if handle is None or (reports_failures and not module.watches(producer, handle)):
        return None
    return RecordSender(module, producer, handle, count_of)
