"""Bugs of sessions, of segments, and of stores that forget."""

from __future__ import annotations

from logstate.changelog.segment_offsets import SegmentOffsets
from logstate.changelog.state import TaskState
from logstate.changelog.stores.lru import LruStore
from logstate.changelog.stores.segmented import SegmentedStore
from logstate.changelog.stores.session import TaskSessionStore
from tests.campaigns.simulation.large_cuts import LargeCuts
from tests.campaigns.simulation.planted.bug import Patch, bug, of_variant, rare_bug, scenario_bug
from tests.campaigns.simulation.planted.edit import edit


@rare_bug(of_variant("sources"))
def a_merged_session_leaves_its_parts_in_the_log(patch: Patch) -> None:
    """Sessions that became one come back beside it after a restore."""
    old = "self._write(row_key, None, is_live=is_live)"
    edit(patch, TaskSessionStore, "remove", old, "is_live and self._put_rows({row_key: None})")


@rare_bug(of_variant("sources"))
def restored_sessions_lie_by_their_start(patch: Patch) -> None:
    """A restore puts sessions into the segment of their start."""
    old = "part = times_of(key)[0] // part_ms"
    new = "part = times_of(key)[spec.kind == 'session'] // part_ms"
    edit(patch, SegmentedStore, "restore", old, new)


@rare_bug(of_variant("sources"))
def sessions_of_a_key_outlive_an_abort(patch: Patch) -> None:
    """What is known of a key's sessions is not forgotten with the rows."""
    from logstate.changelog.rows.row_groups import RowGroups

    patch(RowGroups, "forget", lambda self: None)


@bug
def a_session_may_be_as_old_as_the_retention(patch: Patch) -> None:
    """In memory a session that ends with the retention is kept."""
    old = "time_ms > time - segments.retention_ms"
    edit(patch, SegmentedStore, "_is_live", old, old.replace(">", ">="))


@bug
def what_expired_before_a_replay_stays(patch: Patch) -> None:
    """Rows that expired long ago are left to a replay, which may find no record of them."""
    edit(patch, TaskState, "expire", "segments.sweep(rows)", "pass")


@bug
def a_segments_first_offset_moves_on(patch: Patch) -> None:
    """The changelog is trimmed behind the last commit that wrote to a segment."""
    old = 'first.setdefault(int.from_bytes(segment, "big"), position)'
    new = 'first[int.from_bytes(segment, "big")] = position'
    edit(patch, SegmentOffsets, "wrote", old, new)


@bug
def a_changelog_is_trimmed_to_its_last_segment(patch: Patch) -> None:
    """The highest first offset counts where the lowest should."""
    edit(patch, SegmentOffsets, "trim_point", "(min(", "(max(")


@bug
def restored_windows_do_not_move_the_clock(patch: Patch) -> None:
    """A replay puts rows of windows that its later records expire."""
    old = "segments.advance(latest, self._all_rows)"
    edit(patch, SegmentedStore, "restore", old, "pass")


@scenario_bug(LargeCuts.of)
def what_an_lru_store_forgets_stays_in_the_log(patch: Patch) -> None:
    """The changelog of an LRU store has all that it ever held."""
    edit(patch, LruStore, "_evict_to", "self._writes.add(key, write, moves_to_end=True)", "pass")


@scenario_bug(LargeCuts.of)
def an_entry_that_is_put_again_keeps_its_place(patch: Patch) -> None:
    """What was put last is forgotten first, if it was there before."""
    edit(patch, LruStore, "_write_newest", "rows.put(_INDEX + old, None)", "pass")


@scenario_bug(LargeCuts.of)
def an_lru_store_logs_in_the_order_of_first_puts(patch: Patch) -> None:
    """After a restore another entry is the next to go."""
    old = "writes.add(row_key, write, moves_to_end=True)"
    edit(patch, LruStore, "_bound_put", old, "writes.add(row_key, write)")


@bug
def a_get_is_no_use_of_an_entry(patch: Patch) -> None:
    """What is read all the time is forgotten like anything else."""
    old = "self._write_newest(raw, row[:8], row[8:], sequence)"
    edit(patch, LruStore, "_use", old, "pass")
