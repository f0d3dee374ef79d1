"""Pickle objects for worker processes: by reference if possible, else by value.

A function of an importable module is sent as its name. A lambda, a nested function and everything
that a script itself defines have no name that another process could import: they are sent by value,
with cloudpickle (``logstate[workers]``). Only this module imports cloudpickle.

Only for the two ends of a pipe between a parent and the process that it started: never unpickle
data from any other source with it.
"""

from __future__ import annotations

import io
import pickle
import struct
from collections.abc import Callable
from types import FunctionType, ModuleType
from typing import Any, TypeAlias

import msgspec

from logstate.app.instance.classes_by_value import reduced_struct, with_names
from logstate.contracts.error_text import text_of
from logstate.contracts.errors import ConfigError

try:
    import cloudpickle as _cloudpickle
except ImportError:
    _cloudpickle = None

cloudpickle: ModuleType | None = _cloudpickle
#: attribute where msgspec caches what it knows about a dataclass; it is rebuilt on demand
_MSGSPEC_CACHE = "__msgspec_cache__"
#: hint for errors about user objects that cannot be unpickled
UNPICKLED_HINT = (
    "Unpickling calls what __reduce__ returns, and creates an exception from its args: define"
    " __reduce__ so that this works, or use an object of a simpler type"
)

_Reduced: TypeAlias = "tuple[Callable[..., Any], tuple[Any, ...]]"


def dumps(value: object) -> bytes:
    """Pickle a value. Raises ConfigError if something in it cannot be pickled."""
    try:
        return _bytes_of(value)
    except ConfigError:
        raise
    except Exception as error:
        raise ConfigError(
            f"an object that the worker processes need cannot be sent to them: {text_of(error)}. A"
            " topology or a handler refers to an object that belongs to this process: a lock, a"
            " file, a connection. Create it in Processor.init, or pass Application the topology by"
            " reference: 'module:attribute', or a function of a module that returns it"
        ) from error


def loads(data: bytes) -> Any:
    """Unpickle a value."""
    return pickle.loads(data)  # noqa: S301  from the process at the other end, see the module


def _bytes_of(value: object) -> bytes:
    out = io.BytesIO()
    if cloudpickle is None:
        _ByReference(out).dump(value)
    else:
        _by_value(out).dump(value)
    return out.getvalue()


class _ByReference(pickle.Pickler):
    """Without cloudpickle: refuses objects that the other process could not import."""

    def reducer_override(self, value: Any) -> Any:
        reduced = _reduced(value)
        if reduced is not None:
            return reduced
        if isinstance(value, FunctionType | type) and not _has_name(value):
            code = getattr(value, "__code__", None)
            at = f" at {code.co_filename}:{code.co_firstlineno}" if code is not None else ""
            raise ConfigError(
                f"{value.__qualname__}{at} cannot be imported by a worker process, because it is"
                f" defined in {_module_text(value)}. Move it into a module, or install cloudpickle"
                " to send it by value: pip install 'logstate[workers]'"
            )
        return NotImplemented


def _by_value(out: io.BytesIO) -> Any:
    assert cloudpickle is not None

    class ByValue(cloudpickle.Pickler):  # type: ignore[misc, name-defined]
        def reducer_override(self, value: Any) -> Any:
            reduced = _reduced(value)
            if reduced is not None:
                return reduced
            is_sent = isinstance(value, type) and not _has_name(value)
            if is_sent and issubclass(value, msgspec.Struct):
                return reduced_struct(value)
            reduced = super().reducer_override(value)
            return with_names(value, reduced) if is_sent and isinstance(reduced, tuple) else reduced

    return ByValue(out)


def _reduced(value: Any) -> _Reduced | None:
    """Return how to pickle serde objects that have no pickled form themselves."""
    kind = type(value)
    if kind is struct.Struct:
        return struct.Struct, (value.format,)
    if kind in (msgspec.json.Decoder, msgspec.msgpack.Decoder):
        return _decoder, (kind, value.type, value.strict, value.dec_hook)
    if kind in (msgspec.json.Encoder, msgspec.msgpack.Encoder):
        options = {"decimal_format": value.decimal_format, "uuid_format": value.uuid_format}
        return _encoder, (kind, value.enc_hook, value.order, options)
    if isinstance(value, type) and _MSGSPEC_CACHE in vars(value) and not _has_name(value):
        delattr(value, _MSGSPEC_CACHE)
    return None


def _decoder(kind: Any, type_: Any, strict: bool, hook: Any) -> Any:
    return kind(type_, strict=strict, dec_hook=hook)


def _encoder(kind: Any, hook: Any, order: Any, options: dict[str, Any]) -> Any:
    return kind(enc_hook=hook, order=order, **options)


def _has_name(value: FunctionType | type) -> bool:
    return value.__module__ != "__main__" and "<" not in value.__qualname__


def _module_text(value: FunctionType | type) -> str:
    return "the script itself" if value.__module__ == "__main__" else "a function, or is a lambda"
