"""What ``logstate doctor`` says of a state directory."""

from __future__ import annotations

from pathlib import Path

from typer.testing import CliRunner

from logstate.cli.main import app as command


def test_a_link_to_a_directory_that_is_not_there_is_a_finding(tmp_path: Path) -> None:
    link = tmp_path / "state"
    link.symlink_to(tmp_path / "not-mounted")

    told = CliRunner().invoke(command, ["doctor", "--state-dir", str(link), "--json"])

    assert told.exit_code == 1, told.output
    assert "state cannot be written: No such file or directory" in told.stdout
