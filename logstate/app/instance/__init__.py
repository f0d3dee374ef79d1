"""Instance: the states of one instance of an application, and its workers as processes.

Imports worker and the layers below. `states` has the table of states and notifies listeners of
changes, `restarts` decides what follows a failure, `supervisor` makes the decisions about worker
processes, `worker_processes` runs them and `worker_stores` reads from them. Start with `states`.
"""
