"""An application: its settings, its lifecycle, its workers and the stores that it serves.

`application` is the class that users start, `settings` validates its arguments, `local_worker` runs
one worker on a thread and `worker_main` in a process of its own, `presence` announces the instance
to the others. Imports instance and the packages below it. Start with `application`.
"""
