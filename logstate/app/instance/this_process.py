"""Mark a process as a worker: modules that it imports must not start an application.

A module that starts one during its import would start processes that import it again, endlessly.
"""

from __future__ import annotations

import threading

#: set in a worker process before it imports user modules
is_worker = threading.Event()
