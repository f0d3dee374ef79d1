"""Building a sample of a stream."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias, TypeVar, get_args

from logstate.topology.declaring.declaration_site import declaration_error
from logstate.topology.dsl.stream_flow import StreamFlow
from logstate.topology.operators.streams.sample import SampleNode

#: what decides about a record of a sample
SampledBy: TypeAlias = Literal["key", "record"]
S = TypeVar("S", bound=StreamFlow[Any, Any])
_SEED_MAX = 2**63


def sampled(stream: S, fraction: Any, by: SampledBy, seed: Any, key: Any, name: str | None) -> S:
    """The stream of a part of the keys, or of the records."""
    if type(fraction) not in (int, float) or not 0 <= fraction <= 1:
        raise declaration_error(
            f"fraction of sample() must be a number from 0 to 1, found {fraction!r}. It is the part"
            " that is forwarded: 0.01 for one in a hundred."
        )
    if by not in get_args(SampledBy):
        raise declaration_error(
            f'by= of sample() must be "key" or "record", found {by!r}: all records of a part of the'
            " keys, or a part of the records of each key."
        )
    if type(seed) is not int or not -_SEED_MAX <= seed < _SEED_MAX:
        raise declaration_error(
            f"seed of sample() must be an integer of 64 bits, found {seed!r}. Each seed has another"
            " sample."
        )
    keys = stream._key_serde(key, "sample()") if by == "key" else None
    node = stream._node(SampleNode, name, "KSTREAM-SAMPLE-", fraction=fraction, seed=seed, key=keys)
    return stream._below(node, keeps_value=True, key=key)
