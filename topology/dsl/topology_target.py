"""Finding a topology by ``MODULE:ATTRIBUTE``, as commands are given it.

The attribute is a topology, a builder that was not built yet, or a function without arguments that
returns one of them. Importing a module runs it: give only modules of your own.
"""

from __future__ import annotations

import importlib
import inspect
import sys
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, cast

from logstate.contracts.error_text import text_of
from logstate.contracts.errors import ConfigError
from logstate.topology.dsl.builder import StreamsBuilder
from logstate.topology.graph.blame import blame
from logstate.topology.plan.plan import Topology

_SHAPE = "Give MODULE:ATTRIBUTE, for example shop.spending:topology."


def load_topology(target: str, *, directory: str | None = None) -> Topology:
    """The topology that ``target`` names; modules of ``directory`` (default: here) are found.

    >>> load_topology("shop.spending")
    Traceback (most recent call last):
        ...
    logstate.contracts.errors.ConfigError: 'shop.spending' names no attribute. Give
    MODULE:ATTRIBUTE, for example shop.spending:topology.

    Raises ConfigError if there is none, and what the module itself raises.
    """
    found = load_attribute(target, directory=directory)
    if isinstance(found, FunctionType):
        _check_takes_nothing(found, target)
        found = found()
    return _checked(found.build() if isinstance(found, StreamsBuilder) else found, target)


def load_attribute(target: str, *, directory: str | None = None) -> Any:
    """Whatever ``target`` names. Raises ConfigError if there is nothing."""
    module_name, colon, attribute = target.partition(":")
    if not colon or not module_name or not attribute:
        raise ConfigError(f"{target!r} names no attribute. {_SHAPE}")
    return _attribute(module_name, attribute, directory)


def resolved(target: object) -> tuple[Topology, object]:
    """The topology, and what another process makes it of: a name, a function, or itself.

    ``target`` is a topology, a ``MODULE:ATTRIBUTE``, or a function without arguments that returns
    a topology or a builder.
    """
    if isinstance(target, str):
        return load_topology(target), target
    if isinstance(target, FunctionType):
        name = f"{target.__module__}:{target.__qualname__}"
        _check_takes_nothing(target, name)
        found = target()
        built = found.build() if isinstance(found, StreamsBuilder) else found
        return _checked(built, name), target
    return cast("Topology", target), target


def _checked(found: object, target: str) -> Topology:
    if not isinstance(found, Topology):
        raise ConfigError(
            f"{target!r} is a {type(found).__name__}, not a topology. Name a Topology, a"
            " StreamsBuilder, or a function without arguments that returns one."
        )
    return found


def _attribute(module_name: str, attribute: str, directory: str | None) -> object:
    place = str(Path(directory or ".").resolve())
    if place not in sys.path:
        sys.path.insert(0, place)
    if not all(part.isidentifier() for part in module_name.split(".")):
        raise ConfigError(
            f"{module_name!r} is not a valid module name: write shop.spending for the file"
            " shop/spending.py, without its suffix, in the directory where the package begins."
        )
    try:
        module = importlib.import_module(module_name)
    except SystemExit as error:
        culprit = blame(error).function or module_name
        raise ConfigError(
            f"Module {module_name!r} ended the process while it was imported: SystemExit"
            f" {error.code!r}, in {culprit}. What it does as a script belongs below"
            ' `if __name__ == "__main__":`.'
        ) from error
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise  # the module is there; what it imports is not
        raise ConfigError(
            f"Module {error.name!r} was not found in {place} or in this environment. Start the"
            " command in the directory where the module's package begins."
        ) from error
    found: object = module
    for name in attribute.split("."):
        if not hasattr(found, name):
            fitting = ", ".join(_candidate_names(module)) or "none"
            raise ConfigError(
                f"Module {module_name!r} has no attribute {attribute!r}. What may be a topology in"
                f" it: {fitting}."
            )
        found = getattr(found, name)
    return found


def _candidate_names(module: ModuleType) -> list[str]:
    """Names of topologies, builders, and functions of the module's own."""
    return [
        name
        for name, one in vars(module).items()
        if isinstance(one, Topology | StreamsBuilder)
        or (isinstance(one, FunctionType) and one.__module__ == module.__name__)
    ]


def _check_takes_nothing(function: FunctionType, target: str) -> None:
    try:
        inspect.signature(function).bind()
    except TypeError as error:
        raise ConfigError(
            f"{target!r} cannot be called without arguments: {text_of(error)}."
            " Give its parameters defaults,"
            " or name a function that calls it."
        ) from error
