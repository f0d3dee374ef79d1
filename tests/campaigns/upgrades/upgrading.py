"""An application before and after a change, on whatever cluster is given."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from logstate.app.application import Application
from logstate.contracts.errors import StoreUnavailableError, UpgradeError
from tests.campaigns.upgrades.change import Change
from tests.campaigns.upgrades.topologies import Declare, built
from tests.patience import until

__all__ = ["Upgrading", "until"]


@dataclass(frozen=True)
class Upgrading:
    """``send`` writes records (key, value, timestamp in ms) to the input topic of the case."""

    application_id: str
    state_dir: Path
    settings: Mapping[str, Any]
    send: Callable[[str, str, int], None]
    #: the next offset of the input that the group committed
    committed: Callable[[], int | None]
    #: what the names of the input topics begin with here
    prefix: str = ""

    def app(self, declare: Declare, build: Mapping[str, Any], **options: Any) -> Application:
        return Application(
            built(declare, self.prefix, **build),
            application_id=self.application_id,
            state_dir=self.state_dir,
            commit_interval=timedelta(milliseconds=10),
            **{**self.settings, **options},
        )

    def run(self, change: Change) -> None:
        """The whole story of a change; raises AssertionError where it goes another way."""
        self.send("a", "one", 1_000)
        self.send("a", "two", 2_000)
        self.send("b", "one", 3_000)
        with self.app(change.before, {}):
            until(lambda: self.committed() == 3)
        decides = _for_application(change.decides, self.application_id)
        if change.verdict in ("decision", "refused"):
            with pytest.raises(UpgradeError) as caught, self.app(change.after, change.build):
                pass
            self._check(change, caught.value)
        self.send("a", "more", 4_000)
        if change.verdict == "refused":  # nothing was changed: the old one goes on
            with self.app(change.before, {}) as app:
                until(lambda: _answers(change, app))
            return
        with self.app(change.after, change.build, **decides) as app:
            until(lambda: _answers(change, app))
        with self.app(change.after, change.build, **decides) as app:  # and stays decided
            until(lambda: _answers(change, app))

    def _check(self, change: Change, error: UpgradeError) -> None:
        verdicts = {one.verdict.name.lower() for one in error.changes}
        assert change.verdict in verdicts, error
        for part in (*change.says, self.application_id):
            assert part in str(error), error


def _answers(change: Change, app: Application) -> bool:
    try:
        return bool(change.answer(app) == change.expected)
    except StoreUnavailableError:
        return False


def _for_application(decides: Mapping[str, Any], application_id: str) -> dict[str, Any]:
    found = dict(decides)
    if "forget" in found:
        found["forget"] = {name.format(application=application_id) for name in found["forget"]}
    return found
