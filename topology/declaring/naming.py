"""Names: which are legal, and the counter behind generated ones.

One counter per builder. Every operator burns a number even if the user named it, exactly as
Kafka Streams does, so that generated names (which `describe()` shows) come out the same. Names that
end up in a topic or directory name are never generated here: they must be given, because an
inserted operator would shift the numbers and so orphan the state.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from logstate.topology.declaring.declaration_site import declaration_error

MAX_NAME_LENGTH = 249
_LEGAL = re.compile(r"[a-zA-Z0-9._-]+")


def check_name(name: object, what: str) -> str:
    """Return ``name`` if it may be part of a topic name, else raise TopologyError."""
    problem = None
    if not isinstance(name, str):
        problem = f"it is a {type(name).__name__}, not a string"
    elif not name:
        problem = "it is empty"
    elif name in {".", ".."}:
        problem = "'.' and '..' are directory names"
    elif len(name) > MAX_NAME_LENGTH:
        problem = f"it has {len(name)} characters, {MAX_NAME_LENGTH} are allowed"
    elif not _LEGAL.fullmatch(name):
        odd = sorted({c for c in name if not _LEGAL.fullmatch(c)})
        problem = f"it contains {', '.join(map(repr, odd))}"
    if problem is not None:
        raise declaration_error(
            f"{name!r} is not a valid name for {what}: {problem}. Names become part of topic and"
            " directory names, so they consist of letters, digits, '.', '_' and '-'."
        )
    assert isinstance(name, str)
    return name


def joined_name(first: str, second: object, what: str) -> str:
    """Both names as one, of which ``second`` may be empty."""
    if not isinstance(second, str):
        return check_name(second, what)
    return check_name(first + second, what)


def required_name(name: str | None, what: str, why: str, option: str) -> str:
    """The given name, or the error that asks for it."""
    if name is None:
        raise declaration_error(
            f"{what} needs a name: {why}. A generated one would change when an operator is added"
            f" before it, and the state under the old name would be lost. Give {option}."
        )
    return check_name(name, what)


class Names:
    """The counter of one builder."""

    def __init__(self) -> None:
        self._next = 0
        self._suppliers: dict[str, int] = {}

    def skip_number(self) -> int:
        """Use up the next number."""
        number = self._next
        self._next += 1
        return number

    def new(self, prefix: str) -> str:
        """``KSTREAM-MAP-0000000003``."""
        return f"{prefix}{self.skip_number():010d}"

    def new_store(self, prefix: str) -> str:
        """``KSTREAM-AGGREGATE-STATE-STORE-0000000003``."""
        return f"{prefix}STATE-STORE-{self.skip_number():010d}"

    def of_supplier(self, supplier: Callable[..., Any]) -> str:
        """A name for the schedules of an operator that the user did not name.

        Due times are committed under it, so it must not shift when another operator is inserted: it
        is that of the processor's class or function, with a number from the second use on.
        """
        name = getattr(supplier, "__qualname__", type(supplier).__qualname__)
        count = self._suppliers[name] = self._suppliers.get(name, 0) + 1
        return name if count == 1 else f"{name}#{count}"

    def named(self, name: str | None, prefix: str) -> str:
        """The given name (checked) or a generated one; a number is burnt either way."""
        generated = self.new(prefix)
        return generated if name is None else check_name(name, "an operator")

    def suffixed(self, name: str | None, suffix: str, prefix: str) -> str:
        """``name + suffix`` or a generated name; a number is burnt either way."""
        generated = self.new(prefix)
        if name is None:
            return generated
        return check_name(check_name(name, "an operator") + suffix, "an operator")
