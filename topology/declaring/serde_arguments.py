"""Serdes that users give or leave out: the given one, else the inherited one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from logstate.contracts.errors import SerdeError
from logstate.contracts.serde import Serde
from logstate.serdes.built_in import serde_of
from logstate.topology.declaring.declaration_site import declaration_error
from logstate.topology.declaring.late_binding import note_variables


def optional_serde(spec: Any, inherited: Serde[Any] | None, what: str) -> Serde[Any] | None:
    """The given serde, else the inherited one, which may be unknown."""
    return inherited if spec is None else _checked(spec, what)


def required_serde(
    spec: Any,
    inherited: Serde[Any] | None,
    what: str,
    option: str,
    *,
    missing: Callable[[], str] | None = None,
) -> Serde[Any]:
    """The given serde, else the inherited one, else TopologyError.

    ``missing`` returns which operator above left it out; None at the top.
    """
    if spec is not None:
        return _checked(spec, what)
    if inherited is not None:
        return inherited
    why, where = "its bytes cannot be read or written without one", ""
    if missing is not None:
        why, where = missing(), " here, or say it there"
    raise declaration_error(
        f"No serde for {what}: {why}. Give {option}{where}: a type (str, int, bytes, dict,"
        " a msgspec.Struct, a dataclass) or a serde (string, int64, json, avro(...))."
    )


def _checked(spec: Any, what: str) -> Serde[Any]:
    try:
        serde = serde_of(spec, what=what)
        note_variables(serde, f"serde of {what}")
        return serde
    except SerdeError as error:
        raise declaration_error(str(error)) from error
