"""Types of columns as SQL writes them (DDL), as the JSON schema of the documents that fill them.

    customer string, orders bigint, lines array<struct<sku: string, pieces: int>>

Whole numbers of any width become bigint, numbers with a point double: JSON knows no others.
"""

from __future__ import annotations

import re
from typing import Any

from logstate.contracts.errors import ConfigError

Schema = dict[str, Any]

_TEXT: Schema = {"type": "string"}
_INTEGER: Schema = {"type": "integer"}
_NUMBER: Schema = {"type": "number"}
_DECIMAL: Schema = {**_TEXT, "format": "decimal"}
_SCALARS: dict[str, Schema] = {
    **dict.fromkeys(("tinyint", "byte", "smallint", "short", "int", "integer"), _INTEGER),
    **dict.fromkeys(("bigint", "long"), _INTEGER),
    **dict.fromkeys(("float", "real", "double"), _NUMBER),
    **dict.fromkeys(("string", "varchar", "char"), _TEXT),
    "boolean": {"type": "boolean"},
    "timestamp": {**_TEXT, "format": "date-time"},
    "date": {**_TEXT, "format": "date"},
    "binary": {**_TEXT, "contentEncoding": "base64"},
    **dict.fromkeys(("decimal", "dec", "numeric"), _DECIMAL),
}
_WORD = re.compile(r"\s*(`(?:[^`]|``)+`|\w+|[<>(),:]|\S)")


def schema_of_ddl(text: str) -> Schema:
    """The JSON schema of a document with these columns; or of one value, for a single type.

    Raises ConfigError saying where it is not understood.

    >>> schema_of_ddl("n bigint, s string")["properties"]
    {'n': {'type': 'integer'}, 's': {'type': 'string'}}
    >>> schema_of_ddl("array<double>")
    {'type': 'array', 'items': {'type': 'number'}}
    """
    words = [match.group(1) for match in _WORD.finditer(text)]
    reader = _Reader(text, words)
    is_one_type = len(words) == 1 or (len(words) > 1 and words[1] in "<(")
    found = reader.type() if is_one_type else reader.fields(end=None)
    reader.expect_end()
    return found


class _Reader:
    """Goes through the words of a text once."""

    def __init__(self, text: str, words: list[str]) -> None:
        self._text, self._words, self._at = text, words, 0

    def fields(self, end: str | None) -> Schema:
        """``name type, name: type``, up to ``end``."""
        properties = {}
        while True:
            name = self._next("a name").strip("`").replace("``", "`")
            self._skip(":")
            properties[name] = self.type()
            if self._skip("not"):  # not null: a promise of the writer, like all of a schema
                self._expect("null")
            if not self._skip(","):
                break
        if end is not None:
            self._expect(end)
        return {"type": "object", "properties": properties}

    def type(self) -> Schema:
        """One type."""
        name = self._next("a type").lower()
        if name == "struct":
            self._expect("<")
            return self.fields(end=">")
        if name == "array":
            self._expect("<")
            item = self.type()
            self._expect(">")
            return {"type": "array", "items": item}
        if name == "map":
            return self._map()
        if name not in _SCALARS:
            self._refuse(f"{name!r} is not a supported type; use one of {', '.join(_SCALARS)}")
        if self._skip("("):  # decimal(10, 2), varchar(20)
            while not self._skip(")"):
                self._next("a number or )")
        return _SCALARS[name]

    def expect_end(self) -> None:
        """Nothing may follow."""
        if self._at < len(self._words):
            self._refuse(f"nothing was expected behind it, and {self._words[self._at]!r} is there")

    def _map(self) -> Schema:
        self._expect("<")
        if self.type() != _TEXT:
            self._refuse("the keys of a map are strings in JSON")
        self._expect(",")
        item = self.type()
        self._expect(">")
        return {"type": "object", "additionalProperties": item}

    def _next(self, what: str) -> str:
        if self._at >= len(self._words):
            self._refuse(f"{what} is missing at its end")
        self._at += 1
        return self._words[self._at - 1]

    def _skip(self, word: str) -> bool:
        is_there = self._at < len(self._words) and self._words[self._at].lower() == word
        self._at += is_there
        return is_there

    def _expect(self, word: str) -> None:
        if not self._skip(word):
            found = self._words[self._at] if self._at < len(self._words) else "its end"
            self._refuse(f"{word!r} was expected and {found!r} is there")

    def _refuse(self, why: str) -> None:
        read = " ".join(self._words[: self._at])
        raise ConfigError(f"the schema {self._text!r} is not understood behind {read!r}: {why}")
