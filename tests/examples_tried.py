"""How many examples a property test tries: so many in the suite, more in a campaign."""

from __future__ import annotations

from hypothesis import settings

#: the same ones in every run, so that it fails for what was changed and not by chance
IN_THE_SUITE = 40


def at_most(count: int) -> int:
    """Of a test that is dear: so many in the suite; a longer profile gets all that it asks for."""
    wanted = settings.default.max_examples
    return wanted if wanted > IN_THE_SUITE else min(count, wanted)
