"""Keys in the changelogs of Faust's tables: JSON, including the window if there is one.

A key of a windowed table is ``[key, [start, end]]`` in seconds, and the end is a tenth of a second
before the end of the window. A key that is not a string is shown as its JSON.

>>> plain_key(b'"ada"'), plain_key(b'[1,2]')
('ada', '[1,2]')
>>> windowed_key(b'["ada",[1699999980.0,1700000039.9]]')
'ada'
>>> window_bounds_ms(b'["ada",[1699999980.0,1700000039.9]]')
(1699999980000, 1700000040000)
"""

from __future__ import annotations

from typing import Any

import msgspec

#: by these names the options keyFormat and valueFormat ask for them
PLAIN, WINDOWED = "faust", "faust-windows"

_END_BEFORE_MS = 100
_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode


def plain_key(data: bytes) -> str:
    """The key, or a value, of a table without windows."""
    return _text(_decode(data))


def windowed_key(data: bytes) -> str:
    """The key without its window. Raises ValueError for the key of a table without windows."""
    return _text(_parts(data)[0])


def window_bounds_ms(data: bytes) -> tuple[int, int]:
    """Start and end of the window in a key; the end is where the next one begins."""
    start_s, end_s = _parts(data)[1]
    return round(start_s * 1000), round(end_s * 1000) + _END_BEFORE_MS


def _parts(data: bytes) -> tuple[Any, tuple[float, float]]:
    try:
        key, (start_s, end_s) = _decode(data)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"a key of {len(data)} bytes that is not [key, [start, end]]: has the table windows?"
        ) from error
    return key, (start_s, end_s)


def _text(key: Any) -> str:
    return key if isinstance(key, str) else _encode(key).decode()
