"""The directory: how the instances of an application know each other.

A compacted topic, ``<application id>-logstate-instances``, has one entry per instance with the
directory enabled: its address, its tasks and their progress. Each instance writes its entry and
reads all entries, in a separate thread, outside of transactions and off the record path.

Imports contracts only. `entries` defines the format, `known_instances` decides who owns what,
`claims` numbers an instance's claims, `directory_link` reads and writes, `instance_info` reads it
from outside. Start with `known_instances`.
"""
