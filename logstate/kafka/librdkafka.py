"""librdkafka's own functions, for data that its Python client alters, behind a guard.

How it works: the client's extension module is linked to librdkafka, so looking up the functions
through it finds the library that the client uses, whatever name a wheel has given it. A client
object holds its ``rd_kafka_t*`` as its first field, and librdkafka holds the object's address (the
"opaque" of all callbacks).

Invariants:

- A pointer is used only if librdkafka confirms that it belongs to this client object. Before that
  call, the operating system copies the memory that librdkafka would read; for a wrong pointer it
  returns an error, and the process does not crash.
- The one structure that is read and written is public, and part of librdkafka's ABI since 1.0. A
  list that librdkafka copies must come back through it unchanged, or nothing is used.
- If one of these does not hold (another client, a static build, a later layout), there is only a
  warning: the caller gets None and uses the client's public calls.

Not responsible for: which functions are called (:mod:`logstate.kafka.offset_metadata`).
"""

from __future__ import annotations

import ctypes
import logging
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, Final, NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, cimpl

_LOGGER = logging.getLogger(__name__)

#: bytes of an ``rd_kafka_t`` to copy; it has 7,256 bytes, the opaque after 2,664 (2.16.0)
_PROBED_BYTES: Final = 4096
#: the known ABI; another major version would have another one
_MAJOR_VERSION: Final = 2
REMEDY: Final = "Known to work: the binary wheels of confluent-kafka 2.14 to 2.16, on Linux"


class _Element(ctypes.Structure):
    """``rd_kafka_topic_partition_t``."""

    _fields_ = (
        ("topic", ctypes.c_char_p),
        ("partition", ctypes.c_int32),
        ("offset", ctypes.c_int64),
        ("metadata", ctypes.c_void_p),
        ("metadata_size", ctypes.c_size_t),
        ("opaque", ctypes.c_void_p),
        ("error", ctypes.c_int),
        ("private", ctypes.c_void_p),
    )


class _List(ctypes.Structure):
    """``rd_kafka_topic_partition_list_t``."""

    _fields_ = (
        ("count", ctypes.c_int),
        ("size", ctypes.c_int),
        ("elements", ctypes.POINTER(_Element)),
    )


_POINTER = ctypes.c_void_p
_LIST = ctypes.POINTER(_List)
#: by name without "rd_kafka_": the types of the result and of the arguments
_SIGNATURES: Final[dict[str, tuple[Any, ...]]] = {
    "version": (ctypes.c_int,),
    "opaque": (_POINTER, _POINTER),
    "mem_malloc": (_POINTER, _POINTER, ctypes.c_size_t),
    "topic_partition_list_new": (_LIST, ctypes.c_int),
    "topic_partition_list_add": (
        *(ctypes.POINTER(_Element), _LIST),
        *(ctypes.c_char_p, ctypes.c_int32),
    ),
    "topic_partition_list_copy": (_LIST, _LIST),
    "topic_partition_list_destroy": (None, _LIST),
    "committed": (ctypes.c_int, _POINTER, _LIST, ctypes.c_int),
    "consumer_group_metadata_read": (
        *(_POINTER, ctypes.POINTER(_POINTER)),
        *(ctypes.c_char_p, ctypes.c_size_t),
    ),
    "consumer_group_metadata_destroy": (None, _POINTER),
    "send_offsets_to_transaction": (_POINTER, _POINTER, _LIST, _POINTER, ctypes.c_int),
    "error_code": (ctypes.c_int, _POINTER),
    "error_string": (ctypes.c_char_p, _POINTER),
    "error_is_fatal": (ctypes.c_int, _POINTER),
    "error_is_retriable": (ctypes.c_int, _POINTER),
    "error_txn_requires_abort": (ctypes.c_int, _POINTER),
    "error_destroy": (None, _POINTER),
}


class NativeOffset(NamedTuple):
    """A copy of one entry of a list of partitions."""

    topic: str
    partition: int
    offset: int
    metadata: bytes
    error: int
    """Code of the broker's error about this partition, 0 for none."""


