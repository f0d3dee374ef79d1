"""The ``logstate`` command.

`main` collects the commands of the packages below: `engine` runs applications, `stores` reads
stores, `deployment` prepares and changes an application's topics, `diagnosis` reports problems.
Imports these and local_broker. Start with `main`.
"""
