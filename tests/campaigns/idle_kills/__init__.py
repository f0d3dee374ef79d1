"""SIGKILL between every two consecutive steps of a tick and of the emission of late records."""
