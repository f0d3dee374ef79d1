"""Whole applications under crashes, aborts, moves and slow brokers, deterministically.

How it works. A :mod:`swarm` configuration and its faults are drawn from a seed. A :mod:`schedule`
runs real workers, each in a :mod:`slot` with a :mod:`disk` that survives its processes, step by
step on a fake cluster, inflicts the faults, waits until everything is processed and ends cleanly.

:mod:`simulate` does that with somebody's own topology, whose tasks are :mod:`traced_task`: what was
committed has to be what :mod:`uninterrupted` computes from the same records in the same order;
where it is not, :mod:`differences` names the operator and :mod:`story` the shortest way there.

Imports fake, and the worker with what is below it. Start with `simulate`.
"""
