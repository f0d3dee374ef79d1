"""From an empty virtual environment to the address of a broker: seconds and megabytes."""
