"""Cuts of an application's state, from outside: the newest, those with names, what they cover.

Nothing here needs Spark, an instance, or the application's code: a manifest, committed offsets and
logs are all that is asked for.

Imports changelog and kafka. Start with `latest_cut`.
"""
