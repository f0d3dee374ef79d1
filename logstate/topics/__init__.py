"""Topics: a topology bound to a cluster, and the topics that the application creates for itself.

Imports contracts, serdes, topology and changelog. `bound_plan` has real names and partition
counts, `internal_topics` checks topics and creates missing ones. Start with `bound_plan`.
"""
