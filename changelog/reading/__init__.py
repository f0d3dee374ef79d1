"""Stores read from outside the application: from a changelog and a cut to Arrow columns.

No instance is contacted, nothing is written, and the application may be running or not. `options`
has the settings of a read, `changelog_source` finds the topic, `cut` determines its end,
`table_scan` reads one partition at a time, `tables` and `types` convert the records to columns.
``logstate.read`` is `store_read`; Spark's format also uses these modules.

Imports changelog, and kafka and serdes. Start with `table_scan`.
"""
