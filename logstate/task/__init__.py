"""Task: one sub-topology applied to one partition. Decides and computes, without I/O.

Imports contracts, serdes, topology and changelog. `queues` orders the input, `batch_loop` is the
hot loop, `record_guard` rolls failed records back, `punctuation` calls schedules, `owned_task`
defines the stages from assigned to running. Start with `task`.
"""
