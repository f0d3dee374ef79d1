"""A sample of the campaign: what would be typed, and on which machine; a small page is typed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.campaigns.first_minutes.__main__ import PAGES
from tests.campaigns.first_minutes.newcomer import (
    Failed,
    environment,
    environment_of_this_python,
    type_steps,
)
from tests.campaigns.first_minutes.pages import Commands, File, steps_of
from tests.patience import until

PAGE = """# A page

Save this as `shop.py`:

```python file: shop.py
print("hello")
```

```sh run
export LOGSTATE_APPLICATION=shop  # it stays set
python shop.py; echo $LOGSTATE_APPLICATION
# a remark
echo one \\
    two
```

```text
hello
shop
one two
```

```sh run: spark
pip install 'logstate[spark]'
```

```sh
rm -r /not/run
```
"""


@pytest.fixture
def page(tmp_path: Path) -> Path:
    path = tmp_path / "page.md"
    path.write_text(PAGE, encoding="utf-8")
    return path


def test_files_and_commands_are_taken_in_the_order_of_the_page(page: Path) -> None:
    file, commands, spark = steps_of(page, with_spark=True)
    assert file == File("shop.py", 'print("hello")\n')
    assert isinstance(commands, Commands)
    assert isinstance(spark, Commands)
    assert commands.lines == [
        "export LOGSTATE_APPLICATION=shop  # it stays set",
        "python shop.py; echo $LOGSTATE_APPLICATION",
        "echo one      two",
    ]
    assert commands.expected == "hello\nshop\none two\n"
    assert spark.lines == ["pip install 'logstate[spark]'"]
    assert steps_of(page) == [file, commands]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_goes_from_an_empty_environment_to_a_result_from_a_broker(page: Path) -> None:
    commands = [
        line for step in steps_of(page) if isinstance(step, Commands) for line in step.lines
    ]
    assert commands[0].startswith("pip install 'logstate[broker,java")
    words = ["broker start", "topics create", "produce", "python ", "broker stop"]
    begin = next(at for at, line in enumerate(commands) if "broker start" in line)
    found = [
        next(at for at, line in enumerate(commands) if word in line and at >= begin)
        for word in words
    ]
    assert found == sorted(found)


@pytest.mark.slow
def test_a_page_is_typed_on_a_machine_without_java_and_maven(
    tmp_path: Path, page: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", "/usr/lib/java")
    monkeypatch.setenv("LOGSTATE_BOOTSTRAP", "elsewhere:9092")
    monkeypatch.setenv("PIP_DEFAULT_TIMEOUT", "42")
    folder = tmp_path / "machine"
    folder.mkdir()
    environ = environment(folder, tmp_path / "logstate-0.1.0-py3-none-any.whl")
    assert environ["PIP_DEFAULT_TIMEOUT"] == "42"
    assert "JAVA_HOME" not in environ
    assert not any(Path(environ["HOME"]).iterdir())
    pins = Path(environ["PIP_CONSTRAINT"].split()[-1]).read_text(encoding="utf-8")
    assert pins == "logstate==0.1.0\n"
    assert environ["PIP_FIND_LINKS"].split()[-1] == str(tmp_path)
    hidden = Commands(
        "",
        [
            "for one in java mvn python pip; do command -v $one || echo no $one; done",
            "echo ${LOGSTATE_BOOTSTRAP:-none}",
        ],
        "",
    )
    programs, bootstrap, *_ = type_steps([hidden, *steps_of(page)], folder, environ)
    bin_ = folder / "venv" / "bin"
    assert [text for _, text in programs.printed] == [
        *("no java", "no mvn", f"{bin_ / 'python'}", f"{bin_ / 'pip'}")
    ]
    assert [text for _, text in bootstrap.printed] == ["none"]


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """Of the programs that run, in an empty home."""
    return environment_of_this_python(tmp_path)


def test_a_command_that_fails_ends_the_page_with_what_it_printed(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    lines = ["echo first > service.log", "echo out; echo bad >&2; false", "echo not reached"]
    typed = type_steps([Commands("page.md:7", lines, "")], tmp_path, environ)
    assert next(typed).line == lines[0]
    with pytest.raises(
        Failed, match=r"ended with status 1:\nout\nerrors.log: bad\n\nservice.log: first\n"
    ):
        next(typed)


def test_a_block_has_to_print_what_the_page_shows(tmp_path: Path, environ: dict[str, str]) -> None:
    page = [
        Commands("page.md:3", ["sleep 1000 &", "echo $!"], ""),
        Commands("page.md:7", ["echo one", "echo two"], "one\ntwo\n"),
        Commands("page.md:9", ["echo one", "echo two"], "one\n"),
    ]
    typed = type_steps(page, tmp_path, environ)
    _, background, _, _, _ = (next(typed) for _ in range(5))
    with pytest.raises(Failed, match=re.escape("page.md:9 printed '\\none\\ntwo'")):
        next(typed)
    process = Path("/proc") / background.printed[0][1]
    until(lambda: not process.exists() or "Z" in (process / "stat").read_text().split())
