"""Whole applications under crashes, aborts, moves and slow brokers, deterministically.

How it works. A :mod:`swarm` configuration and its faults are drawn from a seed. A :mod:`schedule`
runs real workers, each in a :mod:`slot` with a :mod:`disk` that survives its processes, step by
step on a fake cluster, inflicts the faults, waits until everything is processed and ends cleanly.

:mod:`simulate` does that with a user's topology, whose tasks are :mod:`traced_task`: the committed
results must equal those that :mod:`uninterrupted` computes from the same records in the same order;
if they do not, :mod:`differences` names the operator and :mod:`story` the shortest reproduction.

Imports fake, the worker and the packages below it. Start with `simulate`.
"""
