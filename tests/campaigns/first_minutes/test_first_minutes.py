"""A sample of the campaign: what would be typed, and on which machine; a small page is typed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.campaigns.first_minutes.__main__ import PAGES
from tests.campaigns.first_minutes.newcomer import Failed, environment, type_steps
from tests.campaigns.first_minutes.pages import Command, File, steps_of

PAGE = """# A page

    pip install logstate

Save this as `shop.py`:

```python no-run
print("hello")
```

```sh
export LOGSTATE_APPLICATION=shop  # it stays set
cat shop.py; echo $LOGSTATE_APPLICATION
# a remark
echo one \\
    two
```

    [('ada', 250)]
"""


@pytest.fixture
def page(tmp_path: Path) -> Path:
    path = tmp_path / "page.md"
    path.write_text(PAGE, encoding="utf-8")
    return path


def test_files_and_commands_are_taken_in_the_order_of_the_page(page: Path) -> None:
    assert steps_of(page) == [
        Command("pip install logstate"),
        File("shop.py", 'print("hello")\n'),
        Command("export LOGSTATE_APPLICATION=shop  # it stays set"),
        Command("cat shop.py; echo $LOGSTATE_APPLICATION"),
        Command("echo one      two"),
    ]


def test_the_readme_goes_from_an_empty_environment_to_a_result_on_a_broker() -> None:
    commands = [step.line for step in steps_of(PAGES[0]) if isinstance(step, Command)]
    assert commands[0] == "pip install logstate"
    words = ["broker start", "topics create", "produce", "python ", "broker stop"]
    found = [next(at for at, line in enumerate(commands) if word in line) for word in words]
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
    shell = Command(
        "for one in java mvn python pip; do command -v $one || echo no $one; done;"
        " echo ${LOGSTATE_BOOTSTRAP:-none}"
    )
    file, export = steps_of(page)[1:3]
    show = Command("python shop.py; echo $LOGSTATE_APPLICATION")
    programs, *_, shown = type_steps([file, shell, export, show], folder, environ)
    bin_ = folder / "venv" / "bin"
    assert [text for _, text in programs.printed] == [
        *("no java", "no mvn", f"{bin_ / 'python'}", f"{bin_ / 'pip'}", "none")
    ]
    assert [text for _, text in shown.printed] == ["hello", "shop"]
    with pytest.raises(Failed, match=r"`false` ended with status 1:\n$"):
        list(type_steps([Command("false"), show], folder, environ))
