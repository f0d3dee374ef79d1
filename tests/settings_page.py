"""The table of docs/settings.md, from Settings and the docstring of Application."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, Field, fields
from datetime import timedelta

from logstate.app.application import Application
from logstate.app.settings import Settings
from tests.architecture_page import between


def rendered(page: str) -> str:
    """The page with the current table."""
    return between(page, "settings", "\n".join(_table()))


def meanings(docstring: str) -> Mapping[str, str]:
    """The text of each argument in the section ``Args`` of a docstring.

    >>> meanings("Do.\\n\\nArgs:\\n    a, b: two\\n        lines.\\n\\nRaises:\\n    E: no.\\n")
    {'a': 'two lines.', 'b': 'two lines.'}
    """
    section = docstring.partition("Args:\n")[2].partition("\n\n")[0]
    found = {}
    for entry in re.split(r"\n    (?=\w)", "\n" + section)[1:]:
        names, _, text = entry.partition(": ")
        for name in names.split(", "):
            found[name] = " ".join(text.split())
    return found


def _table() -> Iterator[str]:
    texts = meanings(inspect.getdoc(Application) or "")
    yield "| setting | type | default | meaning |"
    yield "|---|---|---|---|"
    for each in fields(Settings):
        kind = str(each.type).replace("|", "\\|")
        text = re.sub(r":class:`~?([\w.]+)`", r"`\1`", texts[each.name]).replace("``", "`")
        yield f"| `{each.name}` | `{kind}` | {_default(each)} | {text} |"


def _default(setting: Field[object]) -> str:
    default = setting.default
    if default is MISSING:
        return "" if setting.default_factory is MISSING else f"`{setting.default_factory()!r}`"
    if isinstance(default, timedelta):
        return f"{default.total_seconds():g} s"
    return f"`{default!r}`"
