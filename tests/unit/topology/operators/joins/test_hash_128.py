from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from logstate.topology.operators.joins.row_hash import SEED, hash_128

MASK = 2**64 - 1


def reference(data: bytes) -> bytes:
    """Byte by byte, as the algorithm is published."""

    def rotate(x: int, r: int) -> int:
        return ((x << r) | (x >> (64 - r))) & MASK

    def mix(x: int) -> int:
        for factor in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53, 1):
            x ^= x >> 33
            x = x * factor & MASK
        return x

    c1, c2 = 0x87C37B91114253D5, 0x4CF5AD432745937F
    h1 = h2 = SEED
    blocks, tail = divmod(len(data), 16)
    words = [
        sum(data[start + i] << (8 * i) for i in range(8)) for start in range(0, blocks * 16, 8)
    ]
    for k1, k2 in zip(words[::2], words[1::2], strict=True):
        h1 ^= rotate(k1 * c1 & MASK, 31) * c2 & MASK
        h1 = (rotate(h1, 27) + h2) * 5 + 0x52DCE729 & MASK
        h2 ^= rotate(k2 * c2 & MASK, 33) * c1 & MASK
        h2 = (rotate(h2, 31) + h1) * 5 + 0x38495AB5 & MASK
    k1 = k2 = 0
    for i in range(tail):
        byte = data[blocks * 16 + i]
        if i < 8:
            k1 |= byte << (8 * i)
        else:
            k2 |= byte << (8 * (i - 8))
    h2 ^= rotate(k2 * c2 & MASK, 33) * c1 & MASK
    h1 ^= rotate(k1 * c1 & MASK, 31) * c2 & MASK
    h1, h2 = h1 ^ len(data), h2 ^ len(data)
    h1 = h1 + h2 & MASK
    h2 = h2 + h1 & MASK
    h1, h2 = mix(h1), mix(h2)
    h1 = h1 + h2 & MASK
    h2 = h2 + h1 & MASK
    return h1.to_bytes(8, "big") + h2.to_bytes(8, "big")


def test_the_hash_is_what_kafka_streams_sends():
    assert hash_128(b"y|l3").hex() == "330f9dc8759ceac3e8163ad36cc61678"
    assert hash_128(b"|l12").hex() == "f87f731cae46b16a0cdf2befab33a14d"


@given(data=st.binary(max_size=70))
def test_the_hash_is_that_of_the_published_algorithm(data: bytes):
    assert hash_128(data) == reference(data)
