"""Cuts of an application's state, read from outside: the newest cut, named cuts, and snapshots.

Works without Spark, without an instance and without the application's code: it reads only the
manifest, committed offsets and logs.

Imports changelog and kafka. Start with `latest_cut`.
"""
