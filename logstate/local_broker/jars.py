"""The jars of a Kafka broker, fetched once from Maven Central and kept in the user's cache.

The resolver is the Ivy jar that pyspark carries, so nothing else has to be installed. It checks
the published checksum of every file it fetches. A finished set appears in the cache under its
final name by one rename; two processes that start at once wait for each other on a file lock, and
a process that dies half way leaves only a directory that the next one removes.

Invariants:
    - A directory with the final name is complete: its ``MANIFEST`` names every file and its size.
    - The name contains a digest of what was asked for, so another version never mixes in.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from logstate.contracts.errors import BrokerError
from logstate.local_broker.java import Java

KAFKA_VERSION = "4.3.0"
"""The newest release whose broker artifacts are all published."""

# The broker's own dependency list has no logging backend (its tarball adds one), and a broker
# without a log file cannot be helped. This one speaks the slf4j 1.7 that the broker asks for.
_LOGGING_BACKEND = ("org.apache.logging.log4j", "log4j-slf4j-impl", "2.25.4")
_BROKER = ("org.apache.kafka", "kafka_2.13", KAFKA_VERSION)

_RESOLVE_TIMEOUT_S = 900


def ivy_module(*dependencies: tuple[str, str, str]) -> str:
    """The Ivy module file that asks for ``(organisation, name, revision)`` triples."""
    lines = "".join(
        f'    <dependency org="{org}" name="{name}" rev="{rev}" conf="default->default"/>\n'
        for org, name, rev in dependencies
    )
    return (
        '<ivy-module version="2.0">\n'
        '  <info organisation="logstate" module="local-broker"/>\n'
        f"  <dependencies>\n{lines}  </dependencies>\n"
        "</ivy-module>\n"
    )


def ivy_settings(repository: str | None) -> str:
    """Ivy settings: one Maven repository (Maven Central unless given), checksums required."""
    root = f' root="{repository}"' if repository else ""
    return (
        "<ivysettings>\n"
        '  <property name="ivy.checksums" value="sha1,md5"/>\n'
        '  <settings defaultResolver="maven"/>\n'
        "  <resolvers>\n"
        f'    <ibiblio name="maven" m2compatible="true"{root}/>\n'
        "  </resolvers>\n"
        "</ivysettings>\n"
    )


def cache_directory(environ: Mapping[str, str] = os.environ) -> Path:
    """``LOGSTATE_CACHE_DIR``, else ``XDG_CACHE_HOME/logstate``, else ``~/.cache/logstate``."""
    if own := environ.get("LOGSTATE_CACHE_DIR"):
        return Path(own)
    if xdg := environ.get("XDG_CACHE_HOME"):
        return Path(xdg) / "logstate"
    home = environ.get("HOME")
    return (Path(home) if home else Path.home()) / ".cache" / "logstate"


def broker_jars(java: Java, environ: Mapping[str, str] = os.environ) -> Path:
    """The directory with the broker's jars; fetches them at the first call on a machine.

    ``LOGSTATE_MAVEN_URL`` replaces Maven Central by a mirror.

    Raises:
        BrokerError: the cache cannot be written, pyspark is not installed, or the resolver failed.
    """
    module = ivy_module(_BROKER, _LOGGING_BACKEND)
    return resolve_jars(java, module, f"kafka-{KAFKA_VERSION}", environ)


def resolve_jars(
    java: Java, module: str, name: str, environ: Mapping[str, str] = os.environ
) -> Path:
    """The directory with what the Ivy ``module`` asks for, from the cache or the repository."""
    cache = cache_directory(environ)
    digest = hashlib.sha256(module.encode()).hexdigest()[:8]
    target = cache / f"{name}-{digest}"
    if _is_complete(target):
        return target
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with _locked(cache / f".{target.name}.lock"):
            if not _is_complete(target):
                _fetch(java, module, target, environ.get("LOGSTATE_MAVEN_URL"))
    except OSError as error:
        raise BrokerError(
            f"The jars of {name} cannot be cached under {cache}: {error}. "
            f"Point LOGSTATE_CACHE_DIR at a directory that can be written."
        ) from error
    return target


def _fetch(java: Java, module: str, target: Path, repository: str | None) -> None:
    print(f"fetching the jars of {target.name} (once)", file=sys.stderr, flush=True)
    # Only the holder of the lock works here, so whatever is in the way was left by a crash.
    work = target.with_name(f".{target.name}.part")
    shutil.rmtree(work, ignore_errors=True)
    shutil.rmtree(target, ignore_errors=True)
    (work / "jars").mkdir(parents=True)
    (work / "ivy.xml").write_text(module, encoding="utf-8")
    (work / "ivysettings.xml").write_text(ivy_settings(repository), encoding="utf-8")
    answer = subprocess.run(
        [
            *(java.executable, f"-Divy.default.ivy.user.dir={work / 'ivy'}", "-jar", _ivy_jar()),
            *("-settings", work / "ivysettings.xml", "-ivy", work / "ivy.xml"),
            *("-cache", work / "ivy" / "cache", "-confs", "default"),
            *("-retrieve", f"{work}/jars/[artifact]-[revision](-[classifier]).[ext]"),
        ],
        capture_output=True,
        text=True,
        timeout=_RESOLVE_TIMEOUT_S,
        check=False,
    )
    jars = sorted((work / "jars").glob("*.jar"))
    if answer.returncode != 0 or not jars:
        raise BrokerError(_failure(target.name, answer.stdout + answer.stderr))
    manifest = "".join(f"{jar.stat().st_size} {jar.name}\n" for jar in jars)
    (work / "jars" / "MANIFEST").write_text(manifest, encoding="utf-8")
    (work / "jars").rename(target)
    shutil.rmtree(work, ignore_errors=True)


def _failure(name: str, output: str) -> str:
    words = ("error", "unresolved", "not found", "problem", "checksum", "invalid")
    lines = [line.strip() for line in output.splitlines()]
    telling = [line for line in lines if any(word in line.lower() for word in words)]
    return (
        f"The jars of {name} could not be fetched. The resolver said: "
        f"{' | '.join(telling[:6]) or output[-500:]}. "
        f"Is Maven Central reachable from here? LOGSTATE_MAVEN_URL can name a mirror, and "
        f"LOGSTATE_BOOTSTRAP a broker that runs already."
    )


def _is_complete(target: Path) -> bool:
    try:
        manifest = (target / "MANIFEST").read_text(encoding="utf-8")
        for line in manifest.splitlines():
            size, _, name = line.partition(" ")
            if (target / name).stat().st_size != int(size):
                return False
    except OSError:
        return False
    return True


def _ivy_jar() -> Path:
    spec = importlib.util.find_spec("pyspark")
    jars: list[Path] = []
    if spec is not None and spec.origin is not None:
        jars = sorted((Path(spec.origin).parent / "jars").glob("ivy-*.jar"))
    if not jars:
        raise BrokerError(
            "The local broker is fetched with the Ivy jar inside pyspark, and pyspark is not "
            "installed. `pip install logstate[spark]`, or set LOGSTATE_BOOTSTRAP to a broker."
        )
    return jars[-1]


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
