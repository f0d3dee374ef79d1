"""Whether the Python that runs this can carry the project's environment, said by the exit status.

0: yes, and it is a fast build. 3: yes. 4: not before something is installed, as dev.py says then.
Anything else: it is too old. A build with profile-guided optimisation runs the engine 10 to 15 %
faster (docs/benchmarks.md), so `./dev` prefers one. The distributions build theirs like
that, and Debian's does not tell; one that was compiled by hand is like that where its
configuration says so.
"""

import sys

if sys.version_info < (3, 11):  # noqa: UP036  whatever Python is found is asked
    sys.exit(1)

import importlib.util
import sysconfig

if importlib.util.find_spec("ensurepip") is None:  # Debian has it in a package of its own
    sys.exit(4)
configured = sysconfig.get_config_var("CONFIG_ARGS") or ""
is_fast = "--enable-optimizations" in configured or sys.base_prefix == "/usr"
sys.exit(0 if is_fast else 3)
