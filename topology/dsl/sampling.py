"""Building a sample of a stream."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias, TypeVar, get_args

from logstate.topology.declaring.argument_checks import check_count
from logstate.topology.declaring.declaration_site import declaration_error
from logstate.topology.dsl.stream_flow import StreamFlow
from logstate.topology.operators.streams.sample import SampleEveryNode, SampleNode

#: what decides about a record of a sample
SampledBy: TypeAlias = Literal["key", "record"]
S = TypeVar("S", bound=StreamFlow[Any, Any])
_SEED_MAX = 2**63
_PREFIX = "KSTREAM-SAMPLE-"


def sampled(
    stream: S,
    fraction: Any,
    every: Any,
    by: SampledBy | None,
    seed: Any,
    key: Any,
    name: str | None,
) -> S:
    """The stream of a part of the keys, of a part of the records, or of every n-th record."""
    if every is not None:
        return _every(stream, every, name, fraction=fraction, by=by, seed=seed, key=key)
    by, seed = "key" if by is None else by, 0 if seed is None else seed
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
    node = stream._node(SampleNode, name, _PREFIX, fraction=fraction, seed=seed, key=keys)
    return stream._below(node, keeps_value=True, key=key)


def _every(stream: S, every: Any, name: str | None, **others: Any) -> S:
    """The stream of every n-th record of each partition."""
    given = next((option for option, one in others.items() if one is not None), None)
    if given is not None:
        raise declaration_error(
            f"sample() has every= and {given}: every= counts the records of each partition, and"
            f" fraction, by, seed and key belong to samples by a hash. Leave out one of every= and"
            f" {given}."
        )
    check_count(every, "every of sample()", may_be_left_out=False)
    node = stream._node(SampleEveryNode, name, _PREFIX, every=every)
    return stream._below(node, keeps_value=True)
