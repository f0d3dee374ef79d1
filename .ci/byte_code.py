"""Put byte code beside the modules in PySpark's archive.

Spark's Python processes import PySpark from `pyspark.zip`, which holds only sources: each process
compiles them anew, for a second of a core. pip compiled the same files when it installed them
beside the archive; what it made is copied into it.
"""

import importlib.util
import shutil
import zipfile
from pathlib import Path

import pyspark

#: byte code that is not compared with its source (PEP 552), whose time the archive would round
_UNCHECKED = importlib.util.MAGIC_NUMBER + (1).to_bytes(4, "little") + bytes(8)
_HEADER_BYTES = len(_UNCHECKED)

package = Path(pyspark.__file__).parent
path = package / "python" / "lib" / "pyspark.zip"
unfinished = path.with_suffix(".unfinished")
shutil.copyfile(path, unfinished)
with zipfile.ZipFile(unfinished, "a") as archive:
    names = set(archive.namelist())
    for name in sorted(names):
        source = package.parent / name
        if not name.endswith(".py") or f"{name}c" in names or not source.exists():
            continue
        compiled = Path(importlib.util.cache_from_source(str(source)))
        if compiled.exists() and archive.read(name) == source.read_bytes():
            archive.writestr(f"{name}c", _UNCHECKED + compiled.read_bytes()[_HEADER_BYTES:])
unfinished.replace(path)
