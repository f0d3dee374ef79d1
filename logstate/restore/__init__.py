"""Restore: from an assigned task to a running one, by replaying its changelogs.

Imports task, topics and what is below them; never commit or queries. What decides is pure
(`restore_plan`, `start_positions`); `task_starter` goes through the stages, `restore` replays,
`open_transactions` waits for other people's. Start with `restore_plan`.
"""
