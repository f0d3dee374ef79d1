"""Fetching jars, from a repository on loopback: checked, cut off, taken over, two at once."""

from __future__ import annotations

import hashlib
import threading
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from logstate.contracts.errors import BrokerError, ConfigError
from logstate.local_broker import fetching
from logstate.local_broker.fetching import Progress
from logstate.local_broker.jar_list import BROKER, Jar
from logstate.local_broker.jars import jar_set
from logstate.local_broker.repository import repository_url
from tests.patience import PATIENCE_S

CONTENT = bytes(range(256)) * 4_000  # about a megabyte


def jar(name: str, content: bytes = CONTENT) -> Jar:
    return Jar(f"org.example:{name}:1.0", len(content), hashlib.sha256(content).hexdigest())


class Repository(ThreadingHTTPServer):
    """Jars at their paths. The first answers may be cut off, or be refusals with a status."""

    daemon_threads = True

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.asked: list[tuple[str, str | None]] = []
        self.cuts = 0
        self.statuses: list[int] = []
        """200 is for the jar."""
        super().__init__(("127.0.0.1", 0), _Answer)

    def publish(self, one: Jar, content: bytes = CONTENT) -> None:
        self.files[f"/{one.path}"] = content


class _Answer(BaseHTTPRequestHandler):
    server: Repository

    def do_GET(self) -> None:
        asked_from = self.headers.get("Range")
        self.server.asked.append((self.path.rsplit("/", 1)[1], asked_from))
        content = self.server.files.get(self.path)
        status = self.server.statuses.pop(0) if self.server.statuses else 200
        if content is None or status != 200:
            self.send_error(404 if content is None else status)
            return
        begin = int(asked_from[len("bytes=") : -1]) if asked_from else 0
        rest = content[begin:]
        self.send_response(206 if begin else 200)
        self.send_header("Content-Length", str(len(rest)))
        self.end_headers()
        if self.server.cuts:
            self.server.cuts -= 1
            rest = rest[: len(rest) // 2]
        self.wfile.write(rest)

    def log_message(self, *_arguments: object) -> None:
        """Nothing: the test says what was asked."""


@pytest.fixture(autouse=True)
def pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many as there are, and none of them takes time."""
    monkeypatch.setattr(fetching, "_PAUSES_S", (0.0,) * len(fetching._PAUSES_S))


@pytest.fixture
def repository() -> Iterator[Repository]:
    with Repository() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def environ(tmp_path: Path, repository: Repository) -> dict[str, str]:
    address = f"http://127.0.0.1:{repository.server_address[1]}"
    return {"LOGSTATE_CACHE_DIR": str(tmp_path / "cache"), "LOGSTATE_MAVEN_URL": f"{address}/"}


def test_the_list_names_each_jar_once_and_stays_small() -> None:
    assert len({one.file_name for one in BROKER}) == len(BROKER)
    assert sum(one.size_bytes for one in BROKER) < 45_000_000
    assert all(len(one.sha256) == 64 for one in BROKER)


def test_a_set_holds_what_was_listed_and_its_bytes_are_told(
    repository: Repository, environ: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    wanted = (jar("one"), jar("other"))
    for one in wanted:
        repository.publish(one)

    found = jar_set("things", wanted, environ)

    assert sorted(path.name for path in found.iterdir()) == [
        "MANIFEST",
        "one-1.0.jar",
        "other-1.0.jar",
    ]
    told = capsys.readouterr().err
    assert "fetching 2 jars of things, 2.0 MB, from http://127.0.0.1" in told
    assert "things: 2.0 of 2.0 MB" in told


def test_a_jar_that_is_another_one_is_refused_by_name(
    repository: Repository, environ: dict[str, str], tmp_path: Path
) -> None:
    repository.publish(jar("thing"), b"a page of a portal")

    with pytest.raises(BrokerError, match=r"thing-1\.0\.jar(.|\n)*(ended after 18|18 bytes)"):
        jar_set("thing", (jar("thing"),), environ)
    repository.publish(jar("thing"), CONTENT[::-1])
    with pytest.raises(BrokerError, match=r"is not the jar that was asked for: .* SHA-256"):
        jar_set("thing", (jar("thing"),), environ)

    assert list((tmp_path / "cache").glob("thing-*")) == []


def test_a_connection_that_breaks_goes_on_where_it_was(
    repository: Repository, environ: dict[str, str]
) -> None:
    repository.publish(jar("thing"))
    repository.cuts = 2

    found = jar_set("thing", (jar("thing"),), environ)

    assert (found / "thing-1.0.jar").read_bytes() == CONTENT
    asked_from = [start for _name, start in repository.asked]
    assert asked_from[0] is None
    assert asked_from[1:] == [f"bytes={len(CONTENT) // 2}-", f"bytes={len(CONTENT) * 3 // 4}-"]


def test_a_repository_that_is_busy_is_asked_again_and_that_is_told(
    repository: Repository, environ: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    repository.publish(jar("thing"))
    repository.statuses = [503, 429, 500]

    found = jar_set("thing", (jar("thing"),), environ)

    assert (found / "thing-1.0.jar").read_bytes() == CONTENT
    assert len(repository.asked) == 4
    told = capsys.readouterr().err
    assert "thing-1.0.jar: HTTP Error 503: Service Unavailable; it is requested again in" in told


def test_a_repository_that_stays_busy_is_given_up(
    repository: Repository, environ: dict[str, str]
) -> None:
    repository.publish(jar("thing"))
    repository.statuses = [503] * 6

    with pytest.raises(BrokerError, match=r"org\.example:thing:1\.0 could not be fetched .* 503"):
        jar_set("thing", (jar("thing"),), environ)

    assert repository.statuses == []
    jar_set("thing", (jar("thing"),), environ)


def test_a_beginning_that_does_not_fit_the_rest_is_fetched_anew(
    repository: Repository, environ: dict[str, str]
) -> None:
    repository.publish(jar("thing"), CONTENT[::-1])
    repository.cuts = 6
    with pytest.raises(BrokerError, match="ended after"):
        jar_set("thing", (jar("thing"),), environ)
    repository.publish(jar("thing"))
    repository.asked.clear()

    found = jar_set("thing", (jar("thing"),), environ)

    assert (found / "thing-1.0.jar").read_bytes() == CONTENT
    first, second = (start for _name, start in repository.asked)
    assert first is not None
    assert second is None


def test_where_the_repository_has_less_than_what_is_there_it_is_fetched_anew(
    repository: Repository, environ: dict[str, str]
) -> None:
    repository.publish(jar("thing"))
    repository.cuts = 1
    repository.statuses = [200, 416]

    found = jar_set("thing", (jar("thing"),), environ)

    assert (found / "thing-1.0.jar").read_bytes() == CONTENT
    assert [start for _name, start in repository.asked] == [
        None,
        f"bytes={len(CONTENT) // 2}-",
        None,
    ]


def test_a_jar_that_nobody_has_is_named_with_what_to_do(environ: dict[str, str]) -> None:
    with pytest.raises(
        BrokerError, match=r"org\.example:thing:1\.0 (.|\n)*404(.|\n)*LOGSTATE_MAVEN_URL"
    ):
        jar_set("thing", (jar("thing"),), environ)


def test_a_damaged_cache_is_mended_and_a_whole_one_needs_no_network(
    repository: Repository, environ: dict[str, str], tmp_path: Path
) -> None:
    repository.publish(jar("thing"))
    jars = jar_set("thing", (jar("thing"),), environ)
    (jars / "thing-1.0.jar").write_bytes(b"half")

    assert jar_set("thing", (jar("thing"),), environ) == jars
    assert (jars / "thing-1.0.jar").read_bytes() == CONTENT

    unreachable = {**environ, "LOGSTATE_MAVEN_URL": (tmp_path / "nowhere").as_uri()}
    assert jar_set("thing", (jar("thing"),), unreachable) == jars


def test_what_another_set_has_is_not_fetched_again(
    repository: Repository, environ: dict[str, str]
) -> None:
    old, new = jar("old"), jar("new")
    for one in (old, new):
        repository.publish(one)
    jar_set("first", (old,), environ)
    repository.asked.clear()

    found = jar_set("second", (old, new), environ)

    assert [name for name, _start in repository.asked] == ["new-1.0.jar"]
    assert (found / "old-1.0.jar").read_bytes() == CONTENT


def test_a_repository_of_files_will_do(environ: dict[str, str], tmp_path: Path) -> None:
    path = tmp_path / "files" / jar("thing").path
    path.parent.mkdir(parents=True)
    path.write_bytes(CONTENT)
    files = {**environ, "LOGSTATE_MAVEN_URL": (tmp_path / "files").as_uri()}

    assert (jar_set("thing", (jar("thing"),), files) / "thing-1.0.jar").read_bytes() == CONTENT


def test_two_that_fetch_at_once_get_the_same_whole_set(
    repository: Repository, environ: dict[str, str], tmp_path: Path
) -> None:
    repository.publish(jar("thing"))
    with ThreadPoolExecutor(2) as pool:
        racers = [pool.submit(jar_set, "thing", (jar("thing"),), environ) for _ in range(2)]
        first, second = (racer.result(PATIENCE_S) for racer in racers)

    assert first == second
    assert sorted(path.name for path in first.iterdir()) == ["MANIFEST", "thing-1.0.jar"]
    assert list((tmp_path / "cache").glob(".*.part")) == []
    assert len(repository.asked) == 1


def test_progress_is_told_at_each_tenth_only() -> None:
    told: list[str] = []
    progress = Progress("things", 100, told.append)
    for _ in range(100):
        progress.add(1)
    assert len(told) == 10


SETTINGS = """<settings xmlns="http://maven.apache.org/SETTINGS/1.0.0"><mirrors>
  <mirror><id>a</id><mirrorOf>{of}</mirrorOf><url>https://mirror.example/maven/</url></mirror>
</mirrors></settings>"""


def a_maven(home: Path, default: str) -> Path:
    """The command of one that has this for Maven Central."""
    (home / "lib").mkdir(parents=True)
    with zipfile.ZipFile(home / "lib" / "maven-model-builder-3.9.jar", "w") as jar:
        repository = f"<repository><id>central</id><url>{default}</url></repository>"
        model = f"<project><repositories>{repository}</repositories></project>"
        jar.writestr("org/apache/maven/model/pom-4.0.0.xml", model)
    command = home / "bin" / "mvn"
    command.parent.mkdir()
    command.touch(0o755)
    return command


def test_where_nobody_has_named_a_repository_the_error_says_how_to(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"Set LOGSTATE_MAVEN_URL to the address") as caught:
        repository_url({"HOME": str(tmp_path), "PATH": str(tmp_path)})
    assert str(tmp_path / ".m2" / "settings.xml") in str(caught.value)


@pytest.mark.parametrize(
    ("mirror_of", "is_used"),
    [
        ("central", True),
        ("*", True),
        ("external:*", True),
        ("snapshots, central", True),
        ("*,!central", False),
        ("snapshots", False),
        ("external:http:*", False),
    ],
)
def test_a_mirror_of_central_in_mavens_settings_is_used(
    mirror_of: str, is_used: bool, tmp_path: Path
) -> None:
    (tmp_path / ".m2").mkdir()
    (tmp_path / ".m2" / "settings.xml").write_text(SETTINGS.format(of=mirror_of))
    maven = a_maven(tmp_path / "maven", "https://central.example/maven")
    environ = {"HOME": str(tmp_path), "PATH": str(maven.parent)}
    expected = "https://mirror.example/maven" if is_used else "https://central.example/maven"
    assert repository_url(environ) == expected

    own = {**environ, "LOGSTATE_MAVEN_URL": "https://own.example/maven"}
    assert repository_url(own) == "https://own.example/maven"


def test_an_address_that_is_none_is_refused_where_it_stands(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"LOGSTATE_MAVEN_URL names 'mirror\.example'"):
        repository_url({"HOME": str(tmp_path), "LOGSTATE_MAVEN_URL": "mirror.example"})
