"""``python -m logstate`` is the ``logstate`` command."""

from logstate.cli.main import main

if __name__ == "__main__":
    main()
