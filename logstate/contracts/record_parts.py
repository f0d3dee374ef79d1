"""The parts of a record that users' functions give: timestamp, headers, topic, partition.

Kafka's client would refuse a wrong one, but only later, where nobody knows any more whose it was,
and the test driver has no client. So each is checked as it enters the engine, and what is wrong is
the error of the function that gave it: the processing handler is asked, here and on a cluster.

Whole numbers of other libraries (``numpy.int64``) become ints. Everything else has the type that
the client asks for, or is refused: nothing is rounded, parsed or encoded unasked.

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
#: a time in ms below that is in the first three years since the epoch: those are seconds
_SECONDS_MAX = 10**11
#: partitions are 32 bits on the wire
_PARTITION_MAX = 2**31 - 1
_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")
#: what was found is quoted in errors, and may be anything
_SHOWN_MAX = 100


def shown(given: object) -> str:
    """What was given, in an error: short, and never a failure of its own."""
    try:
        text = repr(given)
    except Exception as exc:  # noqa: BLE001  a user's __repr__
        text = f"<repr() raised {type(exc).__name__}>"
    return text if len(text) <= _SHOWN_MAX else text[:_SHOWN_MAX] + "…"


def timestamp_of(given: object, given_by: str) -> int:
    """An event time that may be negative, which is "none".

    ``given_by``: who gave it, such as "the timestamp extractor returned". Raises TypeError for what
    is no int, ValueError for what has no 64 bits.
    """
    if type(given) is not int:
        given = _whole(given, f"{given_by} the timestamp", "event time is an int, in ms since the"
                       " epoch.", _time_remedy(given))  # fmt: skip
    if given > TIMESTAMP_MAX:
        raise ValueError(
            f"{given_by} the timestamp {given}: event time is at most 2**63 - 1 ms since the epoch."
            " The number is probably in a smaller unit than milliseconds"
        )
    return given


def event_time_of(given: object, given_by: str) -> int:
    """An event time that a record must have. Raises as ``timestamp_of``, and for negatives."""
    timestamp = timestamp_of(given, given_by)
    if timestamp < 0:
        raise ValueError(f"{given_by} timestamp {timestamp}: event time is not negative")
    return timestamp


def headers_of(given: object, given_by: str) -> Headers:
    """Headers as a list of ``(name, bytes or None)``; raises TypeError for anything else."""
    if given is None:
        return None
    if type(given) is not list:
        if not isinstance(given, list | tuple):
            remedy = "list(headers.items())" if isinstance(given, Mapping) else "a list"
            raise TypeError(
                f"{given_by} the headers {shown(given)}, a {_kind(given)}: headers are a list of"
                f" (name, bytes or None), or None. Give {remedy}"
            )
        given = list(given)
    for pair in given:
        if type(pair) is not tuple or len(pair) != 2:
            raise TypeError(
                f"{given_by} the header {shown(pair)}, a {_kind(pair)}: a header is a tuple"
                " (name, bytes or None). Give the name and the value"
            )
        name, value = pair
        if not isinstance(name, str):
            raise TypeError(
                f"{given_by} the header name {shown(name)}, a {_kind(name)}: names are str."
                " Decode it"
            )
        if value is not None and not isinstance(value, bytes):
            raise TypeError(
                f"{given_by} the header {name!r} with the value {shown(value)}, a {_kind(value)}:"
                " values are bytes or None, as whoever reads the topic gets them. Encode it, for"
                " example with str(value).encode()"
            )
        if not name.isascii():
            _check_text(name, given_by)
    return given


def own_headers_of(given: object, given_by: str) -> Headers:
    """The same in a list of their own: whoever gave them may go on with theirs."""
    headers = headers_of(given, given_by)
    return own_copy(headers) if headers is given else headers


def own_copy(headers: Headers) -> Headers:
    """The same headers in a list that others do not see."""
    return None if headers is None else list(headers)


def is_topic(name: str) -> bool:
    """Whether a topic can be called so."""
    return _TOPIC.fullmatch(name) is not None and name not in (".", "..")


def topic_of(given: object, given_by: str) -> str:
    """A topic's name as a plain str; TypeError or ValueError for what no topic can be called."""
    if not isinstance(given, str):
        raise TypeError(
            f"{given_by} the topic {shown(given)}, a {_kind(given)}: topics are named by str."
            " Return a name for every record; filter out what belongs nowhere before"
        )
    name = str.__str__(given)
    if not is_topic(name):
        raise ValueError(
            f"{given_by} the topic {shown(name)}: Kafka has no topic of that name. Topics have 1 to"
            " 249 letters, digits, '.', '_' and '-'; map what the record says to such a name"
        )
    return name


def partitions_of(given: object, given_by: str) -> tuple[int | None, ...]:
    """The partitions that a partitioner chose, in order; (None,) is by the key, () is nowhere.

    Raises TypeError for what are no ints, ValueError for what no partition can be.
    """
    if given is None:
        return (None,)
    if isinstance(given, Iterable) and not isinstance(given, str | bytes | Mapping):
        return tuple(sorted({_partition_of(one, given_by) for one in given}))
    return (_partition_of(given, given_by),)


def no_such_partition(partition: int, given_by: str, found: str) -> ValueError:
    """The error for a partition that a topic does not have."""
    return ValueError(
        f"{given_by} the partition {partition}: {found}. Use the partition count that the"
        " partitioner is given, for example with % partition_count"
    )


def _partition_of(given: object, given_by: str) -> int:
    wanted = "a partition is an int, or None for the key's own, or a collection of ints."
    remedy = "Return int(...), computed from the partition count"
    partition = _whole(given, f"{given_by} the partition", wanted, remedy)
    if 0 <= partition <= _PARTITION_MAX:
        return partition
    raise no_such_partition(partition, given_by, "partitions are numbered from 0 on")


def _whole(given: object, what: str, wanted: str, remedy: str) -> int:
    if not isinstance(given, bool):
        try:
            return index(given)  # type: ignore[arg-type]  # what is none raises
        except TypeError:
            pass
    raise TypeError(f"{what} {shown(given)}, a {_kind(given)}: {wanted} {remedy}")


def _time_remedy(given: object) -> str:
    if given is None:
        return "Return -1 for a record without a time, which is skipped then"
    if isinstance(given, date):
        return "Return int(moment.timestamp() * 1000), of a datetime that knows its time zone"
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
            f"{given_by} the header name {name!r}, which is no text: it has half of a surrogate"
            " pair. Decode names with errors='replace'"
        ) from None


def _kind(given: object) -> str:
    return type(given).__name__
