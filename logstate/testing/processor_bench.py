"""The application context for processors under test, without a running application."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from logstate.contracts.processing import ApplicationContext
from logstate.contracts.records import TaskId
from logstate.metrics.instruments import Metrics
from logstate.metrics.own_metrics import OwnMetrics


class TestContext:
    """Settings, metrics, and a directory: below ``state_dir``, or a temporary one."""

    __test__ = False

    def __init__(
        self, application_id: str, state_dir: Path | None, config: Mapping[str, Any] | None = None
    ) -> None:
        self.metrics = Metrics()
        self._state_dir = state_dir
        self._temporary: Path | None = None
        given = {"application_id": application_id, "state_dir": state_dir}
        self.application = ApplicationContext(
            given if config is None else config, self.files, partial(OwnMetrics, self.metrics)
        )

    def files(self, _task: TaskId) -> Path:
        """Return the directory, which is created at the first call."""
        if self._state_dir is not None:
            path = self._state_dir / "files"
            path.mkdir(parents=True, exist_ok=True)
            return path
        if self._temporary is None:
            self._temporary = Path(tempfile.mkdtemp(prefix="logstate-"))
            self._delete = weakref.finalize(self, shutil.rmtree, self._temporary, True)
        return self._temporary

    def close(self) -> None:
        """Delete the temporary directory."""
        if self._temporary is not None:
            self._delete()
            self._temporary = None
