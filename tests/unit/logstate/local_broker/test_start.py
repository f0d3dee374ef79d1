"""A broker's start without its JVM, for which a program stands in.

A port that somebody else binds first: another one is tried. Classes that were kept: they are used.
What a killed one left behind is gone.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from logstate.contracts.errors import BrokerError, ConfigError
from logstate.local_broker import broker, class_archive, cluster
from logstate.local_broker.broker import ATTEMPTS, LocalBroker, PortTakenError
from logstate.local_broker.cluster import NODES, LocalCluster
from logstate.local_broker.java import Java

# It formats without a word, and archives classes at its end if there is a file "archives". A start
# that gets hold of a file "taken" finds its port taken; the others serve.
JVM = """#!{python}
import os, pathlib, re, signal, socket, struct, sys
if "format" in sys.argv:
    sys.exit(0)
here = pathlib.Path(__file__).parent
with (here / "flags").open("a") as flags:
    flags.write(" ".join(sys.argv[1:]) + "\\n")
def end(*_):
    for asked in [flag for flag in sys.argv if "ArchiveClassesAtExit=" in flag]:
        if (here / "archives").exists():
            pathlib.Path(asked.partition("=")[2]).write_text("classes")
    sys.exit(0)
signal.signal(signal.SIGTERM, end)
settings = pathlib.Path(sys.argv[-1]).read_text()
port = re.search(r"^listeners=PLAINTEXT://127.0.0.1:([0-9]+)", settings, re.MULTILINE)[1]
with (here / "ports").open("a") as ports:
    ports.write(port + "\\n")
for taken in here.glob("taken-*"):
    try:
        os.unlink(taken)
    except FileNotFoundError:
        continue
    sys.exit("java.net.BindException: Address already in use")
server = socket.create_server(("127.0.0.1", int(port)))
while True:
    client, _ = server.accept()
    client.recv(1000)
    client.sendall(struct.pack(">iiii", 12, 1, 0, {brokers}))
    client.close()
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the program is, and what it writes."""
    program = tmp_path / "java"
    program.write_text(JVM.format(python=sys.executable, brokers=NODES))
    program.chmod(0o755)
    monkeypatch.setenv("LOGSTATE_CACHE_DIR", str(tmp_path / "cache"))
    for module in (broker, class_archive, cluster):
        monkeypatch.setattr(module, "find_java", lambda: Java(program, 17, "PATH"))
        monkeypatch.setattr(module, "broker_jars", lambda: tmp_path / "jars")
    return tmp_path


def take(folder: Path, starts: int) -> None:
    """The ports of the first so many starts are taken."""
    for number in range(starts):
        (folder / f"taken-{number}").touch()


def test_a_broker_whose_port_is_taken_meanwhile_starts_on_another_one(folder: Path) -> None:
    take(folder, 2)

    with LocalBroker.start() as started:
        ports = (folder / "ports").read_text().split()
        assert len(ports) == 3
        assert started.bootstrap == f"127.0.0.1:{ports[-1]}"
    assert not started.data.exists()


def test_it_is_told_when_every_port_is_taken(folder: Path) -> None:
    take(folder, ATTEMPTS)

    with pytest.raises(PortTakenError, match="Its port was taken meanwhile"):
        LocalBroker.start()


@pytest.mark.parametrize("port", [0, -5, 99_999, "9092"])
def test_a_port_that_there_is_not_is_refused(folder: Path, port: Any) -> None:
    with pytest.raises(ConfigError, match=r"^port must be a?.*from 1 to 65535, or none for a free"):
        LocalBroker.start(port=port)

    assert not (folder / "flags").exists()


def test_a_cluster_of_which_a_port_is_taken_starts_on_others(folder: Path) -> None:
    take(folder, 1)

    with LocalCluster.start() as started:
        nodes = [node.bootstrap.rpartition(":")[2] for node in started.nodes]
        ports = (folder / "ports").read_text().split()
        assert len(ports) > NODES
        assert set(ports[-NODES:]) == set(nodes)


def test_what_one_start_has_archived_the_next_ones_use(folder: Path) -> None:
    (folder / "archives").touch()

    archive = class_archive.make_class_archive()

    assert class_archive.make_class_archive() == archive
    with LocalBroker.start():
        first, second = (folder / "flags").read_text().splitlines()
    assert "-XX:SharedArchiveFile" not in first
    assert f"-XX:SharedArchiveFile={archive}" in second


def test_it_is_told_that_a_java_archives_nothing(folder: Path) -> None:
    with pytest.raises(BrokerError, match="wrote no archive of the broker's classes"):
        class_archive.make_class_archive()

    with LocalBroker.start():
        assert "-XX:SharedArchiveFile" not in (folder / "flags").read_text()
    assert not list(folder.glob(".*.part"))


def test_what_a_killed_jvm_unpacked_goes_with_its_next_start(folder: Path) -> None:
    unpacked = folder / "data" / "tmp"

    with LocalBroker.start(data=folder / "data") as started:
        (unpacked / "liblz4.so").touch()
        started.kill()
        started.restart()
        assert list(unpacked.iterdir()) == []

    assert f"-Djava.io.tmpdir={unpacked} " in (folder / "flags").read_text()
