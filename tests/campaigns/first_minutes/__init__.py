"""The commands of a page for new users, typed in an empty folder: each step with its seconds."""
