"""Restore: from an assigned task to a running one, by replaying its changelogs.

Imports task, topics and what is below them; never commit or queries. What decides is pure
(`restore_plan`); `task_starter` goes through the stages, `committed_offsets` asks what was
committed, `restore` replays, `open_transactions` ends those of dead workers. Start with
`task_starter`.
"""
