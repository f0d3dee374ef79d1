"""Worker: one consumer, one transactional producer, its tasks, one loop.

Imports every package but app and testing. `worker_start` starts a worker up to its group
membership, `commits` decides when commits begin, `membership` and `assignment` handle rebalances,
`poison_record` finds records that brokers refuse. Start with `worker`.
"""
