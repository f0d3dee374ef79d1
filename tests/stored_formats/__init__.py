"""State directories and changelogs that an earlier version wrote, read and written again by this.

Everything under ``written/`` is committed and stays as it is: each folder of it is what
`python -m tests.stored_formats FOLDER` wrote when the kinds of stores in it were new. ``stores.py``
has the kinds and the records that they are given, ``task.py`` a task with all of them,
``written.py`` what a folder holds. The tests open the folders with the code of today.
"""
