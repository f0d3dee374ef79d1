"""What others write into a source topic that serves as changelog is read as the rows it makes."""

from __future__ import annotations

from typing import Any

import pytest

from logstate.changelog.cuts.source_topic_records import as_stored, is_json_null
from logstate.serdes import avro, int64, json, json_of, string
from logstate.testing.fake.fetched import StoredRecord

KEY, VALUE = json.describe(), json_of(dict[str, int] | None).describe()
NULLABLE = avro(["null", "string"]).describe()


def entry(key: Any = KEY, value: Any = VALUE, changelog: str = "users") -> dict[str, Any]:
    sources = {"source_topics": ["orders", "users"], "changelog_topic": changelog}
    return {"kind": "timestamped_key_value", "key": key, "value": value, **sources}


def records(*pairs: tuple[bytes | None, bytes | None]) -> list[Any]:
    return [
        StoredRecord("users", 0, offset, key, value, 5, None)
        for offset, (key, value) in enumerate(pairs)
    ]


def pairs_of(found: list[Any]) -> list[tuple[bytes | None, bytes | None]]:
    return [(record.key(), record.value()) for record in found]


@pytest.mark.parametrize(
    ("value", "null", "there"),
    [
        (VALUE, b"null", b'{"a":1}'),
        (json.describe(), b" null\n", b'"null"'),
        (json.describe(), b"null", b"0"),
        (NULLABLE, b"\x00", b"\x02\x04hi"),
        (NULLABLE, b"\x00", b"\x02\x00"),
    ],
)
def test_what_is_null_in_the_values_format_deletes_the_row(
    value: Any, null: bytes, there: bytes
) -> None:
    found = as_stored(entry(value=value))(records((b'"k"', there), (b'"k"', null), (b'"l"', None)))
    assert pairs_of(found) == [(b'"k"', there), (b'"k"', None), (b'"l"', None)]
    assert [(r.offset(), r.timestamp()[1], r.partition()) for r in found] == [
        (0, 5, 0),
        (1, 5, 0),
        (2, 5, 0),
    ]


def test_a_json_key_is_the_same_key_however_it_is_written() -> None:
    found = as_stored(entry())(records((b'{"b":1, "a":2}', b"{}"), (b'{"a":2,"b":1}', b"null")))
    assert pairs_of(found) == [(b'{"a":2,"b":1}', b"{}"), (b'{"a":2,"b":1}', None)]


def test_what_cannot_be_told_is_left_to_whoever_decodes_it() -> None:
    given = records((b"{", b"nul"), (b"\xff", b"nul"), (None, b"null " * 100))
    assert pairs_of(as_stored(entry())(given)) == pairs_of(given)
    given = records((b"k", b"\xff"))
    assert pairs_of(as_stored(entry(value=NULLABLE))(given)) == pairs_of(given)


@pytest.mark.parametrize(
    "one",
    [
        entry(changelog="app-users-changelog"),
        entry(key=string.describe(), value=int64.describe()),
        {"kind": "key_value"},
    ],
)
def test_records_of_a_changelog_are_read_as_they_are(one: dict[str, Any]) -> None:
    given = records((b'{"b":1, "a":2}', b"null"))
    assert as_stored(one)(given) == given


@pytest.mark.parametrize("text", [b"null", b"\tnull\r\n", b" null "])
def test_a_null_document_may_have_blanks_around_it(text: bytes) -> None:
    assert is_json_null(text)
    assert json.deserializer("t", False)(text) is None
