"""Pickle classes that a script itself defines: msgspec Structs, and names used by annotations.

cloudpickle creates a class without its fields and sets its attributes afterwards. A Struct must
have its fields when it is created, so it is created again from its declaration. Annotations that
are strings (``from __future__ import annotations``) are looked up in the module of the class, which
in the other process is a different ``__main__``: the names that they use are sent along.
"""

from __future__ import annotations

import ast
import inspect
import sys
import uuid
from collections.abc import Callable, Container
from typing import Any, NamedTuple, TypeAlias
from weakref import WeakKeyDictionary, WeakValueDictionary

import msgspec

_Setter: TypeAlias = "Callable[[type, Any], object]"
#: a return value of `__reduce__`
Reduced: TypeAlias = "tuple[Any, ...]"

#: a class that was sent is the same class when it comes back
_id_of: WeakKeyDictionary[type, str] = WeakKeyDictionary()
_with_id: WeakValueDictionary[str, type] = WeakValueDictionary()

_OPTIONS = (
    *("frozen", "eq", "order", "array_like", "gc", "repr_omit_defaults", "omit_defaults"),
    *("forbid_unknown_fields", "weakref", "dict", "cache_hash", "tag", "tag_field"),
)
#: attributes that are created with the class, or rebuilt on demand
_MADE = {"__dict__", "__weakref__", "__match_args__", "__annotations__", "__slots__"}
_MADE_PREFIXES = ("__struct_", "__msgspec_", "_abc_", "__abstract")
#: attribute for a __post_init__ that is set after the class is created
_POST_INIT = "_sent_post_init"


class _Declaration(NamedTuple):
    """The arguments for creating a Struct class."""

    identity: str
    name: str
    module: str
    bases: tuple[type, ...]
    #: with ``Generic[T]``, if present
    original_bases: tuple[Any, ...] | None
    annotations: dict[str, Any]
    #: field -> whether the default is a factory, and the default
    defaults: dict[str, tuple[bool, Any]]
    options: dict[str, Any]
    has_post_init: bool


def reduced_struct(cls: type[msgspec.Struct]) -> Reduced:
    """Reduce a Struct class: its declaration first, its methods after its creation."""
    identity = _id_of.setdefault(cls, uuid.uuid4().hex)
    _with_id[identity] = cls
    own = dict(vars(cls))
    annotations = dict(own.get("__annotations__", {}))
    declaration = _Declaration(
        identity,
        cls.__name__,
        cls.__module__,
        cls.__bases__,
        own.get("__orig_bases__"),
        annotations,
        _defaults(cls, annotations),
        _options(cls, annotations),
        "__post_init__" in own,
    )
    made = _MADE | annotations.keys()
    rest = {
        name: value
        for name, value in own.items()
        if name not in made and not name.startswith(_MADE_PREFIXES)
    }
    return _made, tuple(declaration), (rest, names_in_annotations(cls)), None, None, _complete


def with_names(cls: type, reduced: Reduced) -> Reduced:
    """Add the names that its annotations use to cloudpickle's reduction of another class."""
    names = names_in_annotations(cls)
    if not names or len(reduced) < 6 or reduced[5] is None:
        return reduced
    make, arguments, state, _, _, setter = reduced
    return make, arguments, (setter, state, names), None, None, _set_with_names


def names_in_annotations(cls: type) -> dict[str, Any]:
    """Return the objects of the script that string annotations of a class refer to."""
    if cls.__module__ != "__main__":  # the other process can import the module, or the names fail
        return {}
    known = vars(sys.modules["__main__"])
    texts = [one for one in vars(cls).get("__annotations__", {}).values() if isinstance(one, str)]
    return {name: known[name] for text in texts for name in _names(text) if name in known}


def _names(text: str) -> set[str]:
    try:
        tree = ast.parse(text, mode="eval")
    except SyntaxError:
        return set()
    found = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    for node in ast.walk(tree):  # a nested string: list["Event"]
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            found |= _names(node.value)
    return found


def _defaults(cls: type[msgspec.Struct], own: Container[str]) -> dict[str, tuple[bool, Any]]:
    fields, defaults = cls.__struct_fields__, cls.__struct_defaults__
    found = {}
    for name, default in zip(fields[len(fields) - len(defaults) :], defaults, strict=True):
        if name in own and default is not msgspec.NODEFAULT:
            is_factory = type(default).__module__.startswith("msgspec")
            found[name] = (is_factory, default.factory if is_factory else default)
    return found


def _options(cls: type[msgspec.Struct], own: Container[str]) -> dict[str, Any]:
    config = cls.__struct_config__
    options = {name: getattr(config, name) for name in _OPTIONS if hasattr(config, name)}
    encoded = zip(cls.__struct_fields__, cls.__struct_encode_fields__, strict=True)
    options["rename"] = {name: other for name, other in encoded if name in own and name != other}
    parameters = inspect.signature(cls).parameters.values()
    options["kw_only"] = any(one.name in own and one.kind is one.KEYWORD_ONLY for one in parameters)
    return options


def _made(*declared: Any) -> type:
    declaration = _Declaration(*declared)
    if (known := _with_id.get(declaration.identity)) is not None:
        return known
    namespace: dict[str, Any] = {
        "__annotations__": declaration.annotations,
        "__module__": declaration.module,
    }
    if declaration.original_bases is not None:
        namespace["__orig_bases__"] = declaration.original_bases
    for field, (is_factory, default) in declaration.defaults.items():
        namespace[field] = msgspec.field(default_factory=default) if is_factory else default
    if declaration.has_post_init:  # its existence is fixed at creation, its code is set afterwards
        namespace["__post_init__"] = lambda self: getattr(type(self), _POST_INIT)(self)
    bases = declaration.bases
    cls: type = type(bases[0])(declaration.name, bases, namespace, **declaration.options)
    _id_of[cls] = declaration.identity
    _with_id[declaration.identity] = cls
    return cls


def _complete(cls: type, state: tuple[dict[str, Any], dict[str, Any]]) -> None:
    rest, names = state
    for name, value in rest.items():
        setattr(cls, _POST_INIT if name == "__post_init__" else name, value)
    _define(names)


def _set_with_names(cls: type, state: tuple[_Setter, Any, dict[str, Any]]) -> None:
    setter, inner, names = state
    setter(cls, inner)
    _define(names)


def _define(names: dict[str, Any]) -> None:
    main = vars(sys.modules["__main__"])
    for name, value in names.items():
        main.setdefault(name, value)
