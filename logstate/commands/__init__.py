"""The subcommands of ``logstate``, one module each.

Imports directory, local_broker, kafka, topics and their dependencies. `printing` prints results and
errors, `options` has the options that several commands share, `stored_state` reads the state on the
cluster. Start with `lag`.
"""
