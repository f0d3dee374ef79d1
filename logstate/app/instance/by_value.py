"""What goes to a worker process and comes back: by reference where it can, else by value.

A function of a module that can be imported travels as its name. A lambda, a function inside another
and whatever a script itself defines have no name that another process could import: they travel by
value, through cloudpickle (``logstate[workers]``), which nobody else imports.

Only for the two ends of a pipe between a parent and the process it started: never read with it what
comes from anywhere else.
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
#: where msgspec keeps what it knows about a dataclass; it finds it out again
_MSGSPEC_CACHE = "__msgspec_cache__"
#: for errors about what an object of the user's does not survive
UNPICKLED_HINT = (
    "An object is made again from what its __reduce__ returns, an exception from its args: define"
    " __reduce__ so that it can be, or use an object of a simpler type"
)

_Reduced: TypeAlias = "tuple[Callable[..., Any], tuple[Any, ...]]"


def dumps(value: object) -> bytes:
    """The bytes of a value. Raises ConfigError where something in it cannot travel."""
    try:
        return _bytes_of(value)
    except ConfigError:
        raise
    except Exception as error:
        raise ConfigError(
            f"something that the worker processes need cannot be sent to them: {text_of(error)}."
            " A topology"
            " or a handler holds an object that belongs to this process: a lock, a file, a"
            " connection. Make it in Processor.init, or give Application the topology by reference:"
            " 'module:attribute', or a function of a module that returns it"
        ) from error


def loads(data: bytes) -> Any:
    """The value again."""
    return pickle.loads(data)  # noqa: S301  from the process at the other end, see the module


def _bytes_of(value: object) -> bytes:
    out = io.BytesIO()
    if cloudpickle is None:
        _ByReference(out).dump(value)
    else:
        _by_value(out).dump(value)
    return out.getvalue()


class _ByReference(pickle.Pickler):
    """Without cloudpickle: refuses what the other process could not import."""

    def reducer_override(self, value: Any) -> Any:
        reduced = _reduced(value)
        if reduced is not None:
            return reduced
        if isinstance(value, FunctionType | type) and not _has_name(value):
            code = getattr(value, "__code__", None)
            at = f" at {code.co_filename}:{code.co_firstlineno}" if code is not None else ""
            raise ConfigError(
                f"{value.__qualname__}{at} cannot be imported by a worker process, because it is"
                f" defined in {_home(value)}. Move it into a module, or have it sent: pip install"
                " 'logstate[workers]', which needs cloudpickle"
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
    """How objects of the serdes travel that have no pickled form of their own."""
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


def _home(value: FunctionType | type) -> str:
    return "the script itself" if value.__module__ == "__main__" else "a function, or is a lambda"
