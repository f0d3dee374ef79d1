"""The optional extension module; everything else about the package is in pyproject.toml.

Without a compiler or Python's headers the installation continues. LOGSTATE_NATIVE=0 leaves the
extension out, which makes a wheel for every platform.
"""

import os

from setuptools import Extension, setup

RECORDS = Extension(
    "logstate.kafka.native._records",
    ["logstate/kafka/native/_records.c"],
    define_macros=[("Py_LIMITED_API", "0x030B0000")],
    py_limited_api=True,
    optional=True,
)

if os.environ.get("LOGSTATE_NATIVE") == "0":
    setup()
else:
    setup(ext_modules=[RECORDS], options={"bdist_wheel": {"py_limited_api": "cp311"}})
