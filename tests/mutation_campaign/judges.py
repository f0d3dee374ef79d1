"""What a record means, or that it means nothing, by decoders that the application does not use.

A judge returns the text the application must output for a good record, and raises for a bad one.
"""

from __future__ import annotations

import io
import json
import math
import re
from collections.abc import Callable, Mapping
from typing import Any

import avro.io
import avro.schema

from tests.mutation_campaign.flow import ORDER_SCHEMA, avro_text, click_text

#: RFC 3629, section 4
_UTF8 = re.compile(
    rb"(?:[\x00-\x7F]|[\xC2-\xDF][\x80-\xBF]|\xE0[\xA0-\xBF][\x80-\xBF]"
    rb"|[\xE1-\xEC\xEE\xEF][\x80-\xBF]{2}|\xED[\x80-\x9F][\x80-\xBF]"
    rb"|\xF0[\x90-\xBF][\x80-\xBF]{2}|[\xF1-\xF3][\x80-\xBF]{3}|\xF4[\x80-\x8F][\x80-\xBF]{2})*"
)


#: bytes that are not UTF-8, as they were decoded
_WITHOUT_RAW_BYTES = dict.fromkeys(range(0xDC80, 0xDD00))
_INTEGER = re.compile(r"-?\d+")


class BadRecord(ValueError):
    """The bytes are not what the topic holds."""


def is_text(data: bytes) -> bool:
    """UTF-8 by its grammar."""
    return _UTF8.fullmatch(data) is not None


# ------------------------------------------------------------------ JSON


class _Number:
    """A number as it is written."""

    def __init__(self, text: str) -> None:
        self.text = text

    def as_float(self) -> float:
        # "-0" is an integer, and those have one zero
        value = float(int(self.text) if _INTEGER.fullmatch(self.text) else self.text)
        if not math.isfinite(value):
            raise BadRecord(f"{self.text} is no finite number")
        return value

    def as_int(self) -> int:
        """An integer, which 1.0 and 1e3 are not."""
        if _INTEGER.fullmatch(self.text) is None:
            raise BadRecord(f"{self.text} is not written as an integer")
        return int(self.text)


def _refuse_constant(name: str) -> None:
    raise BadRecord(f"{name} is not JSON")


def judge_json(data: bytes) -> str:
    """A click, with every occurrence of a field checked, as a decoder that streams does.

    Everything must be UTF-8 but unknown fields, names and values: those are ignored unread.
    """
    pairs = json.loads(
        data.decode(errors="surrogateescape"),
        parse_int=_Number,
        parse_float=_Number,
        parse_constant=_refuse_constant,
        object_pairs_hook=_Pairs,
    )
    if not isinstance(pairs, _Pairs):
        raise BadRecord("not an object")
    click: dict[str, Any] = {"ratio": None, "tags": []}
    for name, value in pairs:
        read = _FIELDS.get(name)
        if read is not None:
            click[name] = read(value)
        else:
            _check_text(value)
    if "user" not in click or "amount" not in click:
        raise BadRecord("a required field is missing")
    return click_text(click["user"], click["amount"], click["ratio"], click["tags"])


class _Pairs(list[tuple[str, Any]]):
    """An object, with fields that occur twice."""


def _string(value: Any) -> str:
    if not isinstance(value, str):
        raise BadRecord("not a string")
    value.encode()  # lone surrogates have no UTF-8
    return value


def _int(value: Any) -> int:
    if not isinstance(value, _Number):
        raise BadRecord("not a number")
    return value.as_int()


def _float_or_none(value: Any) -> float | None:
    if value is None:
        return None
    if not isinstance(value, _Number):
        raise BadRecord("not a number")
    return value.as_float()


def _strings(value: Any) -> list[str]:
    if not isinstance(value, list) or isinstance(value, _Pairs):
        raise BadRecord("not a list")
    return [_string(item) for item in value]


def _check_text(value: Any) -> None:
    """Unknown fields are ignored where they are JSON, their escapes included."""
    waiting = [value]
    while waiting:
        part = waiting.pop()
        if isinstance(part, str):
            part.translate(_WITHOUT_RAW_BYTES).encode()
        elif isinstance(part, _Pairs):
            waiting += [value for _, value in part]
        elif isinstance(part, list):
            waiting += part


_FIELDS: Mapping[str, Callable[[Any], Any]] = {
    "user": _string,
    "amount": _int,
    "ratio": _float_or_none,
    "tags": _strings,
}

# ------------------------------------------------------------------ Avro

_SCHEMA = avro.schema.parse(json.dumps(ORDER_SCHEMA))
_READER = avro.io.DatumReader(_SCHEMA)


class _Decoder(avro.io.BinaryDecoder):
    """Apache's decoder, but for a boolean's byte other than 0 and 1.

    Apache's takes it for false, others for true, and none refuses it.
    """

    def read_boolean(self) -> bool:
        return ord(self.read(1)) != 0


def judge_avro(data: bytes) -> str:
    """An order that Apache's reader reads, leaving nothing over."""
    source = io.BytesIO(data)
    order: Any = _READER.read(_Decoder(source))
    if not -(2**31) <= order["amount"] < 2**31:
        raise BadRecord("an int has 32 bits")
    if source.tell() != len(data):
        raise BadRecord("bytes are left over")
    return avro_text(order)


# ------------------------------------------------------------------ raw


def judge_raw(data: bytes) -> str:
    """A signed long, big-endian."""
    if len(data) != 8:
        raise BadRecord("not eight bytes")
    return str(int.from_bytes(data, "big", signed=True))


JUDGES = {"json": judge_json, "avro": judge_avro, "raw": judge_raw}


def judged(kind: str, key: bytes | None, value: bytes | None) -> str | None:
    """The output's text; None for a bad record."""
    if key is not None and not is_text(key):
        return None
    if value is None:
        return "nothing"
    try:
        return JUDGES[kind](value)
    except Exception:  # noqa: BLE001  decoders raise anything
        return None
