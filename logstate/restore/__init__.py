"""Restore: bring an assigned task to running by replaying its changelogs.

Imports task, topics and the layers below; never commit or queries. `restore_plan` makes the
decisions without I/O, `task_starter` runs the stages, `committed_offsets` reads the committed
offsets and cuts, `restore` replays changelogs, and `open_transactions` ends the transactions of
dead workers. Start with `task_starter`.
"""
