"""Whether this process is a worker: then nothing that it imports may start an application.

A module that starts one while it is imported would start processes that import it again, without
end.
"""

from __future__ import annotations

import threading

#: set in a worker process, before it imports anything of the user's
is_worker = threading.Event()
