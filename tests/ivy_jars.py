"""Jars with everything they need, for programs of the tests that run on the JVM.

What the tests and the benchmark compare with is more than the broker's fixed list: which jars Kafka
Streams needs is worked out by the Ivy jar that pyspark carries, into the cache of the local broker.
It checks the published checksum of every file.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from logstate.contracts.errors import BrokerError
from logstate.local_broker.jars import cached_set
from logstate.local_broker.java import Java
from logstate.local_broker.repository import repository_url

_RESOLVE_TIMEOUT_S = 900
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
        answer = subprocess.run(
            [
                *(java.executable, f"-Divy.default.ivy.user.dir={ivy}", "-jar", _ivy_jar()),
                *("-settings", ivy / "ivysettings.xml", "-ivy", ivy / "ivy.xml"),
                *("-cache", ivy / "cache", "-confs", "default"),
                *("-retrieve", f"{folder}/[artifact]-[revision](-[classifier]).[ext]"),
            ],
            capture_output=True,
            text=True,
            timeout=_RESOLVE_TIMEOUT_S,
            check=False,
        )
        shutil.rmtree(ivy)
        if answer.returncode != 0:
            raise BrokerError(
                f"{name} could not be fetched: {(answer.stdout + answer.stderr)[-900:]}"
            )

    return cached_set(name, module, fill, environ)


def _ivy_jar() -> Path:
    spec = find_spec("pyspark")
    assert spec is not None, "the tests that run JVM programs need pyspark: ./dev test"
    assert spec.origin is not None
    return sorted((Path(spec.origin).parent / "jars").glob("ivy-*.jar"))[-1]
