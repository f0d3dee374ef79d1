"""An in-memory cluster: the log, transactions and groups of Kafka, without sockets or threads.

How it works. The server side is plain state: :mod:`partition_log` (one partition's entries),
:mod:`transactions` (producer epochs, open transactions, markers under way), :mod:`group` (members
and their assignment) and :mod:`group_offsets`. The client side (:mod:`consumers`, :mod:`producers`,
:mod:`admin`) implements the protocols of :mod:`logstate.contracts.clients` on it. :mod:`cluster`
holds both together; :mod:`process` is one process's view of it, which can be killed.

Nothing moves by itself: time comes from the cluster's clock, and what a broker does in the
background (delivering transaction markers, expiring members, compacting) happens when it is asked
for, or at a client's next call where the clock says so.

Imports contracts only. Start with `cluster`.
"""
