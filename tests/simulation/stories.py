"""The kinds of schedules by name, for the command line."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from tests.simulation import failed_ends
from tests.simulation.coverage import FAULTS
from tests.simulation.damaged_blocks import DamagedBlocks
from tests.simulation.dead_letters import DeadLetters
from tests.simulation.dead_owner import DeadOwner
from tests.simulation.directories import Directories
from tests.simulation.directory_claims import DirectoryClaims
from tests.simulation.failed_ends import FailedEnds
from tests.simulation.foreign_keys import ForeignKeys
from tests.simulation.held_outputs import HeldOutputs
from tests.simulation.histories import Histories
from tests.simulation.large_cuts import LargeCuts
from tests.simulation.named_cuts import NamedCuts
from tests.simulation.overtaken_tables import OvertakenTables
from tests.simulation.partition_times import PartitionTimes
from tests.simulation.pauses import Pauses
from tests.simulation.refused_results import RefusedResults
from tests.simulation.reshards import Reshards
from tests.simulation.schedule import Schedule
from tests.simulation.slow_functions import SlowFunctions
from tests.simulation.slow_replay import SlowReplay
from tests.simulation.stale_copies import StaleCopies
from tests.simulation.standbys import Standbys
from tests.simulation.unanswered import Unanswered

#: of everything, as a seed draws it: the kind of which the most are run
DRAWN = "drawn"


class Story(NamedTuple):
    """One kind; ``faults`` are those that it must not do without."""

    make: Callable[[int], Schedule]
    faults: Sequence[str] = ()


STORIES = {
    DRAWN: Story(Schedule.of, [name for name in FAULTS if name not in failed_ends.FAULTS]),
    "directory_claims": Story(DirectoryClaims.of),
    "directories": Story(Directories.of),
    "failed_ends": Story(FailedEnds.of, failed_ends.FAULTS),
    "damaged_blocks": Story(DamagedBlocks.of),
    "dead_letters": Story(DeadLetters.of),
    "dead_owner": Story(DeadOwner.of),
    "foreign_keys": Story(ForeignKeys.of),
    "held_outputs": Story(HeldOutputs.of),
    "histories": Story(Histories.of),
    "large_cuts": Story(LargeCuts.of),
    "named_cuts": Story(NamedCuts.of),
    "overtaken_tables": Story(OvertakenTables.of),
    "partition_times": Story(PartitionTimes.of),
    "pauses": Story(Pauses.of),
    "refused_results": Story(RefusedResults.of),
    "reshards": Story(Reshards.of),
    "slow_functions": Story(SlowFunctions.of),
    "slow_replay": Story(SlowReplay.of),
    "stale_copies": Story(StaleCopies.of),
    "standbys": Story(Standbys.of),
    "unanswered": Story(Unanswered.of),
}
