"""State and its log: stores, the rows beneath them, changelogs, cuts, and Spark's readers."""
