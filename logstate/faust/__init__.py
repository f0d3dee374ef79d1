"""Migration from Faust: its records and codecs as serdes, its tables with their contents as stores.

Imports Faust itself, the extra ``logstate[faust]``; no other package of the library imports this
one. Imports the topology, topics, serdes and kafka. Start with `adoption`, which checks and writes
everything when a Faust application's tables become stores. `record_serdes` has the serdes,
`table_rows` decodes a table's changelog; `attachment` runs both libraries in one process.
"""

try:
    import faust  # noqa: F401 - the modules of this package do
except ImportError as error:
    raise ImportError("Faust's own package is needed: pip install 'logstate[faust]'.") from error

from logstate.faust.adoption import Adopted, adopt
from logstate.faust.attachment import attach
from logstate.faust.record_serdes import FaustSerde, codec, record_of

__all__ = ["Adopted", "FaustSerde", "adopt", "attach", "codec", "record_of"]
