"""Stores read from outside the application: from a changelog and a cut to Arrow columns.

No instance is asked, nothing is written, and the application may be running or not. `options` says
what is wanted, `changelog_source` finds the topic, `cut` says where to stop, `table_scan` reads one
partition at a time, `tables` and `types` make columns of what it found. ``logstate.read`` is
`store_read`; Spark's format is another caller of the same.

Imports changelog, and kafka and serdes. Start with `table_scan`.
"""
