"""Instance: the states of one instance of an application, and its workers as processes.

Imports worker and what is below it. `states` is the table of states and who is told of changes,
`restarts` what follows a failure, `supervisor` decides about processes, `worker_processes` has them
and `routed_store` reads from them. Start with `states`.
"""
