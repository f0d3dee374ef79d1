"""Types that are declared twice, and what the comparison of their descriptions finds."""

from __future__ import annotations

import enum
from typing import Any

import msgspec
import pydantic

from logstate.contracts.compatibility import SpecChange, Verdict
from logstate.serdes import serde_of
from logstate.serdes.compatibility import serde_changes
from logstate.serdes.json_schema import MEANING

SAME, COMPATIBLE, DECISION, REFUSED = Verdict
REGISTRY = "mock://declared-twice"


def described(spec: Any) -> Any:
    """As the manifest gives it back."""
    description = serde_of(spec, what="x").describe()
    return msgspec.json.decode(msgspec.json.encode(description))


def changes(before: Any, now: Any, part: str = "value") -> list[SpecChange]:
    return serde_changes("store 's'", part, described(before), described(now))


def changes_since_an_earlier_version(spec: Any) -> list[SpecChange]:
    """What is found over a manifest without meanings, of a type that did not change."""
    now = described(spec)
    earlier = {name: told for name, told in now.items() if name != MEANING}
    return [one for part in ("key", "value") for one in serde_changes("s", part, earlier, now)]


def status(**members: Any) -> Any:
    """An enum with these members; ``...`` is ``auto()``."""
    told = {name: enum.auto() if value is ... else value for name, value in members.items()}
    return enum.Enum("Status", told)  # type: ignore[misc]


def in_struct(one: Any) -> Any:
    return msgspec.defstruct("Order", [("id", int), ("status", one)], frozen=True)


def in_model(one: Any) -> Any:
    return pydantic.create_model("Order", status=(one, ...))
