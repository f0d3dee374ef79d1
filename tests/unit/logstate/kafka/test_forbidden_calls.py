"""Calls of the client that nobody makes, here or in tests and benchmarks, and why."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from confluent_kafka.admin import AdminClient

from tests.syntax import syntax
from tests.test_tidy import EVERY_FILE, ROOT, relative

#: whatever a later client adds is among them
ABOUT_GROUPS = {name for name in dir(AdminClient) if "group" in name and not name.startswith("_")}
OWNERS_OF_METADATA = {ROOT / "logstate" / "kafka" / "offset_metadata.py"}
#: compare what is raised with what the client raises, and stand in for it
THEIR_TESTS = {ROOT / "tests" / "unit" / "logstate" / "kafka" / "test_offset_metadata.py"}


def uses(path: Path, names: set[str]) -> Iterator[str]:
    for node in syntax(path).nodes:
        if isinstance(node, ast.Attribute) and node.attr in names:
            yield f"{relative(path)}:{node.lineno}: {node.attr}"


def test_nothing_is_asked_of_a_groups_coordinator_by_the_admin_client() -> None:
    """It has no group: an answer such as "not the coordinator" ends the process (librdkafka issue
    5040), as does one that comes late (3663). A consumer that joins nothing can be asked instead.
    """
    assert {"list_consumer_group_offsets", "describe_consumer_groups"} <= ABOUT_GROUPS
    assert not [use for path in EVERY_FILE for use in uses(path, ABOUT_GROUPS)]


def test_offsets_with_metadata_are_committed_by_their_one_module() -> None:
    """The client's own call adds a byte to the metadata, and Kafka Streams cannot read it then."""
    culprits = [
        use
        for path in EVERY_FILE
        if path not in OWNERS_OF_METADATA | THEIR_TESTS
        for use in uses(path, {"send_offsets_to_transaction"})
    ]
    assert not culprits
