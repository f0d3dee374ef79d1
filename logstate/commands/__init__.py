"""Commands: what the ``logstate`` command does, a module each.

Imports directory, local_broker, kafka, topics and what is below them. `printing` is how results and
errors are told, `options` what several commands are given, `stored_state` what they find on the
cluster. Start with `lag`.
"""
