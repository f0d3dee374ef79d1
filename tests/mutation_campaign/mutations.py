"""Records that are valid, nearly valid, and anything but."""

from __future__ import annotations

import json
import random
from typing import NamedTuple

#: what a JSON value may be replaced with: borders, other types, what only some decoders take
_JSON_VALUES = [
    "0", "-0", "1.0", "1.5", "1e3", "1E+2", "1e999", "-1e-400", "01", "+1", ".5", "1.", "0x10",
    "9223372036854775807", "9223372036854775808", "-9223372036854775809", "1" + "0" * 40,
    "NaN", "Infinity", "-Infinity", "true", "false", "null", "nul", "True", '""', '"1"', "''",
    '"\\ud800"', '"\\ud83d\\ude00"', '"\\udc00\\ud800"', '"\\u00e9"', '"\\x"', '"\\u12"',
    '"\x01"', '"\t"', '"\u2028"', '"', "[]", "[1]", '["a","b"]', '["a",]', '["a" "b"]', "[null]",
    "{}", '{"a":1}', "[[[[]]]]", "undefined", "/**/1",
]  # fmt: skip
_USERS = ["ada", "Grace", "ü", "日本", "😀", "", "a b", 'q"uote', "back\\slash", "x" * 200]


class Sample(NamedTuple):
    """A record to be sent."""

    key: bytes | None
    value: bytes | None


def json_record(rng: random.Random) -> bytes:
    """A valid click as JSON."""
    click: dict[str, object] = {
        "user": rng.choice(_USERS),
        "amount": rng.randrange(-(2**40), 2**40),
    }
    if rng.random() < 0.7:
        click["ratio"] = rng.choice([None, rng.random(), rng.randrange(100), 1e300, -0.0])
    if rng.random() < 0.5:
        click["tags"] = [rng.choice(_USERS) for _ in range(rng.randrange(4))]
    if rng.random() < 0.3:
        click["unknown"] = rng.choice([1, "x", [1, {"y": None}], {"z": []}])
    separators = rng.choice([None, (",", ":")])
    return json.dumps(click, separators=separators, ensure_ascii=rng.random() < 0.5).encode()


def mutated_json(rng: random.Random) -> bytes:
    """JSON with a mistake, or nearly one."""
    fields = {"user": '"ada"', "amount": "7", "ratio": "0.5", "tags": '["a"]'}
    kind = rng.randrange(8)
    name = rng.choice([*fields, "unknown"])
    if kind <= 3:
        fields[name] = rng.choice(_JSON_VALUES)
    elif kind == 4:
        fields.pop(name, None)
    text = ",".join(f'"{n}":{v}' for n, v in fields.items())
    if kind == 5:  # the same field twice
        text += f',"{name}":{rng.choice(_JSON_VALUES)}'
    text = "{" + text + "}"
    if kind == 6:
        text = rng.choice([" ", "\n", "\ufeff", "\x00", "[", "//"]) + text
    if kind == 7:
        text += rng.choice([" ", "\r\n", "\x00", ",", "}", "{}", "null", "\xa0"])
    encoding = rng.choices(["utf-8", "utf-16", "latin-1"], [20, 1, 1])[0]
    return text.encode(encoding, errors="replace")


def avro_record(rng: random.Random) -> bytes:
    """A valid order as Avro, written by hand."""
    user = rng.choice(_USERS).encode()
    parts = [_varint(len(user)), user, _varint(rng.randrange(-(2**31), 2**31))]
    if rng.random() < 0.5:
        parts += [_varint(0)]
    else:
        parts += [_varint(1), _varint(rng.randrange(-(2**63), 2**63))]
    items = [_varint(rng.randrange(-1000, 1000)) for _ in range(rng.randrange(4))]
    if items:
        parts += [_varint(len(items)), *items]
    parts += [_varint(0), rng.choice([b"\x00", b"\x01"]), _varint(rng.randrange(3))]
    parts += [rng.randbytes(8)]
    return b"".join(parts)


def _varint(number: int) -> bytes:
    """Avro's zigzag long."""
    rest = (number << 1) ^ (number >> 63)
    rest &= (1 << 64) - 1
    out = bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


def raw_record(rng: random.Random) -> bytes:
    """Eight bytes."""
    return rng.randbytes(8)


def damaged(data: bytes, other: bytes, rng: random.Random) -> bytes:
    """What networks, disks and wrong programs do to bytes."""
    kind = rng.randrange(11)
    at = rng.randrange(len(data) + 1)
    if kind == 0 and data:  # one bit
        i = rng.randrange(len(data))
        return data[:i] + bytes([data[i] ^ (1 << rng.randrange(8))]) + data[i + 1 :]
    if kind == 1:
        return data[:at]
    if kind == 2:
        return data[at:]
    if kind == 3:
        return data[:at] + rng.randbytes(rng.randrange(1, 5)) + data[at:]
    if kind == 4:
        return data[:at] + data[at + rng.randrange(1, 5) :]
    if kind == 5:
        return data[:at] + other[rng.randrange(len(other) + 1) :]
    if kind == 6:
        return rng.randbytes(rng.randrange(40))
    if kind == 7:
        return b"\x00" + rng.randbytes(4) + data  # framed with a schema id
    if kind == 8:
        return data + data
    if kind == 9:
        return bytes([rng.choice([0x00, 0x7F, 0x80, 0xFF])]) * rng.choice([1, 9, 10, 11, 2_000])
    return data[: at // 2] + bytes(reversed(data[at // 2 : at])) + data[at:]


MAKERS = {"json": json_record, "avro": avro_record, "raw": raw_record}


def samples(kind: str, count: int, rng: random.Random) -> list[Sample]:
    """``count`` records for the topic of a kind; about half of them are valid."""
    make = MAKERS[kind]
    found = []
    for _ in range(count):
        value: bytes | None = make(rng)
        dice = rng.random()
        if dice < 0.02:
            value = None
        elif dice < 0.25 and kind == "json":
            value = mutated_json(rng)
        elif dice < 0.5:
            value = damaged(value or b"", make(rng), rng)
        key: bytes | None = rng.choice(_USERS).encode()
        dice = rng.random()
        if dice < 0.02:
            key = None
        elif dice < 0.06:
            key = damaged(key or b"", b"key", rng)
        found.append(Sample(key, value))
    return found
