"""How classes travel that a script itself defines: those of msgspec, and what annotations name.

cloudpickle makes a class without its fields first and sets its attributes afterwards. A Struct has
its fields from the moment it is made or never, so it is made anew from what it was declared with.
Annotations that are text (``from __future__ import annotations``) are looked up in the module of
the class, which in the other process is another ``__main__``: the names they use travel along.
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
#: what `__reduce__` may return
Reduced: TypeAlias = "tuple[Any, ...]"

#: a class that has travelled is one class on the way back
_id_of: WeakKeyDictionary[type, str] = WeakKeyDictionary()
_with_id: WeakValueDictionary[str, type] = WeakValueDictionary()

_OPTIONS = (
    *("frozen", "eq", "order", "array_like", "gc", "repr_omit_defaults", "omit_defaults"),
    *("forbid_unknown_fields", "weakref", "dict", "cache_hash", "tag", "tag_field"),
)
#: made with the class, or found out again
_MADE = {"__dict__", "__weakref__", "__match_args__", "__annotations__", "__slots__"}
_MADE_PREFIXES = ("__struct_", "__msgspec_", "_abc_", "__abstract")
#: the attribute under which it comes after the class
_POST_INIT = "_sent_post_init"


class _Declaration(NamedTuple):
    """What a Struct class is made with."""

    identity: str
    name: str
    module: str
    bases: tuple[type, ...]
    #: with ``Generic[T]``, where there is such
    original_bases: tuple[Any, ...] | None
    annotations: dict[str, Any]
    #: field -> whether it is a factory, and it
    defaults: dict[str, tuple[bool, Any]]
    options: dict[str, Any]
    has_post_init: bool


def reduced_struct(cls: type[msgspec.Struct]) -> Reduced:
    """How a Struct class travels: its declaration first, its methods when it is there."""
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
    """What cloudpickle makes of another class, and the names that its annotations use."""
    names = names_in_annotations(cls)
    if not names or len(reduced) < 6 or reduced[5] is None:
        return reduced
    make, arguments, state, _, _, setter = reduced
    return make, arguments, (setter, state, names), None, None, _set_with_names


def names_in_annotations(cls: type) -> dict[str, Any]:
    """What the annotations of a class that are text find in the script."""
    if cls.__module__ != "__main__":  # the other process imports the module, or nobody finds them
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
    for node in ast.walk(tree):  # a text in a text: list["Event"]
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
    if declaration.has_post_init:  # that there is one is settled here, which one when it is there
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
