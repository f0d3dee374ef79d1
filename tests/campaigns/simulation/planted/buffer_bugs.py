"""Bugs of what waits: for a partner, for a late row, for the end of a window."""

from __future__ import annotations

from logstate.changelog.stores.join_buffer import JoinBuffer
from logstate.changelog.stores.outer_join_buffer import OuterJoinBuffer
from logstate.changelog.stores.suppress_buffer import SuppressBuffer
from logstate.topology.operators.joins.stream_join import StreamJoinNode
from logstate.topology.operators.tables.suppress import SuppressNode
from tests.campaigns.simulation.planted.bug import Patch, bug, of_variant, rare_bug
from tests.campaigns.simulation.planted.edit import edit


@rare_bug(of_variant("versions"))
def the_earliest_that_waits_is_remembered_by_the_store(patch: Patch) -> None:
    """A restored buffer believes that nothing waits until its own clock says so."""
    old = 'context.time_cell(f"earliest:{spec.name}")'
    edit(patch, JoinBuffer, "__init__", old, "__import__('types').SimpleNamespace(time=2**63 - 1)")


@rare_bug(of_variant("versions"))
def waiting_records_are_numbered_from_zero_again(patch: Patch) -> None:
    """Records of one key and time overwrite those that waited before a crash."""
    old = 'context.time_cell(f"sequence:{spec.name}")'
    edit(patch, JoinBuffer, "__init__", old, "__import__('types').SimpleNamespace(time=-1)")


@bug
def a_record_at_the_edge_of_the_grace_does_not_wait(patch: Patch) -> None:
    """What is exactly as late as the grace is joined before what came earlier."""
    old = "observed.time - self._grace_ms > timestamp"
    edit(patch, JoinBuffer, "put", old, old.replace(">", ">="))


@bug
def what_waited_keeps_the_place_of_another(patch: Patch) -> None:
    """A record that left the buffer seems to come from where the one that freed it did."""
    old = "context.topic, context.partition, context.offset = waiting[-3:]"
    edit(patch, JoinBuffer, "forward_expired", old, "pass")


@rare_bug(of_variant("versions"))
def what_has_left_the_buffer_is_not_logged(patch: Patch) -> None:
    """A record that was joined waits again after a restore."""
    old = "self._put_row(waiting.row_key, None, None)"
    edit(patch, JoinBuffer, "remove", old, "self._rows.put(waiting.row_key, None)")


@rare_bug(of_variant("streams"))
def the_oldest_unmatched_row_is_remembered_by_the_operator(patch: Patch) -> None:
    """After a crash or an abort an operator takes rows that wait for none."""
    old = 'watched = task.time_cell(f"{self.clock}-watched")'
    edit(patch, StreamJoinNode, "_compile_emission", old, "watched = TimeCell()")


@rare_bug(of_variant("streams"))
def a_matched_row_waits_on_in_the_log(patch: Patch) -> None:
    """Who found a partner is taken out of the rows, and not out of the changelog."""
    old = "self._write(row_key, None)"
    edit(patch, OuterJoinBuffer, "take_out", old, "self._rows.put(row_key, None)")


@bug
def a_second_row_that_waits_replaces_the_first(patch: Patch) -> None:
    """Of rows of one key, side and time only the last waits."""
    edit(patch, OuterJoinBuffer, "add", "self._rows.get(row_key)", "None")


@bug
def a_match_takes_rows_of_its_own_side(patch: Patch) -> None:
    """A match takes out what waits on the side of the record that found it."""
    old = "take_out(partner_time, not is_left, key)"
    edit(patch, StreamJoinNode, "_compile_outer", old, old.replace("not ", ""))


@rare_bug(of_variant("streams"))
def the_order_of_a_suppress_buffer_outlives_an_abort(patch: Patch) -> None:
    """What waited when a transaction was aborted is what waits after it."""
    old = "if version == self._version:"
    edit(patch, SuppressBuffer, "_rebuild_order", old, "if self._version >= 0:")


@rare_bug(of_variant("streams"))
def what_left_a_suppress_buffer_is_not_logged(patch: Patch) -> None:
    """A final result is sent again after a restore."""
    old = "self._write(raw, None)"
    edit(patch, SuppressBuffer, "remove_first", old, "self._rows.put(_ROW + raw, None)")


@bug
def an_update_sets_its_time_limit_anew(patch: Patch) -> None:
    """A key that changes all the time never leaves the buffer."""
    old = "buffer_time = buffer_time_of(row)"
    edit(patch, SuppressBuffer, "put", old, "pass")


@bug
def suppressed_results_come_one_record_too_late(patch: Patch) -> None:
    """A window that closes with the record at hand waits for the next."""
    old = "buffer.min_timestamp <= expiry"
    edit(patch, SuppressNode, "compile", old, old.replace("<=", "<"))
