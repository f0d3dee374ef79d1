"""Validate the parts of a record that user functions return: timestamp, headers, topic, partition.

Kafka's client would refuse an invalid one, but later, where its origin is unknown, and the test
driver has no client. So each part is checked as it enters the engine, and a problem is an error of
the function that returned it: the processing handler is called, here and on a cluster.

Whole numbers of other libraries (``numpy.int64``) become ints. Everything else has the type that
the client needs, or is refused: nothing is rounded, parsed or encoded implicitly.

>>> timestamp_of(1_700_000_000_000.5, "the extractor returned")
Traceback (most recent call last):
    ...
TypeError: the extractor returned the timestamp 1700000000000.5, a float: event time is an int, in \
ms since the epoch. Round it: int(milliseconds)
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import date
from operator import index

from logstate.contracts.records import Headers

#: times are 64 bits on the wire and in stores
TIMESTAMP_MAX = 2**63 - 1
#: a time in ms below this is in the first three years since the epoch: it must be in seconds
_SECONDS_MAX = 10**11
#: partitions are 32 bits on the wire
_PARTITION_MAX = 2**31 - 1
_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")
#: errors quote the value, which may be of any size
_SHOWN_MAX = 100


def shown(given: object) -> str:
    """Return a value for an error message: short, and without raising."""
    try:
        text = repr(given)
    except Exception as exc:  # noqa: BLE001  a user's __repr__
        text = f"<repr() raised {type(exc).__name__}>"
    return text if len(text) <= _SHOWN_MAX else text[:_SHOWN_MAX] + "…"


def timestamp_of(given: object, given_by: str) -> int:
    """Return an event time that may be negative, which means "none".

    ``given_by``: its origin, such as "the timestamp extractor returned". Raises TypeError for a
    value that is not an int, ValueError for one that does not fit 64 bits.
    """
    if type(given) is not int:
        wanted = "event time is an int, in ms since the epoch."
        given = _checked_int(given, f"{given_by} the timestamp", wanted, _time_remedy(given))
    if given > TIMESTAMP_MAX:
        raise ValueError(
            f"{given_by} the timestamp {given}: event time is at most 2**63 - 1 ms since the epoch."
            " The number is probably in a smaller unit than milliseconds"
        )
    return given


def event_time_of(given: object, given_by: str) -> int:
    """Return an event time that is required. Raise like ``timestamp_of``, and for negatives."""
    timestamp = timestamp_of(given, given_by)
    if timestamp < 0:
        raise ValueError(f"{given_by} timestamp {timestamp}: event time is not negative")
    return timestamp


def headers_of(given: object, given_by: str) -> Headers:
    """Return headers as a list of ``(name, bytes or None)``; raise TypeError for anything else."""
    if given is None:
        return None
    if type(given) is not list:
        if not isinstance(given, list | tuple):
            remedy = "list(headers.items())" if isinstance(given, Mapping) else "a list"
            raise TypeError(
                f"{given_by} the headers {shown(given)}, a {_type_name(given)}: headers are a list"
                f" of (name, bytes or None), or None. Give {remedy}"
            )
        given = list(given)
    for pair in given:
        if type(pair) is not tuple or len(pair) != 2:
            raise TypeError(
                f"{given_by} the header {shown(pair)}, a {_type_name(pair)}: a header is a tuple"
                " (name, bytes or None). Give the name and the value"
            )
        name, value = pair
        if not isinstance(name, str):
            raise TypeError(
                f"{given_by} the header name {shown(name)}, a {_type_name(name)}: names are str."
                " Decode it"
            )
        if value is not None and not isinstance(value, bytes):
            raise TypeError(
                f"{given_by} the header {name!r} with the value {shown(value)}, a"
                f" {_type_name(value)}:"
                " values are bytes or None, as consumers of the topic receive them. Encode it, for"
                " example with str(value).encode()"
            )
        if not name.isascii():
            _check_text(name, given_by)
    return given


def own_headers_of(given: object, given_by: str) -> Headers:
    """Return the same in a new list: the caller may change its own list later."""
    headers = headers_of(given, given_by)
    return own_copy(headers) if headers is given else headers


def own_copy(headers: Headers) -> Headers:
    """Return the same headers in a separate list."""
    return None if headers is None else list(headers)


def is_topic(name: str) -> bool:
    """Return whether it is a valid topic name."""
    return _TOPIC.fullmatch(name) is not None and name not in (".", "..")


def topic_of(given: object, given_by: str) -> str:
    """Return a topic's name as a plain str; raise TypeError or ValueError for an invalid name."""
    if not isinstance(given, str):
        raise TypeError(
            f"{given_by} the topic {shown(given)}, a {_type_name(given)}: topics are named by str."
            " Return a name for every record; filter out other records before"
        )
    name = str.__str__(given)
    if not is_topic(name):
        raise ValueError(
            f"{given_by} the topic {shown(name)}: Kafka has no topic of that name. Topics have 1 to"
            " 249 letters, digits, '.', '_' and '-'; map the record's content to such a name"
        )
    return name


def partitions_of(given: object, given_by: str) -> tuple[int | None, ...]:
    """Return the partitions that a partitioner chose; (None,): by the key, (): drop the record.

    Raises TypeError for values that are not ints, ValueError for numbers that are not partitions.
    """
    if given is None:
        return (None,)
    if isinstance(given, Iterable) and not isinstance(given, str | bytes | Mapping):
        return tuple(sorted({_partition_of(one, given_by) for one in given}))
    return (_partition_of(given, given_by),)


def no_such_partition(partition: int, given_by: str, found: str) -> ValueError:
    """Return the error for a partition that a topic does not have."""
    return ValueError(
        f"{given_by} the partition {partition}: {found}. Use the partition count that the"
        " partitioner is given, for example with % partition_count"
    )


def _partition_of(given: object, given_by: str) -> int:
    wanted = "a partition is an int, or None for the key's own, or a collection of ints."
    remedy = "Return int(...), computed from the partition count"
    partition = _checked_int(given, f"{given_by} the partition", wanted, remedy)
    if 0 <= partition <= _PARTITION_MAX:
        return partition
    raise no_such_partition(partition, given_by, "partitions are numbered from 0 on")


def _checked_int(given: object, what: str, wanted: str, remedy: str) -> int:
    if not isinstance(given, bool):
        try:
            return index(given)  # type: ignore[arg-type]  # raises for other types
        except TypeError:
            pass
    raise TypeError(f"{what} {shown(given)}, a {_type_name(given)}: {wanted} {remedy}")


def _time_remedy(given: object) -> str:
    if given is None:
        return "Return -1 for a record without a time, which is then skipped"
    if isinstance(given, date):
        return "Return int(moment.timestamp() * 1000), of a datetime with a time zone"
    if isinstance(given, float):
        if abs(given) < _SECONDS_MAX:
            return "These look like seconds: int(seconds * 1000)"
        return "Round it: int(milliseconds)"
    return "Convert it to milliseconds"


def _check_text(name: str, given_by: str) -> None:
    try:
        name.encode()
    except UnicodeEncodeError:
        raise ValueError(
            f"{given_by} the header name {name!r}, which is not valid text: it has half a surrogate"
            " pair. Decode names with errors='replace'"
        ) from None


def _type_name(given: object) -> str:
    return type(given).__name__
