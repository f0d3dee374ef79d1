"""Worker: one consumer, one transactional producer, its tasks, one loop.

Imports every room but app and testing. `worker_start` goes from nothing to a member of the group,
`commits` says when commits begin, `membership` and `assignment` what a rebalance means,
`poison_record` finds what brokers refuse. Start with `worker`.
"""
