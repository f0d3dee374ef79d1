"""Jars with everything they need, for programs of the tests that run on the JVM.

What the tests and the benchmark compare with is more than the broker's fixed list: which jars Kafka
Streams needs is worked out by the Ivy jar that pyspark carries, into the cache of the local broker.
It checks the published checksum of every file. One download that fails fails it; it is run again
then, and has what came before.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

from logstate.contracts.errors import BrokerError
from logstate.local_broker.jars import cached_set
from logstate.local_broker.java import Java
from logstate.local_broker.repository import repository_url

_RESOLVE_TIMEOUT_S = 170
#: before it is run again
_PAUSES_S = (2.0, 10.0)
SETTINGS = """\
<ivysettings>
  <property name="ivy.checksums" value="sha1,md5"/>
  <settings defaultResolver="maven"/>
  <resolvers>
    <ibiblio name="maven" m2compatible="true" root="{root}/"/>
  </resolvers>
</ivysettings>
"""


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


def resolve_jars(
    java: Java, module: str, name: str, environ: Mapping[str, str] = os.environ
) -> Path:
    """The directory with what the Ivy ``module`` asks for, from the cache or the repository."""

    def fill(folder: Path) -> None:
        ivy = folder / "ivy"
        ivy.mkdir(exist_ok=True)
        (ivy / "ivy.xml").write_text(module, encoding="utf-8")
        settings = SETTINGS.format(root=repository_url(environ))
        (ivy / "ivysettings.xml").write_text(settings, encoding="utf-8")
        command = [
            *(java.executable, f"-Divy.default.ivy.user.dir={ivy}", "-jar", _ivy_jar()),
            *("-settings", ivy / "ivysettings.xml", "-ivy", ivy / "ivy.xml"),
            *("-cache", ivy / "cache", "-confs", "default"),
            *("-retrieve", f"{folder}/[artifact]-[revision](-[classifier]).[ext]"),
        ]
        for pause_s in (*_PAUSES_S, None):
            failure = _failure(command)
            if failure is None:
                break
            if pause_s is None:
                raise BrokerError(f"{name} could not be fetched: {failure}")
            print(f"{name}: {failure}; it is asked for again in {pause_s:g} s", file=sys.stderr)
            threading.Event().wait(pause_s)
        shutil.rmtree(ivy)

    return cached_set(name, module, fill, environ)


def _failure(command: Sequence[str | Path]) -> str | None:
    """Runs it; how its words end where it fails."""
    try:
        answer = subprocess.run(
            command, capture_output=True, text=True, timeout=_RESOLVE_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        return f"it took more than {_RESOLVE_TIMEOUT_S} s"
    return (answer.stdout + answer.stderr)[-900:] if answer.returncode else None


def _ivy_jar() -> Path:
    spec = find_spec("pyspark")
    assert spec is not None, "the tests that run JVM programs need pyspark: ./dev test"
    assert spec.origin is not None
    return sorted((Path(spec.origin).parent / "jars").glob("ivy-*.jar"))[-1]
