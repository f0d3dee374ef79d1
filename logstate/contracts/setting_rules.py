"""Rules that validate settings, and say what was found and what to write instead.

A rule takes a name and a value of any type, and yields what is wrong: nothing for a valid value.
Code with settings passes its rules to :func:`~logstate.contracts.errors.check`, which raises every
problem at once.

>>> list(count("workers", 2, least=1))
[]
>>> list(count("workers", "2", least=1))
["workers must be a whole number, at least 1; got '2' (str). Write 2"]
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from datetime import timedelta
from typing import Any

from logstate.contracts.record_parts import is_topic
from logstate.contracts.record_parts import shown as quoted

_PARTITION = re.compile(r".+-[0-9]{1,9}")
#: part of names of topics and directories
_APPLICATION_ID = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}")
_PROTOCOLS = ("plaintext", "ssl", "sasl_plaintext", "sasl_ssl")


def count(
    name: str, given: object, *, least: int, most: int | None = None, also: str = ""
) -> Iterator[str]:
    """A whole number within bounds. ``also``: what else is allowed, in words."""
    bounds = f"at least {least}" if most is None else f"from {least} to {most}"
    if not isinstance(given, int) or isinstance(given, bool):
        digits = isinstance(given, str) and given.strip().removeprefix("-").isdecimal()
        remedy = f". Write {given.strip()}" if digits else ""  # type: ignore[attr-defined]
        yield f"{name} must be a whole number, {bounds}{also}; got {shown(given)}{remedy}"
    elif given < least or (most is not None and given > most):
        yield f"{name} must be {bounds}{also}; got {given}"


def duration(
    name: str,
    given: object,
    *,
    least: timedelta = timedelta(0),
    most: timedelta | None = None,
    why: str = "",
    unit: str = "seconds",
    optional: bool = False,
) -> Iterator[str]:
    """A timedelta within bounds, or None if optional. ``why``: the reason of the upper bound."""
    if optional and given is None:
        return
    if not isinstance(given, timedelta):
        yield f"{name} must be a timedelta; got {shown(given)}. Write timedelta({unit}=...)"
    elif given < least:
        yield f"{name} must be at least {least}; got {given}"
    elif most is not None and given > most:
        yield f"{name} must be at most {most}; got {given}{why}"


def durations(owner: str, *, optional: bool = False, **given: object) -> Iterator[str]:
    """Timedeltas by their names as arguments of a call, or as fields of an owner."""
    for name, one in given.items():
        yield from duration(f"{name} of {owner}", one, optional=optional)


def seconds(name: str, given: object) -> Iterator[str]:
    """A number of seconds; infinity means no limit."""
    is_number = isinstance(given, int | float) and not isinstance(given, bool)
    if not is_number or not given >= 0:  # type: ignore[operator]  # it is one; NaN is not
        yield f"{name} must be a number of seconds, at least 0; got {shown(given)}"


def share(name: str, given: object) -> Iterator[str]:
    """A number from 0 to 1, or None."""
    if given is None:
        return
    is_number = isinstance(given, int | float) and not isinstance(given, bool)
    if not is_number or not 0 <= given <= 1:  # type: ignore[operator]  # it is one; NaN is not
        yield f"{name} must be a number from 0 to 1, or None; got {shown(given)}"


def emit_interval(name: str, given: object) -> Iterator[str]:
    """A timedelta between two checks for final results, or None for the default."""
    yield from duration(name, given, unit="milliseconds", optional=True)


def flag(name: str, given: object) -> Iterator[str]:
    """True or False, and no other value that counts as one."""
    if not isinstance(given, bool):
        yield f"{name} must be True or False; got {shown(given)}"


def choice(name: str, given: object, allowed: Collection[str]) -> Iterator[str]:
    """One of several words."""
    if not isinstance(given, str) or given not in allowed:
        *words, last = map(repr, allowed)
        yield f"{name} must be {', '.join(words)} or {last}; got {quoted(given)}"


def topic(name: str, given: object) -> Iterator[str]:
    """The name of a topic."""
    if not isinstance(given, str) or not is_topic(given):
        yield (
            f"{name} must be the name of a topic, which has 1 to 249 letters, digits, '.', '_' and"
            f" '-'; got {shown(given)}"
        )


def topic_prefix(name: str, given: object) -> Iterator[str]:
    """The beginning of the names of topics; empty for none."""
    if not isinstance(given, str) or not (given == "" or is_topic(given + "t")):
        yield (
            f"{name} becomes the beginning of the names of topics, which have at most 249 letters,"
            f" digits, '.', '_' and '-'; got {shown(given)}. Write 'staging.', or '' for no prefix"
        )


def positions(name: str, given: Mapping[Any, Any]) -> Iterator[str]:
    """Offsets by partitions in the form ``topic-partition``."""
    for where, offset in given.items():
        if not _PARTITION.fullmatch(str(where)):
            yield f"{name} takes offsets by 'topic-partition'; got {shown(where)}"
        yield from count(f"the offset of {where} in {name}", offset, least=0)


def is_application_id(given: object) -> bool:
    """Return whether it can be part of the names of topics and directories."""
    return isinstance(given, str) and _APPLICATION_ID.fullmatch(given) is not None


def application_id(name: str, given: object) -> Iterator[str]:
    """The name of an application."""
    if not is_application_id(given):
        yield (
            f"{name} becomes part of the names of topics and directories: use letters, digits, '.',"
            f" '_' and '-', not '.' first, at most 100 characters; got {shown(given)}"
        )


def mapping(name: str, given: object, example: str) -> Iterator[str]:
    """A dict."""
    if not isinstance(given, Mapping):
        yield f"{name} must be a dict, such as {example}; got {shown(given)}"


def offset_reset(name: str, given: object) -> Iterator[str]:
    """The start position without a committed offset."""
    if isinstance(given, timedelta):
        if given < timedelta(0):
            positive = "" if given == timedelta.min else f". Write {-given!r}"
            yield (
                f"{name} is a duration back from now, so timedelta(days=1) means yesterday; got"
                f" {given!r}, which is in the future{positive}"
            )
    elif given not in ("earliest", "latest", "none"):
        yield (
            f"{name} must be 'earliest', 'latest', 'none' or a timedelta back from now;"
            f" got {quoted(given)}"
        )


def brokers(name: str, given: object) -> Iterator[str]:
    """Addresses of brokers, as ``host:port,host:port``."""
    if isinstance(given, Collection) and not isinstance(given, (str, bytes, Mapping)):
        joined = ",".join(one for one in given if isinstance(one, str))
        yield f"{name} is one text with commas; got {shown(given)}. Write {quoted(joined)}"
        return
    if not isinstance(given, str):
        yield f"{name} must be 'host:port,host:port'; got {shown(given)}"
        return
    addresses = [address.strip() for address in given.split(",")]
    if not any(addresses):
        yield f"{name} is empty; give the brokers as 'host:port,host:port'"
    for address in filter(None, addresses):
        wrong = _wrong_address(address)
        if wrong:
            found = quoted(address)
            yield f"{name} has {found}, {wrong}. Give the brokers as 'host:port,host:port'"


def _wrong_address(address: str) -> str:
    protocol, separator, place = address.rpartition("://")
    if separator and protocol.lower() not in _PROTOCOLS:
        return f"and {protocol!r} is not a protocol of brokers ({', '.join(_PROTOCOLS)})"
    if any(not letter.isprintable() or letter in " /;\\'\"" for letter in place):
        return "which is not an address"
    host, colon, port = place.rpartition(":")
    if place.startswith("["):
        host, bracket, rest = place[1:].partition("]")
        if not bracket or (rest and not rest.startswith(":")):
            return "which is not an address"
        colon, port = rest[:1], rest[1:]
    elif not colon:
        host = place
    elif ":" in host:
        return f"and an IPv6 address must be in brackets: '[{place}]:9092'"
    if not host:
        return "without a host"
    if colon and not (port.isascii() and port.isdecimal() and 0 < int(port) < 65_536):
        return f"and {port!r} is not a port (1 to 65535)"
    return ""


def shown(given: object) -> str:
    """Return a value and its type, for a message."""
    if given is None:
        return "None"
    name = getattr(given, "__name__", None)
    if callable(given) and isinstance(name, str):
        return f"the {'class' if isinstance(given, type) else 'function'} {name}"
    return f"{quoted(given)} ({type(given).__name__})"
