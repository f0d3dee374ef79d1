"""Install what users install, on each Python, and run the README's first example with it.

    ./dev smoke [3.12 …]    the wheel and the source archive, on these versions of Python, or all

Both are built from the tracked files. Each is installed with its extra for the command into an
empty environment, by the caller's pip configuration. A version that this machine does not have is
named and skipped; the status is 1 if one failed, or none was found.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parent.parent
VERSIONS = ("3.11", "3.12", "3.13", "3.14")
_EXAMPLE = re.compile(r"```python\n(.*?)```\n\n((?:    [^\n]*\n)+)", re.DOTALL)
_TIMEOUT_S = 900


def main(wanted: list[str]) -> int:
    for one in wanted:
        if one not in VERSIONS:
            sys.exit(f"smoke: {one!r} is not one of the supported versions: {', '.join(VERSIONS)}")
    failed = tried = 0
    with TemporaryDirectory(prefix="logstate-smoke-") as folder:
        archives = built(Path(folder))
        for version in wanted or VERSIONS:
            python = interpreter(version)
            if python is None:
                print(f"Python {version}: missing on this machine, not tried", flush=True)
                continue
            for archive in archives:
                tried += 1
                problem = problem_of(python, archive, Path(folder) / f"{version}-{archive.suffix}")
                failed += problem is not None
                verdict = "works" if problem is None else f"FAILED\n{problem}"
                print(f"Python {version}, {archive.name}: {verdict}", flush=True)
    return 0 if tried and not failed else 1


def built(folder: Path) -> list[Path]:
    """The source archive of the tracked files, and the wheel that is built from that archive."""
    source, made = folder / "source", folder / "made"
    for path in tracked():
        target = source / path
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / path, target)
    build = "import sys; from setuptools import build_meta; build_meta.build_{}(sys.argv[1])"
    called(sys.executable, "-c", build.format("sdist"), made, at=source)
    (archive,) = made.glob("*.tar.gz")
    shutil.unpack_archive(archive, folder / "unpacked")
    (unpacked,) = (folder / "unpacked").iterdir()
    called(sys.executable, "-c", build.format("wheel"), made, at=unpacked)
    return [*made.glob("*.whl"), archive]


def tracked() -> list[str]:
    """The files of the repository, or all files of an unpacked source archive."""
    if not (ROOT / ".git").exists():
        return [str(path.relative_to(ROOT)) for path in ROOT.rglob("*") if path.is_file()]
    listed = called("git", "ls-files", "-z", at=ROOT).split("\0")
    return [path for path in listed if path and (ROOT / path).is_file()]


def interpreter(version: str) -> str | None:
    """A Python of a version: this one, on PATH, of pyenv, or of uv."""
    return next((one for one in candidates(version) if version_of(one) == version), None)


def candidates(version: str) -> Iterator[str]:
    yield sys.executable
    on_path = shutil.which(f"python{version}")
    if on_path is not None:
        yield on_path
    for root in (os.environ.get("PYENV_ROOT"), Path.home() / ".pyenv"):
        if root:
            folders = sorted(Path(root, "versions").glob(f"{version}.*"), reverse=True)
            yield from (str(one / "bin" / "python") for one in folders)
    if shutil.which("uv") is not None:
        command = ["uv", "python", "find", "--no-python-downloads", version]
        found = subprocess.run(command, capture_output=True, text=True, check=False)
        if found.returncode == 0:
            yield found.stdout.strip()


def version_of(python: str) -> str | None:
    code = "import sys, venv; print('%d.%d' % sys.version_info[:2])"
    try:
        found = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False)
    except OSError:
        return None
    return found.stdout.strip() if found.returncode == 0 else None


def problem_of(python: str, archive: Path, home: Path) -> str | None:
    """What fails when the archive is installed and used; None if nothing does."""
    code, expected = example()
    inside = home / "bin" / "python"
    try:
        called(python, "-m", "venv", home, at=archive.parent)
        install = ("-m", "pip", "--disable-pip-version-check", "install", "--quiet")
        called(inside, *install, f"logstate[cli] @ {archive.as_uri()}", at=home)
        printed = called(inside, "-c", code, at=home)
        if printed != expected:
            return f"the example printed {printed!r} and not {expected!r}"
        version = called(home / "bin" / "logstate", "--version", at=home).strip()
        if version not in archive.name:
            return f"`logstate --version` printed {version!r}"
        called(inside, "-m", "pip", "check", at=home)
    except RuntimeError as error:
        return str(error)
    return None


def example() -> tuple[str, str]:
    """The README's first example, and what it prints."""
    found = _EXAMPLE.search((ROOT / "README.md").read_text(encoding="utf-8"))
    assert found is not None, "the README has lost its first example"
    printed = found[2].splitlines(keepends=True)
    return found[1], "".join(line.removeprefix("    ") for line in printed)


def called(*command: object, at: Path) -> str:
    """What a command prints; RuntimeError has its errors."""
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    answer = subprocess.run(
        [str(one) for one in command],
        capture_output=True,
        text=True,
        check=False,
        cwd=at,
        env=variables,
        timeout=_TIMEOUT_S,
    )
    if answer.returncode != 0:
        end = "\n".join((answer.stdout + answer.stderr).splitlines()[-20:])
        raise RuntimeError(f"{' '.join(map(str, command))[:200]} failed:\n{end}")
    return answer.stdout


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
