"""Bugs of windows that close on idle inputs."""

from __future__ import annotations

from logstate.changelog.stores.join_buffer import JoinBuffer
from logstate.task.idle_inputs import IdleInputs
from logstate.task.task_input import TaskInput
from logstate.topology.operators.aggregates.emit_on_close import CloseClock
from logstate.topology.operators.joins.interval_join import IntervalRightNode
from logstate.topology.operators.joins.stream_join import StreamJoinNode
from logstate.topology.operators.streams.idle_clock import FollowingIdleClock, IdleClock
from logstate.worker.idle_tasks import IdleTasks
from tests.campaigns.simulation.idle_joins import IdleJoins
from tests.campaigns.simulation.idle_windows import IdleWindows
from tests.campaigns.simulation.planted.bug import Patch, bug, scenario_bug
from tests.campaigns.simulation.planted.edit import edit


@bug
def idle_inputs_are_not_confirmed_by_the_brokers(patch: Patch) -> None:
    """A task is idle if nothing was fetched for a while, whatever the ends of its inputs are."""
    old = "if any(ends[tp] != position for tp, position in positions.items()):"
    edit(patch, IdleInputs, "confirmed", old, "if False:")


@scenario_bug(IdleWindows.of)
def a_task_does_not_wait_for_those_above(patch: Patch) -> None:
    """Behind a repartition topic, windows close although the tasks above have work."""
    edit(patch, IdleTasks, "_tick", "above, clocks = self", "above, clocks = () and self")


@bug
def a_task_waits_for_the_ends_above_only(patch: Patch) -> None:
    """What the tasks above have committed does not matter."""
    old = "any(committed[tp] != ends[tp] for tp in above)"
    edit(patch, IdleInputs, "confirmed", old, "False")


@scenario_bug(IdleWindows.of)
def a_new_process_emits_final_results_again(patch: Patch) -> None:
    """How far final results were emitted is not part of the cut."""
    edit(patch, CloseClock, "__init__", "sent_until(task, store)", "TimeCell()")


@bug
def control_records_are_not_committed(patch: Patch) -> None:
    """The offset after the last control record is not committed: those below wait for ever."""
    edit(patch, TaskInput, "commit_positions", "self.has_uncommitted_input = True", "pass")


@scenario_bug(IdleWindows.of)
def what_is_due_is_forgotten_before_the_tick(patch: Patch) -> None:
    """After the brokers have confirmed that the inputs are idle, nothing is due any more."""
    old = "return self._has_due"
    new = "found, self._has_due = self._has_due, False\n    return found"
    edit(patch, IdleClock, "is_due", old, new)


@scenario_bug(IdleJoins.of)
def a_tick_of_a_stream_join_has_its_own_stream_time(patch: Patch) -> None:
    """A tick advances another clock than the one that the records of both sides advance."""
    old, new = "self.clock, observed,", "self.clock, type(observed)(),"
    edit(patch, StreamJoinNode, "_compile_idle_clock", old, new)


@bug
def a_record_leaves_before_its_partners_can_come(patch: Patch) -> None:
    """On idle inputs, the wait of the other side decides when a record leaves a stream join."""
    old = "left_wait if is_left else right_wait"
    edit(patch, StreamJoinNode, "_compile_idle_clock", old, "least")


@scenario_bug(IdleJoins.of)
def timers_do_not_know_the_stream_time_of_their_task(patch: Patch) -> None:
    """The stream time of timers on idle inputs does not begin at that of the records."""
    edit(patch, FollowingIdleClock, "_follow", "self._newest()", "-1")


@scenario_bug(IdleJoins.of)
def records_that_wait_for_a_table_leave_twice(patch: Patch) -> None:
    """A record that leaves the buffer of a join on idle inputs stays in it."""
    edit(patch, JoinBuffer, "forward_expired", "self.remove(waiting)", "pass")


@bug
def left_records_do_not_count_on_idle_inputs(patch: Patch) -> None:
    """On idle inputs, stream time of an interval join begins at that of the right side."""
    old = "max(observed.time, buffer.observed.time)"
    edit(patch, IntervalRightNode, "_compile_idle_clock", old, "observed.time")


@scenario_bug(IdleJoins.of)
def an_interval_join_with_the_option_waits_for_records(patch: Patch) -> None:
    """Intervals do not close on idle inputs."""
    edit(patch, IntervalRightNode, "_compile_idle_clock", "if idle_ms is None:", "if True:")
