"""The kinds of schedules by name, for the command line."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from tests.campaigns.simulation import failed_ends
from tests.campaigns.simulation.aggregate_records import AggregateRecords
from tests.campaigns.simulation.async_calls import AsyncCalls
from tests.campaigns.simulation.changes import Changes
from tests.campaigns.simulation.collection_stores import CollectionStores
from tests.campaigns.simulation.count_windows import CountWindows
from tests.campaigns.simulation.coverage import FAULTS
from tests.campaigns.simulation.damaged_blocks import DamagedBlocks
from tests.campaigns.simulation.dead_letters import DeadLetters
from tests.campaigns.simulation.dead_owner import DeadOwner
from tests.campaigns.simulation.deltas import Deltas
from tests.campaigns.simulation.directories import Directories
from tests.campaigns.simulation.directory_claims import DirectoryClaims
from tests.campaigns.simulation.distinct_records import DistinctRecords
from tests.campaigns.simulation.expired_by_wall_clock import ExpiredByWallClock
from tests.campaigns.simulation.expired_rows import ExpiredRows
from tests.campaigns.simulation.expiry import Expiry, IndexedExpiry
from tests.campaigns.simulation.failed_ends import FailedEnds
from tests.campaigns.simulation.foreign_keys import ForeignKeys
from tests.campaigns.simulation.held_outputs import HeldOutputs
from tests.campaigns.simulation.histories import Histories
from tests.campaigns.simulation.idle_chains import IdleChains
from tests.campaigns.simulation.idle_joins import IdleJoins
from tests.campaigns.simulation.idle_panes import IdlePanes
from tests.campaigns.simulation.idle_windows import IdleWindows
from tests.campaigns.simulation.indexes import Indexes
from tests.campaigns.simulation.interval_joins import AsOfJoins, IntervalJoins
from tests.campaigns.simulation.large_cuts import LargeCuts
from tests.campaigns.simulation.late_streams import LateStreams
from tests.campaigns.simulation.named_cuts import NamedCuts
from tests.campaigns.simulation.new_topics import NewTopics
from tests.campaigns.simulation.ordered_records import OrderedRecords
from tests.campaigns.simulation.overtaken_tables import OvertakenTables
from tests.campaigns.simulation.panes import Panes
from tests.campaigns.simulation.partition_times import PartitionTimes
from tests.campaigns.simulation.pauses import Pauses
from tests.campaigns.simulation.rankings import Rankings
from tests.campaigns.simulation.refused_results import RefusedResults
from tests.campaigns.simulation.reshards import Reshards
from tests.campaigns.simulation.schedule import Schedule
from tests.campaigns.simulation.skipped_results import SkippedResults
from tests.campaigns.simulation.slow_functions import SlowFunctions
from tests.campaigns.simulation.slow_replay import SlowReplay
from tests.campaigns.simulation.stale_copies import StaleCopies
from tests.campaigns.simulation.standbys import Standbys
from tests.campaigns.simulation.timers import Timers
from tests.campaigns.simulation.unanswered import Unanswered
from tests.campaigns.simulation.wall_clock_expiry import WallClockExpiry

#: of everything, as a seed draws it: the kind of which the most are run
DRAWN = "drawn"


class Story(NamedTuple):
    """One kind; ``faults`` are those that it must not do without."""

    make: Callable[[int], Schedule]
    faults: Sequence[str] = ()


STORIES = {
    DRAWN: Story(Schedule.of, [name for name in FAULTS if name not in failed_ends.FAULTS]),
    "aggregate_records": Story(AggregateRecords.of),
    "as_of_joins": Story(AsOfJoins.of),
    "async_calls": Story(AsyncCalls.of),
    "directory_claims": Story(DirectoryClaims.of),
    "directories": Story(Directories.of),
    "expiry": Story(Expiry.of),
    "distinct_records": Story(DistinctRecords.of),
    "expired_rows": Story(ExpiredRows.of),
    "expired_by_wall_clock": Story(ExpiredByWallClock.of),
    "failed_ends": Story(FailedEnds.of, failed_ends.FAULTS),
    "changes": Story(Changes.of),
    "collection_stores": Story(CollectionStores.of),
    "damaged_blocks": Story(DamagedBlocks.of),
    "count_windows": Story(CountWindows.of),
    "dead_letters": Story(DeadLetters.of),
    "dead_owner": Story(DeadOwner.of),
    "deltas": Story(Deltas.of),
    "foreign_keys": Story(ForeignKeys.of),
    "held_outputs": Story(HeldOutputs.of),
    "histories": Story(Histories.of),
    "idle_chains": Story(IdleChains.of),
    "idle_joins": Story(IdleJoins.of),
    "idle_panes": Story(IdlePanes.of),
    "indexes": Story(Indexes.of),
    "indexed_expiry": Story(IndexedExpiry.of),
    "idle_windows": Story(IdleWindows.of),
    "interval_joins": Story(IntervalJoins.of),
    "large_cuts": Story(LargeCuts.of),
    "late_streams": Story(LateStreams.of),
    "named_cuts": Story(NamedCuts.of),
    "new_topics": Story(NewTopics.of),
    "ordered_records": Story(OrderedRecords.of),
    "overtaken_tables": Story(OvertakenTables.of),
    "panes": Story(Panes.of),
    "partition_times": Story(PartitionTimes.of),
    "pauses": Story(Pauses.of),
    "rankings": Story(Rankings.of),
    "refused_results": Story(RefusedResults.of),
    "reshards": Story(Reshards.of),
    "skipped_results": Story(SkippedResults.of),
    "slow_functions": Story(SlowFunctions.of),
    "slow_replay": Story(SlowReplay.of),
    "stale_copies": Story(StaleCopies.of),
    "standbys": Story(Standbys.of),
    "timers": Story(Timers.of),
    "unanswered": Story(Unanswered.of),
    "wall_clock_expiry": Story(WallClockExpiry.of),
}
