"""Coming from Faust: its records and codecs as serdes, its tables taken over with their counts.

Imports Faust itself, the extra ``logstate[faust]``; nothing else in the library imports this room.
Imports the topology, topics, serdes and kafka. Start with `adoption`: what is checked and written
when a Faust application's tables become stores. `record_serdes` has the serdes, `table_rows` what
the records of a table's changelog mean; `beside` is for both libraries in one process.
"""

try:
    import faust  # noqa: F401 - the modules of this room do
except ImportError as error:
    raise ImportError("Faust's own package is needed: pip install 'logstate[faust]'.") from error

from logstate.faust.adoption import Adopted, adopt
from logstate.faust.beside import beside
from logstate.faust.record_serdes import FaustSerde, codec, record_of

__all__ = ["Adopted", "FaustSerde", "adopt", "beside", "codec", "record_of"]
