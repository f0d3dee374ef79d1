"""Mistakes of whoever wants a broker on this machine."""

from __future__ import annotations

import hashlib
import tempfile
from pathlib import Path

from logstate.local_broker.jar_list import Jar
from logstate.local_broker.jars import jar_set
from tests.mistakes.mistake import mistake

THING = Jar("org.example:thing:1.0", 5, hashlib.sha256(b"thing").hexdigest())


def fetched(repository: str) -> Path:
    environ = {"LOGSTATE_CACHE_DIR": tempfile.mkdtemp(), "LOGSTATE_MAVEN_URL": repository}
    return jar_set("thing", (THING,), environ)


@mistake("LOGSTATE_MAVEN_URL", "'mirror.example/maven'", "https://")
def a_mirror_of_jars_is_no_address() -> None:
    fetched("mirror.example/maven")


@mistake("org.example:thing:1.0", "thing-1.0.jar", "LOGSTATE_MAVEN_URL", "LOGSTATE_BOOTSTRAP")
def a_mirror_of_jars_has_nothing() -> None:
    fetched(Path(tempfile.mkdtemp()).as_uri())


@mistake("thing-1.0.jar", "SHA-256", THING.sha256, "another repository")
def a_mirror_of_jars_answers_with_something_else() -> None:
    path = Path(tempfile.mkdtemp()) / THING.path
    path.parent.mkdir(parents=True)
    path.write_bytes(b"other")
    fetched(path.parents[4].as_uri())


@mistake("cannot be cached", "LOGSTATE_CACHE_DIR")
def the_cache_of_jars_is_a_file() -> None:
    with tempfile.NamedTemporaryFile() as file:
        jar_set("thing", (THING,), {"LOGSTATE_CACHE_DIR": f"{file.name}/cache"})
