"""Key equality that Spark hands down, as the bytes to look for.

All partitions are still read: which partition a key went to is the choice of whoever produced the
input, and not every producer hashes keys as Kafka's Java client does. What is saved is memory and
decoding: records of other keys are dropped at once.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any

from pyspark.sql.datasource import EqualNullSafe, EqualTo, In

_ENCODERS: dict[str, Callable[[Any], bytes]] = {
    "string": str.encode,
    "int64": struct.Struct(">q").pack,
    "int32": struct.Struct(">i").pack,
    "bytes": bytes,
}


def wanted_keys(filters: Sequence[Any], key_format: str) -> frozenset[bytes] | None:
    """The only keys that can pass all filters, encoded; None if any key may.

    Formats where one value has several encodings (JSON, floating point) are never narrowed.

    >>> sorted(wanted_keys([In(("key",), ("a", "b")), EqualTo(("key",), "b")], "string"))
    [b'b']
    """
    encode = _ENCODERS.get(key_format)
    if encode is None:
        return None
    wanted: frozenset[bytes] | None = None
    for each in filters:
        if not isinstance(each, EqualTo | EqualNullSafe | In) or each.attribute != ("key",):
            continue
        values = each.value if isinstance(each, In) else (each.value,)
        keys = frozenset(encode(value) for value in values if value is not None)
        wanted = keys if wanted is None else wanted & keys
    return wanted
