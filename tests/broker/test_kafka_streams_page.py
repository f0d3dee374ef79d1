"""The page that translates Kafka Streams names every public class of it."""

from __future__ import annotations

import re
import struct
import zipfile
from collections.abc import Iterator

from logstate.local_broker.jar_list import KAFKA_VERSION
from logstate.local_broker.java import find_java
from tests.campaigns.differential.jvm import streams_jars
from tests.pages import ROOT

PAGE = ROOT / "docs" / "kafka-streams-api.md"
_PUBLIC = 0x0001
#: classes that are not inside another one, or in a package for the library alone
_API = re.compile(r"org/apache/kafka/streams/(?!.*internals/)[^$]*\.class")
#: the bytes behind the tag of an entry of a class file's constants
_SIZES = {3: 4, 4: 4, 5: 8, 6: 8, 7: 2, 8: 2, 9: 4, 10: 4, 11: 4, 12: 4, 15: 3, 16: 2, 17: 4, 18: 4}


def is_public(data: bytes) -> bool:
    """Whether a class file is that of a public class: its flags follow its constants."""
    (count,) = struct.unpack_from(">H", data, 8)
    offset, number = 10, 1
    while number < count:
        tag = data[offset]
        text = struct.unpack_from(">H", data, offset + 1)[0] + 2 if tag == 1 else 0
        offset += 1 + (text or _SIZES[tag])
        number += 2 if tag in (5, 6) else 1
    return bool(struct.unpack_from(">H", data, offset)[0] & _PUBLIC)


def public_classes() -> Iterator[str]:
    for jar in streams_jars(find_java()).glob(f"kafka-streams*-{KAFKA_VERSION}.jar"):
        with zipfile.ZipFile(jar) as classes:
            for name in classes.namelist():
                if _API.fullmatch(name) and is_public(classes.read(name)):
                    yield name.rpartition("/")[2].removesuffix(".class")


def test_the_page_has_a_counterpart_or_a_reason_for_every_public_class() -> None:
    rows = re.findall(r"^\| (.*?) \| (.*?) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    translated = {name for left, right in rows if right for name in re.findall(r"`(\w+)[`.]", left)}
    found = set(public_classes())
    assert len(found) > 200
    assert sorted(found - translated) == []
    assert KAFKA_VERSION.rpartition(".")[0] in PAGE.read_text(encoding="utf-8")
