"""Names that other programs read: of metrics, of fields over HTTP and in the manifest.

Dashboards, clients and other versions of the library depend on them, so they must not change with
the names in the code. ``files/`` has them; ``python -m tests.golden`` writes it again, for a change
that is meant.
"""
