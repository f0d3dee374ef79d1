"""Murmur3, the 128-bit variant for 64-bit machines, with Kafka Streams' seed.

Foreign-key joins send the hash of the left row with a subscription and compare it when the response
comes back: a response to an older row is dropped. Both libraries must agree on every bit, so that
one can answer the other's subscriptions.
"""

from __future__ import annotations

import struct

SEED = 104729

_MASK = 0xFFFFFFFFFFFFFFFF
_C1 = 0x87C37B91114253D5
_C2 = 0x4CF5AD432745937F
_BLOCK = struct.Struct("<QQ")
_HASH = struct.Struct(">QQ")


def hash_128(data: bytes) -> bytes:
    """Return the hash as 16 bytes: both halves big-endian, as on the topics.

    >>> hash_128(b"").hex(), hash_128(b"x|l2").hex()
    ('9d2764a018e329428c3cf3b035938518', '3b309d49dd6f18e456e9c27f0aee7337')
    """
    length = len(data)
    h1 = h2 = SEED
    whole = length & ~15
    for at in range(0, whole, 16):
        k1, k2 = _BLOCK.unpack_from(data, at)
        h1 ^= _scrambled_low(k1)
        h1 = ((_rotated(h1, 27) + h2) * 5 + 0x52DCE729) & _MASK
        h2 ^= _scrambled_high(k2)
        h2 = ((_rotated(h2, 31) + h1) * 5 + 0x38495AB5) & _MASK
    if whole != length:
        tail = data[whole:]
        h2 ^= _scrambled_high(int.from_bytes(tail[8:], "little"))
        h1 ^= _scrambled_low(int.from_bytes(tail[:8], "little"))
    h1 ^= length
    h2 ^= length
    h1 = (h1 + h2) & _MASK
    h2 = (h2 + h1) & _MASK
    h1 = _avalanched(h1)
    h2 = _avalanched(h2)
    h1 = (h1 + h2) & _MASK
    return _HASH.pack(h1, (h2 + h1) & _MASK)


def _rotated(number: int, bits: int) -> int:
    return (number << bits | number >> (64 - bits)) & _MASK


def _scrambled_low(block: int) -> int:
    return _rotated(block * _C1 & _MASK, 31) * _C2 & _MASK


def _scrambled_high(block: int) -> int:
    return _rotated(block * _C2 & _MASK, 33) * _C1 & _MASK


def _avalanched(number: int) -> int:
    number ^= number >> 33
    number = number * 0xFF51AFD7ED558CCD & _MASK
    number ^= number >> 33
    number = number * 0xC4CEB9FE1A85EC53 & _MASK
    return number ^ number >> 33
