"""One application, two libraries: Faust counts, is stopped, and logstate counts on."""
