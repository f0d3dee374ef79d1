"""The directory: how the instances of an application know of each other.

A compacted topic, ``<application id>-logstate-instances``, holds one entry per instance that asked
for it: its address, its tasks, how far they are. Each instance writes its own and reads all of
them, in a thread of its own, outside of transactions and off the path of records.

Imports contracts only. `entries` has the format, `known_instances` decides who owns what,
`claims` what an instance says of itself, `directory_link` reads and writes, `onlooker` is who looks
at it from outside. Start with `known_instances`.
"""