class Librdkafka:
    """The functions. Raises AttributeError if the library does not have all of them."""

    def __init__(self, library: ctypes.CDLL) -> None:
        for name, (result, *arguments) in _SIGNATURES.items():
            function = getattr(library, f"rd_kafka_{name}")
            function.restype, function.argtypes = result, arguments
        self._library = library
        #: whether a client of this kind keeps its handle in the expected field, once it is known
        self._kinds: dict[type, bool] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._library, f"rd_kafka_{name}")

    def address_of(self, name: str) -> int:
        """Return where a function is, for code in C. Raises AttributeError for an unknown name."""
        return ctypes.cast(getattr(self._library, f"rd_kafka_{name}"), _POINTER).value or 0

    @contextmanager
    def offsets(self, given: Iterable[tuple[str, int, int, bytes]]) -> Iterator[Any]:
        """Yield a list of (topic, partition, offset, metadata), and free it afterwards."""
        made = self.topic_partition_list_new(8)
        try:
            for topic, partition, offset, metadata in given:
                element = self.topic_partition_list_add(made, topic.encode(), partition).contents
                element.offset = offset
                if metadata:  # the list frees it, so librdkafka has to allocate it
                    element.metadata = self.mem_malloc(None, len(metadata))
                    ctypes.memmove(element.metadata, metadata, len(metadata))
                    element.metadata_size = len(metadata)
            yield made
        finally:
            self.topic_partition_list_destroy(made)

    def raise_and_destroy(self, error: int | None) -> None:
        """Raise an ``rd_kafka_error_t*`` as the client does; None is success."""
        if error is None:
            return
        copied = KafkaError(
            self.error_code(error),
            self.error_string(error).decode(errors="replace"),
            bool(self.error_is_fatal(error)),
            bool(self.error_is_retriable(error)),
            bool(self.error_txn_requires_abort(error)),
        )
        self.error_destroy(error)
        raise KafkaException(copied)

    def handle_of(self, client: Consumer | Producer) -> int | None:
        """Return the ``rd_kafka_t*`` of a client; None if it is closed, or, with a warning,
        unknown.
        """
        kind = cimpl.Consumer if isinstance(client, cimpl.Consumer) else cimpl.Producer
        if not isinstance(client, kind) or not self._kinds.get(kind, True):
            return None
        handle = _first_field(client)
        if handle is not None and kind not in self._kinds:
            # All objects of the kind have the same layout: checking once is enough.
            self._kinds[kind] = self._is_handle_of(handle, client)
            if not self._kinds[kind]:
                return _warn_once("a client object keeps its handle elsewhere")
        return handle

    def _is_handle_of(self, handle: int, client: object) -> bool:
        address = id(client).to_bytes(ctypes.sizeof(_POINTER), "little")
        if address not in _copy_memory(handle, _PROBED_BYTES):
            return False
        return bool(self.opaque(handle) == id(client))


def read_offsets(native: Any) -> list[NativeOffset]:
    """Return the entries of a list of partitions."""
    found = []
    for n in range(native.contents.count):
        one = native.contents.elements[n]
        metadata = ctypes.string_at(one.metadata, one.metadata_size) if one.metadata else b""
        found.append(
            NativeOffset(one.topic.decode(), one.partition, one.offset, metadata, one.error)
        )
    return found


@cache
def librdkafka() -> Librdkafka | None:
    """Return the library that the client uses, or None, with a warning, if it cannot be used."""
    if sys.implementation.name != "cpython":  # elsewhere an object's id is not its address
        return _warn_once(f"this Python is {sys.implementation.name}")
    try:
        found = Librdkafka(ctypes.CDLL(cimpl.__file__))
    except (AttributeError, OSError) as exc:
        return _warn_once(f"its functions were not found ({exc})")
    if found.version() >> 24 != _MAJOR_VERSION:
        return _warn_once(f"it has version {found.version():08x}")
    if not _keeps_its_layout(found):
        return _warn_once("its lists of offsets have another layout")
    return found


def _first_field(client: object) -> int | None:
    """Return the first field after an object's header, as a pointer; None for null."""
    header = object.__basicsize__
    if type(client).__basicsize__ < header + ctypes.sizeof(_POINTER):
        return None
    return _POINTER.from_address(id(client) + header).value


def _copy_memory(address: int, size: int) -> bytes:
    """Copy memory that may not be mapped; return b"" if it is not.

    Reading it here would crash the process. A system call returns an error for an address that it
    cannot read from.
    """
    reader, writer = os.pipe()
    try:
        os.set_blocking(writer, False)
        written = os.write(writer, (ctypes.c_char * size).from_address(address))
        return os.read(reader, written)
    except OSError:
        return b""
    finally:
        os.close(reader)
        os.close(writer)


def _keeps_its_layout(library: Librdkafka) -> bool:
    given = [("one", 7, 1 << 40, b"a\x00b"), ("two", 1 << 20, 3, b"")]
    with library.offsets(given) as made:
        copied = library.topic_partition_list_copy(made)
        try:
            return read_offsets(copied) == [NativeOffset(*one, error=0) for one in given]
        finally:
            library.topic_partition_list_destroy(copied)


@cache
def _warn_once(why: str) -> None:
    _LOGGER.warning(
        "librdkafka cannot be called directly: %s. The metadata of committed"
        " offsets goes through its Python client, which adds a byte to it: Kafka Streams on the"
        " JVM would start after this application with unknown stream times, and offsets that the"
        " JVM committed may be unreadable. %s",
        why,
        REMEDY,
    )
