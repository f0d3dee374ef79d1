"""Planting a bug as it is made: other words in the text of one function."""

from __future__ import annotations
import __future__

import inspect
import textwrap
from typing import Any

from tests.campaigns.simulation.planted.bug import Patch


class StaleEdit(AssertionError):
    """The words are not in the function, or more than once: the planted bug is out of date."""


def edit(patch: Patch, owner: Any, name: str, old: str, new: str, *, also: Any = None) -> None:
    """``old`` becomes ``new`` in the text of ``owner.name``, a class's or a module's function.

    ``also``: a module that has imported the function by its name.
    """
    found = owner.__dict__[name]
    function = found.fget if isinstance(found, property) else getattr(found, "__func__", found)
    source = textwrap.dedent(inspect.getsource(function))
    if source.count(old) != 1:
        raise StaleEdit(f"{source.count(old)} times in {owner.__name__}.{name}: {old!r}")
    # Outside of the class nothing tells super() whose it is.
    source = source.replace("super()", f"super({owner.__name__}, self)")
    flags = __future__.annotations.compiler_flag
    code = compile(source.replace(old, new), f"<planted in {name}>", "exec", flags, True)
    defined: dict[str, Any] = {}
    exec(code, function.__globals__, defined)
    for place in (owner,) if also is None else (owner, also):
        patch(place, name, defined[name])


def edit_clock(patch: Patch, owner: Any, name: str, old: str) -> None:
    """The clock ``old`` is in no cut: it begins with the process, and an abort leaves it."""
    edit(patch, owner, name, old, 'type(task.time_cell("clock"))()')


def edit_once(patch: Patch, owner: Any, name: str, old: str, mark: str) -> None:
    """The statement ``old`` runs once per ``mark`` and process, also where an abort undid it."""
    done, statement = f"globals().setdefault({old!r}, set())", old.lstrip()
    once = f"if {mark} not in {done}: {done}.add({mark}); {statement}"
    edit(patch, owner, name, old, old.replace(statement, once))
